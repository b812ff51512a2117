"""The maze sets: maze:train and maze:test of the paper (seeds 42 and 4242), the others are ours.

The package stores each maze's seed with its optimum (instances.json.gz), so that a set loads in a fraction of a second;
the boards are drawn again from the seeds. `python -m problems.maze.sets` makes the file again, byte for byte.

maze:hard has the mazes that a planner without learning (problems.maze.planner) does not solve in HARD_TRIES routes,
drawn with a separate generator per maze: as many as a search of 200 iterations at 3 answers each. No policy was used
in the choice.

maze:compromise and maze:compromise-train are mazes whose optimum is above ONE_ZONE, so no route that collects in
only one zone earns it: the best takes items of both and leaves some. About 4 boards in 100 are like that.

maze:large and maze:large-train are the 13x13 boards of problems.maze.generator, as they are drawn.
"""

from __future__ import annotations

import gzip
import json
import random
from functools import cache
from pathlib import Path

from problems.maze.board import PAPER, ZONES, Maze, Rules
from problems.maze.generator import attempt_large, attempt_maze
from problems.maze.optimum import optimum
from problems.maze.planner import tries_to_reach
from problems.maze.problem import TOLERANCE, MazeProblem
from problems.registry import ProblemFamily, ProblemSet, Sandboxes, chosen, unknown_set

FIRST_SEED = {
    "train": 42,
    "test": 4242,
    "hard": 1_000_000,
    "compromise": 2_000_000,
    "compromise-train": 3_000_000,
    "large": 4_000_000,
    "large-train": 5_000_000,
}
SIZES = {
    "train": 1000,
    "test": 100,
    "hard": 1000,
    "compromise": 2000,
    "compromise-train": 1000,
    "large": 100,
    "large-train": 1000,
}
HARD_TRIES = 600
ONE_ZONE = 0.75
"""The most that a route earns that collects in one zone: E, the zone emptied, no lava, none of the other zone."""
_PAPER = "generator of the VPO paper's mazes"
_DESCRIPTIONS = {
    "test": ("9x9 mazes with conflicting goals, held out (the VPO paper's generator, its seed 4242)", _PAPER),
    "hard": (f"9x9 mazes whose optimum a planner without learning misses in {HARD_TRIES} tries", _PAPER),
    "compromise": ("9x9 mazes whose optimum takes items of both zones and leaves some", "own"),
    "large": ("13x13 mazes, four zones of which a walk can have two or three, seven objectives", "own"),
    "train": ("9x9 mazes to learn from (seed 42)", _PAPER),
    "compromise-train": ("mazes of the kind of maze:compromise, to learn from", "own"),
    "large-train": ("mazes of the kind of maze:large, to learn from", "own"),
}
"""A description and a source for each set."""
INSTANCES = Path(__file__).parent / "instances.json.gz"


def problem_set(address: str, limit: int | None = None) -> list[MazeProblem]:
    """The problems of `maze:test` (or another of SIZES), the first `limit` of them, or the one of `maze:test/17`.

    BadAddress for a set or an index that does not exist.
    """
    name, slash, index = address.removeprefix("maze:").partition("/")
    if not address.startswith("maze:") or name not in SIZES:
        raise unknown_set(address, [f"maze:{known}" for known in SIZES])
    return [_problem(name, place) for place in chosen(f"maze:{name}", index if slash else None, SIZES[name], limit)]


class MazeFamily(ProblemFamily):
    """`maze:SET` and `maze:SET/INDEX`."""

    name = "maze"
    example = "maze:test/0"

    def resolve(self, rest: str, limit: int | None, sandbox: Sandboxes) -> list[MazeProblem]:
        return problem_set(f"{self.name}:{rest}", limit)

    def sets(self) -> list[ProblemSet]:
        return [
            ProblemSet(f"maze:{name}", description, SIZES[name], rules_of(name).objectives, source, "Apache-2.0")
            for name, (description, source) in _DESCRIPTIONS.items()
        ]


MAZES = MazeFamily()


def rules_of(name: str) -> Rules:
    """The scoring rules of a set."""
    return ZONES if name.startswith("large") else PAPER


def held_out_tiles() -> frozenset[str]:
    """The boards of all sets, none of which the embedded base may learn from."""
    return frozenset(_problem(name, i).maze.tiles for name, size in SIZES.items() for i in range(size))


def draw_set(name: str, size: int | None = None) -> list[tuple[int, Maze, float]]:
    """The first `size` mazes of a set from nothing: (seed, maze, optimum), the seeds rising from FIRST_SEED."""
    drawn: list[tuple[int, Maze, float]] = []
    seed = FIRST_SEED[name]
    while len(drawn) < (SIZES[name] if size is None else size):
        maze = _attempt(name, seed)
        if maze is not None:
            best = optimum(maze)
            if belongs(name, maze, best, seed):
                drawn.append((seed, maze, best))
        seed += 1
    return drawn


def _attempt(name: str, seed: int) -> Maze | None:
    """The board that the set's generator draws from `seed`."""
    draw = attempt_large if rules_of(name) is ZONES else attempt_maze
    return draw(random.Random(seed))


def belongs(name: str, maze: Maze, best: float, seed: int) -> bool:
    """Whether a board of the generator is one of this set's kind: of `hard`, whether HARD_TRIES planner routes, drawn
    from the maze's seed, all miss the optimum."""
    if name == "hard":
        return tries_to_reach(maze, best - TOLERANCE, HARD_TRIES, random.Random(f"planner {seed}")) is None
    return best > ONE_ZONE + TOLERANCE if name.startswith("compromise") else True


@cache
def stored_instances() -> dict[str, list[list[float]]]:
    """Each set's (seed, optimum) of every maze, as INSTANCES holds them."""
    drawn: dict[str, list[list[float]]] = json.loads(gzip.decompress(INSTANCES.read_bytes()))
    return drawn


@cache
def _problem(name: str, index: int) -> MazeProblem:
    seed, best = stored_instances()[name][index]
    maze = _attempt(name, int(seed))
    if maze is None:
        raise RuntimeError(f"{INSTANCES.name} does not fit the generator: run python -m problems.maze.sets")
    return MazeProblem(f"maze:{name}/{index}", maze, best)


def write_instances() -> None:
    """Draw all sets and write INSTANCES, which takes some minutes."""
    lines = [
        f' "{name}": [\n  ' + ",\n  ".join(json.dumps([seed, best]) for seed, _, best in draw_set(name)) + "\n ]"
        for name in SIZES
    ]
    INSTANCES.write_bytes(gzip.compress(("{\n" + ",\n".join(lines) + "\n}\n").encode(), mtime=0))


if __name__ == "__main__":
    write_instances()
