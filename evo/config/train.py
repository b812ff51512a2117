"""The configuration of a training run: one validated object, from YAML and flags, stored with its checkpoints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import field_validator, model_validator

from evo.config.parse import OPTIONS, StrictModel, fields_for, parse, read_yaml, setting
from evo.config.run import REPORT_TO, TRACKED_AS, WEIGHTS, Answers, Count, RolloutCount, Share, TrackerNames, Weights
from evo.errors import BadInput
from islands.names import DEFAULT_DB, drop_password
from problems.sandbox.contract import Mode
from problems.weights import SPREAD
from vpo.advantage import METHODS
from vpo.policies.address import parse_address
from vpo.training.config import IMPROVE, RewardKind, TrainerSettings

TRUNCATE = 2.0
"""The cap of the importance weights for training on traces, if the user sets none."""

_RUN_AT = re.compile(r"(?P<run>[^@]+)@(?P<address>[A-Za-z][A-Za-z0-9+]*://.*)")


class TraceSettings(StrictModel):
    """The place of the traces, and which of them to learn from. A group is taken whole or not at all."""

    from_traces: list[str] = setting(
        [],
        "Learn from the stored answers of these runs (RUN, a comparison's name, RUN@DATABASE; commas), "
        "instead of sampling.",
        "resume",
    )
    db: str = setting(DEFAULT_DB, "The database of runs that name no other.", "resume")

    @field_validator("from_traces")
    @classmethod
    def _parted(cls, given: list[str]) -> list[str]:
        """Repeated or parted by commas. An address of a database that holds a comma goes to --db."""
        return list(dict.fromkeys(part.strip() for item in given for part in item.split(",") if part.strip()))


def run_and_address(given: str, db: str) -> tuple[str, str]:
    """`RUN@DATABASE` in its two parts; the database is `db` if it names none."""
    matched = _RUN_AT.fullmatch(given)
    return (matched["run"], matched["address"]) if matched else (given, db)


class TrainRun(TraceSettings, TrainerSettings):
    """Everything that decides a training run. One seed and one configuration give one run."""

    problems: list[str] = setting([], "Problem addresses to learn from.", "prompts")
    limit: Count | None = setting(None, "Use only the first K problems of each set.", "prompts")
    policy: str = setting("embedded:base", "The policy that training starts from.")
    steps: int = setting(200, "Optimiser steps.", "resume", ge=1)
    max_seconds: float | None = setting(
        None, "Stop after this many seconds of training, evaluation excluded.", "resume", gt=0
    )
    max_answers: int | None = setting(None, "Stop after this many answers.", "resume", ge=1)
    seed: int = setting(0, "The seed of every random choice.", ge=0)
    report_to: TrackerNames = setting([], REPORT_TO, "resume")
    tracked_as: str = setting("", TRACKED_AS, "resume")

    prompts: int = setting(8, "Prompts per step.", ge=1)
    rollouts: RolloutCount = setting(8, "Rollouts per prompt (G).", "prompts")
    children: int = setting(
        1,
        "With improve: at most so many better answers to a prompt, each its own rollout; the prompt is computed once.",
        ge=1,
        le=64,
    )
    answers: Answers | None = setting(None, "Answers per rollout (m); default 3 for chains, else 1.")
    temperature: float = setting(1.0, "The sampling temperature in training.", gt=0.0, le=5.0)
    max_new_tokens: int | None = setting(None, "Tokens per rollout at most; default by answer format and count.", ge=1)
    parents: Share = setting(0.25, "The share of prompts that show a parent.", "prompts")
    parents_from: str = setting(
        "step",
        "Where parents come from. step: an answer of the previous step; archive: archives that grow as in "
        "a search while problems are sampled again; archive:RUN (RUN@DATABASE): archives that begin with those of a "
        "search at a random moment.",
        "prompts",
        pattern=r"^(step|archive|archive:.+)$",
    )
    visits: int = setting(
        16, "Prompts per problem before the next one's turn, unless it is solved sooner.", "prompts", ge=1
    )
    reward: RewardKind = setting(
        "value",
        "The reward of an answer. value: its fitness or its objectives; "
        "solve: 1 if it solves the problem (without a target: beats what archive:RUN ended with), else 0.",
        "prompts",
    )

    weights: Weights | None = setting(None, f"{WEIGHTS} For methods that learn from one fitness.", "prompts")

    evaluate: list[str] = setting([], "Held-out problem addresses to evaluate on.")
    evaluate_every: int = setting(50, "Steps between held-out evaluations.", ge=1)
    evaluate_limit: Count | None = setting(None, "Use only the first K held-out problems of each set.")
    evaluate_answers: int = setting(30, "Answers per problem in an evaluation.", ge=1)
    save_every: int = setting(50, "Steps between checkpoints.", "resume", ge=1)
    keep: int = setting(2, "Checkpoints to keep, in addition to the final one.", "resume", ge=1)
    sandbox: Mode = setting("auto", "How code that models write is isolated.")
    device: str | None = setting(None, "The device: cpu, cuda, cuda:1.")
    dtype: Literal["float32", "bfloat16"] | None = setting(
        None,
        "With LoRA: the type of the frozen weights, in which rollouts are sampled too; default bfloat16 on "
        "a GPU and float32 on a CPU.",
    )

    @model_validator(mode="after")
    def _sensible(self) -> TrainRun:
        if self.children > 1 and self.method != IMPROVE:
            raise ValueError(f"children is for improve; {self.method} has rollouts")
        if self.dtype is not None and not self.lora_rank:
            raise ValueError("dtype is for LoRA (--lora-rank): without it all weights are trained, in float32")
        if self.method == IMPROVE:
            if not self.from_traces:
                raise ValueError(f"{self.method} learns from stored searches: name them with --from-traces RUN")
            self._check_unsampled()
            return self
        method = METHODS[self.method]
        if self.weights is not None and not method.scalar:
            users = ", ".join(name for name, one in METHODS.items() if one.scalar)
            raise ValueError(f"{self.method} learns from all objectives, not from one user's weights; {users} do")
        if self.weights == SPREAD:
            raise ValueError(f"weights {SPREAD} is for a search; train for all weightings with vpo, without weights")
        if self.weights is not None and self.archive_run is not None:
            raise ValueError(f"the archives of {self.archive_run} were judged by other weights: leave out weights")
        if self.answers is not None and self.answers > 1 and not method.chain:
            raise ValueError(f"{self.method} learns from single answers: answers must be 1, not {self.answers}")
        if self.rollouts < 2:
            raise ValueError("a group of one rollout has nothing to compare: rollouts must be 2 or more")
        if method.success and self.reward != "solve":
            raise ValueError(f"{self.method} learns from success and failure: use it with reward solve")
        if self.reward == "solve" and not method.solves:
            raise ValueError(f"{self.method} has no goals to reach; use reward solve with vpo_pass_at_k or pass_at_k")
        if self.reward == "solve" and method.goals and self.archive_run is None:
            raise ValueError(f"the goals of {self.method} are what a search ended with: --parents-from archive:RUN")
        if self.from_traces:
            self._check_unsampled()
        elif self.archive_run is None:
            self.db = DEFAULT_DB  # ignored, whatever the environment sets
        return self

    def _check_unsampled(self) -> None:
        fields = TrainRun.model_fields
        for name in fields_for(TrainRun, "prompts"):
            if getattr(self, name) != fields[name].get_default(call_default_factory=True):
                raise ValueError(f"stored traces are already sampled: {name} cannot be set")

    def stored(self) -> dict[str, Any]:
        """Plain values as they may be kept: without the passwords of databases."""
        kept = self.model_dump(mode="json")
        return kept | {
            "db": drop_password(self.db),
            "from_traces": [drop_password(source) for source in self.from_traces],
        }

    @property
    def archive_run(self) -> str | None:
        """The run whose archives training begins with, None for none."""
        return self.parents_from.removeprefix("archive:") if ":" in self.parents_from else None

    @property
    def shown_share(self) -> float:
        """Share of prompts that show a parent: from the policy's address (`?fresh=`) or else `parents`."""
        fresh = parse_address(self.policy).common.fresh
        return self.parents if fresh is None else 1.0 - fresh

    @property
    def asked_temperature(self) -> float:
        """The sampling temperature: the address's, or else `temperature`."""
        common = parse_address(self.policy).common
        return common.temperature if "temperature" in common.model_fields_set else self.temperature

    @property
    def chain(self) -> int:
        """m, as the method needs it."""
        return self.answers or (3 if self.method == IMPROVE or METHODS[self.method].chain else 1)


RESUMABLE = fields_for(TrainRun, "resume")
"""Settings that a resume may change: budgets, where the same traces are, and trackers."""


def plan_training(
    config_file: str | None, named: Mapping[str, Any], method: str | None, problems: Sequence[str]
) -> TrainRun:
    """A YAML file, then settings by name, then the method and the problem sets. Raises BadInput with one line."""
    values = {**read_yaml(config_file), **named}
    values |= {"method": method} if method else {}
    values |= {"problems": list(problems)} if problems else {}
    if "method" not in values:
        raise BadInput("which method? evo train vpo maze:train -o DIR")
    return parse(TrainRun, values, f"--config {config_file}" if config_file else OPTIONS)


def check_resumable(named: Iterable[str], fixed: str, others: bool) -> None:
    """BadInput if a resume is given settings that cannot change. others: whether any of `fixed` was given"""
    changed = sorted(set(named).difference(RESUMABLE))
    if others or changed:
        what = f"--{changed[0].replace('_', '-')}" if changed else fixed
        raise BadInput(f"--resume keeps the run's settings: {what} cannot change (budgets can)")
