"""A scorer, or its data, that changed between a run and its resume: refused, accepted, or everything scored again.

Scores of two scorers in one population cannot be compared: an answer that only the new one rates highly would look
like progress of the search.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from evo.config.run import RunConfig
from evo.errors import BadInput
from evo.search.defaults import population_config
from islands.db.scorer_changes import record_scorer_change, set_fingerprint
from islands.db.store import Store
from islands.population.rescoring import candidate_texts, rescore
from islands.types import ProblemRecord, RunRecord
from problems.contract import Problem, Score
from problems.scoring import Scorer


class OnScorerChange(StrEnum):
    """What a resume does if a scorer has changed."""

    REFUSE = "refuse"
    ACCEPT = "accept"
    RESCORE = "rescore"


@dataclass(frozen=True)
class Changes:
    """What a resume changes of a run: settings by name, its budgets above all; and what a changed scorer means."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    on_scorer_change: OnScorerChange = OnScorerChange.REFUSE

    def __bool__(self) -> bool:
        return bool(self.settings) or self.on_scorer_change is OnScorerChange.RESCORE


UNCHANGED = Changes()


async def check_scorers(
    store: Store,
    run: RunRecord,
    config: RunConfig,
    problems: Sequence[Problem],
    records: Sequence[ProblemRecord],
    scorer: Scorer,
    on_change: OnScorerChange,
) -> None:
    """Compare what scores each problem with what did, and store what does from now on. RESCORE scores every problem
    again, whether or not a change is known. Raises BadInput if a change is refused, before anything is written."""
    now = await asyncio.to_thread(lambda: [problem.fingerprint() for problem in problems])
    changed = [
        problem.name
        for problem, record, new in zip(problems, records, now, strict=True)
        if record.fingerprint not in (None, new)
    ]
    if changed and on_change is OnScorerChange.REFUSE:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise BadInput(
            f"run {run.name}: what scores {changed[0]}{more} has changed since it was searched; --rescore scores all "
            "stored answers again, --accept-change continues with both kinds of scores"
        )
    for problem, record, new in zip(problems, records, now, strict=True):
        if on_change is OnScorerChange.RESCORE:
            await _rescore(store, config, problem, record, scorer, new)
        elif record.fingerprint != new:
            with store.begin() as transaction:
                if record.fingerprint is None:  # a run from before fingerprints were kept: nothing is known
                    set_fingerprint(record.id, new, transaction)
                else:
                    record_scorer_change(record.id, record.fingerprint, new, False, transaction)


async def _rescore(
    store: Store, config: RunConfig, problem: Problem, record: ProblemRecord, scorer: Scorer, fingerprint: str
) -> None:
    """Score all stored answers of a problem, then replace their scores in one transaction."""
    scores: dict[int, Score] = {}
    for page in candidate_texts(store, record.id):
        found = await scorer.score(problem, [text for _, text in page])
        scores |= {id: score for (id, _), (score, _) in zip(page, found, strict=True)}
    with store.begin() as transaction:
        rescore(store, replace(record, target=problem.target), population_config(config, problem), scores, transaction)
        record_scorer_change(record.id, record.fingerprint, fingerprint, True, transaction)
