"""The configurations of a run and of an evaluation: validated objects, from YAML, then flags, each overriding the one
before. A run's is stored with it, so `evo resume` needs nothing but the database.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from functools import reduce
from importlib.util import find_spec
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from evo.config.parse import OPTIONS, StrictModel, merge, parse, read_yaml, setting
from evo.errors import BadInput
from islands.population.config import PopulationConfig
from problems.address import did_you_mean
from problems.contract import BadAddress
from problems.sandbox.contract import Mode
from problems.weights import SPREAD, read_weights
from vpo.advantage import METHODS
from vpo.policies.address import Dtype
from vpo.training.config import TrainerSettings

TRACKERS = ("tensorboard", "wandb", "mlflow", "trackio")
"""Each is the name of its package too."""
REPORT_TO = f"Report to experiment trackers while it runs: {', '.join(TRACKERS)}; several with commas; none: no more."
TRACKED_AS = "The name in the trackers; evo writes it."


def _names(given: list[str]) -> list[str]:
    names = [part.strip() for item in given for part in item.split(",") if part.strip()]
    for name in names:
        if name not in (*TRACKERS, "none"):
            raise ValueError(f"{name}{did_you_mean(name, TRACKERS, most=1) or '; there is ' + ', '.join(TRACKERS)}")
    return list(dict.fromkeys(name for name in names if name != "none"))


TrackerNames = Annotated[list[str], AfterValidator(_names)]


def check_trackers(names: Iterable[str]) -> None:
    """Raise BadInput if the library of a tracker is missing."""
    for name in names:
        if find_spec(name) is None:
            raise BadInput(f"--report-to {name} needs the package {name}: pip install {name}")


def tracker_name(name: str) -> str:
    """The name in the trackers of a new run or training: with the time, since another database may have the same run.
    name: of the run, or of what it searches, or a folder"""
    return f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', name).strip('-.')[-60:]}-{time.strftime('%Y%m%d-%H%M%S')}"


MOST_ROLLOUTS = 1024
"""Of an iteration."""
RolloutCount = Annotated[int, Field(ge=1, le=MOST_ROLLOUTS)]
Answers = Annotated[int, Field(ge=1, le=32)]
Temperature = Annotated[float, Field(ge=0.0, le=5.0)]
TopP = Annotated[float, Field(gt=0.0, le=1.0)]
Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


def _fresh(given: Any) -> Any:
    """auto, or a share: one message for both, since pydantic's would name neither."""
    try:
        share = given if given == "auto" else float(given)
    except (TypeError, ValueError):
        share = -1.0
    if share != "auto" and not 0.0 <= share <= 1.0:
        raise ValueError("expected a share from 0 to 1, or auto")
    return share


Fresh = Annotated[float | Literal["auto"], BeforeValidator(_fresh)]


def _weights(given: Any) -> Any:
    try:
        return read_weights(given)
    except BadAddress as error:
        repeated = (f"--weights {given}: ", f"weights {given!r}: ", "weights: ")  # a fault of settings names them
        raise ValueError(reduce(str.removeprefix, repeated, str(error))) from None


Weights = Annotated[dict[str, float] | Literal["spread"], BeforeValidator(_weights)]


WEIGHTS = (
    "The objectives' weights in the fitness, as in gold=3,diamond=1, those not named 0; default: as the problem says."
)


class SamplingConfig(StrictModel):
    """Which policy answers which problems, and how it samples."""

    problems: list[str] = setting([], "Problem addresses.")
    policy: str = setting(
        "embedded:base",
        "The policy: embedded:NAME (mazes), a hub id or directory, vllm:ID, openai:MODEL@URL, or "
        "scripted:mutate (random edits of numbers and programs, no model).",
        "arm resume",
    )
    answers: Answers = setting(3, "Answers per rollout (m).")
    seed: int = setting(0, "The seed of every random choice.", ge=0)
    limit: Count | None = setting(None, "Use only the first K problems of each set.")
    weights: Weights | None = setting(None, WEIGHTS)
    temperature: Temperature | None = setting(
        None, "The sampling temperature; default: an OpenEvolve config's, else the model's own, else 1.", "sampling"
    )
    top_p: TopP = setting(1.0, "Sample from the smallest set of tokens with this much probability.", "sampling")
    max_new_tokens: Count | None = setting(
        None, "Tokens per rollout at most; default by answer format and count.", "sampling"
    )
    sandbox: Mode = setting("auto", "How code that models write is isolated.")
    device: str | None = setting(None, "The device of a transformers model: cpu, cuda, cuda:1.", "sampling")
    dtype: Dtype | None = setting(None, "The number format of a transformers model's weights.", "sampling")


class ScorerSettings(StrictModel):
    """Kept with the run, so that a resume needs only the function."""

    statement: str | None = setting(None, "The task in English, as a prompt shows it.")
    seed_answer: str | list[str] | None = setting(None, "The answer that the search starts from.")
    target: float | None = setting(None, "The fitness at which the problem counts as solved.")
    answer_format: Literal["text", "python"] = setting("text", "How an answer is written.")
    objectives: list[str] | None = setting(None, "The names of the scores; default: those of the seed.")
    directions: dict[str, Literal["max", "min"]] | None = setting(
        None, "min for an objective that is better when lower."
    )
    weights: dict[str, float] | list[float] | None = setting(
        None, "The objectives' weights in the fitness; default: the plain mean."
    )
    timeout: float | None = setting(None, "Seconds per answer; default 30.", gt=0)
    readable: list[str] | None = setting(None, "Files and folders that the function reads.")
    isolated: bool = setting(True, "Run in the sandbox; off: trusted.")


class SearchTraining(TrainerSettings):
    """Training during a search: its stored iterations are the batches.

    The newest version of the policy learns from a group once enough groups are there. The PPO ratio, the truncated
    importance weights and the cap correct for the version that wrote it.
    """

    method: str = setting(..., "Train the policy during the search by this method: vpo, grpo, ...")
    every: int = setting(16, "Iterations per training step.", ge=1)
    steps: int | None = setting(None, "Training steps at most; the search continues after them.", ge=1)
    max_staleness: int | None = setting(8, "Drop (and count) groups of versions that are older than this many.", ge=0)
    truncate: float | None = setting(2.0, "The cap of truncated importance weights.", gt=0.0)
    tolerance: float = setting(
        0.05, "Nats per token by which sampler and trainer may differ on the probe after a sync.", gt=0.0
    )
    save_every: int = setting(10, "Steps between checkpoints; a resume repeats the steps since the last.", ge=1)
    keep: int = setting(2, "Checkpoints to keep.", ge=1)

    @model_validator(mode="after")
    def _sensible(self) -> SearchTraining:
        if self.method in METHODS and METHODS[self.method].success:
            raise ValueError(
                "reward solve takes its goals from a stored search: evo train pass_at_k --reward solve "
                "--parents-from archive:RUN"
            )
        return self


class PromptConfig(StrictModel):
    """The contents of a prompt in addition to the task."""

    style: Literal["auto", "evo", "openevolve"] = setting(
        "auto", "The templates; auto: OpenEvolve's for an OpenEvolve directory, else ours."
    )
    diff: bool | None = setting(
        None, "Ask for SEARCH/REPLACE edits instead of whole answers; needs one answer per rollout."
    )
    max_answer_chars: int = setting(8000, "Cut longer answers in the middle when a prompt shows them.", ge=100)
    max_feedback_chars: int = setting(1500, "Characters of feedback shown per candidate at most.", ge=0)
    show_parent: bool = setting(
        True, "Show a parent; off: every prompt is only the task (best-of-n without evolution)."
    )
    fresh: Fresh = setting(
        "auto",
        "The share of prompts that show only the task, no parent; auto: the share of answers that were "
        "repeats because a parent was shown.",
    )


class RunConfig(SamplingConfig):
    """Everything that decides a run. One seed and one configuration give one run."""

    weights: Weights | None = setting(
        None, f"{WEIGHTS} {SPREAD}: search for all weights alike; the set of best answers is the result."
    )

    iterations: Count | None = setting(
        None, "Iterations per problem; default 100, or an OpenEvolve config's.", "resume"
    )
    iterations_each: list[Count] = setting(
        [], "Iterations of each problem where OpenEvolve configs plan different numbers; evo writes it."
    )
    rollouts: RolloutCount = setting(1, "Rollouts per iteration (G).", "arm")

    max_answers: Count | None = setting(
        None, "Stop after this many answers in all; a chain of m counts m.", "budget resume search"
    )
    max_total_tokens: Count | None = setting(
        None, "Stop after this many generated tokens in all; --max-new-tokens limits one reply.", "budget resume search"
    )
    max_cost: float | None = setting(
        None, "Stop at this cost in all, for public models and policies with ?price=.", "budget resume search", gt=0
    )
    max_seconds: float | None = setting(
        None, "Stop after this many seconds of searching in all, pauses excluded.", "budget resume", gt=0
    )
    max_unanswered: int = setting(
        20,
        "Stop with exit code 1 after this many replies of a server in a row without an answer: failed, "
        "empty, cut at the token limit, or only reasoning; 0: never.",
        "budget",
        ge=0,
    )
    until_solved: bool = setting(False, "Stop a problem when it is solved.", "budget")
    patience: Count | None = setting(
        None, "Stop a problem after this many iterations in a row without a better best answer.", "budget resume search"
    )
    set_size: Answers | None = setting(
        None,
        "Show at the end the set of at most K answers that is best if each objective counts its best "
        "member, as for a portfolio of rules.",
    )
    start: list[str] = setting(
        [], "Further answers to start from: a file, or the archives of a run. May be given several times.", "search"
    )

    start_anyway: bool = setting(False, "Search with a model although the scorer fails the seed answer.")

    parallel: Count | None = setting(None, "Iterations in flight; default by policy and number of problems.")
    lag: int = setting(
        0,
        "Iterations that may run ahead of a slow rollout or evaluation, beyond those in flight: they are "
        "committed as they come back, and the run is not reproducible from its seed.",
        "search",
        ge=0,
        le=100_000,
    )
    population: PopulationConfig = Field(default_factory=PopulationConfig)
    prompt: PromptConfig = Field(default_factory=PromptConfig)
    train: SearchTraining | None = setting(None, "Train the policy during the search.", "arm search")
    scorer: ScorerSettings | None = setting(None, "The declarations of a scoring function given in Python.")
    policy_changes: list[dict[str, str | int | float]] = setting(
        [], "How evo resume changed the policy's options, oldest first; evo writes it.", "search"
    )
    verifies: str | None = setting(None, "The run whose winner this one is measured against; evo verify writes it.")
    report_to: TrackerNames = setting([], REPORT_TO, "resume search")
    tracked_as: str = setting("", TRACKED_AS, "search")
    scoring_workers: int | None = setting(None, "Answers scored at once; default: the number of CPUs.", ge=1, le=256)

    @model_validator(mode="after")
    def _searched_alike(self) -> RunConfig:
        if self.weights == SPREAD and self.until_solved:
            raise ValueError("until_solved ends a search when it is solved under one weighting: leave it out of spread")
        return self


Tracked = TypeVar("Tracked", bound=RunConfig)


def name_in_trackers(config: Tracked, name: str | None) -> Tracked:
    """The settings of a new run or comparison, which its trackers know by a name. name: None if it has none yet"""
    if not config.report_to:
        return config
    return config.model_copy(update={"tracked_as": tracker_name(name or (config.problems or ["run"])[0])})


FLAGS: Mapping[str, str] = {
    "islands": "population.islands",
    "strategy": "population.strategy",
    "set": "set_size",
    "fresh": "prompt.fresh",
    "train_every": "train.every",
    "train_steps": "train.steps",
    "lr": "train.lr",
    "kl": "train.kl",
}
"""Flags that set a key of another name, mostly of a section of a run's settings."""


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


class EvaluateConfig(SamplingConfig):
    """The settings of `evo evaluate`."""

    answers_total: int = setting(30, "Answers per problem.", ge=1, le=100_000)
    seeds: int = setting(1, "How many seeds, from --seed on.", ge=1, le=1000)
    against: str | None = setting(None, "Compare problem by problem with a file that -o wrote.")

    @model_validator(mode="after")
    def _judged_by_one(self) -> EvaluateConfig:
        if self.weights == SPREAD:
            raise ValueError(f"weights {SPREAD} is for a search; E_w[best] of an evaluation needs no weights")
        return self

    def run_config(self) -> RunConfig:
        """The same as a run's configuration; settings left open stay open."""
        return RunConfig.model_validate(self.model_dump(include=set(SamplingConfig.model_fields), exclude_unset=True))
