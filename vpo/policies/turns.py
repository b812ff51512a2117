"""Who may use an engine now: samplers side by side, or a trainer alone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


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
