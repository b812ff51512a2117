"""A run or comparison as plain lines, one for every arm now and then: where there is no screen to draw on."""

from __future__ import annotations

import asyncio
import time
from functools import partial

from rich.console import Console

from evo.encoding import spell
from evo.monitor.poller import Poller
from evo.monitor.snapshot import Snapshot
from evo.tui.head import mean_best
from evo.tui.line import clean
from evo.tui.numbers import clock, fitness, rate
from islands.db.store import Store

PLAIN_SECONDS, PLAIN_SECONDS_LATER = 5.0, 30.0


async def print_lines(db: str, name: str, console: Console, against: str | None, began: float) -> None:
    """Lines of what runs on this event loop, until cancelled. began: on the loop's clock"""
    with await asyncio.to_thread(Store.open, db, read_only=True) as store:
        poller = await asyncio.to_thread(partial(Poller, store, name, against, statistics=False))
        while True:
            snapshot = await asyncio.to_thread(poller.poll)
            for line in plain_lines(snapshot, time.time()):
                console.print(spell(line, console.encoding), soft_wrap=True, markup=False)
            await asyncio.sleep(plain_pause(asyncio.get_running_loop().time() - began))


def plain_pause(elapsed: float) -> float:
    """Seconds to the next lines, so long after the first."""
    return PLAIN_SECONDS if elapsed < 60 else PLAIN_SECONDS_LATER


def plain_lines(snapshot: Snapshot, now: float) -> list[str]:
    """The snapshot as one line for each arm: times, how far it is, what was solved, throughput, faults."""
    lines = []
    for arm in snapshot.arms:
        statuses = ", ".join(f"{n} {status}" for status, n in arm.statuses.items())
        parts = [clock(snapshot.elapsed(now)), arm.name, statuses, f"{arm.groups:,}/{arm.planned:,} iterations"]
        if arm.results is not None and arm.results.judged.any():
            known = arm.results.solved_at[arm.results.judged]
            parts.append(f"solved {int((known < float('inf')).sum())}/{known.size}")
        parts.append(f"mean best {fitness(mean_best(arm))}")
        told = arm.telemetry
        if told.answers_per_second is not None:
            parts.append(f"{rate(told.answers_per_second)} answers/s")
        if told.tokens_per_second is not None:
            parts.append(f"{rate(told.tokens_per_second)} tokens/s")
        if told.policy_busy is not None:
            parts.append(f"policy busy {told.policy_busy:.0%}")
        if told.in_flight:
            parts.append(f"{told.sampled_ahead or 0:,} of {told.in_flight:,} groups in flight sampled")
        if told.errors:
            parts.append("errors: " + ", ".join(f"{kind} {n:,}" for kind, n in list(told.errors.items())[:3]))
        silent = snapshot.silent(now)
        if silent is not None:
            parts.append(f"nothing heard for {clock(silent)}")
        lines.append("  ".join(clean(part) for part in parts))
    if snapshot.cluster and lines:
        lines.append(f"{clock(snapshot.elapsed(now))}  {clean(snapshot.cluster)}")
    return lines
