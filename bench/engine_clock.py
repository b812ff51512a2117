"""What the event loop does with its time, and who spends the processor's."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from evo.runs.launch import Launched

TICKS = os.sysconf("SC_CLK_TCK")


class Clock:
    """Exclusive time of nested pieces of work in one thread."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._open: list[str] = []
        self._since = 0.0
        self._thread = threading.get_ident()

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            if threading.get_ident() != self._thread:
                return function(*arguments, **named)
            self._switch()
            self._open.append(name)
            try:
                return function(*arguments, **named)
            finally:
                self._switch()
                self._open.pop()

        return timed

    def _switch(self) -> None:
        now = time.perf_counter()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now


def cores() -> dict[str, float]:
    """CPU seconds so far: of the event loop's thread, of the scorer's threads, of every other thread (the engine), of
    children that have ended or go on."""
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    spent: dict[str, float] = defaultdict(float)
    for entry in Path("/proc/self/task").iterdir():
        name = names.get(int(entry.name), "")
        whose = "loop" if name == "MainThread" else "scorer threads" if name.startswith("score") else "engine"
        spent[whose] += _ticks(entry / "stat")
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent["children"] += ended.ru_utime + ended.ru_stime + sum(map(_tree, _children(os.getpid())))
    return dict(spent)


def _ticks(stat: Path, of_children: bool = False) -> float:
    try:
        fields = stat.read_text().rsplit(")", 1)[1].split()
    except OSError:  # it has just ended
        return 0.0
    return sum(map(int, fields[11 : 15 if of_children else 13])) / TICKS


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, task.read_text().split())
        except OSError:
            continue
    return found


def _tree(pid: int) -> float:
    return _ticks(Path(f"/proc/{pid}/stat"), True) + sum(map(_tree, _children(pid)))


@contextmanager
def clocked(clock: Clock, launched: Launched) -> Iterator[None]:
    """Time what the event loop does for this search."""
    from evo.search import score

    search = launched.search
    with ExitStack() as stack:

        def timed(name: str, owner: Any, attribute: str) -> None:
            stack.enter_context(mock.patch.object(owner, attribute, clock.wrap(name, getattr(owner, attribute))))

        timed("database", search, "_commit_ready")
        timed("proposing", search, "_propose")
        timed("reporting", search, "_report")
        timed("scoring in the loop", launched.scorer, "_judge")
        timed("identity", score, "identity")
        for problem_run in launched.problem_runs:
            timed("selection", problem_run.population, "select")
            for style in problem_run.prompt_formats:
                timed("prompts", style, "build")
                timed("parsing", style, "parse")
        yield
