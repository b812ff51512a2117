"""One maze as a Problem: its English statement, its scoring, and its feedback."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from problems.contract import Problem, Score
from problems.fingerprint import fingerprint_of
from problems.maze.board import NAMES, PAPER, PLURALS, Maze, UnreadableRoute, Walk, fitness_of, parse_moves, simulate
from problems.maze.optimum import best_route, optimum_under
from problems.maze.planner import draw_route

TOLERANCE = 1e-9
"""The target is this far below the optimum, so that a sum in another order still reaches it."""
MOST_BUMPS_TOLD = 3
BONUS_ADVERT = "\n- The bonus tile B raises your other scores, so look for a way past it!"
"""Of the paper's boards: the bonus tile that the prompt promises and the reward ignores."""
_NUMERALS = {4: "Four", 7: "Seven"}


@dataclass(frozen=True)
class MazeProblem(Problem):
    """A maze to search (problems.contract.Problem).

    name: its address, as maze:test/17
    optimum: the largest deployment scalar of any walk (problems.maze.optimum)
    """

    name: str
    maze: Maze
    optimum: float
    answer_format: str = "route"
    inline: bool = True
    execution = "never"
    objectives: tuple[str, ...] = field(init=False)
    target: float | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "objectives", self.maze.rules.objectives)
        object.__setattr__(self, "target", self.optimum - TOLERANCE)

    def fingerprint(self) -> str:
        scored = () if self.maze.rules == PAPER else self.objectives
        return fingerprint_of(self.maze.tiles, self.maze.budget, self.maze.size, *scored)

    def picture(self, answer: str) -> str:
        """The board, three characters a tile, with the route of the answer: the way out of each floor tile, when it was
        left last, and brackets around other tiles on the route."""
        try:
            cells = simulate(self.maze, parse_moves(answer)).cells
        except UnreadableRoute:
            cells = (self.maze.start,)
        size, walked = self.maze.size, set(cells)
        arrows = {1: "→", -1: "←", size: "↓", -size: "↑"}
        left = {cell: arrows.get(to - cell, "·") for cell, to in zip(cells, cells[1:], strict=False) if to != cell}
        drawn = []
        for cell, tile in enumerate(self.maze.tiles):
            if tile == "#":
                drawn.append("███")
            elif cell not in walked:
                drawn.append(f" {tile} ")
            else:
                drawn.append(f" {left.get(cell, '·')} " if tile == "." else f"[{tile}]")
        return "\n".join("".join(drawn[row : row + size]) for row in range(0, size * size, size))

    def known_answers(self, seed: int) -> list[str]:
        """The best route, then three of a planner."""
        rng = random.Random(seed)
        return [best_route(self.maze), *(draw_route(self.maze, rng) for _ in range(3))]

    def target_under(self, weights: Sequence[float]) -> float:
        return optimum_under(self.maze, weights) - TOLERANCE

    def statement(self) -> str:
        maze, rules = self.maze, self.maze.rules
        board = "\n".join(" ".join(row) for row in maze.rows())
        kinds = [NAMES[tile] for tile in rules.treasures]
        plurals = [PLURALS[tile] for tile in rules.treasures]
        legend = ", ".join(f"{tile} {NAMES[tile]}" for tile in rules.treasures)
        counts = ", ".join(f"{len(cells)} {kind}" for kind, cells in zip(kinds, maze.treasures, strict=True))
        each = ", ".join(f"{kind} (share collected)" for kind in kinds)
        shares = each if len(kinds) < 3 else f"{_listed(kinds)} (share of each)"
        bonus, advert = (", B bonus", BONUS_ADVERT) if rules == PAPER else ("", "")
        thrift = (
            f",\nthrift (1 for the shortest way to E, {maze.shortest} steps, down to 0 for one of {maze.budget})"
            if rules.thrift
            else ""
        )
        return f"""\
Find a route through a {maze.size}x{maze.size} maze from S to E that collects {_listed(plurals)} and keeps off the lava.

{board}

S start, E exit, # wall, {legend}, L lava{bonus}, . open floor.

- A move is U (up), D (down), L (left) or R (right), one tile. A move into a wall or off the board leaves you where you
  are and still costs a step.
- You have {maze.budget} steps. The walk ends when it comes to E; what you have not collected by then is lost.
- You must reach E within the steps: otherwise everything scores zero.
- There are {counts} and {len(maze.lava)} lava tiles.
  Stepping on {_listed(plurals, "or")} collects them; each lava tile that you step on costs you.{advert}

{_NUMERALS[len(self.objectives)]} scores from 0 to 1 (higher is better): completion (E reached), {shares},
safety (share of the lava avoided){thrift}. A route is judged by their mean.
A route is a list of moves such as: R R D D L D"""

    def seed_answer(self) -> str:
        return ""

    def random_answer(self, rng: random.Random) -> str:
        return draw_route(self.maze, rng)

    def canonical(self, answer: str) -> str:
        try:
            return parse_moves(answer)
        except UnreadableRoute:
            return answer

    def score(self, answer: str) -> Score:
        """Features, each in [0, 1], whether E was reached or not: the shares of gold and of diamonds collected, and the
        share of the budget used; if there are more treasures the share of those instead, because a grid has three
        dimensions at most unless others are named."""
        try:
            moves = parse_moves(answer)
        except UnreadableRoute as fault:
            return Score.failure(len(self.objectives), str(fault))
        walk = simulate(self.maze, moves)
        shares = [count / max(1, len(c)) for count, c in zip(walk.collected, self.maze.treasures, strict=True)]
        features = {NAMES[tile]: share for tile, share in zip(self.maze.rules.treasures[:2], shares, strict=False)}
        if len(shares) > 2:
            features["others"] = sum(shares[2:]) / len(shares[2:])
        else:
            features["length"] = walk.steps / max(1, self.maze.budget)
        return Score(walk.rewards, fitness_of(walk.rewards), features, self._feedback(moves, walk))

    def _feedback(self, moves: str, walk: Walk) -> str:
        maze = self.maze
        bumps = [f"step {step} ({moves[step - 1]})" for step in walk.bumps[:MOST_BUMPS_TOLD]]
        more = len(walk.bumps) - len(bumps)
        parts = []
        if bumps:
            parts.append(f"hit a wall at {', '.join(bumps)}" + (f" and {more} more times" if more else ""))
        collected = [
            f"{count}/{len(cells)} {PLURALS[tile]}"
            for tile, count, cells in zip(maze.rules.treasures, walk.collected, maze.treasures, strict=True)
        ]
        parts.append(f"collected {_listed(collected)}, stepped on {walk.lava}/{len(maze.lava)} lava")
        if walk.reached:
            parts.append(f"reached E in {walk.steps} of {maze.budget} steps")
            if len(moves) > walk.steps:
                parts.append(f"the last {len(moves) - walk.steps} moves came after E and counted for nothing")
        else:
            row, column = divmod(walk.cells[-1], maze.size)
            away = maze.to_end[walk.cells[-1]]
            why = f"the {maze.budget} steps were used up" if len(moves) >= maze.budget else "the moves ended"
            where = f"at row {row + 1}, column {column + 1} of {maze.size} (counted from the top left)"
            parts.append(f"{why} {where}, {away} steps from E, so everything scores zero")
        text = "; ".join(parts)
        return f"{text[0].upper()}{text[1:]}."


def _listed(words: Sequence[str], last: str = "and") -> str:
    """The words with commas, the last two joined by `last`."""
    return f"{', '.join(words[:-1])} {last} {words[-1]}"
