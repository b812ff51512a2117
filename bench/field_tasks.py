"""The tasks of bench.field: six problems that every system gets in the same words, scored in our sandbox.

A task is scored by `Problem.score`, which runs what a model wrote in the sandbox and nowhere else. Circle packing and
Erdős' overlap are of one size here, so that an evaluation costs every system the same.
"""

from __future__ import annotations

import dataclasses
import math

from evo.plugins.maths.family import TASKS
from evo.plugins.maths.problem import MathsProblem
from evo.plugins.maths.task import Best, MathsTask
from problems.contract import Problem, Score
from problems.registry import resolve, shared_sandbox
from problems.sandbox.contract import Limits, Program

MINIMUM = -1.5186
"""Of the function below, by a grid of 1e-3."""
_EIGHT = Best(1.38, "a round number near our own best: no value is published here, and none is needed to compare")


def surface(x: float, y: float) -> float:
    """OpenEvolve's example of function minimization (examples/function_minimization, Apache-2.0)."""
    return math.sin(x) * math.cos(y) + math.sin(x * y) + (x * x + y * y) / 20


class FunctionMinimization(Problem):
    """A program that looks for the lowest point of `surface` with values alone; fitness is 1 at the minimum."""

    name, objectives, answer_format, target = "function_minimization", ("closeness",), "python", None

    def statement(self) -> str:
        return (
            "Write `search(f, bounds)`: it returns (x, y), where f(x, y) is as small as it can find. f takes two "
            "numbers and has many local minima; bounds is (-5, 5) for both. At most 2,000 calls of f are allowed; "
            "numpy and random can be imported."
        )

    def seed_answer(self) -> str:
        return (
            "import random\n\n\ndef search(f, bounds):\n    low, high = bounds\n    best = (low, low)\n"
            "    for _ in range(10):\n        point = (random.uniform(low, high), random.uniform(low, high))\n"
            "        if f(*point) < f(*best):\n            best = point\n    return best\n"
        )

    def score(self, answer: str) -> Score:
        function = (
            "import math as _m\n_calls = [0]\ndef _f(x, y):\n    _calls[0] += 1\n    if _calls[0] > 2000:\n"
            "        raise RuntimeError('more than 2,000 calls of f')\n    x, y = float(x), float(y)\n"
            "    return _m.sin(x) * _m.cos(y) + _m.sin(x * y) + (x * x + y * y) / 20\n"
            "import random as _r\n_r.seed(1)\n"
        )
        program = Program(answer, ("[float(v) for v in search(_f, (-5.0, 5.0))]",), setup=function)
        (outcome,) = shared_sandbox().run(program, Limits(10.0, 20.0))
        if outcome.status != "ok":
            return Score.failure(1, outcome.status, outcome.message or outcome.status)
        point = outcome.value
        if not (isinstance(point, list) and len(point) == 2 and all(math.isfinite(v) and abs(v) <= 5 for v in point)):
            return Score.failure(1, "no point", f"search returned {point!r}, which is no point within the bounds")
        lowest = surface(*point)
        closeness = max(0.0, 1.0 - (lowest - MINIMUM))
        return Score((min(1.0, closeness),), closeness, {}, f"f({point[0]:.4f}, {point[1]:.4f}) = {lowest:.6f}")


def _alone(task: MathsTask, size: int, best: Best, name: str) -> MathsProblem:
    """The task of one size alone."""
    return MathsProblem(
        dataclasses.replace(task, name=name, headline=size, instances={size: best}, aliases=()), shared_sandbox
    )


def field_tasks() -> dict[str, Problem]:
    """By name, in the order in which they are run."""
    erdos = TASKS["erdos_min_overlap"]
    programs = {address: resolve(address)[0] for address in ("programs:medium/6", "programs:medium/3")}
    return {
        "function_minimization": FunctionMinimization(),
        "circles_8": _alone(TASKS["circle_packing_26"], 8, _EIGHT, "circles_8"),
        "circles_26": _alone(TASKS["circle_packing_26"], 26, TASKS["circle_packing_26"].instances[26], "circles_26"),
        "erdos_200": _alone(erdos, 200, erdos.instances[200], "erdos_200"),
        **{address.replace(":", "_").replace("/", "_"): problem for address, problem in programs.items()},
    }
