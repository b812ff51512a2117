"""How a caller in Python sees work as it proceeds: a bar. The command line has lines (evo.cli.live) and a screen."""

from __future__ import annotations

import contextlib
import sys
import warnings
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from evo.search.status import clock, describe_errors
from evo.tui.line import clean
from evo.values import rate

if TYPE_CHECKING:
    from evo.progress.snapshot import Snapshot

STOPPING = "interrupted; finishing the iterations in flight; press again to stop at once"
SHAPE = "{l_bar}{bar:20}| {n_fmt}/{total_fmt}{unit} [{elapsed}<{remaining}{postfix}]"
"""Of a bar on a terminal, as tqdm takes it."""
LOG_SECONDS = 10.0
"""Between two lines of an output that is no terminal."""


@dataclass(frozen=True)
class Steps:
    """How far a training or an evaluation is. title: names the work; detail: figures next to it; done, total: in
    `unit`"""

    title: str
    done: int
    total: int
    unit: str
    detail: str = ""


class Display:
    """Shows nothing. Each method is called by the thread that works, in a `with` block.

    shows_end: whether a stored run is shown once more at its end
    """

    shows_end = False

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *exception: object) -> None:
        """The work has ended."""

    def begin(self, db: str, name: str) -> None:
        """A run or comparison is stored, and will be searched."""

    def pause(self, elapsed: float) -> float | None:
        """Seconds until a stored run is shown next, `elapsed` seconds after its begin; None: it is not shown."""
        return None

    def show(self, snapshot: Snapshot) -> None:
        """A stored run or comparison."""

    def update(self, steps: Steps) -> None:
        """Other work."""

    def note(self, text: str) -> None:
        """A line that stays."""

    def stopping(self) -> None:
        """Ctrl-C was pressed once, and the work finishes what is in flight."""


class Bar(Display):
    """A bar of tqdm: on a terminal, below a notebook's cell, or as a line now and then."""

    shows_end = True

    def __init__(self, file: IO[str] | None = None) -> None:
        """file: the stream that it is written to, stderr by default"""
        self._bar: Any = None
        self._file = file

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            with contextlib.suppress(OSError, ValueError):  # a closed stream is not a fault of the work
                self._bar.refresh()
                self._bar.close()

    def pause(self, elapsed: float) -> float | None:
        return 1.0

    def show(self, snapshot: Snapshot) -> None:
        detail = ", ".join(describe_standing(snapshot))
        self.update(Steps(snapshot.name, snapshot.groups, snapshot.planned, "iterations", detail))

    def update(self, steps: Steps) -> None:
        if self._bar is None:
            with warnings.catch_warnings(action="ignore"):  # of a notebook without widgets, where it writes text
                from tqdm.auto import tqdm
            file = self._file or sys.stderr
            pause = 0.1 if file.isatty() or "ipykernel" in sys.modules else LOG_SECONDS
            kept = {"mininterval": pause, "dynamic_ncols": True, "file": self._file, "desc": steps.title}
            if file.isatty():  # a title beside the bar would leave the figures no room
                print(steps.title, file=file)
                kept |= {"desc": None, "bar_format": SHAPE}
            self._bar = tqdm(total=steps.total, unit=f" {steps.unit}", **kept)
        self._bar.set_postfix_str(steps.detail, refresh=False)
        self._bar.total = steps.total
        self._bar.update(steps.done - self._bar.n)

    def note(self, text: str) -> None:
        if self._bar is not None:
            self._bar.write(text, file=self._file or sys.stderr)

    def stopping(self) -> None:
        print(STOPPING, file=sys.stderr)


def format_line(snapshot: Snapshot, now: float) -> str:
    """The snapshot as one line: time, share done, time left, iterations, and the arms' solved problems, or mean best
    fitness if no problem has a target; for a single run also its rates."""
    from islands.lock import LOST  # slow to import: the database's library

    arms, elapsed, left = snapshot.arms, clock(snapshot.elapsed(now)), snapshot.eta()
    several = len(arms) > 1
    parts = [elapsed, f"{snapshot.groups / max(1, snapshot.planned):4.0%}"]
    if left:
        parts.append(f"about {clock(left)} left")
    parts.append(f"{snapshot.groups:,}/{snapshot.planned:,} iterations")
    parts.append(", ".join(f"{n} {status}" for status, n in snapshot.statuses.items()))
    parts += describe_standing(snapshot)
    if snapshot.failed:
        parts.append(f"{len(snapshot.failed)} left out, scorer failed")
    if not several:
        rates = [(arms[0].rate("answers"), "answers/s"), (arms[0].rate("tokens"), "tokens/s")]
        parts += [f"{rate(value)} {unit}" for value, unit in rates if value is not None]
        if (busy := arms[0].policy_busy) is not None:
            parts.append(f"waiting for the model {busy:.0%} of the time")
    if cost := sum(arm.totals.cost for arm in arms):
        parts.append(f"cost {cost:.4g}")
    flying = sum(arm.waiting("in_flight") or 0 for arm in arms)
    if flying and not several:
        ahead = sum(arm.waiting("sampled_ahead") or 0 for arm in arms)
        parts.append(f"{ahead:,} of {flying:,} iterations in flight sampled")
    if errors := snapshot.errors:
        parts.append(describe_errors(errors))
    if snapshot.ended and LOST in snapshot.reasons:
        parts.append(LOST)
    return "  ".join(clean(part) for part in parts)


def describe_standing(snapshot: Snapshot) -> list[str]:
    """The arms' solved problems, or their mean best fitness if no problem has a target; of a single run both."""
    from evo.progress.rows import best_title, mean_best, solved_cell

    arms = snapshot.arms
    solved = [(arm.name, solved_cell(arm).text) for arm in arms if arm.results is not None and arm.results.judged.any()]
    best = [(arm.name, mean_best(snapshot, arm).text) for arm in arms] if len(arms) == 1 or not solved else []
    return [
        f"{title} " + ", ".join(f"{name} {text}" if len(arms) > 1 else text for name, text in values)
        for title, values in (("solved", solved), (best_title(snapshot), best))
        if values
    ]
