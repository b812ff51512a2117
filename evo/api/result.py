"""The result of a run, read from its database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evo.api.notebook import candidate_rows, data_frame, draw_curves, html_table, retired_method
from evo.errors import BadInput
from evo.report.page import write_report
from evo.search.status import clock
from islands.runs import best, current_summary
from islands.store import Store
from islands.types import Candidate, ProblemRecord

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, repr=False)
class Answer:
    """The best answer to one problem.

    text: as it is scored, a program without its fence
    fitness: what the search maximises; rewards: the vector by objective, higher is better
    target: the fitness that solves the problem; None if it is unknown
    candidate: its id, as `evo show RUN ID` takes it
    """

    problem: str
    text: str
    fitness: float
    rewards: Mapping[str, float]
    target: float | None
    candidate: int

    def __repr__(self) -> str:
        rewards = ", ".join(f"{name} {value:.6g}" for name, value in self.rewards.items())
        target = "" if self.target is None else f" of {self.target:.6g}"
        return (
            f"Answer({self.problem}, {self.text!r}, fitness {self.fitness:.6g}{target}, {rewards}, id {self.candidate})"
        )

    @property
    def solved(self) -> bool:
        """Whether the fitness is at least the target; False without one."""
        return self.target is not None and self.fitness >= self.target


@dataclass(frozen=True, repr=False)
class RunResult:
    """A run as it was when this was made; `evo.load_run(name)` reads it again.

    name, db: for `evo.resume`, `evo.load_run` and the command line
    outcome: done, interrupted or failed; running while another process searches on
    reason: why it ended, if there is more to say
    best: the best valid answer of every problem that has one, in the problems' order
    problems: every problem's name with its status (solved, done, failed, active)
    summary: counts and rates of the search: groups, answers, tokens, seconds (searched), errors by kind ...

    Example:
        result = evo.run("maze:hard", limit=3, iterations=20)
        result.best[0].fitness, result.best[0].rewards
        result.frame().groupby("problem").fitness.max()
    """

    name: str
    db: str
    outcome: str
    reason: str
    best: list[Answer]
    problems: Mapping[str, str]
    summary: Mapping[str, Any]

    @property
    def best_answer(self) -> Answer:
        """The best answer of a run of one problem. Raises ValueError for several problems, or no valid answer."""
        if len(self.problems) != 1:
            raise BadInput(f"{self.name} searched {len(self.problems)} problems; result.best has an answer of each")
        if not self.best:
            raise BadInput(f"{self.name} has no valid answer yet; result.frame() shows why the others failed")
        return self.best[0]

    @property
    def solved(self) -> int:
        """Problems whose target was reached."""
        return sum(status == "solved" for status in self.problems.values())

    def frame(self) -> DataFrame:
        """All candidates, one row each: problem, candidate, iteration (missing for seeds), sequence, island,
        generation, parent, policy_version, fitness, error, feedback, answer, created (a datetime in UTC), a column
        reward.NAME for every objective and feature.NAME for every feature. Raises ImportError without pandas."""
        with Store.open(self.db, read_only=True) as store:
            rows = candidate_rows(store, [store.run(self.name)])
        return data_frame(rows, ("problem", "candidate", "fitness", "answer"))

    def report(self, path: str) -> Path:
        """Write the run as one HTML page, as `evo report` does. Raises BadInput."""
        with Store.open(self.db, read_only=True) as store:
            write_report(store, self.name, path)
        return Path(path)

    def __getattr__(self, name: str) -> Any:
        raise retired_method(self, name)

    def __str__(self) -> str:
        """The result in one line."""
        count = len(self.problems)
        parts = [f"{self.solved} of {count} solved" if count > 1 else "", _figures(self.summary)]
        if len(self.best) == 1:
            parts.insert(0, f"best {self.best[0].fitness:.6g}")
        why = f" ({self.reason})" if self.reason and self.reason != self.outcome else ""
        return f"{self.outcome}{why}: run {self.name}, {', '.join(filter(None, parts))}"

    def __repr__(self) -> str:
        return f"RunResult({self})"

    def _repr_html_(self) -> str:
        """A notebook's view: the line above, one row per problem, and the curves."""
        best = {answer.problem: answer for answer in self.best}
        rows = [
            (name, status, f"{best[name].fitness:.6g}" if name in best else "-", _vector(best.get(name)))
            for name, status in self.problems.items()
        ]
        table = html_table(str(self), ("problem", "status", "best", "rewards"), rows)
        return table + draw_curves(self.db, self.name)


def read_run(name: str, db: str) -> RunResult:
    """The run as the database has it now. Raises UnknownRun, DatabaseUnavailable."""
    with Store.open(db, read_only=True) as store:
        run = store.run(name)
        answers = best_answers(store, run.id)
        problems = {problem.name: problem.status for problem in store.problems(run.id)}
        summary = current_summary(store, run)
    return RunResult(run.name, db, run.status, run.reason, answers, problems, summary)


def best_answers(store: Store, run_id: int) -> list[Answer]:
    """The best valid answer of every problem that has one, in the problems' order."""
    return [_answer(problem, candidate) for problem, candidate in best(store, run_id) if candidate is not None]


def _answer(problem: ProblemRecord, candidate: Candidate) -> Answer:
    rewards = dict(zip(problem.objectives, candidate.rewards, strict=True))
    return Answer(problem.name, candidate.text, candidate.fitness, rewards, problem.target, candidate.id)


def _figures(summary: Mapping[str, Any]) -> str:
    if "groups" not in summary:
        return ""
    seconds = clock(float(summary.get("seconds", 0.0)))
    return f"{summary['groups']:,} iterations, {summary.get('answers', 0):,} answers in {seconds}"


def _vector(answer: Answer | None) -> str:
    return "" if answer is None else ", ".join(f"{name} {value:.4g}" for name, value in answer.rewards.items())
