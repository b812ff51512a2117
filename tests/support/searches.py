"""A search that runs in this process, to its end or to a stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from evo.search.stop import INTERRUPT


def run_search(
    opening: Coroutine[Any, Any, Any],
    *,
    stop_after: int | None = None,
    interrupt_after: int | None = None,
    change: Callable[[Any], object] = lambda opened: None,
    at_end: Callable[[Any], object] = lambda opened: None,
    seconds: float = 60,
) -> Any:
    """The run that `opening` (start_run or resume_run) opens, closed after its search has run: with the reason it ended
    for, the committed groups and the best of each problem. change: before it runs; at_end: before it is closed"""

    async def scenario() -> Any:
        opened = await opening
        opened.groups = []

        def committed(group: object) -> None:
            opened.groups.append(group)
            if len(opened.groups) == stop_after:
                opened.search.core.stop(INTERRUPT)
            if len(opened.groups) == interrupt_after:
                opened.search.interrupt(INTERRUPT)

        opened.search.on_commit = committed
        change(opened)
        try:
            opened.reason = str(await opened.search.run())
            opened.best = [problem_run.population.best for problem_run in opened.problem_runs]
            at_end(opened)
        finally:
            await opened.close()
        return opened

    return asyncio.run(asyncio.wait_for(scenario(), seconds))
