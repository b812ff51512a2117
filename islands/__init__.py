"""The island population: what a search has found, kept in SQLite or PostgreSQL, chosen from in constant time.

`Store` holds runs, `Population` the candidates of one problem of a run. Names load on first use, because SQLAlchemy
takes longer to import than `evo --help` may take to answer.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from islands.db.store import Store
    from islands.errors import DatabaseUnavailable, RunBusy, RunExists, UnknownRun
    from islands.population.config import PopulationConfig
    from islands.population.population import Population
    from islands.types import Candidate, Placement, ProblemRecord, RunRecord, Selection

_HOMES = {
    "Candidate": "types",
    "DatabaseUnavailable": "errors",
    "Placement": "types",
    "Population": "population.population",
    "PopulationConfig": "population.config",
    "ProblemRecord": "types",
    "RunBusy": "errors",
    "RunExists": "errors",
    "RunRecord": "types",
    "Selection": "types",
    "Store": "db.store",
    "UnknownRun": "errors",
}

__all__ = [
    "Candidate",
    "DatabaseUnavailable",
    "Placement",
    "Population",
    "PopulationConfig",
    "ProblemRecord",
    "RunBusy",
    "RunExists",
    "RunRecord",
    "Selection",
    "Store",
    "UnknownRun",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'islands' has no attribute {name!r}")
    return getattr(import_module(f"islands.{_HOMES[name]}"), name)
