"""Live progress of a search: a rich screen on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from evo.status import LaneStatus, SearchStatus

REFRESHES_PER_SECOND = 4
PLAIN_SECONDS, PLAIN_SECONDS_LATER = 5.0, 30.0
LONGEST_NAME = 36


def clock(seconds: float) -> str:
    """1:05, 2:03:04."""
    minutes, rest = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def eta(status: SearchStatus) -> str:
    """Time to the planned end at the rate so far; "-" before there is a rate."""
    left = status.planned - status.groups
    if not status.groups_here or left <= 0:
        return "-" if left > 0 else "0:00"
    return clock(left * status.elapsed / status.groups_here)


def figures(status: SearchStatus) -> str:
    """Throughput in one line."""
    elapsed = max(status.elapsed, 1e-9)
    busy = min(1.0, status.sampling_seconds / elapsed)
    parts = [
        f"{status.answers_here / elapsed:,.0f} answers/s",
        f"{status.tokens_here / elapsed:,.0f} tokens/s",
        f"policy busy {busy:.0%}",
        f"{status.repeats:,} repeats",
    ]
    if status.errors:
        parts.append("errors: " + ", ".join(f"{kind} {n:,}" for kind, n in status.errors.most_common(3)))
    return "  ".join(parts)


def solve_line(status: SearchStatus) -> str:
    known = [lane for lane in status.lanes if lane.target is not None]
    best = [lane.best for lane in status.lanes if lane.best is not None]
    mean = f"mean best {sum(best) / len(best):.3f}" if best else "mean best -"
    solved = f"solved {status.solved}/{len(known)}" if known else "no targets"
    return f"{solved}  {mean}  {status.groups:,}/{status.planned:,} groups  {status.answers:,} answers"


class Screen:
    """The live view of one search: header, bar, figures, and as many problems as the terminal has room for."""

    def __init__(self, status: SearchStatus, console: Console):
        self.status, self.console = status, console

    def __rich__(self) -> RenderableType:
        status = self.status
        head = Text.assemble(
            (status.run, "bold"), f"  {status.policy}  ", f"{clock(status.elapsed)} elapsed, {eta(status)} left"
        )
        if status.stopping:
            head.append(f"  stopping: {status.stopping}", "yellow")
        bar = Table.grid(expand=True)  # a bar by itself does not end its line
        bar.add_row(ProgressBar(total=max(1, status.planned), completed=status.groups))
        lines: list[RenderableType] = [head, bar, Text(solve_line(status)), Text(figures(status), "dim")]
        room = max(3, self.console.height - len(lines) - 4)
        table = Table(box=None, pad_edge=False, expand=True)
        for title, justify in (("problem", "left"), ("iterations", "right"), ("best", "right"), ("target", "right")):
            table.add_column(title, justify=justify, no_wrap=True)  # type: ignore[arg-type]
        table.add_column("state", no_wrap=True, ratio=1, overflow="ellipsis")
        for lane in status.lanes[:room]:
            table.add_row(*lane_row(lane))
        lines.append(table)
        if len(status.lanes) > room:
            lines.append(Text(f"... and {len(status.lanes) - room} more", "dim"))
        return Group(*lines)


def lane_row(lane: LaneStatus) -> tuple[str, str, str, str, str]:
    state = f"solved at {lane.solved_at}" if lane.solved_at is not None else lane.stopped or ""
    return (
        lane.name if len(lane.name) <= LONGEST_NAME else "…" + lane.name[1 - LONGEST_NAME :],
        f"{lane.done}/{lane.iterations}",
        "-" if lane.best is None else f"{lane.best:.4g}",
        "-" if lane.target is None else f"{lane.target:.4g}",
        state,
    )


@contextlib.asynccontextmanager
async def display(status: SearchStatus, console: Console, plain: bool) -> AsyncIterator[None]:
    """Show the search while the block runs: the screen, or a line every few seconds."""
    if not plain and console.is_terminal:
        with Live(Screen(status, console), console=console, refresh_per_second=REFRESHES_PER_SECOND, transient=True):
            yield
        return
    count = len(status.lanes)
    problems = "1 problem" if count == 1 else f"{count} problems"
    console.print(f"run {status.run}: {problems}, {status.policy}", soft_wrap=True, highlight=False)
    lines = asyncio.create_task(_lines(status, console))
    try:
        yield
    finally:
        lines.cancel()
        await asyncio.gather(lines, return_exceptions=True)


async def _lines(status: SearchStatus, console: Console) -> None:
    while True:
        await asyncio.sleep(PLAIN_SECONDS if status.elapsed < 60 else PLAIN_SECONDS_LATER)
        console.print(f"{clock(status.elapsed)}  {solve_line(status)}  {figures(status)}", soft_wrap=True)
