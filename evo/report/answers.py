"""The best answers of the page: each problem's statement, and each arm's best answer with its lineage, its difference
to its parent and its prompt. Texts are bounded, so that a page of many problems stays small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evo.progress.answer import (
    NO_ORIGIN,
    Piece,
    StoredAnswer,
    describe_best_known,
    diff_answers,
    read_answers,
    statement_of,
    unit_of,
)
from evo.progress.model import Progress, SearchRecord
from evo.report.svg import Plot, PlotLine, draw
from islands.browse import ancestors
from islands.types import ProblemRecord

PAGE_CHARS = 2_400_000
"""Of all texts together; each text has an equal share."""
FEWEST_CHARS, MOST_CHARS = 160, 6_000
ANCESTORS = 12


@dataclass(frozen=True)
class BestAnswer:
    """An arm's fittest answer to a problem, over its seeds.

    place: of the arm; candidate: its id; iteration: from 1, 0 for a seed answer
    seed_fitness: of the fittest seed answer; None without a valid one
    rewards: (objective, reward, change from its parent's, None without a parent)
    language: "python" for a program, else ""
    picture: of the answer, as the problem draws it; "" for none
    lineage: (candidate, fitness) of its parent, its parent's parent and so on, at most ANCESTORS of them
    difference: from its parent, in `unit`s; empty without a parent
    system, prompt: the prompt that led to it; "" for a seed answer
    chain: the whole rollout, in which it is answer `position`, from 1; "" if the rollout holds nothing else
    """

    arm: str
    place: int
    seed: int
    candidate: int
    iteration: int
    fitness: float
    seed_fitness: float | None
    rewards: tuple[tuple[str, float, float | None], ...]
    text: str
    language: str
    feedback: str
    picture: str
    lineage: tuple[tuple[int, float], ...]
    difference: tuple[Piece, ...]
    unit: str
    system: str
    prompt: str
    chain: str
    position: int


@dataclass(frozen=True)
class ProblemDetail:
    """row: its place in the comparison. statement: "" if the problem cannot be looked up here; its prompt has it then.
    known: the best known value and the best one of these runs, "" if none is known. chart: best fitness over
    iterations. answers: one for each arm with a valid answer."""

    row: int
    name: str
    target: float | None
    statement: str
    known: str
    chart: Plot
    answers: tuple[BestAnswer, ...]

    @property
    def best(self) -> BestAnswer | None:
        """The fittest of the arms' answers, the first of equals."""
        return max(self.answers, key=lambda answer: answer.fitness, default=None)


def best_searches(progress: Progress) -> dict[tuple[int, int], SearchRecord]:
    """(the problem's place, the arm's) -> the search with the fittest answer, the first seed of equals."""
    fittest: dict[tuple[int, int], SearchRecord] = {}
    for search in progress.searches():
        if search.best is not None and search.row is not None:
            held = fittest.setdefault((search.row, search.arm), search).best
            if held is not None and search.best.fitness > held.fitness:
                fittest[search.row, search.arm] = search
    return fittest


def problem_details(progress: Progress, most: int) -> tuple[ProblemDetail, ...]:
    """The details of the first `most` problems that count."""
    problems, arms = progress.comparison.problems[:most], progress.comparison.arms
    fittest = {at: search for at, search in best_searches(progress).items() if at[0] < len(problems)}
    stored = read_answers(progress.store, [search.best.candidate for search in fittest.values() if search.best])
    room = max(FEWEST_CHARS, min(MOST_CHARS, PAGE_CHARS // max(1, 4 * len(fittest) + len(problems))))
    lines: dict[int, list[PlotLine]] = {}
    for search in progress.searches():
        if search.row is not None and search.row < len(problems) and search.rises:
            x = [float(rise.iteration) for rise in search.rises] + [float(max(search.iterations, 1))]
            y = [rise.fitness for rise in search.rises] + [search.rises[-1].fitness]
            name = f"{arms[search.arm].name}, seed {search.run.seed}"
            lines.setdefault(search.row, []).append(PlotLine(search.arm, name, np.array(x), np.array(y), steps=True))
    details = []
    for row, problem in enumerate(problems):
        answers = [
            _answer(progress, place, found, stored[found.best.candidate], problem, room)
            for place in range(len(arms))
            if (found := fittest.get((row, place))) is not None and found.best is not None
        ]
        stated = statement_of(problem)
        top = max((answer.fitness for answer in answers), default=None)
        reached = "" if stated.best_known is None else describe_best_known(top, stated.best_known)
        chart = draw("best fitness", "iteration", lines.get(row, ()), rule=problem.target)
        details.append(
            ProblemDetail(row, problem.name, problem.target, bounded(stated.text, room), reached, chart, tuple(answers))
        )
    return tuple(details)


def _answer(
    progress: Progress, place: int, search: SearchRecord, stored: StoredAnswer, problem: ProblemRecord, room: int
) -> BestAnswer:
    """Texts of at most `room` characters each."""
    here, parent, origin = stored.candidate, stored.parent, stored.origin or NO_ORIGIN
    before = "" if parent is None else parent.text
    unit = unit_of(problem.answer_format, before, here.text)
    assert search.best is not None
    return BestAnswer(
        progress.comparison.arms[place].name,
        place,
        search.run.seed,
        here.id,
        search.best.iteration,
        here.fitness,
        search.rises[0].fitness if search.rises[0].iteration == 0 else None,
        changes(problem.objectives, here.rewards, None if parent is None else parent.rewards),
        bounded(here.text, room),
        "python" if problem.answer_format == "python" else "",
        bounded(here.feedback, room // 4),
        statement_of(problem, here.text).picture,
        tuple((one.candidate, one.fitness) for one in ancestors(progress.store, here.id, ANCESTORS + 1)[1:]),
        tuple(diff_answers(before, here.text, unit, room)) if before.strip() else (),
        unit,
        bounded(origin.system, room // 4),
        bounded(origin.user, room),
        "" if origin.chain.strip() == here.text.strip() else bounded(origin.chain, room),
        origin.place + 1,
    )


def changes(
    objectives: Sequence[str], rewards: Sequence[float], before: Sequence[float] | None
) -> tuple[tuple[str, float, float | None], ...]:
    """(objective, reward, change from the parent's)."""
    moved = [None] * len(rewards) if before is None else [a - b for a, b in zip(rewards, before, strict=False)]
    return tuple(zip(objectives, rewards, moved, strict=False))


def bounded(text: str, room: int) -> str:
    """The text; of a longer one its beginning, and the number of characters that are left out."""
    return text if len(text) <= room else f"{text[:room]}\n… and {len(text) - room:,} more characters"
