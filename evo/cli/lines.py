"""Show a run or comparison without a live screen: as a plain line for each arm every few seconds, or as one picture of
the screen."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from rich.console import Console

from evo.encoding import spell
from evo.errors import BadInput
from evo.monitor.poller import Poller
from evo.monitor.snapshot import Snapshot
from evo.search.status import clock, describe_errors
from evo.tui.head import mean_best
from evo.tui.line import clean
from evo.tui.numbers import fitness, rate
from islands.db.store import Store

PLAIN_SECONDS, PLAIN_SECONDS_LATER = 5.0, 30.0


async def print_lines_during(db: str, name: str, console: Console, against: str | None, began: float) -> None:
    """Print lines of a run that works on this event loop, until cancelled. began: its start on the loop's clock"""
    with await asyncio.to_thread(Store.open, db, read_only=True) as store:
        poller = await asyncio.to_thread(partial(Poller, store, name, against, statistics=False))
        while True:
            snapshot = await asyncio.to_thread(poller.poll)
            for line in format_lines(snapshot, time.time()):
                console.print(spell(line, console.encoding), soft_wrap=True, markup=False)
            await asyncio.sleep(choose_pause(asyncio.get_running_loop().time() - began))


def choose_pause(elapsed: float) -> float:
    """Seconds until the next lines, `elapsed` seconds after the first."""
    return PLAIN_SECONDS if elapsed < 60 else PLAIN_SECONDS_LATER


def format_lines(snapshot: Snapshot, now: float) -> list[str]:
    """The snapshot as one line for each arm: time, status, iterations, solved problems, throughput, errors."""
    lines = []
    for arm in snapshot.arms:
        statuses = ", ".join(f"{n} {status}" for status, n in arm.statuses.items())
        parts = [clock(snapshot.elapsed(now)), arm.name, statuses, f"{arm.groups:,}/{arm.planned:,} iterations"]
        if arm.results is not None and arm.results.judged.any():
            known = arm.results.solved_at[arm.results.judged]
            parts.append(f"solved {int((known < float('inf')).sum())}/{known.size}")
        parts.append(f"mean best {fitness(mean_best(arm))}")
        telemetry = arm.telemetry
        if telemetry.answers_per_second is not None:
            parts.append(f"{rate(telemetry.answers_per_second)} answers/s")
        if telemetry.tokens_per_second is not None:
            parts.append(f"{rate(telemetry.tokens_per_second)} tokens/s")
        if telemetry.totals.cost:
            parts.append(f"cost {telemetry.totals.cost:.4g}")
        if telemetry.policy_busy is not None:
            parts.append(f"waiting for the model {telemetry.policy_busy:.0%} of the time")
        if telemetry.in_flight:
            parts.append(f"{telemetry.sampled_ahead or 0:,} of {telemetry.in_flight:,} iterations in flight sampled")
        if telemetry.totals.errors:
            parts.append(describe_errors(telemetry.totals.errors))
        silent = snapshot.silent(now)
        if silent is not None:
            parts.append(f"nothing heard for {clock(silent)}")
        lines.append("  ".join(clean(part) for part in parts))
    if snapshot.cluster and lines:
        lines.append(f"{clock(snapshot.elapsed(now))}  {clean(snapshot.cluster)}")
    return lines


ONCE_WIDTH, ONCE_HEIGHT = 100, 40
ARCHIVES_SECONDS = 5.0
"""Time for reading the archives of a picture. Means leave out archives that are not read by then, and the picture
reports that."""


def print_lines(name: str, db: str, against: str | None, console: Console) -> int:
    """Print a line for each arm every few seconds, until every run has ended."""
    began = time.monotonic()
    with _open_poller(name, db, against) as poller:
        while True:
            snapshot = poller.poll_whole(0.0)
            for line in format_lines(snapshot, time.time()):
                console.print(spell(line, console.encoding), soft_wrap=True)
            if snapshot.ended:
                for verdict in snapshot.verdict:
                    console.print(verdict.text, soft_wrap=True)
                return 0
            time.sleep(choose_pause(time.monotonic() - began))


def print_picture(name: str, db: str, against: str | None, console: Console) -> int:
    """Print the screen as text, without its keys, which would do nothing."""
    with _open_poller(name, db, against) as poller:
        snapshot = poller.poll_whole(ARCHIVES_SECONDS)
    terminal = console.is_terminal
    width = console.width if terminal else ONCE_WIDTH
    height = max(24, console.height - 1) if terminal else ONCE_HEIGHT
    from evo.tui.picture import draw_text  # lines do not need it

    console.print(draw_text(snapshot, width, height, time.time(), console.encoding), end="", soft_wrap=True)
    return 0


def write_picture(name: str, db: str, against: str | None, file: Path) -> int:
    """Write the screen as an SVG. Raises BadInput if the file cannot be written."""
    with _open_poller(name, db, against) as poller:
        snapshot = poller.poll_whole(ARCHIVES_SECONDS)
    from evo.tui.picture import save_svg

    try:
        file.write_text(save_svg(snapshot, time.time()), encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot write {file}: {error.strerror or error}") from None
    return 0


@contextlib.contextmanager
def _open_poller(name: str, db: str, against: str | None) -> Iterator[Poller]:
    with Store.open(db, read_only=True) as store:
        yield Poller(store, name, against)
