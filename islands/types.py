"""What the population and the store hand out: frozen records, free of SQLAlchemy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

RUN_STATUSES = ("waiting", "running", "done", "interrupted", "failed")
"""A run of a comparison waits until its turn comes."""
PROBLEM_STATUSES = ("active", "solved", "failed", "done")


def check_status(what: str, status: str, known: Sequence[str]) -> None:
    """ValueError for a status that there is none of. what: whose, for the message"""
    if status not in known:
        raise ValueError(f"a {what}'s status is one of {', '.join(known)}, not {status!r}")


@dataclass(frozen=True)
class RunRecord:
    """A run as it was when read. Times are seconds since 1970, UTC; heartbeat is None before the first lease.

    tags, note: of a person (islands.db.housekeeping.annotate_runs); the runs of a comparison have the same
    """

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
    heartbeat: float | None
    tags: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class ProblemRecord:
    """A problem of a run as it was when read.

    dimensions: the features that span the archive's grid, None until the first valid candidate has settled them
    best, best_fitness: the fittest stored candidate that did not fail, None while there is none
    solved_sequence: sequence of the group that solved it
    fingerprint: of what scores it; None for a run from before these were kept
    """

    id: int
    run_id: int
    index: int
    address: str
    name: str
    objectives: tuple[str, ...]
    target: float | None
    answer_format: str
    status: str
    message: str
    solved_sequence: int | None
    dimensions: tuple[str, ...] | None
    best: int | None
    best_fitness: float | None
    fingerprint: str | None = None


@dataclass(frozen=True)
class Candidate:
    """A stored, scored answer, with everything a prompt may show.

    generation: parent's + 1, 0 for a seed and for an answer to a prompt without a parent
    island: where it was born; copies may live on others
    """

    id: int
    text: str
    rewards: tuple[float, ...]
    fitness: float
    features: Mapping[str, float]
    feedback: str
    error: str | None
    generation: int
    island: int
    parent: int | None


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
    """Where one answer of a group went.

    cell: the cell it won on `island` ("3-7" on a grid, "front-12" on a Pareto front), None where it won none
    replaced: the elite that had to leave for it
    improved: it is the problem's new best
    new: False for a repeat of a stored candidate
    """

    candidate: int
    island: int
    cell: str | None
    replaced: int | None
    improved: bool
    new: bool


NO_PARENT, QUARTERS, AT_TARGET = -1, 4, 4
"""Bins of a parent's fitness are 0 to QUARTERS - 1, beside these two (islands.population.operator_counts)."""


@dataclass(frozen=True)
class OperatorCount:
    """Answers of one operator of a search to prompts that showed a parent of one bin of fitness.

    operator: its place in the search's list of policies
    better: than the parent; copies: equal to anything that the prompt showed; repeats: stored before
    compared: those whose text was compared with the parent's; kept: their shares of it, summed
    """

    operator: int
    bin: int
    answers: int
    better: int
    copies: int
    repeats: int
    compared: int
    kept: float
