"""What a comparison is made of: its arms, one budget of answers for all of them, and the runs that come of it.

An iteration asks every arm for the same number of answers, each in chains of its own length m: G rollouts of m answers
with G m alike. Problems, islands, prompts and seeds are the same, so arms differ in their policy and in nothing else.
A best-of-n arm is an arm again whose prompts never show a parent: what its policy finds by asking alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from evo.config.parse import OPTIONS, parse, read_yaml
from evo.config.run import RunConfig, load_config
from evo.errors import BadInput
from evo.search.defaults import settled, source_commit, stored_form
from evo.search.resources import resolve_problems
from islands.db.comparisons import PlannedRun, plan, run_name
from islands.db.store import Store
from vpo.policies.trained import trained_answers

BEST_OF_N = "best-of-n"
OF_THE_ARM = ("policy", "answers", "temperature", "top_p", "max_new_tokens", "device", "dtype")
OF_ITS_PROMPTS = ("show_parent", "prefill")
ARM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


class ArmConfig(BaseModel):
    """A policy and how it is asked; what is left open is the comparison's."""

    model_config = ConfigDict(extra="forbid")

    policy: str
    answers: int | None = Field(None, ge=1, le=32, description="m; default: as it was trained, else the comparison's")
    temperature: float | None = Field(None, ge=0.0, le=5.0)
    top_p: float | None = Field(None, gt=0.0, le=1.0)
    max_new_tokens: int | None = Field(None, ge=1)
    device: str | None = None
    dtype: str | None = None
    show_parent: bool | None = Field(None, description="off: no evolution")
    prefill: float | None = Field(None, ge=0.0, le=1.0, description="share of prompts that begin the answer")
    train: str | dict[str, Any] | None = Field(
        None, description="the method that trains this arm's policy while it searches, or the settings of that"
    )


class CompareConfig(BaseModel):
    """Everything that decides a comparison. `search` is what all arms have in common."""

    model_config = ConfigDict(extra="forbid")

    arms: dict[str, ArmConfig] = Field(description="by name, in their order")
    seeds: int = Field(3, ge=1, le=1000, description="how many, from the search's seed on")
    best_of_n: list[str] | None = Field(None, description="arms to repeat without evolution; default: the first")
    answers_per_iteration: int | None = Field(None, ge=1, description="default: the least that suits every arm's m")
    training: dict[str, Any] = Field(default_factory=dict, description="what the arms that train have in common")
    search: RunConfig


COMPARED = ("arms", "seeds", "best_of_n", "answers_per_iteration", "training")
"""Keys of a comparison beside those of its searches."""


def load_comparison(path: str | None, overrides: Mapping[str, Any], **own: Any) -> CompareConfig:
    """From YAML (keys of a run, with `arms` and the other keys of a comparison beside them), then flags. Raises
    BadInput with one line."""
    compared = {key: value for key, value in read_yaml(path).items() if key in COMPARED}
    if isinstance(compared.get("arms"), Mapping):
        compared["arms"] = {str(k): {"policy": v} if isinstance(v, str) else v for k, v in compared["arms"].items()}
    compared.update({key: value for key, value in own.items() if value is not None})
    source = f"--config {path}" if path else OPTIONS
    search = load_config(path, overrides, besides=COMPARED)
    for key in ("policy", "rollouts", "train"):
        if key in search.model_fields_set:
            raise BadInput(f"{source}: {key} is an arm's own; name arms, as in --arm vpo=embedded:vpo")
    config = parse(CompareConfig, {"arms": {}, **compared, "search": search}, source)
    for name in config.arms:
        check_name(name)
    for name in config.best_of_n or []:
        if name not in config.arms:
            raise BadInput(f"best-of-n of {name}: there is no such arm; there are {', '.join(config.arms) or 'none'}")
    return config


def check_name(name: str) -> None:
    if not ARM_NAME.fullmatch(name):
        raise BadInput(f"{name!r} is no name for an arm: up to 40 letters, digits, dots, dashes and underscores")


def parse_arm(text: str) -> tuple[str, dict[str, Any]]:
    """`vpo=embedded:vpo,answers=3,temperature=0.8` -> the arm's name and settings; without a name the address's last
    part. Raises BadInput."""
    head, *settings = text.split(",")
    name, equals, policy = head.partition("=")
    if not equals or ":" in name:  # an address may hold options, with equals signs of their own
        bare = re.split(r"@https?://|\?", head)[0]
        policy, name = head, re.split(r"[:/]", bare.rstrip("/"))[-1]
    name, policy = name.strip(), policy.strip()
    if not policy:
        raise BadInput(f"--arm {text}: expected NAME=POLICY, as in --arm vpo=embedded:vpo")
    check_name(name)
    values: dict[str, Any] = {"policy": policy}
    for setting in settings:
        key, equals, value = setting.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or key not in ArmConfig.model_fields or key == "policy":
            known = ", ".join(key for key in ArmConfig.model_fields if key != "policy")
            raise BadInput(f"--arm {text}: {setting!r} is no setting of an arm; known: {known}")
        values[key] = value.strip()
    return name, values


def arms_of(config: CompareConfig) -> dict[str, ArmConfig]:
    """All arms, each followed by its best-of-n arm if it has one."""
    if not config.arms:
        raise BadInput("a comparison needs arms, as in: --arm grpo=embedded:grpo --arm vpo=embedded:vpo")
    repeated = [next(iter(config.arms))] if config.best_of_n is None else config.best_of_n
    arms: dict[str, ArmConfig] = {}
    for name, arm in config.arms.items():
        arms[name] = arm
        if name in repeated:
            label = BEST_OF_N if len(repeated) == 1 else f"{BEST_OF_N}-{name}"
            if label in config.arms:
                raise BadInput(f"an arm is called {label} already; give it another name")
            arms[label] = arm.model_copy(update={"show_parent": False, "train": None})
    return arms


def planned_runs(config: CompareConfig) -> list[PlannedRun]:
    """A run for every seed and arm, seeds outermost: the order in which they are searched. Raises BadInput."""
    arms = arms_of(config)
    lengths = {name: arm.answers or trained_answers(arm.policy) or config.search.answers for name, arm in arms.items()}
    total = config.answers_per_iteration or math.lcm(*lengths.values())
    for name, answers in lengths.items():
        if total % answers:
            raise BadInput(f"an iteration of {total} answers cannot be made of arm {name}'s chains of {answers}")
        if total // answers > 1024:
            raise BadInput(
                f"an iteration of {total} answers is {total // answers} rollouts of arm {name}; 1,024 at most"
            )
    if not config.search.problems:
        raise BadInput("no problem named; try `evo compare maze:hard --limit 20 --arm ...`")
    problems = resolve_problems(config.search)
    addresses = [problem.name for problem in problems]
    runs = []
    for seed in range(config.search.seed, config.search.seed + config.seeds):
        for name, arm in arms.items():
            given = {key: getattr(arm, key) for key in OF_THE_ARM if getattr(arm, key) is not None}
            prompt = {f"prompt.{key}": getattr(arm, key) for key in OF_ITS_PROMPTS if getattr(arm, key) is not None}
            given |= {"answers": lengths[name], "rollouts": total // lengths[name], "seed": seed}
            if arm.train is not None:
                own = {"method": arm.train} if isinstance(arm.train, str) else arm.train
                given["train"] = {**config.training, **own}
            run = load_config(None, {**config.search.model_dump(exclude_unset=True), **given, **prompt})
            runs.append(PlannedRun(name, seed, stored_form(settled(run, problems), addresses)))
    return runs


def begin(
    db: str, name: str | None, runs: Sequence[PlannedRun], configs: Sequence[RunConfig], command: str
) -> tuple[str, list[list[tuple[str, RunConfig]]]]:
    """Store the plan; the comparison's name, and its runs in the waves they are searched in. Raises RunExists."""
    with Store.open(db) as store:
        fresh = plan(store, name, runs, command=command, commit=source_commit())
    named = [(run_name(fresh, run.arm, run.seed), run.seed, config) for run, config in zip(runs, configs, strict=True)]
    return fresh, waves(named)


def waves(runs: Sequence[tuple[str, int, RunConfig]]) -> list[list[tuple[str, RunConfig]]]:
    """(name, seed, configuration) of runs -> those of one seed together, in the order of the first of each."""
    by_seed: dict[int, list[tuple[str, RunConfig]]] = {}
    for name, seed, config in runs:
        by_seed.setdefault(seed, []).append((name, config))
    return list(by_seed.values())
