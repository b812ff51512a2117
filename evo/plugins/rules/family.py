"""The family `rules:`: priority rules for simulators.

rules:jobshop/0-9  rules:makespan/0-9  rules:binpacking/0-9    to search on; as many instances twice are held out
rules:jobshop-train/0-199  rules:binpacking-train/0-199        smaller ones with other seeds, to learn from
rules:jobshop-test/0-4  rules:binpacking-test/0-4              larger ones or more with other seeds, to report
rules:taillard                                                 ta01 to ta80
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from problems.address import parse_place
from problems.registry import ProblemFamily, ProblemSet, Sandboxes, chosen, unknown_set

if TYPE_CHECKING:
    from evo.plugins.rules.simulated import SimulatedProblem

_OWN, _UNIFORM = "own generator, after Taillard (1993)", "own generator, after Beasley's OR-Library"
_MIXED = ("makespan", "halves", "bottleneck", "flow", "loose", "tight")
_SIZES = ("15x15", "20x15", "20x20", "30x15", "30x20")
_TAILLARD = (*_SIZES, "50x15", "50x20", "100x20")
_BINS = (*(f"uniform_{n}" for n in (120, 250, 500, 1000)), *(f"weibull_{n}" for n in (1000, 5000, 10000)))
_FEW = (*(f"uniform_{n}" for n in (60, 120, 250, 500)), *(f"weibull_{n}" for n in (250, 500, 1000)))
_SETS: dict[str, tuple[int, str, tuple[str, ...], str, str]] = {
    "jobshop": (10, "rules for job shops in which makespan, flow or tardiness counts", _MIXED, _OWN, "Apache-2.0"),
    "jobshop-train": (200, "the same and makespan alone by turns, small, to learn from", _MIXED, _OWN, "Apache-2.0"),
    "jobshop-test": (5, "rules for larger job shops", _MIXED, _OWN, "Apache-2.0"),
    "makespan": (10, "rules for job shops from 15x15 to 30x20", (*_SIZES, "bottleneck"), _OWN, "Apache-2.0"),
    "taillard": (1, "rules for ta01 to ta80, against the best known", _TAILLARD, "Taillard (1993)", "facts"),
    "binpacking": (10, "rules for online bin packing, 120 to 10,000 items", _BINS, _UNIFORM, "Apache-2.0"),
    "binpacking-train": (200, "rules for online bin packing, 60 to 1,000 items", _FEW, _UNIFORM, "Apache-2.0"),
    "binpacking-test": (5, "rules for online bin packing, more instances", _BINS, _UNIFORM, "Apache-2.0"),
}
"""By name: how many problems it has, their description, the objectives of the first, their source and its licence."""


class RuleFamily(ProblemFamily):
    """`rules:SET` and `rules:SET/INDEX`."""

    name = "rules"
    example = "rules:jobshop-train/0"

    def resolve(self, rest: str, limit: int | None, sandbox: Sandboxes) -> list[SimulatedProblem]:
        address = parse_place(self.name, rest, {})
        if address.path not in _SETS:
            raise unknown_set(f"rules:{address.path}", [f"rules:{name}" for name in _SETS])
        places = chosen(f"rules:{address.path}", address.index or None, _SETS[address.path][0], limit)
        from evo.plugins.rules.sets import make_problem  # numba takes a while, and may be missing

        return [make_problem(address.path, place) for place in places]

    def sets(self) -> list[ProblemSet]:
        return [
            ProblemSet(f"rules:{name}", text, count, objectives, source, licence)
            for name, (count, text, objectives, source, licence) in _SETS.items()
        ]


FAMILY = RuleFamily()
