"""The problems by name."""

from __future__ import annotations

from problems.plugins.maths import (
    autocorrelation,
    circles,
    distances,
    erdos_min_overlap,
    heilbronn,
    hexagons,
    kissing,
    rectangle,
    sums_differences,
    uncertainty,
)
from problems.plugins.maths.task import Task

TASKS: dict[str, Task] = {
    task.name: task
    for family in (
        *(circles, rectangle, hexagons, heilbronn, distances, kissing),
        *(erdos_min_overlap, autocorrelation, sums_differences, uncertainty),
    )
    for task in family.TASKS
}
