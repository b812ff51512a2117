"""A comparison in the database: its arms, each a policy's searches of the same problems under several seeds, and the
problems that count. A single run is a comparison of one arm under one seed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from evo.errors import BadInput
from evo.search.resources import planned_iterations
from evo.search.stop import StopReason, ended_by
from islands.comparisons import runs_named
from islands.store import Store
from islands.types import ProblemRecord, RunRecord

_BUDGETS = {"max_total_tokens": "tokens", "max_cost": "cost", "max_answers": "answers"}
"""Settings of budgets that are the same for a run at any speed, and their units."""


@dataclass(frozen=True)
class Arm:
    """One policy with its settings. runs: one for each seed, in the order of the comparison's seeds."""

    name: str
    runs: tuple[RunRecord, ...]

    @property
    def policy(self) -> str:
        return str(self.runs[0].config["policy"])

    @property
    def seeds(self) -> int:
        return len(self.runs)

    @property
    def statuses(self) -> dict[str, int]:
        """Status -> how many runs, those that have any."""
        return dict(Counter(run.status for run in self.runs))

    @property
    def answers(self) -> int:
        """Answers of an iteration: G rollouts of m answers."""
        return int(self.runs[0].config["rollouts"]) * int(self.runs[0].config["answers"])


@dataclass(frozen=True)
class Comparison:
    """Arms in the order in which they were named, and their problems.

    problems: of the first run that has any, in order; the other runs have the same problems under other ids
    failed: problems that a fault of their scorer stopped in some run; they are left out of all runs and of `problems`
    reference: the arm that the others are measured against; None if there is only one arm
    """

    name: str
    arms: tuple[Arm, ...]
    problems: tuple[ProblemRecord, ...]
    reference: str | None
    failed: tuple[ProblemRecord, ...] = ()

    @property
    def runs(self) -> list[RunRecord]:
        return [run for arm in self.arms for run in arm.runs]

    @property
    def crossed_seeds(self) -> bool:
        """Whether a seed acts on all problems at once (evo.stats), because some arm's policy learns while it searches.
        All intervals, bands and tests of a comparison use it."""
        return any(run.config.get("train") for run in self.runs)

    @property
    def ended_by_budget(self) -> bool:
        """Whether all runs are done, some of them by a budget before their last iteration: of tokens, cost or seconds,
        which are then what the arms have in common. Results then also count for all later iterations."""
        runs = self.runs
        return all(run.status == "done" for run in runs) and any(ended_by(run) is StopReason.BUDGET for run in runs)

    @property
    def budget(self) -> tuple[str, float] | None:
        """(unit, size) of the budget that all runs have and that ended some of them: metrics and curves are then over
        what a run has spent. None if they are over iterations."""
        ended = {run.summary.get("budget") for run in self.runs}
        for key, unit in _BUDGETS.items():
            sizes = {float(run.config.get(key) or 0) for run in self.runs}
            if unit in ended and len(sizes) == 1:
                return unit, sizes.pop()
        return None

    @property
    def iterations(self) -> int:
        """Planned for each problem; the most, if OpenEvolve configs plan different numbers."""
        return max(max(planned_iterations(run.config)) for run in self.runs)


def gather(store: Store, name: str, against: str | None = None) -> Comparison:
    """The comparison, or the run, of that name. Raises UnknownRun, and BadInput if no arm is called `against`.

    against: the reference; by default the first arm
    """
    runs = runs_named(store, name)
    by_arm: dict[str, list[RunRecord]] = {}
    for run in runs:
        by_arm.setdefault(run.arm or run.name, []).append(run)
    arms = tuple(Arm(arm, tuple(sorted(of_arm, key=lambda run: run.seed))) for arm, of_arm in by_arm.items())
    if against is not None and against not in by_arm:
        raise BadInput(f"{name} has no arm {against}; it has {', '.join(by_arm)}")
    reference = against or arms[0].name
    begun = [records for records in (store.problems(run.id) for run in runs) if records]
    faulty = {record.index: record for records in begun for record in records if record.status == "failed"}
    problems = tuple(record for record in (begun[0] if begun else ()) if record.index not in faulty)
    failed = tuple(faulty[index] for index in sorted(faulty))
    return Comparison(name, arms, problems, reference if len(arms) > 1 else None, failed)
