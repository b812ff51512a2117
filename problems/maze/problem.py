"""One maze as a Problem: its English statement, its scoring, and what it tells the next prompt."""

from __future__ import annotations

from dataclasses import dataclass, field

from problems.contract import Problem, Score
from problems.fingerprint import fingerprint_of
from problems.maze.board import OBJECTIVES, Maze, Walk, fitness_of, simulate
from problems.maze.moves import UnreadableRoute, parse_moves

TOLERANCE = 1e-9
"""The target lies this far under the optimum, so that a sum in another order still reaches it."""
MOST_BUMPS_TOLD = 3


@dataclass(frozen=True)
class MazeProblem(Problem):
    """A maze to search (problems.contract.Problem).

    name: its address, as maze:test/17
    optimum: the largest deployment scalar of any walk (problems.maze.optimum)
    """

    name: str
    maze: Maze
    optimum: float
    objectives: tuple[str, ...] = OBJECTIVES
    answer_format: str = "route"
    inline: bool = True
    target: float | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", self.optimum - TOLERANCE)

    def fingerprint(self) -> str:
        return fingerprint_of(self.maze.tiles, self.maze.budget, self.maze.size)

    def statement(self) -> str:
        maze = self.maze
        board = "\n".join(" ".join(row) for row in maze.rows())
        return f"""\
Find a route through a {maze.size}x{maze.size} maze from S to E that collects gold and diamonds and keeps off the lava.

{board}

S start, E exit, # wall, G gold, D diamond, L lava, B bonus, . open floor.

- A move is U (up), D (down), L (left) or R (right), one tile. A move into a wall or off the board leaves you where you
  are and still costs a step.
- You have {maze.budget} steps. The walk ends when it comes to E; what you have not collected by then is lost.
- You must reach E within the steps: otherwise everything scores zero.
- There are {len(maze.gold)} gold, {len(maze.diamond)} diamond and {len(maze.lava)} lava tiles.
  Stepping on gold or diamonds collects them; each lava tile that you step on costs you.
- The bonus tile B raises your other scores, so look for a way past it!

Four scores from 0 to 1 (higher is better): completion (E reached), gold (share collected), diamond (share collected),
safety (share of the lava avoided). A route is judged by their mean.
A route is a list of moves such as: R R D D L D"""

    def seed_answer(self) -> str:
        return ""

    def canonical(self, answer: str) -> str:
        try:
            return parse_moves(answer)
        except UnreadableRoute:
            return answer

    def score(self, answer: str) -> Score:
        """Features, each in [0, 1], whether E was reached or not: the shares of gold and of diamonds collected, and the
        share of the budget used."""
        try:
            moves = parse_moves(answer)
        except UnreadableRoute as fault:
            return Score.failure(len(OBJECTIVES), str(fault))
        walk = simulate(self.maze, moves)
        features = {
            "gold": walk.gold / max(1, len(self.maze.gold)),
            "diamond": walk.diamond / max(1, len(self.maze.diamond)),
            "length": walk.steps / max(1, self.maze.budget),
        }
        return Score(walk.rewards, fitness_of(walk.rewards), features, self._feedback(moves, walk))

    def _feedback(self, moves: str, walk: Walk) -> str:
        maze = self.maze
        told = [f"step {step} ({moves[step - 1]})" for step in walk.bumps[:MOST_BUMPS_TOLD]]
        more = len(walk.bumps) - len(told)
        parts = []
        if told:
            parts.append(f"hit a wall at {', '.join(told)}" + (f" and {more} more times" if more else ""))
        parts.append(
            f"collected {walk.gold}/{len(maze.gold)} gold and {walk.diamond}/{len(maze.diamond)} diamonds, "
            f"stepped on {walk.lava}/{len(maze.lava)} lava"
        )
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
