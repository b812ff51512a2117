"""What running searches say of themselves once a second, in their runs' summaries, added up for an arm."""

from __future__ import annotations

from collections.abc import Sequence

from evo.monitor.snapshot import Telemetry
from islands.types import RunRecord


def sum_telemetry(records: Sequence[RunRecord]) -> Telemetry:
    """One arm's runs together. Every key may be missing, or be something else in a run of another version."""
    running = [record for record in records if record.status == "running"]
    errors: dict[str, int] = {}
    for record in records:
        counts = record.summary.get("errors")
        for kind, count in counts.items() if isinstance(counts, dict) else ():
            if isinstance(count, int):
                errors[str(kind)] = errors.get(str(kind), 0) + count
    seconds = _sum(records, "seconds")
    busy = [value for record in running or records if (value := _number(record, "policy_busy")) is not None]
    return Telemetry(
        answers_per_second=_rate(running, records, "answers", seconds),
        tokens_per_second=_rate(running, records, "tokens", seconds),
        policy_busy=sum(busy) / len(busy) if busy else None,
        scoring_queue=_whole(_sum(running, "scoring_queue")),
        answers=_whole(_sum(records, "answers")),
        tokens=_whole(_sum(records, "tokens")),
        migrations=_whole(_sum(records, "migrations")),
        repeats=_whole(_sum(records, "repeats")),
        missing_answers=_whole(_sum(records, "missing_answers")),
        errors=dict(sorted(errors.items(), key=lambda item: (-item[1], item[0]))),
        in_flight=_whole(_sum(running, "in_flight")),
        sampled_ahead=_whole(_sum(running, "sampled_ahead")),
    )


def _rate(running: Sequence[RunRecord], records: Sequence[RunRecord], what: str, seconds: float | None) -> float | None:
    """The sum over runs under way; the mean rate of those that have ended where none is."""
    if running:
        return _sum(running, f"{what}_per_second")
    total = _sum(records, what)
    if seconds and total is not None and len(records) > 1:
        return total / seconds
    return _sum(records, f"{what}_per_second")


def _number(record: RunRecord, key: str) -> float | None:
    value = record.summary.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _sum(records: Sequence[RunRecord], key: str) -> float | None:
    values = [value for record in records if (value := _number(record, key)) is not None]
    return sum(values) if values else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
