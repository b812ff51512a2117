"""The maze sets: maze:train and maze:test of the paper (seeds 42 and 4242), the others are ours.

The package stores the seed and the optimum of each maze (instances.json.gz); the boards are drawn again from the seeds.

maze:hard has the mazes that a planner without learning (problems.maze.planner) does not solve in 600 routes: as many as
a search of 200 iterations at 3 answers each. No policy was used in the choice.

maze:compromise and maze:compromise-train are mazes whose optimum is above .75, so no route that collects in only one
zone earns it: the best takes items of both and leaves some. About 4 boards in 100 are like that.

maze:large and maze:large-train are the 13x13 boards of problems.maze.generator, as they are drawn.
"""

from __future__ import annotations

import gzip
import json
import random
from functools import cache
from pathlib import Path

from problems.maze.board import PAPER, ZONES, Rules
from problems.maze.generator import attempt_large, attempt_maze
from problems.maze.problem import MazeProblem
from problems.registry import ProblemFamily, ProblemSet, Sandboxes, chosen, unknown_set

_PAPER = "generator of the VPO paper's mazes"
SETS = {
    "test": (100, "9x9 mazes with conflicting goals, held out (the VPO paper's generator, its seed 4242)", _PAPER),
    "hard": (1000, "9x9 mazes whose optimum a planner without learning misses in 600 tries", _PAPER),
    "compromise": (2000, "9x9 mazes whose optimum takes items of both zones and leaves some", "own"),
    "large": (100, "13x13 mazes, four zones of which a walk can have two or three, seven objectives", "own"),
    "train": (1000, "9x9 mazes to learn from (seed 42)", _PAPER),
    "compromise-train": (1000, "mazes of the kind of maze:compromise, to learn from", "own"),
    "large-train": (1000, "mazes of the kind of maze:large, to learn from", "own"),
}
"""The size, a description and a source of each set."""
_INSTANCES = Path(__file__).parent / "instances.json.gz"


def problem_set(address: str, limit: int | None = None) -> list[MazeProblem]:
    """The problems of `maze:test` (or another of SETS), the first `limit` of them, or the one of `maze:test/17`.

    BadAddress for a set or an index that does not exist.
    """
    name, slash, index = address.removeprefix("maze:").partition("/")
    if not address.startswith("maze:") or name not in SETS:
        raise unknown_set(address, [f"maze:{known}" for known in SETS])
    return [_problem(name, place) for place in chosen(f"maze:{name}", index if slash else None, SETS[name][0], limit)]


class MazeFamily(ProblemFamily):
    """`maze:SET` and `maze:SET/INDEX`."""

    name = "maze"
    example = "maze:test/0"

    def resolve(self, rest: str, limit: int | None, sandbox: Sandboxes) -> list[MazeProblem]:
        return problem_set(f"{self.name}:{rest}", limit)

    def sets(self) -> list[ProblemSet]:
        return [
            ProblemSet(f"maze:{name}", about, size, _rules_of(name).objectives, source, "Apache-2.0")
            for name, (size, about, source) in SETS.items()
        ]


MAZES = MazeFamily()


def held_out_tiles() -> frozenset[str]:
    """The boards of all sets, none of which the embedded base may learn from."""
    return frozenset(_problem(name, i).maze.tiles for name, (size, *_) in SETS.items() for i in range(size))


def _rules_of(name: str) -> Rules:
    """The scoring rules of a set."""
    return ZONES if name.startswith("large") else PAPER


@cache
def stored_instances() -> dict[str, list[list[float]]]:
    """Each set's (seed, optimum) of every maze, as _INSTANCES holds them."""
    drawn: dict[str, list[list[float]]] = json.loads(gzip.decompress(_INSTANCES.read_bytes()))
    return drawn


@cache
def _problem(name: str, index: int) -> MazeProblem:
    seed, best = stored_instances()[name][index]
    draw = attempt_large if _rules_of(name) is ZONES else attempt_maze
    maze = draw(random.Random(int(seed)))
    if maze is None:
        raise RuntimeError(f"{_INSTANCES.name} does not fit the generator")
    return MazeProblem(f"maze:{name}/{index}", maze, best)
