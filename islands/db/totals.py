"""What a run has spent and brought, counted as its groups are stored, in their transactions. Every total that anything
shows is read here, so each is the sum of what is committed, also after a kill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from sqlalchemy import Connection, Text, bindparam, cast, delete, func, select

from islands.db.schema import Candidate, Problem, Run
from islands.db.schema import Total as TotalRow
from islands.db.store import Store
from islands.db.transaction import Transaction
from islands.db.upsert import insert_or
from islands.types import Placement, RunRecord
from problems.scoring import error_kind
from problems.types import ScoredGroup, Unanswered, prompt_tokens

FORMAT = "format"
"""The kind of error of rollouts that could not be read in full."""
REPLIES = {reason: f"reply {reason}" for reason in Unanswered}
"""The kinds of error of replies without an answer."""
OF_ROLLOUTS = (FORMAT, *REPLIES.values())
_ERROR = "error: "
_ERROR_HEAD = 120
"""Characters of an answer's error that are read; its kind is in the first few words."""


@dataclass(kw_only=True)
class Totals:
    """Sums over committed groups.

    answers: given, repeats among them; missing: requested answers that no rollout held
    repeats: answers that were stored before, also earlier in their own group
    tokens: generated; prompt_tokens: of prompts, each once for its group
    cost: of all tokens, if the policy has a price
    sampling_seconds: of the policy, summed over groups; scoring_seconds: summed over the scorer's workers
    migrations: times that candidates were copied from island to island
    errors: of distinct answers, and of rollouts (FORMAT), by kind
    """

    groups: int = 0
    answers: int = 0
    missing: int = 0
    repeats: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    cost: float = 0.0
    sampling_seconds: float = 0.0
    scoring_seconds: float = 0.0
    migrations: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    def add(self, other: Totals) -> None:
        """Add these to the sums."""
        sums, more = vars(self), vars(other)
        for name in _SUMS:
            sums[name] += more[name]
        self.errors += other.errors

    def as_dict(self) -> dict[str, Any]:
        """As summaries and --json name them."""
        return {
            "groups": self.groups,
            "answers": self.answers,
            "missing_answers": self.missing,
            "repeats": self.repeats,
            "tokens": self.tokens,
            "prompt_tokens": self.prompt_tokens,
            "cost": round(self.cost, 6),
            "scoring_seconds": round(self.scoring_seconds, 3),
            "migrations": self.migrations,
            "errors": dict(sorted(self.errors.items(), key=lambda kind: (-kind[1], kind[0]))),
        }


_KINDS = {each.name: float if each.type == "float" else int for each in fields(Totals) if each.name != "errors"}
_SUMS = tuple(_KINDS)


def sum_totals(parts: Iterable[Totals]) -> Totals:
    """All of them together."""
    whole = Totals()
    for part in parts:
        whole.add(part)
    return whole


def totals_of(group: ScoredGroup, placements: Sequence[Placement]) -> Totals:
    """What a group adds. placements: where each of its answers went"""
    rollouts = [scored.rollout for scored in group.rollouts]
    totals = Totals(
        groups=1,
        answers=len(placements),
        missing=sum(max(0, group.answers - len(scored.answers)) for scored in group.rollouts),
        repeats=sum(not placement.new for placement in placements),
        tokens=sum(rollout.tokens for rollout in rollouts),
        prompt_tokens=prompt_tokens(rollouts),
        cost=sum(rollout.usage.cost for rollout in rollouts if rollout.usage is not None),
        sampling_seconds=group.sampling_seconds,
        scoring_seconds=sum(answer.seconds for answer in group.all_answers()),
    )
    for scored in group.rollouts:
        if (lacking := scored.unanswered) is not None:
            totals.errors[REPLIES[lacking]] += 1
        elif scored.format_error:
            totals.errors[FORMAT] += 1
    for answer, placement in zip(group.all_answers(), placements, strict=True):
        if placement.new and answer.score.error:
            totals.errors[error_kind(answer.score.error)] += 1
    return totals


def add_totals(store: Store, problem_id: int, totals: Totals, tx: Transaction) -> None:
    """Add to a problem's totals, in the transaction of what they count."""
    counted = {name: vars(totals)[name] for name in _SUMS} | {_ERROR + kind: n for kind, n in totals.errors.items()}
    rows = [dict(problem_id=problem_id, name=name, value=float(value)) for name, value in counted.items() if value]
    if rows:
        store.statements.prepare(_addition(store.dialect)).run(tx.connection, rows)


_ADDITIONS: dict[str, Any] = {}


def _addition(dialect: str) -> Any:
    """Insert a total, or add to the one that is there. One object a dialect: it is prepared once a store."""
    if dialect not in _ADDITIONS:
        new = insert_or(TotalRow, dialect)
        _ADDITIONS[dialect] = new.on_conflict_do_update(
            index_elements=[TotalRow.c.problem_id, TotalRow.c.name],
            set_={"value": TotalRow.c.value + new.excluded.value},
        )
    return _ADDITIONS[dialect]


_SUMMED = (
    select(Problem.c.run_id, TotalRow.c.name, func.sum(TotalRow.c.value))
    .join(Problem, Problem.c.id == TotalRow.c.problem_id)
    .where(Problem.c.run_id.in_(bindparam("runs", expanding=True)))
    .group_by(Problem.c.run_id, TotalRow.c.name)
)


_SUMMARIES = select(Run.c.id, Run.c.summary).where(Run.c.id.in_(bindparam("runs", expanding=True)))


def _lost(summary: Mapping[str, Any]) -> Totals:
    """What was spent on replies that no group holds, as the run last reported it."""
    lost = {name: summary.get(f"lost_{name}", 0) for name in ("tokens", "prompt_tokens", "cost")}
    return _totals({name: float(value) for name, value in lost.items() if isinstance(value, int | float)})


def read_totals(connection: Connection, runs: Sequence[int]) -> dict[int, Totals]:
    """Run id -> its totals, for each of these runs."""
    values: dict[int, dict[str, float]] = {run: {} for run in runs}
    for run, name, value in connection.execute(_SUMMED, {"runs": list(runs)}):
        values[run][name] = value
    found = {run: _totals(of_run) for run, of_run in values.items()}
    for run, summary in connection.execute(_SUMMARIES, {"runs": list(runs)}):
        found[run].add(_lost(summary))
    return found


def run_totals(store: Store, run_id: int) -> Totals:
    """Of one run."""
    with store.read() as connection:
        return read_totals(connection, [run_id])[run_id]


def problem_totals(store: Store, problems: Sequence[int], summary: Mapping[str, Any]) -> Totals:
    """Of these problems together, as a part of a run. summary: what the part last reported"""
    query = select(TotalRow.c.name, func.sum(TotalRow.c.value)).where(TotalRow.c.problem_id.in_(problems))
    totals = _totals({name: value for name, value in store.rows(query.group_by(TotalRow.c.name))})
    totals.add(_lost(summary))
    return totals


def current_summary(store: Store, run: RunRecord) -> dict[str, Any]:
    """What a run last reported of itself, which a kill may leave behind its groups, with the totals that are
    committed."""
    totals = run_totals(store, run.id)
    return {**run.summary, **totals.as_dict()} if totals.groups else dict(run.summary)


def _totals(values: Mapping[str, float]) -> Totals:
    sums: dict[str, Any] = {name: kind(values[name]) for name, kind in _KINDS.items() if name in values}
    errors = Counter({name[len(_ERROR) :]: int(n) for name, n in values.items() if name.startswith(_ERROR)})
    return Totals(**sums, errors=errors)


def recount_errors(store: Store, problem_id: int, tx: Transaction) -> None:
    """Count a problem's errors of answers again, after they were given new scores; those of rollouts stay."""
    kept = [_ERROR + kind for kind in OF_ROLLOUTS]
    kinds = TotalRow.c.name.startswith(_ERROR, autoescape=True) & TotalRow.c.name.not_in(kept)
    tx.connection.execute(delete(TotalRow).where(TotalRow.c.problem_id == problem_id, kinds))
    head = func.substr(cast(Candidate.c.error, Text), 1, _ERROR_HEAD).label("head")
    query = (
        select(head, func.count())
        .where(Candidate.c.problem_id == problem_id, Candidate.c.error.is_not(None), Candidate.c.group_id.is_not(None))
        .group_by("head")
    )
    errors = Counter[str]()
    for error, count in tx.connection.execute(query):
        errors[error_kind(str(error))] += count
    add_totals(store, problem_id, Totals(errors=errors), tx)
