"""Every problem: its statement, and each arm's best answer with its prompt. Texts are bounded, so that a page of many
problems stays small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evo.comparison.load import Comparison
from evo.monitor.answer import (
    NO_ORIGIN,
    Statement,
    StoredAnswer,
    WalkView,
    describe_best_known,
    read_answers,
    statement_of,
    walk_of,
)
from evo.report.difference import Piece, difference, unit_of
from evo.report.load import RunReading, SearchReading
from islands.store import Store
from islands.types import ProblemRecord

PAGE_CHARS = 2_400_000
"""Of all texts together; each text has an equal share."""
FEWEST_CHARS, MOST_CHARS = 160, 6_000
ANCESTORS = 8
MOST_PROBLEMS = 500


@dataclass(frozen=True)
class BestAnswer:
    """An arm's fittest answer to a problem, over its seeds.

    candidate: its id; iteration: from 1, 0 for a seed answer
    rewards: (objective, reward, the seed answer's reward); seed_fitness: of the fittest valid seed answer; None without
        one
    language: "python" for a program, else ""
    drawn: a maze with the route of the answer; "" for other problems
    lineage: (iteration, fitness) of its parent, its parent's parent and so on, at most ANCESTORS of them
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
    drawn: str
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
    known: the best known value and the best one of these runs, "" if none is known. answers: one for each arm with a
    valid answer."""

    row: int
    name: str
    target: float | None
    statement: str
    known: str
    answers: tuple[BestAnswer, ...]

    @property
    def best(self) -> BestAnswer | None:
        """The fittest of the arms' answers, the first of equals."""
        return max(self.answers, key=lambda answer: answer.fitness, default=None)


def problem_details(
    store: Store, comparison: Comparison, readings: Mapping[str, Sequence[RunReading]]
) -> tuple[ProblemDetail, ...]:
    """The details of the first MOST_PROBLEMS problems."""
    problems = comparison.problems[:MOST_PROBLEMS]
    chosen: dict[tuple[int, int], tuple[int, SearchReading, int]] = {}
    for place, runs in enumerate(readings.values()):
        for row, problem in enumerate(problems):
            searches = [(run.run.seed, search) for run in runs if (search := _search(run, problem)) is not None]
            known = [(search.problem.best_fitness, seed, search) for seed, search in searches if search.problem.best]
            best = max(known, key=lambda ranked: (ranked[0] or 0.0, -ranked[1]), default=None)
            if best is not None:
                chosen[place, row] = best[1], best[2], int(best[2].problem.best or 0)
    stored = read_answers(store, [id for _, _, id in chosen.values()])
    room = max(FEWEST_CHARS, min(MOST_CHARS, PAGE_CHARS // max(1, 4 * len(chosen) + len(problems))))
    details = []
    for row, problem in enumerate(problems):
        stated, answers = statement_of(problem), []
        for place, arm in enumerate(readings):
            if (place, row) not in chosen:
                continue
            seed, search, id = chosen[place, row]
            answers.append(_answer(arm, place, seed, search, stored[id], room, stated))
        top = max((answer.fitness for answer in answers), default=None)
        reached = "" if stated.best_known is None else describe_best_known(top, stated.best_known)
        statement = bounded(stated.text, room)
        details.append(ProblemDetail(row, problem.name, problem.target, statement, reached, tuple(answers)))
    return tuple(details)


def _answer(
    arm: str, place: int, seed: int, search: SearchReading, stored: StoredAnswer, room: int, stated: Statement
) -> BestAnswer:
    """Texts of at most `room` characters each."""
    here, origin = stored.candidate, stored.origin or NO_ORIGIN
    parent = "" if stored.parent is None else stored.parent.text
    above = search.line(here.id)[-2 : -2 - ANCESTORS : -1]
    at, answer_format = search.ordinal(here.id), search.problem.answer_format
    unit = unit_of(answer_format, parent, here.text)
    seeds = np.flatnonzero(search.valid & (search.born < 0)).tolist()
    first = max(seeds, key=lambda place: float(search.fitness[place]), default=None)
    before = [None] * len(here.rewards) if first is None else search.rewards[first].tolist()
    return BestAnswer(
        arm,
        place,
        seed,
        here.id,
        0 if at is None else int(search.born[at]) + 1,
        here.fitness,
        None if first is None else float(search.fitness[first]),
        tuple(zip(search.problem.objectives, here.rewards, before, strict=True)),
        bounded(here.text, room),
        "python" if answer_format == "python" else "",
        bounded(here.feedback, room // 4),
        "" if stated.board is None else _draw_walk(walk_of(stated.board, here.text)),
        tuple((int(search.born[ancestor]) + 1, float(search.fitness[ancestor])) for ancestor in above),
        tuple(difference(parent, here.text, unit, room)) if parent.strip() else (),
        unit,
        bounded(origin.system, room // 4),
        bounded(origin.user, room),
        "" if origin.chain.strip() == here.text.strip() else bounded(origin.chain, room),
        origin.place + 1,
    )


def bounded(text: str, room: int) -> str:
    """The text; of a longer one its beginning, and the number of characters that are left out."""
    return text if len(text) <= room else f"{text[:room]}\n… and {len(text) - room:,} more characters"


def _search(run: RunReading, problem: ProblemRecord) -> SearchReading | None:
    return next((search for search in run.searches if search.problem.index == problem.index), None)


def _draw_walk(walk: WalkView) -> str:
    """A maze's board with the cells of the answer's route in brackets."""
    cells, size = set(walk.cells), len(walk.rows)
    return "\n".join(
        "".join(f"[{tile}]" if at * size + x in cells else f" {tile} " for x, tile in enumerate(row))
        for at, row in enumerate(walk.rows)
    )
