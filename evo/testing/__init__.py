"""Contract suites: subclass one in a test module, give it what makes yours, and pytest runs all of its tests.

    from evo.testing import ProblemContract

    class TestMine(ProblemContract):
        def problem(self): ...

Names load on first use: a suite for an archive needs no model, and pytest is needed by tests alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evo.testing.archive import ArchiveContract
    from evo.testing.policy import PolicyContract, TrainablePolicyContract
    from evo.testing.population import PopulationContract
    from evo.testing.problem import ProblemContract
    from evo.testing.store import StoreContract

_HOMES = {
    "ArchiveContract": "archive",
    "PolicyContract": "policy",
    "PopulationContract": "population",
    "ProblemContract": "problem",
    "StoreContract": "store",
    "TrainablePolicyContract": "policy",
}

__all__ = [
    "ArchiveContract",
    "PolicyContract",
    "PopulationContract",
    "ProblemContract",
    "StoreContract",
    "TrainablePolicyContract",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'evo.testing' has no attribute {name!r}")
    return getattr(import_module(f"evo.testing.{_HOMES[name]}"), name)
