"""The best answers of the page: each problem's statement, and each arm's best answer with its lineage, its difference
to its parent and its prompt. Texts are bounded, so that a page of many problems stays small."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evo.encoding import visible
from evo.progress.answer import StoredAnswer, describe_best_known, read_answers, statement_of
from evo.progress.arm_style import style_of
from evo.progress.model import Progress, SearchRecord
from evo.report.plots import Plot, PlotLine
from evo.report.tables import run_path
from islands.browse import CandidateFilter, browse
from problems.objectives import Value, measure_of, own_values, value_of

PAGE_CHARS = 2_400_000
"""Of all texts together; each text has an equal share."""
FEWEST_CHARS, MOST_CHARS = 160, 6_000
MOST_CARDS, MOST_POINTS = 12, 1_600
"""Problems whose best answer leads the page, and answers in all their trees."""
ANCESTORS = 12


@dataclass(frozen=True)
class BestAnswer:
    """An arm's fittest answer to a problem, over its seeds. picture: as the problem draws it; "" for none"""

    search: SearchRecord
    stored: StoredAnswer
    picture: str

    @property
    def seed(self) -> Value:
        """Of the fittest seed answer; not known without a valid one."""
        return self.search.rises[0].value if self.search.rises[0].iteration == 0 else Value(None)

    @property
    def solved(self) -> bool:
        return self.search.solved_at is not None


@dataclass(frozen=True)
class ProblemDetail:
    """row: its place in the comparison. target: not known without one. statement: "" if the problem cannot be looked
    up here; its prompt has it then. known: the best known value and the best one of these runs, "" if none is known.
    chart: the best value over iterations. answers: one for each arm with a valid answer. map: of the problems whose
    best answer leads the page, the numbers of their answers (map_answers)"""

    row: int
    name: str
    target: Value
    statement: str
    known: str
    chart: Plot
    answers: tuple[BestAnswer, ...]
    map: Mapping[str, Any]

    @property
    def best(self) -> BestAnswer | None:
        """The fittest of the arms' answers, the first of equals."""
        return max(self.answers, key=lambda answer: answer.search.rises[-1].fitness, default=None)


def problem_details(progress: Progress, most: int) -> tuple[ProblemDetail, ...]:
    """The details of the first `most` problems that count."""
    problems, arms = progress.comparison.problems[:most], progress.comparison.arms
    fittest = {at: search for at, search in progress.fittest().items() if at[0] < len(problems)}
    room = max(FEWEST_CHARS, min(MOST_CHARS, PAGE_CHARS // max(1, 4 * len(fittest) + len(problems))))
    of_problem = {search.rises[-1].candidate: problems[row] for (row, _), search in fittest.items()}
    stored = read_answers(progress.store, of_problem, lineage=ANCESTORS + 1, room=room)
    lines: dict[int, list[PlotLine]] = {}
    for search in progress.searches():
        if search.row is not None and search.row < len(problems) and search.rises:
            x = [float(rise.iteration) for rise in search.rises] + [float(max(search.iterations, 1))]
            y = [rise.value.number for rise in (*search.rises, search.rises[-1])]
            name = f"{arms[search.arm].name}, seed {search.run.seed}"
            lines.setdefault(search.row, []).append(PlotLine(search.arm, name, np.array(x), np.array(y), steps=True))
    details = list[ProblemDetail]()
    for row, problem in enumerate(problems):
        found = [fittest[row, place] for place in range(len(arms)) if (row, place) in fittest]
        best = [stored[search.rises[-1].candidate] for search in found]
        answers = [
            BestAnswer(search, one, statement_of(problem, one.candidate.text).picture)
            for search, one in zip(found, best, strict=True)
        ]
        stated = statement_of(problem)
        top = max((search.rises[-1].fitness for search in found), default=None)
        reached = "" if stated.best_known is None else describe_best_known(top, stated.best_known)
        target = value_of(problem.metrics, problem.target)
        chart = Plot(f"best {target.measure.title}", "iteration", lines.get(row, ()), rule=target.number)
        carded = sum(detail.best is not None for detail in details)
        drawn = map_answers(progress, row, MOST_POINTS // min(len(problems), MOST_CARDS)) if carded < MOST_CARDS else {}
        details.append(
            ProblemDetail(row, problem.name, target, bounded(stated.text, room), reached, chart, tuple(answers), drawn)
        )
    return tuple(details)


def map_answers(progress: Progress, row: int, most: int) -> dict[str, Any]:
    """The fittest valid answers to a problem as numbers, which the page's script draws over each other and as a tree:
    candidate, arm, parent, and its value on each axis."""
    comparison, problem = progress.comparison, progress.comparison.problems[row]
    arm_of = {run.id: place for place, arm in enumerate(comparison.arms) for run in arm.runs}
    picked = CandidateFilter(list(arm_of), problem.index, failed=False, by_fitness=True)
    answers = browse(progress.store, picked, 0, most + 1)
    metrics = problem.metrics
    shown = metrics if len(metrics) > 1 else ()
    height = measure_of(metrics)
    return {
        "axes": [visible(name) for name in ("iteration", height.name, *(one.name for one in shown))],
        "lower": [False, height.lower, *(one.lower for one in shown)],
        "arms": [
            (visible(arm.name), style_of(place).colour, run_path(arm.runs[0].comparison or arm.runs[0].name))
            for place, arm in enumerate(comparison.arms)
        ],
        "points": [
            (each.id, arm_of[each.run], each.parent, 0 if each.iteration is None else each.iteration + 1,
             value_of(metrics, each.fitness, each.values).number, *(own_values(metrics, each) if shown else ()))
            for each in answers[:most]
        ],
        "left_out": len(answers) > most,
    }  # fmt: skip


def bounded(text: str, room: int) -> str:
    """The text; of a longer one its beginning, and the number of characters that are left out."""
    return text if len(text) <= room else f"{text[:room]}\n… and {len(text) - room:,} more characters"
