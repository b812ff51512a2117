"""When a candidate has used up its time: CPU time decides, and a busy machine does not.

With wall time only, the load would decide: an answer that takes three seconds by itself takes thirty next to ten
others. So a candidate that runs, or waits for a CPU, continues until it has used its CPU time, for a multiple of that
time at most; one that sleeps is ended after its time, as it gains nothing from more.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_LOOKS, _BETWEEN = 8, 0.01


class Deadline:
    """The time of one candidate, or of one case after another of it.

    root: the process below which the candidate is to be started
    seconds: of CPU time; longest: of wall time
    """

    def __init__(self, root: int, seconds: float, longest: float) -> None:
        self._root, self._seconds, self._longest = root, seconds, longest
        self._start = int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS) - 1
        self.restart(0.0)

    def restart(self, used: float) -> None:
        """Begin the time of the next case; the candidate has used that many CPU seconds before."""
        self._used = used
        self._began = time.perf_counter()
        self.next_look = self._began + min(self._seconds, self._longest)

    def pause(self, seconds: float) -> None:
        """Leave out so much of the wall time: what the candidate waited for the parent."""
        self._began += seconds
        self.next_look += seconds

    @property
    def wall(self) -> float:
        """Seconds since it began."""
        return time.perf_counter() - self._began

    def over(self) -> str | None:
        """Which limit it has reached, None while it may continue. Cheap before `next_look`, on perf_counter's clock."""
        if time.perf_counter() < self.next_look:
            return None
        if self.wall >= self._longest:
            return f"still running after {self._longest:g} s"
        for _ in range(_LOOKS):
            used, busy = processes_below(self._root, self._start)
            if used - self._used >= self._seconds:
                return f"more than {self._seconds:g} s of CPU time"
            if busy:
                self.next_look = time.perf_counter() + max(0.05, self._seconds / 20)
                return None
            time.sleep(_BETWEEN)
        return f"still running after {self._seconds:g} s"


def processes_below(root: int, since: int) -> tuple[float, bool]:
    """The CPU seconds of the processes below `root` that began `since` (in clock ticks after boot), with those of
    children they waited for; and whether any process below it runs, is ready to, or waits for a disk."""
    rows: dict[int, list[str]] = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                rows[int(place.name)] = (place / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # ended meanwhile
    inside, rest = {root}, set(rows)
    while more := {pid for pid in rest if int(rows[pid][1]) in inside}:
        inside |= more
        rest -= more
    all_below = [rows[pid] for pid in inside if pid in rows]
    ticks = sum(sum(map(int, fields[11:15])) for fields in all_below if int(fields[19]) >= since)
    return ticks / _TICKS, any(fields[0] in "RD" for fields in all_below)
