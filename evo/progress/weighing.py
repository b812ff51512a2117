"""Opening stored runs for a command that reads them, under the weights that the user names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from evo.progress.answer import problem_of
from islands.comparisons import runs_named
from islands.reweigh import reweigh
from islands.store import Store

JudgedWeights = Mapping[str, float] | str | None
"""By objective; None, or problems.weights.SPREAD, for the runs as they were searched."""


@contextmanager
def open_runs(db: str, names: Sequence[str], weights: JudgedWeights = None) -> Iterator[Store]:
    """The database, to be read; with weights only these runs and comparisons, judged under them. Raises UnknownRun,
    and BadAddress for weights that do not fit the objectives."""
    with Store.open(db, read_only=True) as store:
        if weights is None or isinstance(weights, str):
            yield store
            return
        runs = {run.id: run for name in names for run in runs_named(store, name)}
        with reweigh(store, list(runs.values()), weights, problem_of) as copy:
            yield copy
