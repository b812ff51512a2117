"""The lessons of the base policy: planner routes on fresh boards, written in a compact language.

Every lesson is a prompt and a chain of 1 to 5 answers, with or without a parent. The routes ignore gold, diamonds and
lava, so the base learns to walk and to vary, and training by reward teaches the rest.
"""

from __future__ import annotations

import random
from collections.abc import Container

from problems.maze import generator, large
from problems.maze.board import Maze
from problems.maze.planner import Planner, moves_between
from vpo.embedded.language import Edit, encode_chain, encode_edit, encode_prompt
from vpo.embedded.lesson import Lesson, PooledTeacher
from vpo.embedded.words import DIALECT, EDIT_DIALECT, MOST_NEW, STOP

CHAIN_LENGTHS = (1, 2, 3, 4, 5)
CHAIN_WEIGHTS = (0.30, 0.08, 0.40, 0.07, 0.15)
WITH_PARENT = 0.4
FAILED_PARENT = 0.1
"""Share of the parents that are cut short, so that `fail` is a word the model knows."""
KEEP_PREFIX, REPLACE_MIDDLE = 0.4, 0.4
"""Shares of the ways to derive an answer from its parent; the rest ignore it."""
EDITS_WITH_PARENT = 0.75
"""Share of the prompts with a parent, in lessons of the edit language."""
NEW_BEGINNING, NEW_END = 0.15, 0.35
"""Shares of the edits; the rest are new middles, half of them of at most SHORT cells of the parent."""
SHORT = 6
DIRECT = 0.25
"""Share of the new middles that take the shortest way, as a shortcut does, rather than pass a way-point."""
TRIES = 30
"""Edits tried until one fits the budget."""
NOISE = 0.02
"""Chance, per step, of a needless step aside and back."""
POOL = 4096
"""Boards in use at a time."""
FRESH = 0.25
"""New boards per lesson: a board serves four lessons."""


class Lessons(PooledTeacher[Planner]):
    """An endless stream of lessons, the same for the same seed.

    held_out: tiles of the boards that must not occur
    dialect: the language; in the edit language most answers to a prompt with a parent are edits of it
    large_share: of the boards that are large, for which only the edit language covers
    """

    def __init__(
        self, seed: int, held_out: Container[str] = frozenset(), dialect: str = DIALECT, large_share: float = 0.0
    ) -> None:
        super().__init__(f"maze lessons {seed}", POOL, FRESH)
        self._dialect = dialect
        self._with_parent = EDITS_WITH_PARENT if dialect == EDIT_DIALECT else WITH_PARENT
        self._held_out = held_out
        self._large_share = large_share

    def _draw(self) -> Planner:
        maze = self._drawn()
        while maze.tiles in self._held_out:
            maze = self._drawn()
        return Planner(maze)

    def _drawn(self) -> Maze:
        if self._large_share and self._rng.random() < self._large_share:
            return large.generate(self._rng)
        return generator.generate(self._rng)

    def _lesson(self, planner: Planner) -> Lesson:
        rng, maze = self._rng, planner.maze
        answers = rng.choices(CHAIN_LENGTHS, CHAIN_WEIGHTS)[0]
        if rng.random() >= self._with_parent:
            routes = [self._noisy(planner, planner.route(rng)) for _ in range(answers)]
            prompt = encode_prompt(maze, answers=answers, dialect=self._dialect).split()
            return Lesson(prompt, encode_chain(routes, maze.size))
        parent = self._noisy(planner, planner.route(rng))
        if rng.random() < FAILED_PARENT:
            parent = parent[: rng.randrange(2, len(parent))]
        if self._dialect == EDIT_DIALECT:
            parent = parent[: maze.budget + 1]  # the shown part of a parent that noise made too long
        prompt = encode_prompt(maze, moves_between(maze, parent), answers=answers, dialect=self._dialect).split()
        if self._dialect == EDIT_DIALECT:
            chain = [word for _ in range(answers) for word in self._edited(planner, parent)]
            return Lesson(prompt, [*chain, STOP])
        routes = [self._noisy(planner, mutate(planner, parent, rng)) for _ in range(answers)]
        return Lesson(prompt, encode_chain(routes, maze.size))

    def _edited(self, planner: Planner, parent: list[int]) -> list[str]:
        """The words of one answer to a prompt with a parent."""
        edited = edit(planner, parent, self._rng, MOST_NEW)
        if edited is None:
            return encode_chain([self._noisy(planner, planner.route(self._rng))], planner.maze.size)[:-1]
        return encode_edit(parent, edited, planner.maze.size)

    def _noisy(self, planner: Planner, path: list[int]) -> list[int]:
        rng, maze = self._rng, planner.maze
        noisy = path[:1]
        for cell in path[1:]:
            if rng.random() < NOISE:
                asides = [other for other in maze.neighbours[noisy[-1]] if other != maze.end]
                noisy += [rng.choice(asides), noisy[-1]] if asides else []
            noisy.append(cell)
        return noisy


def mutate(planner: Planner, parent: list[int], rng: random.Random) -> list[int]:
    """The cells of a route derived from `parent`: its beginning with a new end, or a new middle between its
    beginning and its end, or (one in five) a route without it."""
    maze: Maze = planner.maze
    kind = rng.random()
    walked = parent[:-1] if parent[-1] == maze.end else parent
    if kind < KEEP_PREFIX:
        kept = walked[: rng.randrange(len(walked)) + 1]
        points = rng.sample(planner.cells, rng.choice((0, 1, 1)))
        path = planner.through(kept[-1], points, maze.budget - len(kept) + 1, rng)
        if path is not None:
            return kept[:-1] + path
    elif kind < KEEP_PREFIX + REPLACE_MIDDLE and len(walked) > 2 and len(walked) < len(parent):
        i, j = sorted(rng.sample(range(len(walked)), 2))
        point = rng.choice(planner.cells)
        middle = planner.leg(walked[i], (point, walked[j]), rng)
        path = walked[:i] + middle + parent[j + 1 :]
        if len(path) - 1 <= maze.budget:
            return path
    return planner.route(rng)


def edit(planner: Planner, parent: list[int], rng: random.Random, most_new: int | None = None) -> Edit | None:
    """A random edit of `parent`, by way of at most one random cell: a new beginning, a new end, or a new middle.

    most_new: new steps that the edit of a parent that reaches E may have; None = any number
    None if TRIES of them were over the budget or that bound. A parent that does not reach E within the budget gets
    a new end.
    """
    maze = planner.maze
    whole = parent[-1] == maze.end
    walked = parent[:-1] if whole else parent
    places = range(len(walked))
    ends = [i for i in range(1, len(walked)) if walked[i] not in walked[:i]]
    for _ in range(TRIES):
        kind = rng.random()
        start, end = 0, None
        if not whole or kind < NEW_END:
            start = rng.choice(places)
            points = rng.sample(planner.cells, rng.choice((0, 1, 1)))
        elif kind < NEW_END + NEW_BEGINNING or len(walked) < 3:
            end = rng.choice(ends) if ends else None
            points = [rng.choice(planner.cells)]
        else:
            start = rng.choice(places)
            most = start + SHORT if rng.random() < 0.5 else len(walked)
            later = [i for i in ends if start < i <= most]
            end = rng.choice(later) if later else None
            points = [] if rng.random() < DIRECT else [rng.choice(planner.cells)]
        target = maze.end if end is None else walked[end]
        candidate = Edit(start, planner.leg(walked[start], (*points, target), rng), end)
        if whole and most_new is not None and len(candidate.middle) - 1 > most_new:
            continue
        route = candidate.applied(parent)
        if len(route) - 1 <= maze.budget and route != parent:
            return candidate
    return None
