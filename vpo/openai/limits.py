"""How fast requests may follow one another: limits a minute, and the pause a server asks everybody for.

One object per policy, used on one event loop. Waiting is in order of arrival.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

_BURST = 10.0
"""Seconds' worth of a limit that may be used at once after a rest: servers measure shorter spans than a minute."""


class Pace:
    """A bucket that fills with so many units a minute. Larger amounts than it holds wait until it is full, and leave it
    in debt."""

    def __init__(self, per_minute: float) -> None:
        self.rate = per_minute / 60.0
        self.capacity = max(1.0, self.rate * _BURST)
        self._level, self._at = self.capacity, time.monotonic()
        self._turn = asyncio.Lock()

    async def take(self, amount: float) -> None:
        async with self._turn:
            while (missing := min(amount, self.capacity) - self._filled()) > 1e-9:
                await asyncio.sleep(missing / self.rate)
            self._level -= amount

    def correct(self, amount: float) -> None:
        """Give back what was taken too much; a negative amount takes more, without waiting."""
        self._level = min(self.capacity, self._filled() + amount)

    def _filled(self) -> float:
        now = time.monotonic()
        self._level = min(self.capacity, self._level + (now - self._at) * self.rate)
        self._at = now
        return self._level


class Gate:
    """What every attempt passes.

    attempts: requests sent so far
    """

    def __init__(self, requests_a_minute: float | None, tokens_a_minute: float | None) -> None:
        self.attempts = 0
        self._requests = Pace(requests_a_minute) if requests_a_minute else None
        self._tokens = Pace(tokens_a_minute) if tokens_a_minute else None
        self._closed_until = 0.0

    async def reserve(self, tokens: float) -> None:
        """Wait until a request of about so many tokens may be made."""
        if self._tokens is not None:
            await self._tokens.take(tokens)

    def settle(self, reserved: float, used: float) -> None:
        """What a request came to in the end."""
        if self._tokens is not None:
            self._tokens.correct(reserved - used)

    @property
    def pause(self) -> float:
        """Seconds for which the server asked to be left alone; 0 for none."""
        return max(0.0, self._closed_until - time.monotonic())

    async def attempt(self) -> None:
        """Wait until the next attempt may be sent."""
        while (pause := self.pause) > 0:
            await asyncio.sleep(pause)
        if self._requests is not None:
            await self._requests.take(1.0)
        self.attempts += 1

    def answered(self, status: int, headers: Mapping[str, str]) -> None:
        """Where a server says that it is asked too much, and for how long to leave it alone, all requests do."""
        if status in (429, 503) and (pause := wait_asked(headers)) is not None:
            self._closed_until = max(self._closed_until, time.monotonic() + pause)


def wait_asked(headers: Mapping[str, str]) -> float | None:
    """Seconds of a Retry-After header (RFC 9110, seconds or a date); None where there is none that can be read."""
    text = headers.get("retry-after")
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            return None
    return seconds if 0.0 < seconds < 1e6 else None
