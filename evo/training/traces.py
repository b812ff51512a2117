"""The prompt groups that searches stored, chosen and drawn for training.

Memory holds a few numbers for each chosen group; what was asked and answered is read when a step needs it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
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
    """A run that is learned from.

    upto: the last group that was there when training began; what the search stored since does not count
    """

    store: Store
    run: RunRecord
    problems: Mapping[int, ProblemRecord]
    upto: int

    @property
    def name(self) -> str:
        return f"{self.run.name} ({self.store.address})"

    def describe(self) -> dict[str, Any]:
        """What a training run remembers of it."""
        return {"run": self.run.name, "database": self.store.address, "upto": self.upto}


@dataclass
class TraceRun(StoredRun):
    """A run whose groups are learned from.

    stored: groups up to `upto`; chosen: those of them that are learned from
    digest: of everything that tells the chosen groups apart
    """

    stored: int = 0
    chosen: int = 0
    digest: str = ""

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "stored": self.stored, "chosen": self.chosen, "digest": self.digest}


@dataclass(frozen=True)
class Chosen:
    """Columns over the N chosen groups: the run's place in Traces.runs, place in the run, problem id, answers asked
    for in all rollouts, and the version's place in Traces.versions."""

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
class Traces:
    """All that a training run learns from.

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

    @property
    def problem_names(self) -> set[str]:
        return {record.name for record in self._problems()}

    @property
    def example(self) -> str:
        """The address of one of the problems."""
        return self._problems()[0].address

    def _problems(self) -> list[ProblemRecord]:
        pairs = sorted(set(zip(self.chosen.run.tolist(), self.chosen.problem.tolist(), strict=True)))
        return [self.runs[run].problems[problem] for run, problem in pairs]

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

    def close(self) -> None:
        for store in {id(source.store): source.store for source in self.runs}.values():
            store.close()
