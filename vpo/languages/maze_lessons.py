"""The lessons of the base policy: planner routes on fresh boards, written in a compact language; and the teacher as an
operator.

Every lesson is a prompt and a chain of 1 to 5 answers, with or without a parent. The routes ignore gold, diamonds and
lava, so the base learns to walk and to vary, and training by reward teaches the rest.

`scripted:classic` answers with the teacher's random edits of a parent, on boards of any size, from an English prompt:
a mutation operator without learning, which a trained one must beat.
"""

from __future__ import annotations

import random
import re
from collections.abc import Container
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from problems.maze.board import TILES, Maze, simulate
from problems.maze.generator import LARGE_SIZE, attempt_large, generate_maze
from problems.maze.planner import Planner, moves_between
from problems.maze.sets import held_out_tiles
from problems.types import Prompt
from vpo.languages.contract import STOP
from vpo.languages.maze_words import DIALECT, EDIT_DIALECT, MOST_NEW, Edit, encode_chain, encode_edit, encode_prompt
from vpo.policies.contract import PolicyUnavailable

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
_TRIES = 30
"""Edits tried until one fits the budget."""
NOISE = 0.02
"""Chance, per step, of a needless step aside and back."""
LARGE_SHARE = 0.4
"""Share of the boards that are large, in lessons of the edit language, which alone has words for them."""
POOL = 4096
"""Boards in use at a time."""
FRESH = 0.25
"""New boards per lesson: a board serves four lessons."""


@dataclass(frozen=True)
class Lesson:
    """The words of a prompt and of the chain that answers it."""

    prompt: list[str]
    chain: list[str]


class Lessons:
    """An endless stream of lessons, the same for the same seed, on boards from a pool in which new ones replace the
    oldest.

    held_out: tiles of the boards that must not occur; None: those of all sets
    dialect: the language; in the edit language most answers to a prompt with a parent are edits of it
    large_share: the share of the boards that are large, in the edit language
    """

    def __init__(
        self,
        seed: int,
        held_out: Container[str] | None = None,
        dialect: str = DIALECT,
        large_share: float = LARGE_SHARE,
    ) -> None:
        self._rng = random.Random(f"maze lessons {seed}")
        self._dialect = dialect
        self._large_share = large_share if dialect == EDIT_DIALECT else 0.0
        self._with_parent = EDITS_WITH_PARENT if dialect == EDIT_DIALECT else WITH_PARENT
        self._held_out = held_out_tiles() if held_out is None else held_out
        self._pool: list[Planner] = []
        self._next = 0

    def batch(self, size: int) -> list[Lesson]:
        for _ in range(max(1, round(size * FRESH)) if self._pool else size):
            self._renew()
        return [self._lesson(self._rng.choice(self._pool)) for _ in range(size)]

    def shuffle(self, things: list[Any]) -> None:
        """Shuffle `things` with this stream's randomness."""
        self._rng.shuffle(things)

    def _renew(self) -> None:
        maze = self._drawn()
        while maze.tiles in self._held_out:
            maze = self._drawn()
        if len(self._pool) < POOL:
            self._pool.append(Planner(maze))
        else:
            self._pool[self._next] = Planner(maze)
            self._next = (self._next + 1) % POOL

    def _drawn(self) -> Maze:
        if self._large_share and self._rng.random() < self._large_share:
            return generate_maze(self._rng, LARGE_SIZE, attempt_large)
        return generate_maze(self._rng)

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
        routes = [self._noisy(planner, mutate_route(planner, parent, rng)) for _ in range(answers)]
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


def mutate_route(planner: Planner, parent: list[int], rng: random.Random) -> list[int]:
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
    None if _TRIES of them were over the budget or that bound. A parent that does not reach E within the budget gets
    a new end.
    """
    maze = planner.maze
    whole = parent[-1] == maze.end
    walked = parent[:-1] if whole else parent
    places = range(len(walked))
    ends = [i for i in range(1, len(walked)) if walked[i] not in walked[:i]]
    for _ in range(_TRIES):
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


_ROW = re.compile(rf"(?m)^[{re.escape(TILES)}](?: [{re.escape(TILES)}])+$")
_BUDGET = re.compile(r"You have (\d+) steps")


def classic(prompt: Prompt, form: str, answers: int, bits: int) -> list[str]:
    """The generator of scripted:classic (vpo.policies.scripted): `answers` move lists, edits of the parent if the
    prompt shows one, else a planner's routes. Raises PolicyUnavailable for a prompt without a maze."""
    rng = random.Random(bits)
    rows, budget = _ROW.findall(prompt.user), _BUDGET.search(prompt.user)
    if not rows or budget is None:
        raise PolicyUnavailable("scripted:classic answers only mazes; name another --policy")
    planner = _planner(tuple(rows[: len(rows[0].split())]), int(budget[1]))
    parent = _walked(planner.maze, prompt.shown[0]) if prompt.shown and prompt.shown[0] else []
    return [moves_between(planner.maze, _route(planner, parent, rng)) for _ in range(answers)]


def _route(planner: Planner, parent: list[int], rng: random.Random) -> list[int]:
    edited = edit(planner, parent, rng) if len(parent) > 1 else None
    return planner.route(rng) if edited is None else edited.applied(parent)


def _walked(maze: Maze, moves: str) -> list[int]:
    """The cells of a walk without its bumps into walls."""
    cells = simulate(maze, moves).cells
    return [cell for i, cell in enumerate(cells) if not i or cell != cells[i - 1]]


@lru_cache(maxsize=256)
def _planner(rows: tuple[str, ...], budget: int) -> Planner:
    return Planner(Maze.from_rows(rows, budget))
