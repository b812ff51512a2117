"""Comparisons: runs that share a name and a budget and differ in arm and seed. Runs by name, removed and renamed.

All runs of a comparison are planned in one transaction, so that one which was killed at any moment knows every run it
still owes. Runs and comparisons are removed and renamed never while one of them is being written. The runs that `evo
verify` made go with the run that they verify.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert, or_, select, text, update

from islands.errors import RunExists, UnknownRun
from islands.names import check_name, readable_name
from islands.schema import METADATA, Runs, of_runs
from islands.store import Store, new_run
from islands.types import RunRecord
from problems.address import did_you_mean


@dataclass(frozen=True)
class PlannedRun:
    """One arm's search under one seed, with its complete configuration."""

    arm: str
    seed: int
    config: Mapping[str, Any]


def run_name(comparison: str, arm: str, seed: int) -> str:
    return f"{comparison}/{arm}/s{seed}"


def plan(store: Store, name: str | None, runs: Sequence[PlannedRun], *, command: str, commit: str) -> str:
    """Record the runs of a comparison, in the order in which they will start; returns its name, a new one if none is
    given. Raises RunExists if a run or comparison has that name."""
    if name is not None:
        check_free(store, name)
    for attempt in range(20):
        fresh = name if name is not None else readable_name(attempt)
        rows = [
            new_run(
                run_name(fresh, one.arm, one.seed), "waiting", one.config, command, one.seed, commit, fresh, one.arm
            )
            for one in runs
        ]
        taken = select(Runs.c.id).where(
            or_(Runs.c.name == fresh, Runs.c.comparison == fresh, Runs.c.name.in_([row["name"] for row in rows]))
        )
        with store.begin() as tx:
            if tx.connection.execute(taken.limit(1)).first() is None:
                tx.connection.execute(insert(Runs), rows)
                return fresh
        if name is not None:
            raise RunExists(f"{store.address} has something named {name} already; resume it, or choose another name")
    raise RunExists(f"{store.address}: no unused name was found; give one")


def check_free(store: Store, name: str) -> str:
    """An unused name. Raises BadName if it is invalid, RunExists if a run or comparison has it."""
    taken = select(Runs.c.id).where(or_(Runs.c.name == check_name(name), Runs.c.comparison == name))
    if store.scalar(taken.limit(1)) is not None:
        raise RunExists(
            f"{store.address} has something named {name} already; continue it with `evo resume {name}`, choose "
            f"another name, or remove it with `evo runs delete {name}`"
        )
    return name


def rivals_of(store: Store, runs: Sequence[RunRecord]) -> list[RunRecord]:
    """The runs that `evo verify` made to verify these."""
    names = {run.name for run in runs}
    return [run for run in store.runs() if run.verifies in names]


def runs_named(store: Store, name: str) -> list[RunRecord]:
    """The runs of the comparison of that name, or the one run of that name. Raises UnknownRun, with close names."""
    runs = store.runs(comparison=name)
    if runs:
        return runs
    try:
        return [store.run(name)]
    except UnknownRun:
        newest = [run for run in reversed(store.runs()) if run.verifies is None]
        names = list(dict.fromkeys(run.comparison for run in newest if run.comparison is not None))
        names += [run.name for run in newest if run.comparison is None]
    shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    other = f"; it has {shown}" if names else "; it holds no runs yet"
    raise UnknownRun(f"{store.address} has no run named {name}{did_you_mean(name, names) or other}")


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
                if table is not Runs:
                    tx.connection.execute(delete(table).where(of_runs(table, ids)))
            empty = dict(status="waiting", reason="", summary={}, updated=time.time())
            tx.connection.execute(update(Runs).where(Runs.c.id.in_(waiting)).values(**empty))
            tx.connection.execute(delete(Runs).where(Runs.c.id.in_(ids), Runs.c.id.not_in(waiting)))
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
                tx.connection.execute(update(Runs).where(Runs.c.id == run.id).values(**values))
