"""Job shops: which of the operations that a machine can do next it does.

The instances are drawn in the style of Taillard (1993): each job visits every machine once, in its order, and
an operation takes from 1 to 99 units of time, uniformly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evo.plugins.formulas.evaluation import Reals
from evo.plugins.rules.compiled import Integers, run_shops
from evo.plugins.rules.simulated import Domain, Family

FEATURES = {
    "p": "time that the operation takes on the machine",
    "rest": "work of the job that remains after the operation",
    "ops": "operations of the job that remain after it",
    "next": "time that the job's next operation takes, 0 if there is none",
    "queue": "work of the operations that are the next ones of their jobs and need the next operation's machine",
    "wait": "time for which the job has been ready for the operation",
    "left": "time until the job's due date, negative if it is late; a job without a due date has twice its work",
    "load": "work that remains on the machine, of all jobs that have arrived",
    "idle": "time for which the machine would wait for the job, 0 if the operation can begin at once",
}
MAKESPAN, FLOW, TARDINESS = range(3)
"""Columns of `run_shops`."""
Size = tuple[int, int]
"""Jobs and machines."""


@dataclass(frozen=True)
class Shops:
    """n instances of one size. times, machines: (n, jobs, operations); release, due: (n, jobs); measure: a column of
    `run_shops`; bound: (n,) its divisor; base: subtracted after the division"""

    times: Reals
    machines: Integers
    release: Reals
    due: Reals
    measure: int
    bound: Reals
    base: float = 1.0

    def costs(self, codes: Integers, numbers: Reals) -> Reals:
        results = run_shops(codes, numbers, self.times, self.machines, self.release, self.due)
        costs: Reals = 100 * (results[:, self.measure] / self.bound - self.base)
        return costs


@dataclass(frozen=True)
class ShopFamily(Family):
    """How job shops are drawn.

    measure: MAKESPAN, FLOW or TARDINESS
    busy: the share of time for which machines work, if jobs keep arriving; 0 if all are there at time 0
    tightness: from and to which multiple of its work a job's due date comes after its arrival
    slow: one machine in this many takes 1.6 times as long; 0 for none
    halves: whether each job visits the first half of the machines before the second
    """

    measure: int
    sizes: Sequence[Size]
    busy: float = 0.0
    tightness: tuple[float, float] = (2.0, 2.0)
    slow: int = 0
    halves: bool = False

    def draw(self, rng: np.random.Generator, count: int) -> list[Shops]:
        return [self._draw(rng, (count, *size)) for size in self.sizes]

    def _draw(self, rng: np.random.Generator, shape: tuple[int, int, int]) -> Shops:
        operations = shape[2]
        times = rng.integers(1, 100, shape).astype(float)
        drawn = rng.permuted(np.broadcast_to(np.arange(operations), shape), axis=2)
        machines = drawn.astype(np.int64, order="C")  # another order in memory is compiled once more
        if self.halves:
            order = np.argsort(machines >= operations // 2, axis=2, kind="stable")
            machines = np.take_along_axis(machines, order, axis=2)
        if self.slow:
            times = np.where(machines < max(1, operations // self.slow), np.ceil(1.6 * times), times)
        work = times.sum(2)
        release = np.zeros(shape[:2])
        if self.busy:
            gaps = rng.exponential(1.0, shape[:2]) * work.mean(1, keepdims=True) / operations / self.busy
            release = np.floor(np.cumsum(gaps, axis=1))
        due = release + np.floor(rng.uniform(*self.tightness, shape[:2]) * work)
        bound = lower_bounds(times, machines) if self.measure == MAKESPAN else work.mean(1)
        return Shops(times, machines, release, due, self.measure, bound, float(self.measure != TARDINESS))


def lower_bounds(times: Reals, machines: Integers) -> Reals:
    """(n,) the longest job or the busiest machine of each instance."""
    loads = [np.where(machines == one, times, 0.0).sum((1, 2)) for one in range(machines.shape[2])]
    bounds: Reals = np.maximum(np.max(loads, axis=0), times.sum(2).max(1))
    return bounds


_BOUND = "makespan above the lower bound (the longest job, the busiest machine)"
_SLOW = f"{_BOUND}, a few machines are slow"


def makespan_families(sizes: Sequence[Size]) -> list[ShopFamily]:
    """One a size, and one of the second size with bottlenecks."""
    above = f"{_BOUND}, {{}} jobs, {{}} machines"
    plain = [ShopFamily("{}x{}".format(*one), "makespan", above.format(*one), MAKESPAN, [one]) for one in sizes]
    return [*plain, ShopFamily("bottleneck", "bottleneck", _SLOW, MAKESPAN, sizes[1:2], slow=6)]


def mixed_families(sizes: Sequence[Size]) -> list[ShopFamily]:
    """Six, and no textbook rule is best in all. sizes: of those in which makespan counts; flow, loose and tight have
    twice as many jobs, and halves three times as many"""
    twice, thrice = ([(times * jobs, machines) for jobs, machines in sizes] for times in (2, 3))
    flow = "mean time in the shop above the mean work of a job, jobs keep arriving"
    late = "mean tardiness as a share of the mean work of a job, due dates are"
    halves = f"{_BOUND}, each job visits one half of the machines before the other"
    return [
        ShopFamily("makespan", "makespan", _BOUND, MAKESPAN, sizes),
        ShopFamily("halves", "other", halves, MAKESPAN, thrice, halves=True),
        ShopFamily("bottleneck", "bottleneck", _SLOW, MAKESPAN, sizes, slow=6),
        ShopFamily("flow", "flow", flow, FLOW, twice, 1.2),
        ShopFamily("loose", "loose", f"{late} loose", TARDINESS, twice, 0.9, (1, 4)),
        ShopFamily("tight", "tight", f"{late} tight", TARDINESS, twice, 1.2, (1, 2)),
    ]


_SLACK = "max(0, left - p - rest)"
_PUBLISHED = {
    "SPT": "p",
    "LPT": "-p",
    "MWKR": "-(p + rest)",
    "LWKR": "p + rest",
    "MOPNR": "-ops",
    "FIFO": "-wait",
    "EDD": "left",
    "MDD": "max(left, p + rest)",
    "slack": "left - p - rest",
    "S/OPN": "(left - p - rest) / (ops + 1)",
    "CR": "left / (p + rest)",
    "WINQ": "queue",
    "PT+WINQ": "p + queue",
    "PT+WINQ+slack": f"p + queue + {_SLACK}",
    "2PT+WINQ+NPT": "2*p + queue + next",
    "COVERT": f"-max(0, 1 - {_SLACK} / (2*(p + rest))) / p",
    "ATC": f"-exp(-{_SLACK} / 100) / p",
    "p/(rest+1)": "p / (rest + 1)",
}


_WITHOUT_DELAY = {name: f"{text} + 1000000*idle" for name, text in _PUBLISHED.items()}
JOB_SHOPS = Domain(
    "Find a rule for job shops. Each job visits machines in an order of its own. Whenever a machine can begin one of "
    "several operations, or soon can, the rule chooses which.",
    FEATURES,
    "p",
    _WITHOUT_DELAY | {f"{name}, delay": _PUBLISHED[name] for name in ("SPT", "COVERT", "p/(rest+1)")},
    "own generator, after Taillard (1993)",
)
"""Textbook rules as published: no machine waits while it could begin; three also without that. Holthaus and Rajendran
(1997) compare most of them. COVERT and ATC have scales of twice the work and of 100."""
