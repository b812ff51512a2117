"""A checkpoint of OpenEvolve becomes a run: one transaction, or nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import insert

from islands.db.schema import Import, ImportedProgram
from islands.db.store import Store
from islands.db.transaction import Transaction
from islands.interop.adoption import AdoptedAnswer, AdoptedPrompt, Adoption, Copied
from islands.interop.checkpoint import Checkpoint, CheckpointProgram
from islands.interop.metrics import own_record
from islands.interop.record import exchange_of, pack
from islands.interop.timeline import Timeline
from islands.population.config import PopulationConfig
from islands.types import ProblemRecord, RunRecord
from problems.address import shorten_names
from problems.contract import Problem, Score
from problems.types import ScoredAnswer

POLICY = "openevolve"
"""Policy and policy version of OpenEvolve's answers; it is not an address that can be sampled."""


@dataclass(frozen=True)
class RunPlan:
    """The run that is to hold a checkpoint. name: None for one that is made up; config: as a search would store it"""

    name: str | None
    command: str
    commit: str
    seed: int
    config: Mapping[str, Any]


@dataclass(frozen=True)
class Imported:
    """The result of an import. groups: answers of iterations; repeats: those without a new candidate; copies: of
    candidates on further islands; failed: candidates with an error; orphans: programs whose parent is missing"""

    run: RunRecord
    problem: ProblemRecord
    programs: int
    candidates: int
    failed: int
    groups: int
    repeats: int
    copies: int
    orphans: int


def import_checkpoint(
    store: Store,
    plan: RunPlan,
    checkpoint: Checkpoint,
    line: Timeline,
    problem: Problem,
    address: str,
    scores: Sequence[Score],
    config: PopulationConfig,
) -> Imported:
    """Store `line`, the checkpoint's timeline, whose candidates have these scores. The run is then done, and a
    search may continue it. Raises RunExists, DatabaseUnavailable, and ScorerFault if a feature of the grid is
    missing."""
    answers, order = _answers(line, scores), _order(line)
    (name,) = shorten_names([address])
    with store.begin() as tx:
        run = store.create_run(
            plan.name, plan.config, command=plan.command, seed=plan.seed, commit=plan.commit, tx=tx
        )  # fmt: skip
        record = store.add_problem(
            run.id, 0, address, name, problem.objectives, problem.target, problem.answer_format, tx
        )
        adoption = Adoption(store, record, config)
        adoption.write(tx, answers, order)
        _write_origin(tx, record, checkpoint, line, adoption)
        status = "done" if adoption.solved is None else "solved"
        store.set_problem_status(record.id, status, solved_sequence=adoption.solved, tx=tx)
        groups = adoption.last + 1
        imported = Imported(
            run, record,
            programs=len(line.events), candidates=len(answers), groups=groups,
            failed=sum(answer.answer.score.error is not None for answer in answers),
            repeats=groups - sum(not answer.seed for answer in answers),
            copies=sum(isinstance(event, Copied) for event in order), orphans=line.orphans,
        )  # fmt: skip
        counts = {key: value for key, value in vars(imported).items() if isinstance(value, int)}
        summary = {"run": run.name, "outcome": "done", "imported": {"from": str(checkpoint.path), **counts}}
        store.finish_run(run.id, "done", "imported from OpenEvolve", summary=summary, tx=tx)
    return imported


def _answers(line: Timeline, scores: Sequence[Score]) -> list[AdoptedAnswer]:
    first: dict[int, Any] = {}
    for event in line.events:
        first.setdefault(event.candidate, event)
    return [
        AdoptedAnswer(
            ScoredAnswer(program.code, identity, score),
            island=program.island,
            generation=program.generation,
            parent=first[number].parent,
            created=program.created,
            seed=first[number].kind == "seed",
        )
        for number, (program, identity, score) in enumerate(zip(line.first, line.identities, scores, strict=True))
    ]


def _order(line: Timeline) -> list[AdoptedPrompt | Copied]:
    order: list[AdoptedPrompt | Copied] = []
    for event in line.events:
        if event.kind == "copy":
            order.append(Copied(event.candidate, event.source, event.island))
        elif event.kind == "answer":
            asked = exchange_of(event.program)
            text = event.program.code if asked.response is None else asked.response
            order.append(
                AdoptedPrompt(
                    event.candidate, event.island, event.parent, event.program.created, _version(event.program),
                    asked.system, asked.user, text,
                )
            )  # fmt: skip
    return order


def _version(program: CheckpointProgram) -> str:
    version = own_record(program).get("policy_version")
    return version if isinstance(version, str) and version.isprintable() and 0 < len(version) <= 400 else POLICY


def _write_origin(
    tx: Transaction, problem: ProblemRecord, checkpoint: Checkpoint, line: Timeline, adoption: Adoption
) -> None:
    origin = dict(
        problem_id=problem.id, source=str(checkpoint.path), record=json.dumps(checkpoint.record),
        sequence=adoption.last, created=time.time(),
    )  # fmt: skip
    tx.connection.execute(insert(Import), origin)
    rows, sequence = list[dict[str, Any]](), -1
    for position, event in enumerate(line.events):
        asked = event.kind == "answer"
        sequence += asked
        exchange = exchange_of(event.program) if asked else None
        rows.append(
            dict(
                problem_id=problem.id, position=position, name=event.program.id,
                candidate_id=adoption.ids[event.candidate], sequence=sequence if asked else None,
                record=pack(event.program, line.first[event.candidate].code, exchange),
            )
        )  # fmt: skip
    tx.connection.execute(insert(ImportedProgram), rows)
