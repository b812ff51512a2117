"""What stored searches give to a training: the runs, and their prompt groups, chosen and drawn.

Memory holds a few numbers for each chosen group. Its prompt and its answers are read when a step needs them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from evo.errors import BadInput
from islands.db.store import Store
from islands.queries.groups import groups_at, rewards_before
from islands.types import ProblemRecord, RunRecord
from problems.types import ScoredGroup


@dataclass
class StoredRun:
    """A run that a training learns from.

    upto: the last group that was there when training began; later groups do not count
    digest: of everything that tells the chosen groups or lessons apart
    """

    store: Store
    run: RunRecord
    problems: Mapping[int, ProblemRecord]
    upto: int = -1
    digest: str = ""

    @property
    def name(self) -> str:
        return f"{self.run.name} ({self.store.address})"

    def describe(self) -> dict[str, Any]:
        """The record that a training run keeps of it."""
        return {"run": self.run.name, "database": self.store.address, "upto": self.upto, "digest": self.digest}

    def check_unchanged(self, then: Mapping[str, Any]) -> None:
        """BadInput if it is not what `describe` recorded when training began."""
        if self.digest != then["digest"]:
            raise BadInput(
                f"the traces of {self.name} are not those that training began with; an exact resume is not possible"
            )


class LearningSource(ABC):
    """Everything that a training run learns from: stored runs, open for reading."""

    runs: Sequence[StoredRun]

    @abstractmethod
    def records(self) -> dict[tuple[int, int], ProblemRecord]:
        """Its problems, by the run's place and the problem's id."""

    @property
    def run_names(self) -> str:
        return ", ".join(source.name for source in self.runs)

    @property
    def problem_names(self) -> set[str]:
        return {record.name for record in self.records().values()}

    @property
    def example(self) -> str:
        """The address of one of the problems."""
        return next(iter(self.records().values())).address

    def close(self) -> None:
        for store in {id(source.store): source.store for source in self.runs}.values():
            store.close()


@dataclass
class TraceRun(StoredRun):
    """A run whose groups are learned from. stored: groups up to `upto`; chosen: how many of them are learned from"""

    stored: int = 0
    chosen: int = 0

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "stored": self.stored, "chosen": self.chosen}

    def check_unchanged(self, then: Mapping[str, Any]) -> None:
        if (self.stored, self.chosen) != (then["stored"], then["chosen"]):
            raise BadInput(
                f"the traces of {self.name} have changed: up to group {then['upto']} there were {then['stored']:,} "
                f"groups, {then['chosen']:,} to learn from, and now {self.stored:,} and {self.chosen:,}; an exact "
                "resume is not possible"
            )
        super().check_unchanged(then)


@dataclass(frozen=True)
class Chosen:
    """Columns over the N chosen groups: the run's place in Traces.runs, place in the run, problem id, answers
    requested in all rollouts, and the version's place in Traces.versions."""

    run: npt.NDArray[np.int64]
    sequence: npt.NDArray[np.int64]
    problem: npt.NDArray[np.int64]
    asked: npt.NDArray[np.int64]
    version: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.run)

    def where(self, kept: npt.NDArray[Any]) -> Chosen:
        return Chosen(*(column[kept] for column in vars(self).values()))


@dataclass
class Traces(LearningSource):
    """The prompt groups that a training run learns from.

    versions: the policy versions that wrote the chosen groups; answers: m, the chain length of all of them
    left_out: groups that passed the user's filters and yet teach nothing, by the reason
    """

    runs: list[TraceRun]
    chosen: Chosen
    versions: list[str]
    answers: int
    left_out: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.chosen)

    def records(self) -> dict[tuple[int, int], ProblemRecord]:
        pairs = sorted(set(zip(self.chosen.run.tolist(), self.chosen.problem.tolist(), strict=True)))
        return {(run, problem): self.runs[run].problems[problem] for run, problem in pairs}

    def read(self, places: npt.NDArray[np.int64]) -> list[ScoredGroup]:
        """The groups of these places in `chosen`, in that order. BadInput where one has gone."""
        found: dict[tuple[int, int], ScoredGroup] = {}
        keys = list(zip(self.chosen.run[places].tolist(), self.chosen.sequence[places].tolist(), strict=True))
        for number in sorted({run for run, _ in keys}):
            source = self.runs[number]
            wanted = [sequence for run, sequence in keys if run == number]
            try:
                groups = groups_at(source.store, source.run.id, wanted)
            except LookupError as error:
                raise BadInput(
                    f"the traces of {source.name} have changed while they are learned from: {error}"
                ) from None
            found |= {(number, group.sequence): group for group in groups}
        return [found[key] for key in keys]

    def archive(self, place: int) -> npt.NDArray[np.float64]:
        """(A, d) reward vectors that the search had found on the group's problem before it."""
        chosen = self.chosen
        source, problem = self.runs[int(chosen.run[place])], int(chosen.problem[place])
        rows = rewards_before(source.store, problem, int(chosen.sequence[place]))
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(source.problems[problem].objectives))

    def keep(self, kept: npt.NDArray[np.bool_], reason: str) -> None:
        """Leave out the groups that are not kept."""
        if not kept.all():
            self.left_out[reason] += int((~kept).sum())
            self.chosen = self.chosen.where(kept)
