"""The sets of `rules:`: how the problem of an index is made."""

from __future__ import annotations

from evo.plugins.rules.binpacking import BinPacking
from evo.plugins.rules.jobshop import JobShops, makespan_families, mixed_families
from evo.plugins.rules.simulated import SimulatedProblem
from evo.plugins.rules.taillard import Taillard

_SMALL = [(10, 8), (12, 8), (10, 10), (15, 8), (15, 10)]
_LARGE = [(15, 15), (20, 15), (20, 20), (30, 15), (30, 20)]
_ITEMS = [*(("uniform", n) for n in (120, 250, 500, 1000)), *(("weibull", n) for n in (1000, 5000, 10000))]
_FEW_ITEMS = [*(("uniform", n) for n in (60, 120, 250, 500)), *(("weibull", n) for n in (250, 500, 1000))]


def make_problem(name: str, index: int) -> SimulatedProblem:
    """The problem rules:NAME/INDEX. Different sets and indices have different seeds."""
    address = f"rules:{name}/{index}"
    match name:
        case "jobshop":
            return JobShops(address, (1, index), mixed_families(_LARGE[:2]), 4, 8)
        case "jobshop-train" if index % 2:
            return JobShops(address, (2, index), makespan_families(_SMALL), 4, 8)
        case "jobshop-train":
            return JobShops(address, (2, index), mixed_families(_SMALL[index // 2 % 5 :][:1]), 4, 8)
        case "jobshop-test":
            return JobShops(address, (3, index), mixed_families(_LARGE[1:]), 5, 5)
        case "makespan":
            return JobShops(address, (4, index), makespan_families(_LARGE), 6, 12)
        case "binpacking":
            return BinPacking(address, (5, index), _ITEMS, 5, 10)
        case "binpacking-train":
            return BinPacking(address, (6, index), _FEW_ITEMS, 4, 8)
        case "binpacking-test":
            return BinPacking(address, (7, index), _ITEMS, 20, 20)
        case _:
            return Taillard("rules:taillard")
