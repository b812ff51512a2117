"""The configuration of a run: one validated object, filled from YAML, then flags, each overriding the one before.

The object is stored with the run, so `evo resume` needs nothing but the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from evo.config.colocated import SearchTraining, complete_trainer
from evo.config.parse import OPTIONS, merge, parse, read_yaml
from evo.config.sampling import Count, Fresh, Rollouts, SamplingConfig, Share
from evo.config.scorer import ScorerSettings
from evo.errors import BadInput
from islands.population.config import ISLANDS, PopulationConfig
from problems.retired import drop_retired
from problems.scoring import check_resources


class PromptConfig(BaseModel):
    """The contents of a prompt in addition to the task."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    style: Literal["auto", "evo", "openevolve"] = Field(
        "auto", description="The templates; auto: OpenEvolve's for an OpenEvolve directory, else ours."
    )
    diff: bool | None = Field(
        None, description="Ask for SEARCH/REPLACE edits instead of whole answers; needs one answer per rollout."
    )
    max_answer_chars: int = Field(
        8000, ge=100, description="Cut longer answers in the middle when a prompt shows them."
    )
    max_feedback_chars: int = Field(1500, ge=0, description="Characters of feedback shown per candidate at most.")
    show_parent: bool = Field(
        True, description="Show a parent; off: every prompt is only the task (best-of-n without evolution)."
    )
    fresh: Fresh = Field(
        "auto",
        description="The share of prompts that show only the task, no parent; auto: the share of answers that were "
        "repeats because a parent was shown.",
    )
    prefill: Share = Field(0.0, description="The share of prompts that begin the answer with a part of the parent.")


class PolicyChange(BaseModel):
    """A change of the options of a run's policies by a resume. sequence: of the first group with the new ones; created:
    seconds since 1970"""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    before: str
    after: str
    sequence: int
    created: float


class RunConfig(SamplingConfig):
    """Everything that decides a run. One seed and one configuration give one run."""

    mixing: Literal["bandit", "turns"] = Field(
        "bandit",
        description="How a search chooses between policies A,B; bandit: by recent progress; turns: each in its turn.",
    )

    iterations: Count | None = Field(
        None, description="Iterations per problem; default 100, or an OpenEvolve config's."
    )
    rollouts: Rollouts = Field(1, description="Rollouts per iteration (G).")

    max_answers: Count | None = Field(None, description="Stop after this many answers in all; a chain of m counts m.")
    max_total_tokens: Count | None = Field(
        None, description="Stop after this many generated tokens in all; --max-new-tokens limits one reply."
    )
    max_cost: float | None = Field(
        None, gt=0, description="Stop at this cost in all, for public models and policies with ?price=."
    )
    max_seconds: float | None = Field(
        None, gt=0, description="Stop after this many seconds of searching in all, pauses excluded."
    )
    max_unanswered: int = Field(
        20,
        ge=0,
        description="Stop with exit code 1 after this many replies of a server in a row without an answer: failed, "
        "empty, cut at the token limit, or only reasoning; 0: never.",
    )
    until_solved: bool = Field(False, description="Stop a problem when it is solved.")
    patience: Count | None = Field(
        None, description="Stop a problem after this many iterations in a row without a better best answer."
    )
    start: list[str] = Field(
        default_factory=list, description="A file with a further answer to start from; may be given several times."
    )

    parallel: Count | None = Field(None, description="Iterations in flight; default by policy and number of problems.")
    lag: int = Field(
        0,
        ge=0,
        le=100_000,
        description="Iterations that may run ahead of a slow rollout or evaluation, beyond those in flight: they are "
        "committed as they come back, and the run is not reproducible from its seed.",
    )
    population: PopulationConfig = Field(default_factory=PopulationConfig)
    prompt: PromptConfig = Field(default_factory=PromptConfig)
    train: SearchTraining | None = Field(None, description="Train the policy during the search.")
    scorer: ScorerSettings | None = Field(None, description="The declarations of a scoring function given in Python.")
    policy_changes: list[PolicyChange] = Field(
        default_factory=list, description="How evo resume changed the policy's options, oldest first; evo writes it."
    )
    scoring_resources: dict[str, float] | None = Field(
        None,
        description="What scoring an answer takes: cpus, gpus, a cluster's names; default: as the scorers declare. "
        "--ray ADDRESS?scorers=N gives it to each scoring process.",
    )
    scoring_workers: int | None = Field(
        None, ge=1, le=256, description="Answers scored at once; default: the number of CPUs."
    )

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, values: Any) -> Any:
        if isinstance(values, dict) and "max_tokens" in values:
            raise ValueError("max_tokens: the run's budget is max_total_tokens, the length of a reply max_new_tokens")
        return values

    @field_validator("scoring_resources", mode="before")
    @classmethod
    def _amounts(cls, value: object) -> object:
        return value if value is None else check_resources(value)


def load_config(path: str | RunConfig | None, overrides: Mapping[str, Any]) -> RunConfig:
    """YAML at `path` (or none, or a configuration as it is), then `overrides`: dotted keys reach into sections, None
    values are not given.

    Raises BadInput with one line on the key and its fault.
    """
    if isinstance(path, RunConfig):
        values, source = path.model_dump(exclude_unset=True), OPTIONS
    else:
        values, source = read_yaml(path), f"--config {path}" if path else OPTIONS
    merge(values, overrides, source)
    train = values.get("train")
    if isinstance(train, dict) and train and "method" not in train:
        named = ", ".join(f"train.{key}" for key in train)
        raise BadInput(f"{source}: {named} is for a search that trains; name a method, as in --train vpo")
    return parse(RunConfig, values, source)


def complete_run(values: Mapping[str, Any]) -> dict[str, Any]:
    """A run's configuration as the database holds it, ready to be validated; see complete_trainer.

    Existing runs keep their original defaults. Runs without a strategy use openevolve. Runs without a number of islands
    have five, under pareto too. Runs without a climb or a share of fresh prompts have none. The budget max_total_tokens
    was called max_tokens.
    """
    values = {"max_total_tokens" if key == "max_tokens" else key: value for key, value in drop_retired(values).items()}
    train, population = values.get("train"), {"strategy": "openevolve", **(values.get("population") or {})}
    if population["strategy"] in ("auto", "pareto"):
        population.setdefault("islands", ISLANDS)
        population.setdefault("climb", 0)
    return {
        **values,
        "population": population,
        "prompt": {"fresh": 0.0, **(values.get("prompt") or {})},
        **({"train": complete_trainer(train)} if train else {}),
    }
