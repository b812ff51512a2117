"""Addresses of policies, as users write them: `[KIND:]MODEL[?OPTION=VALUE&...]`, each read once, here.

    embedded:base                      ships in the package
    ORG/MODEL  ./directory             transformers, from the hub or a directory
    vllm:ORG/MODEL?context=4096        an engine in another process
    openai:MODEL@http://host:8000      an OpenAI-compatible server
    scripted:mutate?latency=0.1        no model at all
    command:python mutate.py           a program of the user's
    KIND:MODEL                         an installed entry point of the group "evo.policies" (vpo.policies.registry)

The options of `PolicySettings` may follow every address; what else may is the kind's own affair.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from problems.address import split_options, unknown_option, user_path
from problems.contract import BadAddress
from problems.entry_points import find_entry_points
from vpo.languages.contract import checkpoint_path

POLICY_ENTRY_POINTS = "evo.policies"
TRANSFORMERS = "transformers"
"""The kind of an address without one."""
KINDS = {
    "embedded": ("vpo.hf.policy:load_transformers", "vpo.policies.checkpoint:check_checkpoint"),
    TRANSFORMERS: ("vpo.hf.policy:load_transformers", "vpo.policies.checkpoint:check_checkpoint"),
    "vllm": ("vpo.servers.vllm:load_vllm", "vpo.servers.vllm:check_vllm"),
    "openai": ("vpo.servers.policy:load_openai", "vpo.servers.address:endpoint"),
    "scripted": ("vpo.policies.scripted:load_scripted", "vpo.policies.scripted:load_scripted"),
    "command": ("vpo.policies.command:CommandPolicy", "vpo.policies.command:CommandPolicy"),
}
"""Of each kind the loader (vpo.policies.registry.Loader), and what tells before the loader's libraries are loaded that
an address names nothing."""
FORMS = (
    "embedded:NAME, a hub id or directory, vllm:ID, openai:MODEL@URL, command:PROGRAM, or scripted:NAME such as "
    "scripted:mutate"
)

Dtype = Literal["float32", "bfloat16", "float16"]
_Options = TypeVar("_Options", bound=BaseModel)


class PolicySettings(BaseModel):
    """How a policy is loaded and asked. Each may follow any address as an option, which goes before what a run says.

    device: "cuda", "cpu"; None takes a GPU if one is available
    dtype: of the weights; None is bfloat16 on a GPU and float32 on a CPU. In bfloat16 rounding
        depends on the shape of the batch, so what shares a rollout's batch can change it; in float32 it does not
    batch: prompts per call; None chooses by the model's size
    threads: CPU threads of the model's arithmetic; None takes one for a small model, else as many as are quickest
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    temperature: float = Field(1.0, ge=0.0, le=100.0, description="of sampling; 0 takes the likeliest token always")
    top_p: float = Field(1.0, gt=0.0, le=1.0, description="keep the likeliest tokens up to this mass")
    max_tokens: int | None = Field(None, ge=1, description="limit of one rollout; by default the policy chooses")
    device: str | None = None
    dtype: Dtype | None = None
    batch: int | None = Field(None, ge=1)
    threads: int | None = Field(None, ge=1)
    fresh: float | None = Field(
        None, ge=0.0, le=1.0, description="share of a search's prompts that show the task without a parent"
    )
    format: str | None = Field(
        None, description="the prompt format that a model is asked in; a checkpoint trained from it keeps it"
    )
    weight: float | None = Field(
        None, gt=0.0, le=1e6, description="of several policies: this one's part of the iterations, relative to others"
    )


def newest_checkpoint(folder: Path) -> Path:
    """The newest checkpoint of a training that has not ended; the directory itself if it is none, or has ended."""
    steps = [] if (folder / "config.json").exists() else folder.glob("checkpoints/step-*/README.md")
    return max((file.parent for file in steps if not file.parent.suffix), default=folder)


@dataclass(frozen=True)
class PolicyAddress:
    """An address taken apart.

    kind: one of KINDS, or the name of an entry point
    model: the text between kind and options: a name, a hub id, a directory, MODEL@URL
    options: every (option, value) as written
    """

    kind: str
    model: str
    options: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        query = urlencode(self.options, safe="/:@,")
        return f"{self.plain}?{query}" if query else self.plain

    @property
    def plain(self) -> str:
        """Without its options: what a policy version begins with."""
        return self.model if self.kind == TRANSFORMERS else f"{self.kind}:{self.model}"

    @property
    def short_name(self) -> str:
        """The last part of the model's name: `vpo` of embedded:vpo, the directory's own name."""
        return re.split(r"[:/]", re.split(r"@https?://", self.model)[0].rstrip("/"))[-1]

    @property
    def has_weights(self) -> bool:
        """Whether loading it loads a model into this process, which a trainer can change."""
        return self.kind in ("embedded", TRANSFORMERS)

    @property
    def folder(self) -> Path | None:
        """The checkpoint's directory, None if none is named. Raises BadAddress on an embedded policy that does not
        ship."""
        if self.kind == "embedded":
            return checkpoint_path(self.model)
        if self.kind == "vllm":
            return parse_address(re.split(r"@https?://", self.model)[0]).folder
        folder = user_path(self.model)
        return newest_checkpoint(folder) if self.model and self.kind == TRANSFORMERS and folder.is_dir() else None

    @property
    def common(self) -> PolicySettings:
        """The options that every address may have; `model_fields_set` says which were named. Raises BadAddress, one
        line."""
        return self._validate(PolicySettings, self.options)

    def settings(self, **given: object) -> PolicySettings:
        """The given settings, and the options before them. Raises BadAddress, one line."""
        return self._validate(PolicySettings, [*given.items(), *self.options])

    def own_options(self, model: type[_Options]) -> _Options:
        """The options other than the common ones, by the kind's model. Raises BadAddress, one line."""
        return self._validate(model, [(k, v) for k, v in self.options if k not in PolicySettings.model_fields])

    def at(self, folder: Path) -> PolicyAddress:
        """The checkpoint of a directory, asked as this address says."""
        return PolicyAddress(TRANSFORMERS, str(folder), self.options)

    def without(self, *options: str) -> PolicyAddress:
        return PolicyAddress(self.kind, self.model, tuple((k, v) for k, v in self.options if k not in options))

    def _validate(self, model: type[_Options], options: Iterable[tuple[str, object]]) -> _Options:
        try:
            return model.model_validate(dict(options))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            key = ".".join(str(part) for part in first["loc"])
            if first["type"] == "extra_forbidden":
                known = [*PolicySettings.model_fields, *model.model_fields]
                raise unknown_option(f"policy {self.plain!r}", key, known) from None
            raise BadAddress(f"policy {self.plain!r}: option {key}: {first['msg']}") from None


class OwnOptions(BaseModel):
    """The options of one kind of policy, in addition to PolicySettings: none, unless a subclass has some."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def parse_address(text: str) -> PolicyAddress:
    """Take an address apart; whether there is such a policy shows as it is loaded."""
    name, options = split_options(text)
    kind, colon, model = name.partition(":")
    if not colon or kind == TRANSFORMERS or not (kind in KINDS or kind in find_entry_points(POLICY_ENTRY_POINTS)):
        kind, model = TRANSFORMERS, name
    return PolicyAddress(kind, model, options)


def parse_addresses(text: str) -> tuple[PolicyAddress, ...]:
    """Several, separated by commas: the operators of one search."""
    return tuple(parse_address(one) for one in split_policies(text))


def split_policies(text: str) -> list[str]:
    """At the commas between policies, which those in braces are not."""
    parts, depth = [""], 0
    for piece in re.split(r"([{},])", text):
        depth += (piece == "{") - (piece == "}")
        if piece == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += piece
    return [part.strip() for part in parts]
