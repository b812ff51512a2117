"""The family `maths:`: its problems by name."""

from __future__ import annotations

from evo.plugins.maths import (
    autocorrelation,
    circles,
    distances,
    erdos_min_overlap,
    heilbronn,
    kissing,
    rectangle,
)
from evo.plugins.maths.problem import MathsProblem
from evo.plugins.maths.task import MathsTask
from problems.address import did_you_mean
from problems.contract import BadAddress
from problems.family import ProblemFamily, ProblemSet, Sandboxes
from problems.retired import refuse_retired

TASKS: dict[str, MathsTask] = {
    task.name: task
    for family in (
        *(circles, rectangle, heilbronn, distances, kissing),
        *(erdos_min_overlap, autocorrelation),
    )
    for task in family.TASKS
}


class MathsFamily(ProblemFamily):
    """`maths:NAME` and `maths:all`."""

    name = "maths"
    has_best_known = True

    def resolve(self, rest: str, limit: int | None, sandbox: Sandboxes) -> list[MathsProblem]:
        if rest == "all":
            return [MathsProblem(task, sandbox) for task in TASKS.values()]
        refuse_retired(f"maths:{rest}")
        if rest not in TASKS:
            known = [f"maths:{name}" for name in ("all", *TASKS)]
            hint = did_you_mean(f"maths:{rest}", known)
            raise BadAddress(f"there is no problem maths:{rest}{hint}; there are {', '.join(known)}")
        return [MathsProblem(TASKS[rest], sandbox)]

    def sets(self) -> list[ProblemSet]:
        described = [
            ProblemSet(
                "maths:all",
                "constructions of extremal mathematics, all of those below",
                len(TASKS),
                ("size_1", "..."),
                "see each",
                "Apache-2.0",
            )
        ]
        for task in TASKS.values():
            objectives = [f"{task.symbol}{size}" for size in task.sizes()]
            described.append(ProblemSet(f"maths:{task.name}", task.title, 1, objectives, task.source, task.licence))
        return described


FAMILY = MathsFamily()
