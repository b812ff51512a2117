"""The results of runs and comparisons, read from their database, as lines of text and as tables for pandas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evo.api.arguments import check_run_name, database
from evo.errors import BadInput
from evo.progress.answer_set import AnswerSet, choose_sets
from evo.progress.model import JudgedWeights, Progress, SearchRecord, open_runs
from evo.report.page import write_report
from evo.report.tables import comparison_dict as comparison_dict
from evo.search.status import clock
from evo.values import as_dict, write_number
from islands.browse import candidates_table
from islands.runs import best, current_summary
from islands.store import Store
from islands.types import Candidate, ProblemRecord, RunRecord
from problems.objectives import fitness_objective, value_of
from problems.weights import SPREAD, read_weights

if TYPE_CHECKING:
    from pandas import DataFrame


class ScorerWarning(UserWarning):
    """A scorer failed on some problems of a run; the others continued."""


@dataclass(frozen=True, repr=False)
class Answer:
    """The best answer to one problem.

    text: as it is scored, a program without its fence
    fitness: what the search maximises; where that is one objective that is better when lower, its value
    values, seed: what the scorer measured of it and of the seed answer, by objective; None: not measured
    directions: "min" or "max", by objective
    rewards: what counts inside, by objective; higher is better
    target: the fitness that solves the problem; None if it is unknown
    candidate: its id, as `evo show RUN ID` takes it
    solved: whether the fitness is as good as the target; False without one
    """

    problem: str
    text: str
    fitness: float
    values: Mapping[str, float | None]
    seed: Mapping[str, float | None]
    directions: Mapping[str, str]
    rewards: Mapping[str, float]
    target: float | None
    candidate: int
    solved: bool

    def __repr__(self) -> str:
        values = ", ".join(f"{name} {write_number(value, [self.seed[name]])}" for name, value in self.values.items())
        target = "" if self.target is None else f" of {self.target:.6g}"
        return (
            f"Answer({self.problem}, {self.text!r}, fitness {self.fitness:.6g}{target}, {values}, id {self.candidate})"
        )


class StoredResult:
    """A result whose data are in a database: what runs and comparisons have in common."""

    name: str
    db: str
    weights: JudgedWeights

    def _open(self) -> AbstractContextManager[Store]:
        return open_runs(self.db, [self.name], self.weights)

    def report(self, path: str) -> Path:
        """Write it as one HTML page, as `evo report` does. Raises BadInput."""
        with self._open() as store:
            spread = vars(self).get("weights") == SPREAD
            write_report(store, self.name, path, vars(self).get("against"), spread=spread)
        return Path(path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"


@dataclass(frozen=True, repr=False)
class RunResult(StoredResult):
    """A run as it was when this was made; `evo.load_run(name)` reads it again.

    name, db: for `evo.resume`, `evo.load_run` and the command line
    outcome: done, interrupted or failed; running while another process searches on
    reason: why it ended, if there is more to say
    best: the best valid answer of every problem that has one, in the problems' order
    problems: every problem's name with its status (solved, done, failed, active)
    summary: counts and rates of the search: groups, answers, tokens, seconds (searched), errors by kind ...
    weights: by which the stored answers are judged here, if not by those of the search

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
    weights: JudgedWeights = None

    @property
    def best_answer(self) -> Answer:
        """The best answer of a run of one problem. Raises ValueError for several problems, or no valid answer."""
        return only_answer(self.name, len(self.problems), self.best)

    def sets(self, k: int | None = None) -> list[AnswerSet]:
        """Of each problem the set of at most k answers that is best if each objective counts its best member, with its
        scores on held-out cases. k: as the run's `set`, by default. Raises ValueError for k < 1.

        Example:
            portfolio = result.sets(3)[0]
            portfolio.value, [member.text for member in portfolio.members]
        """
        with self._open() as store:
            return choose_sets(store, [store.run(self.name)], k, held_out=True)

    @property
    def solved(self) -> int:
        """Problems whose target was reached."""
        return sum(status == "solved" for status in self.problems.values())

    def frame(self) -> DataFrame:
        """All candidates, one row each: problem, candidate, iteration (missing for seeds), sequence, island,
        generation, parent, policy_version, fitness, error, feedback, answer, created (a datetime in UTC), a column
        reward.NAME for every objective and feature.NAME for every feature; value.NAME for what the scorer measured,
        where rewards are made from it. Raises ImportError without pandas."""
        with self._open() as store:
            rows = candidate_rows(store, [store.run(self.name)])
        return data_frame(rows, ("problem", "candidate", "fitness", "answer"))

    def __str__(self) -> str:
        count, summary = len(self.problems), self.summary
        parts = [f"{self.solved} of {count} solved" if count > 1 else ""]
        if "groups" in summary:
            seconds = clock(float(summary.get("seconds", 0.0)))
            parts.append(f"{summary['groups']:,} iterations, {summary.get('answers', 0):,} answers in {seconds}")
        if len(self.best) == 1:
            parts.insert(0, f"best {self.best[0].fitness:.6g}")
        why = f" ({self.reason})" if self.reason and self.reason != self.outcome else ""
        return f"{self.outcome}{why}: run {self.name}, {', '.join(filter(None, parts))}"


def load_run(name: str, *, db: str | None = None, weights: Mapping[str, float] | str | None = None) -> RunResult:
    """A stored run, finished or not.

    Args:
        name: the run's name; a comparison's runs are NAME/ARM/sSEED.
        db: the database, "sqlite:///evo.db" by default, or EVO_DB.
        weights: judge the stored answers by these weights of the objectives, {"gold": 3, "diamond": 1} or the text of
            --weights. Nothing is scored again.

    Raises:
        UnknownRun: with close names. DatabaseUnavailable: there is no such database. ValueError: an unknown objective.

    Example:
        evo.load_run("calm-otter").best
        evo.load_run("calm-otter", weights={"gold": 3, "diamond": 1}).best
    """
    check_run_name(name)
    db, weights = database(db), None if weights is None else read_weights(weights)
    with open_runs(db, [name], weights) as store, store.read():
        run = store.run(name)
        answers = best_answers(store, run.id)
        problems = {problem.name: problem.status for problem in store.problems(run.id)}
        summary = current_summary(store, run)
    return RunResult(run.name, db, run.status, run.reason, answers, problems, summary, weights)


def best_answers(store: Store, run_id: int) -> list[Answer]:
    """The best valid answer of every problem that has one, in the problems' order."""
    return [_answer(problem, candidate) for problem, candidate in best(store, run_id) if candidate is not None]


def only_answer(name: str, problems: int, best: list[Answer]) -> Answer:
    """The best answer of a run of one problem. Raises BadInput for several problems, or no valid answer."""
    if problems != 1:
        raise BadInput(f"{name} searched {problems} problems; .best has an answer of each")
    if not best:
        raise BadInput(f"{name} has no valid answer yet; .frame() shows why the others failed")
    return best[0]


def _answer(problem: ProblemRecord, candidate: Candidate) -> Answer:
    target, measured = value_of(problem.metrics, problem.target).number, as_dict(problem.metrics, candidate)
    solved = problem.target is not None and candidate.fitness >= problem.target
    return Answer(problem.name, candidate.text, **measured, target=target, candidate=candidate.id, solved=solved)


NOT_YET = "no search has come far enough yet"
ALONE = "only one arm: nothing to compare"


@dataclass(frozen=True, repr=False)
class ComparisonResult(StoredResult):
    """A comparison as it was when this was made; `evo.load_comparison(name)` reads it again.

    name, db: for `evo.resume`, `evo.load_comparison` and the command line
    against: the arm that the others are measured against
    verdicts: a line for every pair of arms, those with `against` first, as in "vpo - grpo = +0.12 [0.03, 0.21]"
        (difference in the solve rate, or in the mean best value if there are no targets, with its 95% interval; of a
        value to be lowered it ends in an arrow and better or worse) or "no difference shown"
    summary: all metrics with intervals and p-values, as `evo compare --json` prints them
    weights: by which the stored answers are judged here, if not by those of the search; "spread": under many weightings

    Example:
        result = evo.compare("maze:hard", arms={"grpo": "embedded:grpo", "vpo": "embedded:vpo"}, limit=20, seeds=3)
        print(result.verdict)
        result.frame().groupby("arm").solved.mean()
    """

    name: str
    db: str
    against: str | None
    verdicts: list[str]
    summary: Mapping[str, Any]
    weights: JudgedWeights = None

    @property
    def verdict(self) -> str:
        """The verdicts, one a line."""
        return "\n".join(self.verdicts) or (ALONE if self.against is None else NOT_YET)

    def frame(self, *, candidates: bool = False) -> DataFrame:
        """A row for every search: arm, seed, problem, policy, status (of its run), iterations (done), solved, solved_at
        (iterations it took; 0 for the seed answer), best (the value of its best answer). With weights "spread" also
        weightings_solved and worth (E_w[best]).

        candidates: a row for every candidate of all searches instead, as RunResult.frame() has them, with arm and seed

        Raises ImportError without pandas.
        """
        with self._open() as store:
            progress = Progress.open(store, self.name, self.against, spread=self.weights == SPREAD)
            rows = candidate_rows(store, progress.comparison.runs) if candidates else _search_rows(progress)
        return data_frame(rows, ("arm", "seed", "problem"))

    def arms(self) -> DataFrame:
        """A row for each arm: its policy and its numbers, by the keys of `summary["arms"]`; of one with an interval the
        mean, and its ends with `_low` and `_high`. Raises ImportError without pandas."""
        rows = []
        for name, figures in self.summary["arms"].items():
            row: dict[str, Any] = {"arm": name}
            for key, value in figures.items():
                if isinstance(value, Mapping) and "mean" in value:
                    row |= {key: value["mean"], f"{key}_low": value["low"], f"{key}_high": value["high"]}
                elif not isinstance(value, Mapping | list):
                    row[key] = value
            rows.append(row)
        return data_frame(rows, ("arm", "policy"))

    def curves(self) -> DataFrame:
        """The best value so far: a row for every arm, seed, problem and iteration (0 is the seed answer) at which it
        rose, and one at the last iteration. Raises ImportError without pandas."""
        with self._open() as store:
            progress, rows = Progress.open(store, self.name, self.against), list[dict[str, Any]]()
            for search in progress.searches():
                steps = [(rise.iteration, rise.value.number) for rise in search.rises]
                if steps and steps[-1][0] < search.iterations:
                    steps.append((search.iterations, steps[-1][1]))
                rows += [{**_named(progress, search), "iteration": at, "best": fitness} for at, fitness in steps]
        return data_frame(rows, ("arm", "seed", "problem", "iteration", "best"))

    def __str__(self) -> str:
        return f"{self.name}: {self.verdict}"


def load_comparison(
    name: str, *, db: str | None = None, against: str | None = None, weights: Mapping[str, float] | str | None = None
) -> ComparisonResult:
    """A stored comparison, finished or not.

    Args:
        name: the comparison's name.
        db: the database, "sqlite:///evo.db" by default, or EVO_DB.
        against: the arm that the others are measured against; the first by default.
        weights: as for `evo.load_run`; "spread" judges the stored answers under many weightings. By default as the
            comparison was planned.

    Raises:
        UnknownRun: with close names. DatabaseUnavailable: there is no such database. ValueError: an unknown arm, or an
            unknown objective.

    Example:
        evo.load_comparison("calm-otter", against="base").verdict
    """
    check_run_name(name)
    db, weights = database(db), None if weights is None else read_weights(weights)
    with open_runs(db, [name], weights) as store:
        progress = Progress.open(store, name, against, spread=weights == SPREAD)
        figures, judged = comparison_dict(progress), SPREAD if progress.spread else weights
    return ComparisonResult(name, db, progress.comparison.reference, figures["verdicts"], figures, judged)


def _search_rows(progress: Progress) -> list[dict[str, Any]]:
    return [
        {
            **_named(progress, search),
            "policy": progress.comparison.arms[search.arm].policy,
            "status": search.run.status,
            "iterations": search.iterations,
            "solved": search.solved_at is not None if search.problem.target is not None else None,
            "solved_at": search.solved_at,
            "best": None if search.best is None else search.best.value.number,
            **_preferred(progress, search),
        }
        for search in progress.searches()
    ]


def _preferred(progress: Progress, search: SearchRecord) -> dict[str, float]:
    """What a search is worth so far under many weightings, if that is asked for."""
    if not progress.spread:
        return {}
    arm = progress.comparison.arms[search.arm]
    of, at = progress.preferences[arm.name], (search.row, [run.id for run in arm.runs].index(search.run.id), -1)
    assert of.weightings is not None and of.worth is not None
    return {"weightings_solved": float(of.weightings[at]), "worth": float(of.worth[at])}


def _named(progress: Progress, search: SearchRecord) -> dict[str, Any]:
    arm = progress.comparison.arms[search.arm].name
    return {"arm": arm, "seed": search.run.seed, "problem": search.problem.name}


_NULLABLE = {"iteration": "Int64", "parent": "Int64", "solved_at": "Int64", "solved": "boolean"}
"""Columns that keep their type although a value, or every value, may be missing."""
_TIMES = ("created",)
"""Columns of seconds since 1970, which become datetimes in UTC."""


def data_frame(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] = ()) -> DataFrame:
    """rows as a DataFrame: numbers that are whole stay so where values are missing (Int64), and times are datetimes.
    columns: those of a table without rows. Raises ImportError naming the package to install."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError('frame() needs pandas: pip install pandas, or pip install "evo-search[pandas]"') from error
    rows = list(rows)
    names = dict.fromkeys(name for row in rows for name in row) or columns
    frame = pandas.DataFrame(rows, columns=list(names))
    for name in names:
        kinds = {type(row.get(name)) for row in rows}
        if name in _TIMES:
            frame[name] = pandas.to_datetime(frame[name], unit="s", utc=True)
        elif name in _NULLABLE or kinds == {int, type(None)}:
            frame[name] = frame[name].astype(_NULLABLE.get(name, "Int64"))
    return frame


def candidate_rows(store: Store, runs: Iterable[RunRecord]) -> list[dict[str, Any]]:
    """A row for every candidate of the runs: its reward vector and features in separate columns."""
    rows = []
    for run in runs:
        of_run = {"arm": run.arm, "seed": run.seed} if run.arm else {}
        metrics = {problem.name: problem.metrics for problem in store.problems(run.id)}
        for candidate in candidates_table(store, run.id):
            fitness = fitness_objective(metrics[candidate["problem"]])
            if fitness.lower:
                candidate["fitness"] = candidate["values"].get(fitness.name)
            apart = {key: candidate.pop(f"{key}s") for key in ("reward", "value", "feature")}
            columns = {f"{key}.{name}": value for key, named in apart.items() for name, value in named.items()}
            rows.append({**of_run, **candidate, **columns})
    return rows
