"""Comparisons: runs that share a name and a budget and differ in their arm and seed. All of them are planned in one
transaction, so that a comparison which was killed at any moment knows every run it still owes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, insert, or_, select

from islands.errors import RunExists, UnknownRun
from islands.names import check_name, readable_name
from islands.schema import Problem, Run
from islands.store import Store
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
    now = time.time()
    for attempt in range(20):
        fresh = name if name is not None else readable_name(attempt)
        rows = [
            dict(
                name=run_name(fresh, run.arm, run.seed), status="waiting", reason="", command=command,
                seed=run.seed, commit=commit, config=dict(run.config), summary={}, comparison=fresh, arm=run.arm,
                created=now, updated=now,
            )
            for run in runs
        ]  # fmt: skip
        taken = select(Run.c.id).where(
            or_(Run.c.name == fresh, Run.c.comparison == fresh, Run.c.name.in_([row["name"] for row in rows]))
        )
        with store.begin() as tx:
            if tx.connection.execute(taken.limit(1)).first() is None:
                tx.connection.execute(insert(Run), rows)
                return fresh
        if name is not None:
            raise RunExists(f"{store.address} has something named {name} already; resume it, or choose another name")
    raise RunExists(f"{store.address}: no unused name was found; give one")


def check_free(store: Store, name: str) -> str:
    """An unused name. Raises BadName if it is invalid, RunExists if a run or comparison has it."""
    taken = select(Run.c.id).where(or_(Run.c.name == check_name(name), Run.c.comparison == name))
    if store.scalar(taken.limit(1)) is not None:
        raise RunExists(
            f"{store.address} has something named {name} already; continue it with `evo resume {name}`, choose "
            f"another name, or remove it with `evo runs delete {name}`"
        )
    return name


def comparison_names(store: Store) -> list[str]:
    """Every comparison, the last begun first."""
    query = select(Run.c.comparison).where(Run.c.comparison.is_not(None)).group_by(Run.c.comparison)
    return [str(name) for (name,) in store.rows(query.order_by(func.max(Run.c.id).desc()))]


def begun_run(store: Store, comparison: str) -> RunRecord | None:
    """A run of a comparison whose search has begun; None before the first."""
    query = select(Run.c.name).join(Problem, Problem.c.run_id == Run.c.id).where(Run.c.comparison == comparison)
    name = store.scalar(query.order_by(Run.c.id).limit(1))
    return None if name is None else store.run(name)


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
        single = [run.name for run in store.runs() if run.comparison is None and run.verifies is None]
        names = comparison_names(store) + single[::-1]
    shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    other = f"; it has {shown}" if names else "; it holds no runs yet"
    raise UnknownRun(f"{store.address} has no run named {name}{did_you_mean(name, names) or other}")
