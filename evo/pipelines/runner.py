"""The loop over a pipeline's stages: each in a process of its own, what it came to on disk before the next begins."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from evo.exit_status import exit_code_of
from evo.pipelines.plan import Planned
from evo.pipelines.stage import Place
from evo.pipelines.state import StageState, State, Status, save
from problems.signal_names import signal_name

INTERRUPTED = 130
_WITHOUT_SCREEN = ("report", "problems")

Report = Callable[[Planned, StageState, str], None]
"""Told of a stage that `begins` or `ends`."""


class Runner:
    """Runs what is planned, once. quiet: stages show no screens, and what they print goes to stderr."""

    def __init__(self, place: Place, state: State, lock: int, *, plain: bool, quiet: bool, report: Report) -> None:
        self.place, self.state, self.lock = place, state, lock
        self.plain, self.quiet, self.report = plain, quiet, report
        self.interrupted = False
        self._process: subprocess.Popen[Any] | None = None

    def run(self, plan: Sequence[Planned], *, keep_going: bool) -> Status:
        """DONE, FAILED or INTERRUPTED. After a failure nothing is begun, or nothing that reads what failed."""
        for planned in plan:
            if planned.works:
                self.state.stages[planned.stage.name] = planned.record
        save(self.place.folder, self.state)  # what is done again counts as undone from here on, whatever happens
        failed = False
        with self._obeying_interrupts():
            for planned in plan:
                if self.interrupted:
                    break
                if not planned.works or (failed and not keep_going) or not self._readable(planned):
                    continue
                self._stage(planned)
                failed = failed or self.state.stages[planned.stage.name].state is Status.FAILED
        return Status.INTERRUPTED if self.interrupted else Status.FAILED if failed else Status.DONE

    def _readable(self, planned: Planned) -> bool:
        return all(self.state.stages[name].state is Status.DONE for name in planned.stage.reads)

    def _stage(self, planned: Planned) -> None:
        stage, record = planned.stage, planned.record
        started = time.monotonic()
        if record.state is not Status.WAITING and self.place.finished(record):
            self._record(record, state=Status.DONE, reason="")
            self.report(planned, record, "ends")
            return
        self._record(record, state=Status.BEGUN, reason="")
        self.report(planned, record, "begins")
        try:
            code, reason = self._process_of(self.place.command(stage, record, self.state))
        except Exception as error:
            if exit_code_of(error) is None:
                raise
            code, reason = 1, " ".join(str(error).split())
        seconds = round(record.seconds + time.monotonic() - started, 3)
        if code == 0 and not self.place.present(record):
            code, reason = 1, f"its command ended well but {self.place.address(record)} is not there"
        if code == 0:
            self._record(record, state=Status.DONE, seconds=seconds)
        elif code == INTERRUPTED or self.interrupted:
            self.interrupted = True
            self._record(record, state=Status.INTERRUPTED, seconds=seconds)
        else:
            self._record(record, state=Status.FAILED, seconds=seconds, reason=reason or _describe_exit(code))
        self.report(planned, record, "ends")

    def _record(self, record: StageState, **changes: Any) -> None:
        for name, value in changes.items():
            setattr(record, name, value)
        save(self.place.folder, self.state)

    def _process_of(self, arguments: Sequence[str]) -> tuple[int, str]:
        """Run `evo ARGUMENTS`; its exit code (negative: the signal that killed it) and its last word on stderr."""
        shown = ["--plain"] if (self.plain or self.quiet) and arguments[0] not in _WITHOUT_SCREEN else []
        reader, writer = os.pipe()
        command = [sys.executable, "-P", "-m", "evo.cli.stage_process", str(os.getpid()), str(writer)]
        try:
            self._process = subprocess.Popen(
                [*command, *arguments, *shown],
                # the same modules as here; the database here, where no list of processes shows its password
                env={**os.environ, "EVO_DB": self.place.db, "PYTHONPATH": os.pathsep.join(map(_absolute, sys.path))},
                pass_fds=(writer, self.lock),
                stdout=2 if self.quiet else None,  # stderr
            )
            if self.interrupted:  # just now, with nobody there yet to be told
                self._process.send_signal(signal.SIGINT)
            code = self._process.wait()
        finally:
            os.close(writer)
            self._process = None
        with open(reader, "rb") as pipe:
            os.set_blocking(reader, False)
            return code, (pipe.read() or b"").decode("utf-8", "replace")

    @contextlib.contextmanager
    def _obeying_interrupts(self) -> Iterator[None]:
        """Ctrl-C, TERM and HUP are the stage's to obey; here it is noted that nothing more is to be begun."""

        def interrupted(number: int, frame: FrameType | None) -> None:
            self.interrupted = True
            process = self._process
            # a terminal sends Ctrl-C to the stage as well: passed on, it would count as two, which stops at once
            if process is not None and (number != signal.SIGINT or not _at_the_terminal()):
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(number)

        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
            numbers.append(signal.SIGHUP)
        before = {number: signal.signal(number, interrupted) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _at_the_terminal() -> bool:
    """Whether this process and its children are what the terminal's keys reach."""
    for descriptor in (0, 1, 2):
        with contextlib.suppress(OSError):
            return os.tcgetpgrp(descriptor) == os.getpgrp()
    return False


def _absolute(entry: str) -> str:
    return entry if entry else str(Path.cwd())


def _describe_exit(code: int) -> str:
    if code == -signal.SIGKILL:
        return "its process was killed (signal 9); out of memory?"
    return f"its process died of {signal_name(-code)}" if code < 0 else f"exit code {code}"
