"""Removes and renames runs and comparisons (with all their runs), never while one of them is being written."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Table, delete, select, text, update

from islands.db.comparisons import check_free, run_name
from islands.db.schema import (
    Answer,
    Candidate,
    ClusterState,
    Elite,
    Import,
    ImportedProgram,
    Improvement,
    Migration,
    OperatorCount,
    PolicyVersion,
    Problem,
    PromptGroup,
    Reflection,
    Rollout,
    Run,
    ScorerChange,
    Shard,
    Total,
    TrainingStep,
)
from islands.db.store import Store
from islands.types import RunRecord

_OF_PROBLEMS: tuple[Table, ...] = (
    Elite, Improvement, OperatorCount, Total, Migration, Reflection, ScorerChange, ImportedProgram, Import
)  # fmt: skip
_LOOKED_UP = {
    "candidates": "group_id",
    "elites": "candidate_id",
    "improvements": "candidate_id",
    "migrations": "candidate_id",
    "prompt_groups": "policy_version_id",
    "reflections": "policy_version_id",
}
"""Columns that a database searches for every deleted row, only to check foreign keys: they have an index while
single runs are deleted."""


def delete_runs(store: Store, runs: Sequence[RunRecord]) -> None:
    """Remove the runs and all their rows, in one transaction. Raises RunBusy, and removes none, if one of them is
    being written."""
    leases = []
    try:
        for run in runs:
            leases.append(store.lease(run.id))
        with store.begin() as tx:
            ids = [run.id for run in runs]
            problems = select(Problem.c.id).where(Problem.c.run_id.in_(ids))
            groups = select(PromptGroup.c.id).where(PromptGroup.c.run_id.in_(ids))
            rollouts = select(Rollout.c.id).where(Rollout.c.group_id.in_(groups))
            for name, column in _LOOKED_UP.items():
                tx.connection.execute(text(f"CREATE INDEX housekeeping_{name} ON {name} ({column})"))
            tx.connection.execute(delete(Answer).where(Answer.c.rollout_id.in_(rollouts)))
            for kind in _OF_PROBLEMS:
                tx.connection.execute(delete(kind).where(kind.c.problem_id.in_(problems)))
            tx.connection.execute(delete(Candidate).where(Candidate.c.problem_id.in_(problems)))
            tx.connection.execute(delete(Rollout).where(Rollout.c.group_id.in_(groups)))
            for of_run in (PromptGroup, TrainingStep, PolicyVersion, Problem, Shard):
                tx.connection.execute(delete(of_run).where(of_run.c.run_id.in_(ids)))
            tx.connection.execute(delete(Run).where(Run.c.id.in_(ids)))
            names = {run.name for run in runs} | {run.comparison for run in runs if run.comparison is not None}
            tx.connection.execute(delete(ClusterState).where(ClusterState.c.name.in_(sorted(names))))
            for name in _LOOKED_UP:
                tx.connection.execute(text(f"DROP INDEX housekeeping_{name}"))
        for lease in leases:
            lease.forget()  # the rows that held them are gone
    finally:
        for lease in leases:
            lease.release()


def rename_runs(store: Store, runs: Sequence[RunRecord], name: str) -> None:
    """Give a run, or a comparison with all its runs, another name. Raises BadName, RunExists, RunBusy; nothing is
    changed then."""
    check_free(store, name)
    leases = []
    try:
        for run in runs:
            leases.append(store.lease(run.id))
        with store.begin() as tx:
            for run in runs:
                values: dict[str, object] = {"name": name}
                if run.comparison is not None:
                    values = {"name": run_name(name, run.arm or "", run.seed), "comparison": name}
                if run.summary:
                    values["summary"] = {**run.summary, "run": values["name"]}
                tx.connection.execute(update(Run).where(Run.c.id == run.id).values(**values))
            said = update(ClusterState).where(ClusterState.c.name == (runs[0].comparison or runs[0].name))
            tx.connection.execute(said.values(name=name))
    finally:
        for lease in leases:
            lease.release()
