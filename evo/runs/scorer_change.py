"""A scorer, or its data, that changed between a run and its resume: refuse it, accept it, or score all answers again.

Scores of two scorers in one population are not comparable: an answer that only the new scorer rates highly would look
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
    """How a resume treats a scorer that has changed."""

    REFUSE = "refuse"
    ACCEPT = "accept"
    RESCORE = "rescore"


@dataclass(frozen=True)
class Changes:
    """The changes of a resume: settings by name, mainly budgets, and how it treats a changed scorer."""

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
    """Compare each problem's scorer with the stored fingerprint, and store the new one. RESCORE scores every problem
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
            f"run {run.name}: the scorer of {changed[0]}{more} has changed since the search; --rescore scores all "
            "stored answers again, --accept-change continues with both kinds of scores"
        )
    for problem, record, new in zip(problems, records, now, strict=True):
        if on_change is OnScorerChange.RESCORE:
            await _rescore(store, config, problem, record, scorer, new)
        elif record.fingerprint != new:
            with store.begin() as transaction:
                if record.fingerprint is None:  # the run is older than fingerprints, so nothing is known
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
