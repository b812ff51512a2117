"""Removes and renames runs and comparisons (with all their runs), never while one of them is being written. The runs
that `evo verify` made go with the run that they verify."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack

from sqlalchemy import delete, text, update

from islands.comparisons import check_free, rivals_of, run_name
from islands.schema import METADATA, Run, of_runs
from islands.store import Store
from islands.types import RunRecord

_LOOKED_UP = {"candidates": "group_id", "migrations": "candidate_id", "prompt_groups": "policy_version_id"}
"""Columns that a database searches for every deleted row, only to check foreign keys: they have an index while
single runs are deleted."""


def delete_runs(store: Store, runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Remove the runs and all their rows, in one transaction. Raises RunBusy, and removes none, if one of them is
    being written.

    A comparison is planned as a whole. If others of its runs stay, a run of it is emptied and waits, so that a resume
    of the comparison searches it again; these runs are returned."""
    chosen, comparisons = {run.id for run in runs}, {run.comparison for run in runs} - {None}
    staying = {name for name in comparisons if {one.id for one in store.runs(comparison=name)} - chosen}
    emptied = [run for run in runs if run.comparison in staying]
    waiting = [run.id for run in emptied]
    with ExitStack() as held:
        leases = [held.enter_context(store.lease(run.id)) for run in runs]
        with store.begin() as tx:
            ids = [run.id for run in runs]
            for name, column in _LOOKED_UP.items():
                tx.connection.execute(text(f"CREATE INDEX housekeeping_{name} ON {name} ({column})"))
            for table in reversed(METADATA.sorted_tables):  # what refers to a row goes before it
                if table is not Run:
                    tx.connection.execute(delete(table).where(of_runs(table, ids)))
            empty = dict(status="waiting", reason="", summary={}, updated=time.time())
            tx.connection.execute(update(Run).where(Run.c.id.in_(waiting)).values(**empty))
            tx.connection.execute(delete(Run).where(Run.c.id.in_(ids), Run.c.id.not_in(waiting)))
            for name in _LOOKED_UP:
                tx.connection.execute(text(f"DROP INDEX housekeeping_{name}"))
        for lease in leases:
            if lease.run_id not in waiting:
                store.forget(lease)  # the rows that named their owners are gone
    return emptied


def rename_runs(store: Store, runs: Sequence[RunRecord], name: str) -> None:
    """Give a run, or a comparison with all its runs, another name. Raises BadName, RunExists, RunBusy; nothing is
    changed then."""
    check_free(store, name)
    names = {run.name: run_name(name, run.arm or "", run.seed) if run.comparison else name for run in runs}
    rivals = rivals_of(store, runs)
    for rival in rivals:
        names[rival.name] = check_free(
            store, names[rival.verifies or ""] + rival.name.removeprefix(str(rival.verifies))
        )
    with ExitStack() as held:
        for run in (*runs, *rivals):
            held.enter_context(store.lease(run.id))
        with store.begin() as tx:
            for run in (*runs, *rivals):
                values: dict[str, object] = {"name": names[run.name]}
                if run.comparison is not None:
                    values["comparison"] = name
                if run.verifies is not None:
                    values["config"] = {**run.config, "verifies": names[run.verifies]}
                if run.summary:
                    values["summary"] = {**run.summary, "run": values["name"]}
                tx.connection.execute(update(Run).where(Run.c.id == run.id).values(**values))
