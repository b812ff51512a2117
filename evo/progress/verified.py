"""What `evo verify` keeps of a run, for every view: its sentences, and the scores of winners and seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from evo.values import write_scored
from islands.types import RunRecord
from problems.contract import Score
from problems.objectives import Objective


def verification_of(run: RunRecord) -> Mapping[str, Any] | None:
    """Verification.record of the run's last one; None without one, and after the run continued."""
    return run.summary.get("verification")


def verified_score(run: RunRecord, candidate: int) -> dict[str, Any] | None:
    """`fitness`, `values`, `error` of a verified winner or seed, and whether they are of `held_out` cases."""
    found = verification_of(run) or {}
    measured = found.get("measured", {}).get(str(candidate))
    return None if measured is None else {**measured, "held_out": found["held_out"]}


def describe_verified(run: RunRecord, candidate: int, metrics: Sequence[Objective]) -> str:
    """`held out: fitness 0.52 (delay 54.8 ↓)`; "" for an answer that was not verified."""
    found = verified_score(run, candidate)
    if found is None:
        return ""
    own = tuple(found["values"].get(one.name) for one in metrics)
    rewards = tuple(math.nan if value is None else value for value in own)
    fitness = math.nan if found["fitness"] is None else found["fitness"]
    return describe_score(Score(rewards, fitness, error=found["error"], values=own), metrics, found["held_out"])


def describe_score(score: Score, metrics: Sequence[Objective], held_out: bool = True) -> str:
    """The same of a score on held-out cases, or of an answer that was scored again."""
    plain = [replace(one, seed=None) for one in metrics]  # the seed's are of the cases that steered the search
    fault = f", {score.error}" if score.error else ""
    return f"{'held out' if held_out else 'scored again'}: {write_scored(plain, score)}{fault}"
