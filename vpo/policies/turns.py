"""Who may use an engine now: samplers together, or only a trainer; and the replies of several engines."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import TypeVar

T = TypeVar("T")


class Turns:
    """Who may use an engine now: many samplers together, or one other alone, for which new samplers wait."""

    def __init__(self) -> None:
        self._sampling = 0
        self._alone = 0  # working or waiting to
        self._working = False
        self._waiters: list[asyncio.Future[None]] = []

    @contextlib.asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        while self._alone:
            await self._change()
        self._sampling += 1
        try:
            yield
        finally:
            self._sampling -= 1
            self._changed()

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        self._alone += 1
        try:
            while self._sampling or self._working:
                await self._change()
            self._working = True
            try:
                yield
            finally:
                self._working = False
        finally:
            self._alone -= 1
            self._changed()

    async def _change(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def _changed(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


async def gather_available(replies: Sequence[Awaitable[T]], gone: type[Exception]) -> list[T]:
    """The replies of the engines that answer, in order. An engine that raises `gone` is left out.

    Raises what an engine raises otherwise, and the first `gone` if no engine answers.
    """
    outcomes = await asyncio.gather(*replies, return_exceptions=True)
    faults = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    refused = [fault for fault in faults if not isinstance(fault, gone)]
    if refused or (faults and len(faults) == len(outcomes)):
        raise (refused or faults)[0]
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
