"""Every problem by itself: what it asks for, what was asked, and the best answer of each arm. Texts are bounded, so
that a page of many problems stays small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evo.comparison.load import Comparison
from evo.monitor.best_known import describe_best_known
from evo.monitor.statement import problem_of
from evo.report.load import RunReading, SearchReading
from islands.db.reflections import reflections_on
from islands.db.store import Store
from islands.queries.candidates import CandidateReader
from islands.queries.report import prompts_of
from islands.types import Candidate, ProblemRecord
from problems.contract import Problem
from problems.maze.board import Maze, simulate
from problems.maze.moves import UnreadableRoute, parse_moves

PAGE_CHARS = 2_400_000
"""Of all the texts together; a text has an equal share of it."""
FEWEST_CHARS, MOST_CHARS = 240, 6_000
MOST_PROBLEMS = 500
CHUNK = 500


@dataclass(frozen=True)
class BestAnswer:
    """An arm's fittest answer to a problem, over its seeds.

    iteration: counts from 1, 0 for a seed answer
    reflection: what a policy said that it needs, as the parent of others; "" for nothing
    drawn: a maze with the route that the answer takes; "" elsewhere
    system, prompt: what was asked; "" for a seed answer
    """

    arm: str
    place: int
    seed: int
    iteration: int
    fitness: float
    rewards: tuple[tuple[str, float], ...]
    text: str
    feedback: str
    reflection: str
    drawn: str
    system: str
    prompt: str


@dataclass(frozen=True)
class ProblemDetail:
    """row: its place in the comparison. statement: "" where the problem cannot be looked up here; the prompt says it
    then. known: the best value known beside the best that was found, "" where there is none. answers: an arm each, none
    for an arm without a valid answer."""

    row: int
    name: str
    target: float | None
    statement: str
    known: str
    answers: tuple[BestAnswer, ...]


def problem_details(
    store: Store, comparison: Comparison, readings: Mapping[str, Sequence[RunReading]]
) -> tuple[ProblemDetail, ...]:
    """Of the first MOST_PROBLEMS problems."""
    problems = comparison.problems[:MOST_PROBLEMS]
    chosen: dict[tuple[int, int], tuple[int, SearchReading, int]] = {}
    for place, runs in enumerate(readings.values()):
        for row, problem in enumerate(problems):
            searches = [(run.run.seed, search) for run in runs if (search := _search(run, problem)) is not None]
            known = [(search.problem.best_fitness, seed, search) for seed, search in searches if search.problem.best]
            best = max(known, key=lambda one: (one[0] or 0.0, -one[1]), default=None)
            if best is not None:
                chosen[place, row] = best[1], best[2], int(best[2].problem.best or 0)
    ids = [id for _, _, id in chosen.values()]
    reader = CandidateReader(store, 0)
    texts: dict[int, Candidate] = {}
    prompts: dict[int, tuple[str, str]] = {}
    said: dict[int, str] = {}
    for start in range(0, len(ids), CHUNK):
        part = ids[start : start + CHUNK]
        texts.update(zip(part, reader.fetch(part), strict=True))
        prompts.update(prompts_of(store, part))
        said.update(reflections_on(store, part))
    room = max(FEWEST_CHARS, min(MOST_CHARS, PAGE_CHARS // max(1, 2 * len(chosen) + len(problems))))
    found = []
    for row, problem in enumerate(problems):
        stated = problem_of(problem)
        answers = []
        for place, arm in enumerate(readings):
            if (place, row) not in chosen:
                continue
            seed, search, id = chosen[place, row]
            at, here = search.ordinal(id), texts[id]
            system, prompt = prompts.get(id, ("", ""))
            answers.append(
                BestAnswer(
                    arm, place, seed, 0 if at is None else int(search.born[at]) + 1, here.fitness,
                    tuple(zip(search.problem.objectives, here.rewards, strict=True)), bounded(here.text, room),
                    bounded(here.feedback, room // 4), said.get(id, ""), _walk(stated, here.text),
                    bounded(system, room // 4), bounded(prompt, room),
                )
            )  # fmt: skip
        top = max([answer.fitness for answer in answers], default=None)
        best_known = None if stated is None else stated.best_known
        reached = "" if best_known is None else describe_best_known(top, best_known)
        statement = "" if stated is None else bounded(stated.statement(), room)
        found.append(ProblemDetail(row, problem.name, problem.target, statement, reached, tuple(answers)))
    return tuple(found)


def bounded(text: str, room: int) -> str:
    """The text, or its beginning and how much of it is left out."""
    return text if len(text) <= room else f"{text[:room]}\n… and {len(text) - room:,} more characters"


def _search(run: RunReading, problem: ProblemRecord) -> SearchReading | None:
    return next((search for search in run.searches if search.problem.index == problem.index), None)


def _walk(problem: Problem | None, answer: str) -> str:
    """A maze's board with the cells of the answer's route in brackets."""
    board = getattr(problem, "maze", None)
    if not isinstance(board, Maze):
        return ""
    try:
        cells = set(simulate(board, parse_moves(answer)).cells)
    except UnreadableRoute:
        return ""
    rows = [
        "".join(f"[{tile}]" if at * board.size + x in cells else f" {tile} " for x, tile in enumerate(row))
        for at, row in enumerate(board.rows())
    ]
    return "\n".join(rows)
