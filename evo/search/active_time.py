"""The time in which a search ran: without pauses, and without the time between its processes."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from islands.types import RunRecord

Period = tuple[float, float]
"""From, to: seconds since 1970. A period that has not ended has None as its end in a summary, and math.inf here."""


class ActiveTime:
    """A stopwatch that keeps the periods in which it ran, so that parallel runs can be merged.

    seconds: of all periods; wall time only marks the start of each
    """

    def __init__(self) -> None:
        self._periods: list[Period] = []
        self._began = self._since = 0.0
        self.running = False
        self.resume()

    def resume(self) -> None:
        if not self.running:
            self._began, self._since, self.running = time.time(), time.monotonic(), True

    def pause(self) -> None:
        if self.running:
            self._periods.append((self._began, self._now()))
            self.running = False

    def carry(self, periods: Sequence[Period]) -> None:
        """Put the periods of earlier processes first."""
        self._periods = [*periods, *self._periods]

    @property
    def seconds(self) -> float:
        return _total(self._periods) + (self._now() - self._began if self.running else 0.0)

    def stored(self) -> list[list[float | None]]:
        """The periods for the summary: (from, to) of each period, and (from, None) of the current one."""
        own: list[list[float | None]] = [[round(began, 3), round(end, 3)] for began, end in self._periods]
        return [*own, [round(self._began, 3), None]] if self.running else own

    def _now(self) -> float:
        return self._began + time.monotonic() - self._since


def ended_periods(summary: Mapping[str, Any]) -> list[Period]:
    """The periods of processes that have ended. One that was killed counts until its last summary."""
    at = summary.get("at") or 0.0
    return [(began, end if end is not None else max(began, at)) for began, end in summary.get("active") or []]


def active_periods(run: RunRecord) -> list[Period]:
    """The periods of a stored run, with an end of math.inf for the current one."""
    periods = ended_periods(run.summary)
    stored = run.summary.get("active")
    if run.status == "running" and stored and stored[-1][1] is None:
        periods[-1] = (periods[-1][0], math.inf)
    elif run.status == "running" and not run.summary:
        periods = [(run.updated, math.inf)]
    return periods


def union(periods: Sequence[Period]) -> tuple[Period, ...]:
    """The periods in which any of these ran, in order."""
    merged: list[Period] = []
    for began, end in sorted(periods):
        if merged and began <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((began, end))
    return tuple(merged)


def seconds_until(periods: Sequence[Period], now: float) -> float:
    """The seconds of these periods, which do not overlap, up to `now`."""
    return _total([(began, min(end, now)) for began, end in periods])


def _total(periods: Sequence[Period]) -> float:
    return sum(max(0.0, end - began) for began, end in periods)
