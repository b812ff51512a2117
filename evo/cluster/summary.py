"""Merge the metrics of a run's shards into the form in which a run keeps its metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from evo.search.active_time import Period, seconds_until, union
from evo.search.stop import StopReason
from islands.db.shards import ShardRecord
from islands.db.totals import Totals

_SUMMED = ("solved", "sampling_seconds", "scoring_queue", "training_seconds", "syncing_seconds", "commit_seconds")


def merge_shards(shards: Sequence[ShardRecord], totals: Totals, now: float) -> dict[str, Any]:
    """The metrics of all shards. Seconds of work are summed; the searched time is the time in which any shard worked.

    totals: of the run's committed groups; now: seconds since 1970
    """
    summaries = [shard.summary for shard in shards if shard.summary]
    if not summaries:
        return {}
    periods = [period for summary in summaries for period in summary.get("active", [])]
    active = union([_close_period(period, now) for period in periods])
    open_ended = any(end is None for _, end in periods)
    seconds = max(seconds_until(active, now), 1e-9)
    merged: dict[str, Any] = {key: _round(sum(summary.get(key, 0) for summary in summaries)) for key in _SUMMED}
    stored: list[list[float | None]] = [[round(began, 3), round(end, 3)] for began, end in active]
    if open_ended and stored:
        stored[-1][1] = None
    machines: list[Any] = []
    for machine in (machine for summary in summaries for machine in summary.get("machines", [])):
        if machine not in machines:
            machines.append(machine)
    merged |= {
        **totals.as_dict(),
        "active": stored,
        "seconds": round(seconds, 3),
        "answers_per_second": round(totals.answers / seconds, 2),
        "tokens_per_second": round(totals.tokens / seconds, 1),
        "policy_busy": round(sum(float(summary.get("policy_busy", 0.0)) for summary in summaries) / len(summaries), 4),
        "machines": machines,
        "at": round(max(float(summary.get("at", 0.0)) for summary in summaries), 3),
    }
    return merged


def merge_problems(shards: Sequence[ShardRecord]) -> list[dict[str, Any]]:
    """The problems of all shards in the run's order, from each shard's last summary; none if a shard has not ended."""
    lists = [list(shard.summary.get("problems", [])) for shard in shards]
    if not all(lists):
        return []
    total, count = sum(map(len, lists)), len(lists)
    return [lists[index % count][index // count] for index in range(total)]


def merge_outcomes(shards: Sequence[ShardRecord]) -> tuple[str, str]:
    """(outcome, why) of the run: failed if a shard has failed, interrupted if one has not ended, else done."""
    for status in ("failed", "interrupted", "running", "waiting"):
        first = next((shard for shard in shards if shard.status == status), None)
        if first is not None:
            return ("failed" if status == "failed" else "interrupted"), first.reason
    return "done", next((shard.reason for shard in shards if shard.reason), "")


def find_cause(shards: Sequence[ShardRecord]) -> str | None:
    """The reason that ended the run: a budget if it ended any shard, else the reason of the last shard."""
    reasons = [str(shard.summary["ended_by"]) for shard in shards if shard.summary.get("ended_by")]
    return StopReason.BUDGET.value if StopReason.BUDGET in reasons else (reasons[-1] if reasons else None)


def _close_period(stored: Sequence[float | None], now: float) -> Period:
    began, end = stored
    return (began or 0.0, now if end is None else end)


def _round(value: float) -> float:
    return round(value, 3) if isinstance(value, float) and not math.isinf(value) else value
