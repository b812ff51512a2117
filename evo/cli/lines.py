"""Show a run or comparison without a live screen: as a plain line every few seconds, or as one picture of
the screen."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from evo.cli.options import print_json
from evo.errors import BadInput
from evo.monitor.poller import Poller
from evo.monitor.snapshot import ArmSnapshot, Snapshot
from evo.search.status import clock, describe_errors
from evo.tui.head import mean_best, solved_searches, solved_text
from evo.tui.line import clean
from evo.tui.numbers import fitness, rate
from islands.lock import LOST
from islands.store import Store

PLAIN_SECONDS, PLAIN_SECONDS_LATER = 5.0, 30.0


async def print_lines_during(db: str, name: str, console: Console, against: str | None, began: float) -> None:
    """Print lines of a run that works on this event loop, until cancelled. began: its start on the loop's clock"""
    with await asyncio.to_thread(Store.open, db, read_only=True) as store:
        poller = await asyncio.to_thread(partial(Poller, store, name, against, statistics=False))
        while True:
            _print_line(await asyncio.to_thread(poller.poll), console)
            await asyncio.sleep(choose_pause(asyncio.get_running_loop().time() - began))


def _print_line(snapshot: Snapshot, console: Console) -> None:
    console.print(format_line(snapshot, time.time()), soft_wrap=True, markup=False)


def choose_pause(elapsed: float) -> float:
    """Seconds until the next lines, `elapsed` seconds after the first."""
    return PLAIN_SECONDS if elapsed < 60 else PLAIN_SECONDS_LATER


def format_line(snapshot: Snapshot, now: float) -> str:
    """The snapshot as one line: time, share done, time left, iterations, and the arms' solved problems, or mean best
    fitness if no problem has a target; for a single run also its rates."""
    arms, elapsed, left = snapshot.arms, clock(snapshot.elapsed(now)), snapshot.eta()
    several = len(arms) > 1
    parts = [elapsed, f"{snapshot.groups / max(1, snapshot.planned):4.0%}"]
    if left:
        parts.append(f"about {clock(left)} left")
    parts.append(f"{snapshot.groups:,}/{snapshot.planned:,} iterations")
    parts.append(", ".join(f"{n} {status}" for status, n in snapshot.statuses.items()))
    solved = [(arm.name, solved_text(arm)) for arm in arms if arm.results is not None and arm.results.judged.any()]
    best = [(arm.name, fitness(mean_best(arm))) for arm in arms] if not (solved and several) else []
    for title, values in (("solved", solved), ("mean best", best)):
        if values:
            parts.append(f"{title} " + ", ".join(f"{name} {text}" if several else text for name, text in values))
    if not several:
        parts += _rates(arms[0])
    if cost := sum(arm.telemetry.totals.cost for arm in arms):
        parts.append(f"cost {cost:.4g}")
    flying = sum(arm.telemetry.in_flight or 0 for arm in arms)
    if flying and not several:
        ahead = sum(arm.telemetry.sampled_ahead or 0 for arm in arms)
        parts.append(f"{ahead:,} of {flying:,} iterations in flight sampled")
    if errors := sum((arm.telemetry.totals.errors for arm in arms), Counter()):
        parts.append(describe_errors(errors))
    if (silent := snapshot.silent(now)) is not None:
        parts.append(f"nothing heard for {clock(silent)}")
    if snapshot.ended and LOST in snapshot.reasons:
        parts.append(LOST)
    return "  ".join(clean(part) for part in parts)


def _rates(arm: ArmSnapshot) -> list[str]:
    telemetry = arm.telemetry
    rates = [(telemetry.answers_per_second, "answers/s"), (telemetry.tokens_per_second, "tokens/s")]
    parts = [f"{rate(value)} {unit}" for value, unit in rates if value is not None]
    if telemetry.policy_busy is not None:
        parts.append(f"waiting for the model {telemetry.policy_busy:.0%} of the time")
    return parts


def record_of(snapshot: Snapshot, now: float) -> dict[str, Any]:
    """The snapshot as an object for JSON: progress, the arms' standing, verdicts (docs/guides/json.md)."""
    return {
        "name": snapshot.name,
        "time": now,
        "ended": snapshot.ended,
        "statuses": snapshot.statuses,
        "iterations": snapshot.groups,
        "planned": snapshot.planned,
        "seconds": snapshot.elapsed(now),
        "seconds_left": snapshot.eta(),
        "silent_seconds": snapshot.silent(now),
        "fault": snapshot.fault,
        "against": snapshot.reference,
        "arms": [_arm_record(arm) for arm in snapshot.arms],
        "verdicts": [verdict.text for verdict in snapshot.verdict],
    }


def _arm_record(arm: ArmSnapshot) -> dict[str, Any]:
    telemetry, solved = arm.telemetry, solved_searches(arm)
    return {
        "name": arm.name,
        "policy": arm.policy,
        "statuses": dict(arm.statuses),
        "iterations": arm.groups,
        "planned": arm.planned,
        "solved": None if solved is None else solved[0],
        "with_target": None if solved is None else solved[1],
        "mean_best": mean_best(arm),
        "answers": telemetry.totals.answers,
        "tokens": telemetry.totals.tokens,
        "cost": telemetry.totals.cost,
        "errors": dict(telemetry.totals.errors),
        "answers_per_second": telemetry.answers_per_second,
        "tokens_per_second": telemetry.tokens_per_second,
        "policy_busy": telemetry.policy_busy,
        "in_flight": telemetry.in_flight,
    }


ONCE_WIDTH, ONCE_HEIGHT = 100, 40
ARCHIVES_SECONDS = 5.0
"""Time for reading the archives of a picture. Means leave out archives that are not read by then, and the picture
reports that."""


def print_lines(name: str, db: str, against: str | None, console: Console, as_json: bool) -> int:
    """Print a line every few seconds, until every run has ended. as_json: each line is an object"""
    began = time.monotonic()
    with _open_poller(name, db, against) as poller:
        while True:
            snapshot = poller.poll_whole(0.0)
            if as_json:
                print_json(record_of(snapshot, time.time()))
            else:
                _print_line(snapshot, console)
            if snapshot.ended:
                for verdict in () if as_json else snapshot.verdict:
                    console.print(verdict.text, soft_wrap=True)
                return 0
            time.sleep(choose_pause(time.monotonic() - began))


def print_picture(name: str, db: str, against: str | None, console: Console, as_json: bool) -> int:
    """Print the screen as text, without its keys, which would do nothing. as_json: print its values instead"""
    with _open_poller(name, db, against) as poller:
        snapshot = poller.poll_whole(0.0 if as_json else ARCHIVES_SECONDS)
    if as_json:
        print_json(record_of(snapshot, time.time()))
        return 0
    terminal = console.is_terminal
    width = console.width if terminal else ONCE_WIDTH
    height = max(24, console.height - 1) if terminal else ONCE_HEIGHT
    from evo.tui.picture import draw_text  # lines do not need it

    console.print(draw_text(snapshot, width, height, time.time()), end="", soft_wrap=True)
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
