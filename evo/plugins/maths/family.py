"""The family `maths:`: its problems by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.resources import files
from typing import Any

import yaml

from evo.plugins.maths import circles, kissing, points, steps
from evo.plugins.maths.problem import LICENCE, MathsProblem
from evo.plugins.maths.task import Best, MathsTask, Measured
from problems.family import ProblemFamily, ProblemSet, Sandboxes, unknown_set

_MEASURES: dict[str, Callable[[Any, int], Measured]] = {
    "circle_packing_26": circles.measure_square,
    "circle_packing_32": circles.measure_square,
    "circle_packing_rect": circles.measure_rectangle,
    "heilbronn_triangle": points.measure_triangle,
    "heilbronn_convex": points.measure_convex,
    "distance_ratio_2d": partial(points.measure_ratio, dimensions=2),
    "distance_ratio_3d": partial(points.measure_ratio, dimensions=3),
    "kissing_number": kissing.measure_vectors,
    "erdos_min_overlap": steps.measure_overlap,
    "autocorrelation_1": steps.measure_maximum,
    "autocorrelation_2": steps.measure_norms,
    "autocorrelation_3": steps.measure_absolute,
}


def _read_tasks() -> dict[str, MathsTask]:
    rows = yaml.safe_load((files(__package__) / "tasks.yaml").read_text(encoding="utf-8"))
    tasks = {}
    for name, row in rows.items():
        best = {size: Best(*known) for size, known in row.pop("best").items()}
        fields = {**row, "text": row["text"].strip(), "aliases": tuple(row["aliases"])}
        tasks[name] = MathsTask(name, instances=best, measure=_MEASURES[name], **fields)
    return tasks


TASKS = _read_tasks()


class MathsFamily(ProblemFamily):
    """`maths:NAME` and `maths:all`."""

    name = "maths"
    has_best_known = True

    def resolve(self, rest: str, limit: int | None, sandbox: Sandboxes) -> list[MathsProblem]:
        if rest == "all":
            return [MathsProblem(task, sandbox) for task in TASKS.values()]
        if rest not in TASKS:
            raise unknown_set(f"maths:{rest}", [f"maths:{name}" for name in ("all", *TASKS)])
        return [MathsProblem(TASKS[rest], sandbox)]

    def sets(self) -> list[ProblemSet]:
        described = [
            ProblemSet(
                "maths:all",
                "constructions of extremal mathematics, all of those below",
                len(TASKS),
                ("size_1", "..."),
                "see each",
                LICENCE,
            )
        ]
        for task in TASKS.values():
            objectives = [f"{task.symbol}{size}" for size in task.sizes()]
            described.append(ProblemSet(f"maths:{task.name}", task.title, 1, objectives, task.source, LICENCE))
        return described


FAMILY = MathsFamily()
