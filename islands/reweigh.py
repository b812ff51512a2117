"""Stored runs read under other weights: a temporary copy in which every answer has the fitness that the weights make
of its rewards. All that views read and a search derives from fitness is derived again: the best answers, when each was
found, what is solved. Nothing is scored. Ids stay the same, and so do the cells of the archive, which are those of
the search."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import JSON, ColumnElement, Connection, Select, Table, Text, cast, select, type_coerce
from sqlalchemy.types import NullType

from islands.schema import METADATA, Candidates, Problems, PromptGroups, Runs, of_runs
from islands.store import Store
from islands.types import ProblemRecord, Reweighed, RunRecord
from problems import temp_dirs
from problems.address import name_few
from problems.contract import Problem
from problems.weights import order_weights, weigh_objectives, weighted_mean, write_weights

_BATCH = 2000
_SAME = 1e-12
"""Means of the same numbers in another order differ by a smaller share."""
Find = Callable[[ProblemRecord], Problem | None]
"""The problem of a record, None if it cannot be looked up."""


@dataclass
class _Derived:
    """What the weights make of the runs.

    judged: the fitness by candidate id; rises: group id -> the new best candidate that it brought
    problems: by problem id, the new columns
    own: the weights of the search of each problem, as words; unknown: names of problems whose target is not known
    """

    judged: dict[int, float] = field(default_factory=dict)
    rises: dict[int, int] = field(default_factory=dict)
    problems: dict[int, dict[str, Any]] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)


@contextmanager
def reweigh(store: Store, runs: Sequence[RunRecord], weights: Mapping[str, float], find: Find) -> Iterator[Store]:
    """A store, to be read, that has these runs under the weights, as they are now. Raises BadAddress for weights that
    do not fit the objectives of each problem."""
    folder = temp_dirs.make("weights")
    try:
        file = f"{folder}/runs.db"
        with Store.open(file) as copy:
            derived = _copy(store, runs, weights, find, copy)
        with Store.open(file, read_only=True) as copy:
            copy.url = store.url  # messages and the commands of pages name the user's database
            copy.reweighed = _describe(runs, weights, derived)
            yield copy
    finally:
        temp_dirs.release(folder)


def _describe(runs: Sequence[RunRecord], weights: Mapping[str, float], derived: _Derived) -> Reweighed:
    named = {
        write_weights(own) if isinstance(own, dict) else str(own)
        for own in (run.config.get("weights") for run in runs)
        if own is not None
    }
    searched = named or derived.own
    under = searched.pop() if len(searched) == 1 else "their own weights"
    lines = [f"Judged under the weights {write_weights(weights)}; searched under {under}."]
    if derived.unknown:
        names = name_few(list(dict.fromkeys(derived.unknown)), 3)
        lines.append(f"Whether {names} is solved is not known under these weights.")
    return Reweighed(dict(weights), tuple(lines))


def _copy(store: Store, runs: Sequence[RunRecord], weights: Mapping[str, float], find: Find, copy: Store) -> _Derived:
    ids, derived = [run.id for run in runs], _Derived()
    with store.read() as connection, copy.begin() as tx:
        for run in runs:
            for record in store.problems(run.id):
                _derive(connection, run, record, weights, find, derived)
        change = _changes(runs, weights, derived)
        for table in METADATA.sorted_tables:
            # as the database has it, JSON as text: what is only copied need not be read
            columns: list[ColumnElement[Any]] = [
                (cast(one, Text) if isinstance(one.type, JSON) else type_coerce(one, NullType)).label(one.name)
                for one in table.c
            ]
            names, places = (", ".join(form.format(one.name) for one in table.c) for form in ('"{}"', ":{}"))
            query = select(*columns).where(of_runs(table, ids)).order_by(*table.primary_key)
            for rows in _batches(connection, query):
                changed = [change[table](dict(row._mapping)) if table in change else dict(row._mapping) for row in rows]
                tx.connection.exec_driver_sql(f"INSERT INTO {table.name} ({names}) VALUES ({places})", changed)
    return derived


def _batches(connection: Connection, query: Select[Any]) -> Iterator[Sequence[Any]]:
    yield from connection.execute(query.execution_options(yield_per=_BATCH)).partitions()


def _derive(
    connection: Connection, run: RunRecord, record: ProblemRecord, weights: Mapping[str, float],
    find: Find, derived: _Derived,
) -> None:  # fmt: skip
    """Judge the answers to one problem in the order in which they were stored."""
    c = Candidates.c
    query = select(c.id, c.sequence, c.group_id, c.rewards, c.fitness, c.error).where(c.problem_id == record.id)
    asked: tuple[float, ...] | None = None
    parts = [one.weight * one.counts for one in record.metrics]  # none where the scorer itself gives the fitness
    own = tuple(part / sum(parts) for part in parts) if any(parts) else None
    same = its_own = True
    best: tuple[int, float] | None = None
    rises = list[tuple[int, float]]()  # (sequence, fitness) of each new best
    for rows in _batches(connection, query.order_by(c.sequence, c.id)):
        asked = asked or order_weights(record.objectives, weights, record.name)
        for id, sequence, group, rewards, before, error in rows:
            fitness = _fitness_under(asked, rewards, before)
            same &= fitness == before
            its_own &= own is not None and math.isclose(weighted_mean(rewards, own), before, rel_tol=1e-9)
            derived.judged[id] = fitness
            if error is None and (best is None or fitness > best[1]):
                best = (id, fitness)
                rises.append((sequence, fitness))
                if group is not None:
                    derived.rises[group] = id
    if asked is None:
        if record.status == "failed":  # its scorer gave nothing, perhaps not even its objectives
            return
        asked = order_weights(record.objectives, weights, record.name)
    same &= own is not None and all(map(math.isclose, own, asked))
    counted = {one.name: one.weight for one in record.metrics if one.counts and one.weight}
    derived.own.add(write_weights(counted) if its_own else "the problem's own fitness")
    problem = None if same else find(record)
    known = None if problem is None else problem.weighted(weights).target
    target = record.target if same else known
    if target is None and record.target is not None:
        derived.unknown.append(record.name)
    solved = next((at for at, fitness in rises if target is not None and fitness >= target), None)
    status = record.status
    if status != "failed" and solved is not None:
        status = "solved"
    elif status == "solved":
        status = "active" if run.status in ("running", "interrupted") else "done"
    values = {"target": target, "status": status, "solved_sequence": solved}
    values |= {"best": best and best[0], "best_fitness": best and best[1]}
    if not same:
        metrics = weigh_objectives(record.objectives, record.metrics, asked)
        values["metrics"] = json.dumps(list(map(asdict, metrics)))
    derived.problems[record.id] = values


def _fitness_under(weights: Sequence[float], rewards: Sequence[float], stored: float) -> float:
    """The fitness of an answer under ordered weights (d,) with sum 1; exactly the stored one if it is the same mean."""
    fitness = weighted_mean(rewards, weights)
    return stored if math.isclose(fitness, stored, rel_tol=_SAME) else fitness


def _changes(
    runs: Sequence[RunRecord], weights: Mapping[str, float], derived: _Derived
) -> dict[Table, Callable[[dict[str, Any]], dict[str, Any]]]:
    """What changes a row of each table that the weights change."""
    records = {run.id: run for run in runs}
    same = all("metrics" not in values for values in derived.problems.values())

    def run(row: dict[str, Any]) -> dict[str, Any]:
        record = records[row["id"]]
        summary = dict(record.summary)
        if not same:  # what the search said of its answers, and what a verification measured and said
            of_search = ("problems", "solved", "verified", "verification")
            summary = {key: value for key, value in summary.items() if key not in of_search}
        row |= {"status": record.status, "reason": record.reason, "owner": None, "summary": json.dumps(summary)}
        return row | {"config": json.dumps({**record.config, "weights": dict(weights)})}

    def problem(row: dict[str, Any]) -> dict[str, Any]:
        return row | derived.problems.get(row["id"], {})

    def group(row: dict[str, Any]) -> dict[str, Any]:
        best = derived.rises.get(row["id"])
        return row | {"best": best, "best_fitness": None if best is None else derived.judged[best]}

    def answer(row: dict[str, Any]) -> dict[str, Any]:
        return row | {"fitness": derived.judged[row["id"]]}

    return {Runs: run, Problems: problem, PromptGroups: group, Candidates: answer}
