"""What the shards of a run come to together, in the form in which a run keeps its metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from evo.search.active_time import Period, seconds_until, union
from evo.search.stop import StopReason
from islands.db.shards import ShardRecord
from islands.db.totals import Totals

_SUMMED = ("solved", "sampling_seconds", "scoring_queue", "training_seconds", "syncing_seconds", "commit_seconds")


def merge_shards(shards: Sequence[ShardRecord], totals: Totals, now: float) -> dict[str, Any]:
    """Seconds of work added up; the time searched is that in which any shard was. totals: what the run has committed;
    now: seconds since 1970"""
    summaries = [shard.summary for shard in shards if shard.summary]
    if not summaries:
        return {}
    active = union([_period(one, now) for summary in summaries for one in summary.get("active", [])])
    open_ended = any(one[1] is None for summary in summaries for one in summary.get("active", []))
    seconds = max(seconds_until(active, now), 1e-9)
    merged: dict[str, Any] = {key: _round(sum(one.get(key, 0) for one in summaries)) for key in _SUMMED}
    stored: list[list[float | None]] = [[round(began, 3), round(end, 3)] for began, end in active]
    if open_ended and stored:
        stored[-1][1] = None
    machines: list[Any] = []
    for one in (machine for summary in summaries for machine in summary.get("machines", [])):
        if one not in machines:
            machines.append(one)
    merged |= {
        **totals.as_dict(),
        "active": stored,
        "seconds": round(seconds, 3),
        "answers_per_second": round(totals.answers / seconds, 2),
        "tokens_per_second": round(totals.tokens / seconds, 1),
        "policy_busy": round(sum(float(one.get("policy_busy", 0.0)) for one in summaries) / len(summaries), 4),
        "machines": machines,
        "at": round(max(float(one.get("at", 0.0)) for one in summaries), 3),
    }
    return merged


def merge_problems(shards: Sequence[ShardRecord]) -> list[dict[str, Any]]:
    """The problems of all shards by their index in the run, as each shard's last summary has them; none where one has
    not ended."""
    lists = [list(shard.summary.get("problems", [])) for shard in shards]
    if not all(lists):
        return []
    total, count = sum(map(len, lists)), len(lists)
    return [lists[index % count][index // count] for index in range(total)]


def outcome_of(shards: Sequence[ShardRecord]) -> tuple[str, str]:
    """(outcome, why) of the run: failed where a shard has failed, interrupted where one has not ended, else done."""
    for status in ("failed", "interrupted", "running", "waiting"):
        found = next((shard for shard in shards if shard.status == status), None)
        if found is not None:
            return ("failed" if status == "failed" else "interrupted"), found.reason
    return "done", next((shard.reason for shard in shards if shard.reason), "")


def ended_by(shards: Sequence[ShardRecord]) -> str | None:
    """What ended the run: a budget if one ended any shard, else what ended the last of them."""
    found = [str(shard.summary["ended_by"]) for shard in shards if shard.summary.get("ended_by")]
    return StopReason.BUDGET.value if StopReason.BUDGET in found else (found[-1] if found else None)


def add_up_servers(seen: Mapping[tuple[str, str, str], Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Servers as several tasks see them: each is there where one of these reaches it, and has what all have under way.

    seen: by (address, url, task) what vpo.policies.spread tells of it
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for (address, url, _), one in seen.items():
        sums = found.setdefault((address, url), {"address": address, "url": url, "node": "", "in": False})
        sums["in"] = sums["in"] or bool(one["in"])
        for name in ("load", "answered"):
            sums[name] = sums.get(name, 0) + int(one[name])
        sums["lost"] = max(sums.get("lost", 0), int(one["lost"]))
    return list(found.values())


def _period(stored: Sequence[float | None], now: float) -> Period:
    began, end = stored
    return (began or 0.0, now if end is None else end)


def _round(value: float) -> float:
    return round(value, 3) if isinstance(value, float) and not math.isinf(value) else value
