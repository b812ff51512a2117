"""The configuration of a comparison: its arms, its baselines, and the common settings of their searches.

A trained operator and a population must beat baselines at equal answers:

    best-of-n   an arm's policy without a parent in the prompt
    hill        the same policy, shown only the best answer so far (islands.population.selection.hill)
    scs         the same policy, shown random successful answers (islands.population.selection.scs)
    classic     for mazes: random re-routings of the parent, no model, islands as in every arm
    tuned-start the numbers of the seed tuned by CMA-ES, no model (evo.prompts.registry)

The first three repeat an arm, by default the first: `hill`, or `hill=ARM`. None of them trains.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from evo.config.parse import OPTIONS, StrictModel, fields_for, merge, parse, read_yaml, setting
from evo.config.run import Answers, Count, Fresh, RunConfig, Temperature, TopP
from evo.errors import BadInput
from islands.population.config import PopulationConfig
from problems.address import did_you_mean, split_options
from vpo.policies.address import parse_address, split_policies

BEST_OF_N, CLASSIC, TUNED_START = "best-of-n", "classic", "tuned-start"
CLASSIC_POLICY, TUNED_POLICY = "scripted:classic", "scripted:tuned"
REPEATS: Mapping[str, Mapping[str, Any]] = {
    BEST_OF_N: {"show_parent": False},
    "hill": {"show_parent": True, "fresh": 0.0, "population": {"strategy": "hill", "islands": 1}},
    "scs": {"show_parent": True, "fresh": 0.0, "population": {"strategy": "scs", "islands": 1}},
}
"""The settings that a baseline changes in the arm that it repeats."""
FIXED: Mapping[str, Mapping[str, Any]] = {
    CLASSIC: {"policy": CLASSIC_POLICY},
    TUNED_START: {"policy": TUNED_POLICY, "answers": 1},
}
"""The baselines that repeat no arm."""
_BASELINES = (*REPEATS, *FIXED)


def chosen_baselines(baselines: Sequence[str], arms: Sequence[str]) -> dict[str, set[str]]:
    """`hill` or `hill=ARM` -> the baseline's name, and the arms that it repeats, by default the first. Raises
    BadInput."""
    chosen: dict[str, set[str]] = {}
    for text in baselines:
        name, equals, arm = (part.strip() for part in text.partition("="))
        if name not in _BASELINES:
            raise BadInput(f"baseline {text}: there is no baseline {name}; there are {', '.join(_BASELINES)}")
        if name in FIXED and equals:
            raise BadInput(f"baseline {text}: {name} is a fixed policy and repeats no arm")
        if equals and not arm:
            raise BadInput(f"baseline {text}: expected {name}=ARM")
        if equals and arm not in arms:
            raise BadInput(f"{name} of {arm}: there is no such arm; there are {', '.join(arms)}")
        chosen.setdefault(name, set()).add(arm or arms[0])
    return {name: chosen[name] for name in _BASELINES if name in chosen}


def repeat(name: str, arm: ArmConfig) -> ArmConfig:
    """The baseline of an arm."""
    settings, changes = arm.model_dump(exclude_unset=True), REPEATS[name]
    population = {**(settings.get("population") or {}), **changes.get("population", {})}
    return ArmConfig.model_validate({**settings, **changes, "population": population or None, "train": None})


_SETTING = re.compile(r"[\w.-]+=")
"""The beginning of an arm's setting; an address that holds an equals sign has a colon or a question mark before it."""
_ARM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


class ArmConfig(StrictModel):
    """A policy and its sampling; settings left open are the comparison's."""

    policy: str
    answers: Answers | None = setting(
        None, "Answers per rollout (m); default: as the policy was trained, else the comparison's."
    )
    temperature: Temperature | None = None
    top_p: TopP | None = None
    max_new_tokens: Count | None = None
    device: str | None = None
    dtype: str | None = None
    show_parent: bool | None = setting(None, "Show parents; off: no evolution.")
    fresh: Fresh | None = setting(None, "The share of prompts that show only the task.")
    population: PopulationConfig | None = setting(
        None, "Settings of this arm's islands, which override those of all arms."
    )
    train: str | dict[str, Any] | None = setting(
        None, "The method that trains this arm's policy during its search, or its settings."
    )


class CompareConfig(RunConfig):
    """Everything that decides a comparison: its own keys, and those of a run that all arms have in common."""

    arms: dict[str, ArmConfig] = setting({}, "The arms by name, in their order.")
    seeds: int = setting(3, "How many seeds, from --seed on.", ge=1, le=1000)
    baselines: list[str] | None = setting(
        None,
        "Baselines: best-of-n, hill, scs, each of the first arm or as in hill=ARM, classic for mazes, and "
        "tuned-start; default: best-of-n.",
    )
    answers_per_iteration: Count | None = setting(
        None, "Answers per iteration of every arm; default: the least that suits all chain lengths."
    )
    training: dict[str, Any] = setting({}, "Settings of all arms that train.")

    @field_validator("arms", mode="before")
    @classmethod
    def _named(cls, arms: Any) -> Any:
        """`NAME: ADDRESS` is an arm too."""
        if not isinstance(arms, Mapping):
            return arms
        for name in map(str, arms):
            check_arm_name(name)
        return {str(name): {"policy": arm} if isinstance(arm, str) else arm for name, arm in arms.items()}

    @property
    def search(self) -> RunConfig:
        """What all arms have in common."""
        given = self.model_dump(include=set(RunConfig.model_fields), exclude_unset=True)
        return RunConfig.model_validate(given)

    @model_validator(mode="after")
    def _complete(self) -> CompareConfig:
        for key in fields_for(RunConfig, "arm"):
            if key in self.model_fields_set:
                raise ValueError(f"{key} belongs to an arm; name it under arms, or as in --arm vpo=embedded:vpo")
        arms = arms_of(self)
        if self.training and not any(arm.train for arm in arms.values()):
            named = ", ".join(self.training)
            raise ValueError(
                f"{named} is for arms that train, and none does; name a method, as in --arm a=DIR,train=vpo"
            )
        return self


class CompareOptions(CompareConfig):
    """A comparison, and the settings of `evo compare` that decide no run."""

    against: str | None = setting(None, "Measure the others against this arm; default: the first.")
    processes: int | None = setting(
        None, "Searches side by side; default: by policies and cores.", "resume", ge=1, le=64
    )

    @model_validator(mode="after")
    def _known(self) -> CompareOptions:
        arms = arms_of(self)
        if self.against is not None and self.against not in arms:
            raise ValueError(f"against {self.against}: there is no such arm; there are {', '.join(arms)}")
        return self


def read_comparison(path: str | None, overrides: Mapping[str, Any]) -> CompareOptions:
    """From YAML (keys of a run, `arms` and the other keys of a comparison), then flags. Raises BadInput."""
    source, values = f"--config {path}" if path else OPTIONS, read_yaml(path)
    shared = {re.sub(r"^train\.", "training.", key): value for key, value in overrides.items()}
    merge(values, shared, source)
    return parse(CompareOptions, values, source)


def check_arm_name(name: str) -> None:
    if not _ARM_NAME.fullmatch(name):
        raise BadInput(
            f"{name!r} is no name for an arm: up to 40 letters from a to z, digits, dots, dashes and underscores"
        )


def parse_arm(text: str) -> tuple[str, dict[str, Any]]:
    """`vpo=embedded:vpo,answers=3,temperature=0.8` -> the arm's name and settings; without a name the address's last
    part. `population.strategy=weighted` is a setting of its islands. Several policies, each with its options, come
    before the settings: `both=embedded:edit-solve,embedded:vpo?temperature=0.7,answers=3`. Raises BadInput."""
    head, *rest = split_policies(text)
    policies = list(takewhile(_is_policy, rest))
    settings = rest[len(policies) :]
    name, equals, policy = head.partition("=")
    if not equals or ":" in name or "?" in name:  # an address may hold options, which have equals signs too
        policy, name = head, "-".join(parse_address(address).short_name for address in (head, *policies))
    name, policies = name.strip(), [policy.strip(), *policies]
    if not all(policies):
        raise BadInput(f"--arm {text}: expected NAME=POLICY, as in --arm vpo=embedded:vpo")
    check_arm_name(name)
    values: dict[str, Any] = {"policy": ",".join(policies)}
    for part in settings:
        if _is_policy(part):
            raise BadInput(f"--arm {text}: policies come before settings, as in NAME=POLICY,POLICY,answers=3")
        key, equals, value = part.partition("=")
        key = key.strip().replace("-", "_")
        section, dot, inner = key.partition(".")
        if equals and dot and section == "population":
            values.setdefault(section, {})[inner] = value.strip()
            continue
        if not equals or key not in ArmConfig.model_fields or key in ("policy", "population"):
            known = [*(key for key in ArmConfig.model_fields if key not in ("policy", "population")), "population.KEY"]
            hint = did_you_mean(key, known, most=1) or f"; known: {', '.join(known)}"
            raise BadInput(f"--arm {text}: {part!r} is no setting of an arm{hint}")
        values[key] = value.strip()
    return name, values


def _is_policy(part: str) -> bool:
    """Whether the text after a comma in --arm names a policy, not a setting."""
    return not _SETTING.match(part) and part.replace("-", "_") not in ArmConfig.model_fields


def arms_of(config: CompareConfig) -> dict[str, ArmConfig]:
    """All arms, each followed by the baselines that repeat it; those of FIXED come last."""
    if not config.arms:
        raise BadInput("a comparison needs arms, as in: --arm grpo=embedded:grpo --arm vpo=embedded:vpo")
    baselines = [BEST_OF_N] if config.baselines is None else config.baselines
    chosen = chosen_baselines(baselines, list(config.arms))
    arms: dict[str, ArmConfig] = {}
    added: dict[str, ArmConfig] = {}
    for name, arm in config.arms.items():
        arms[name] = arm
        for baseline, repeated in chosen.items():
            if baseline in REPEATS and name in repeated:
                label = baseline if len(repeated) == 1 else f"{baseline}-{name}"
                arms[label] = added[label] = repeat(baseline, arm)
    for baseline in [name for name in FIXED if name in chosen]:
        arms[baseline] = added[baseline] = ArmConfig.model_validate(FIXED[baseline])
    if taken := next((label for label in added if label in config.arms), None):
        raise BadInput(f"an arm is called {taken} already; give it another name")
    return arms


LOCAL, AUTO = "local", "auto"


class ClusterOptions(BaseModel):
    """Of `--ray ADDRESS[?OPTION=VALUE&...]`, the cluster that searches a comparison: what a task takes there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cpus: float = Field(1.0, ge=0.0, description="CPUs of a task, which is one run.")
    gpus: float = Field(0.0, ge=0.0, description="GPUs of a task, if its policy runs in it.")
    resources: dict[str, float] = Field(
        default_factory=dict, description="Resources of a task, as Ray names them: NAME:1,NAME:2."
    )

    @field_validator("resources", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        parts = [part.partition(":") for part in value.split(",") if part]
        return {name: amount or 1.0 for name, _, amount in parts}


@dataclass(frozen=True)
class ClusterAddress:
    """where: `local` for a Ray started by this process, `auto` for the cluster of this machine, else
    HOST:PORT or ray://HOST:PORT"""

    where: str
    options: ClusterOptions

    def __str__(self) -> str:
        return self.where


def parse_cluster(text: str) -> ClusterAddress:
    """Raises BadInput, one line."""
    where, options = split_options(text)
    if where not in (LOCAL, AUTO) and ":" not in where:
        raise BadInput(f"--ray {text}: expected local, auto, or HOST:PORT of a Ray cluster")
    return ClusterAddress(
        where, parse(ClusterOptions, {name: value for name, value in options if value}, f"--ray {where}")
    )
