"""What the population and the store hand out: frozen records, free of SQLAlchemy."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from problems.contract import Score
from problems.objectives import Objective, Reward
from problems.types import Unanswered
from problems.weights import weights_argument, write_weights

RUN_STATUSES = ("waiting", "running", "done", "interrupted", "failed")
"""A run of a comparison waits until its turn comes."""
PROBLEM_STATUSES = ("active", "solved", "failed", "done")


def check_status(what: str, status: str, known: Sequence[str]) -> None:
    """ValueError for a status that there is none of. what: whose, for the message"""
    if status not in known:
        raise ValueError(f"a {what}'s status is one of {', '.join(known)}, not {status!r}")


@dataclass(frozen=True)
class RunRecord:
    """A run as it was when read. Times are seconds since 1970, UTC; updated: when it was last written to."""

    id: int
    name: str
    status: str
    reason: str
    command: str
    seed: int
    commit: str
    config: Mapping[str, Any]
    summary: Mapping[str, Any]
    comparison: str | None
    arm: str | None
    created: float
    updated: float

    @property
    def listed_name(self) -> str:
        """Its comparison's; its own for a single run."""
        return self.comparison or self.name

    @property
    def verifies(self) -> str | None:
        """The run that `evo verify` made this one for; None for a run of the user's."""
        return self.config.get("verifies")


@dataclass(frozen=True)
class Reweighed:
    """That a store has its runs under other weights than they were searched under.

    weights: by objective, as they were named; lines: what a reader of any view must know
    """

    weights: Mapping[str, float]
    lines: tuple[str, ...]

    @property
    def option(self) -> str:
        """For a suggested command."""
        return f"--weights {shlex.quote(weights_argument(self.weights))}"

    def __str__(self) -> str:
        return write_weights(self.weights)


@dataclass(frozen=True)
class ProblemRecord:
    """A problem of a run as it was when read.

    dimensions: the features that span the archive's grid, None until the first valid candidate has settled them
    best, best_fitness: the fittest stored candidate that did not fail, None while there is none
    solved_sequence: sequence of the group that solved it
    fingerprint: of what scores it
    metrics: the objectives in their order, with directions, scales and the seed's values; plain rewards before the
        search of the problem begins
    """

    id: int
    run_id: int
    index: int
    address: str
    name: str
    objectives: tuple[str, ...]
    target: Reward | None
    answer_format: str
    status: str
    message: str
    solved_sequence: int | None
    dimensions: tuple[str, ...] | None
    best: int | None
    best_fitness: Reward | None
    fingerprint: str | None = None
    metrics: tuple[Objective, ...] = ()

    def __post_init__(self) -> None:
        if not self.metrics:
            object.__setattr__(self, "metrics", tuple(map(Objective, self.objectives)))


@dataclass(frozen=True)
class Candidate:
    """A stored, scored answer, with everything a prompt may show.

    generation: parent's + 1, 0 for a seed and for an answer to a prompt without a parent
    island: where it was born; copies may live on others
    values: what the scorer measured, where rewards are made from it; see problems.objectives.own_values
    """

    id: int
    text: str
    rewards: tuple[float, ...]
    fitness: Reward
    features: Mapping[str, float]
    feedback: str
    error: str | None
    generation: int
    island: int
    parent: int | None
    values: tuple[float | None, ...] = ()

    @property
    def score(self) -> Score:
        """The Score that it was stored with."""
        return Score(self.rewards, self.fitness, self.features, self.feedback, self.error, self.values)


@dataclass(frozen=True)
class CandidateSummary:
    """A candidate as far as a query reads it: the other fields have their defaults.

    problem: its index in the run
    iteration, sequence: of the group that gave it first, -1 of a seed
    inspirations: the candidates that its prompt showed in addition to its parent
    """

    id: int
    fitness: Reward
    rewards: tuple[float, ...] = ()
    values: tuple[float | None, ...] = ()
    error: str | None = None
    text: str = ""
    parent: int | None = None
    inspirations: tuple[int, ...] = ()
    generation: int = 0
    run: int = 0
    problem: int = 0
    iteration: int = -1
    sequence: int = -1

    @property
    def failed(self) -> bool:
        return self.error is not None


class ParentKind(StrEnum):
    """The parent in a prompt: none, an answer that the search started from, or one that a policy wrote."""

    NOTHING = "nothing"
    SEED = "seed"
    ANSWER = "answer"


@dataclass(frozen=True)
class Selection:
    """What one prompt is built from.

    parent: None only while the population holds nothing at all (under scs: no successful answer)
    inspirations: diverse ones, never the parent
    best: the island's fittest in falling order; the parent may be among them (under hill and scs: none)
    """

    parent: Candidate | None
    inspirations: tuple[Candidate, ...]
    best: tuple[Candidate, ...]


NOTHING_SHOWN = Selection(None, (), ())
"""The selection of a prompt that shows only the task."""


@dataclass(frozen=True)
class Placement:
    """The candidate that an answer of a group is.

    improved: it is the problem's new best
    new: False for a repeat of a stored candidate
    """

    candidate: int
    improved: bool
    new: bool


@dataclass(frozen=True)
class GroupSums:
    """What one group brought, as its row keeps it.

    given: answers of its rollouts; born: new candidates among them; repeats: those stored before, also earlier in the
    group; missing: requested answers that no rollout held
    tokens: generated; prompt_tokens: of its prompt, once; cost: of all, if the policy has a price
    scored_seconds: of the scorer's workers
    errors: of new answers, and of rollouts (islands.runs), by kind
    best, best_fitness: the problem's new best candidate, None if it brought none
    """

    given: int
    born: int
    repeats: int
    missing: int
    tokens: int
    prompt_tokens: int
    cost: float
    scored_seconds: float
    errors: Mapping[str, int]
    best: int | None
    best_fitness: float | None


FORMAT = "format"
"""The kind of error of rollouts in which no answer could be read."""
REPLIES = {reason: f"reply {reason}" for reason in Unanswered}
"""The kinds of error of replies without an answer."""
OF_ROLLOUTS = (FORMAT, *REPLIES.values())


@dataclass(kw_only=True)
class Totals:
    """Sums over committed groups.

    answers: given, repeats among them; missing: requested answers that no rollout held
    repeats: answers that were stored before, also earlier in their own group
    tokens: generated; prompt_tokens: of prompts, each once for its group
    cost: of all tokens, if the policy has a price
    sampling_seconds: of the policy, summed over groups; scoring_seconds: summed over the scorer's workers
    migrations: times that candidates were copied from island to island
    errors: of distinct answers, and of rollouts (OF_ROLLOUTS), by kind
    """

    groups: int = 0
    answers: int = 0
    missing: int = 0
    repeats: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    cost: float = 0.0
    sampling_seconds: float = 0.0
    scoring_seconds: float = 0.0
    migrations: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    def add(self, other: Totals) -> None:
        """Add these to the sums."""
        sums, more = vars(self), vars(other)
        for name in SUMMED:
            sums[name] += more[name]
        self.errors += other.errors

    def as_dict(self) -> dict[str, Any]:
        """As summaries and --json name them."""
        return {
            "groups": self.groups,
            "answers": self.answers,
            "missing_answers": self.missing,
            "repeats": self.repeats,
            "tokens": self.tokens,
            "prompt_tokens": self.prompt_tokens,
            "cost": round(self.cost, 6),
            "scoring_seconds": round(self.scoring_seconds, 3),
            "migrations": self.migrations,
            "errors": dict(sorted(self.errors.items(), key=lambda kind: (-kind[1], kind[0]))),
        }


SUMMED = tuple(each.name for each in fields(Totals) if each.name != "errors")


def sum_totals(parts: Iterable[Totals]) -> Totals:
    """All of them together."""
    whole = Totals()
    for part in parts:
        whole.add(part)
    return whole
