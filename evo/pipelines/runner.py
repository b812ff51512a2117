"""Run the stages of a pipeline, each in a separate process. Its result is stored before a stage that reads it begins.

One stage runs at a time, in the file's order.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

from evo.command_process import CommandProcess
from evo.errors import INTERRUPTED
from evo.exit_status import describe_exit, exit_code_of
from evo.pipelines.plan import Planned
from evo.pipelines.stage import PipelineFolder
from evo.pipelines.state import StageState, State, Status, save

_WITHOUT_SCREEN = ("report", "problems")

Report = Callable[[Planned, StageState, str], None]
"""Called when a stage `begins` or `ends`."""


class PipelineRunner:
    """Runs a plan, once. quiet: stages show no screens, and print to stderr."""

    def __init__(
        self,
        place: PipelineFolder,
        state: State,
        lock: int,
        *,
        plain: bool,
        quiet: bool,
        report: Report,
    ) -> None:
        self.place, self.state, self.lock = place, state, lock
        self.plain, self.quiet, self.report = plain, quiet, report
        self.interrupted = self._failed = False
        self._processes: list[CommandProcess] = []
        self._writing = threading.RLock()  # for the state and the reports

    def run(self, plan: Sequence[Planned], *, keep_going: bool) -> Status:
        """Returns DONE, FAILED or INTERRUPTED. After a failure no stage is begun; with keep_going, none that reads
        it."""
        for planned in plan:
            if planned.works:
                self.state.stages[planned.stage.name] = planned.record
        save(self.place.folder, self.state)  # stages that are done again count as undone from now on
        with self._obeying_interrupts():
            for planned in plan:
                if self._may_begin(planned, keep_going):
                    self._stage(planned)
        return Status.INTERRUPTED if self.interrupted else Status.FAILED if self._failed else Status.DONE

    def _may_begin(self, planned: Planned, keep_going: bool) -> bool:
        if self.interrupted or not planned.works or (self._failed and not keep_going):
            return False
        return all(self.state.stages[name].state is Status.DONE for name in planned.stage.reads)

    def _stage(self, planned: Planned) -> None:
        record, started = planned.record, time.monotonic()
        if record.state is not Status.WAITING and self.place.finished(record):
            self._record(planned, "ends", state=Status.DONE, reason="")
            return
        self._record(planned, "begins", state=Status.BEGUN, reason="")
        try:
            code, reason = self._do(planned)
        except Exception as error:
            if exit_code_of(error) is None:
                raise
            code, reason = 1, " ".join(str(error).split())
        seconds = round(record.seconds + time.monotonic() - started, 3)
        if code == 0 and not self.place.present(record):
            code, reason = 1, f"its command ended well but {self.place.address(record)} is not there"
        if code == 0:
            self._record(planned, "ends", state=Status.DONE, seconds=seconds)
        elif code == INTERRUPTED or self.interrupted:
            self.interrupted = True
            self._record(planned, "ends", state=Status.INTERRUPTED, seconds=seconds)
        else:
            why = reason or describe_exit(code)
            self._failed = True
            self._record(planned, "ends", state=Status.FAILED, seconds=seconds, reason=why)

    def _record(self, planned: Planned, what: str, **changes: Any) -> None:
        with self._writing:
            for name, value in changes.items():
                setattr(planned.record, name, value)
            save(self.place.folder, self.state)
            self.report(planned, planned.record, what)

    def _do(self, planned: Planned) -> tuple[int, str]:
        return self._process_of(self.place.command(planned.stage, planned.record, self.state))

    def _process_of(self, arguments: Sequence[str]) -> tuple[int, str]:
        """Run `evo ARGUMENTS`: its exit code (negative: the signal that killed it) and its last line on stderr."""
        shown = ["--plain"] if (self.plain or self.quiet) and arguments[0] not in _WITHOUT_SCREEN else []
        process = CommandProcess(
            [*arguments, *shown],
            environment={"EVO_DB": self.place.db},
            held=(self.lock,),
            stdout=2 if self.quiet else None,  # stderr
        )
        self._processes.append(process)
        if self.interrupted:  # interrupted before the process could get the signal
            process.send_signal(signal.SIGINT)
        try:
            return process.wait()
        finally:
            self._processes.remove(process)

    @contextlib.contextmanager
    def _obeying_interrupts(self) -> Iterator[None]:
        """Let the stage react to Ctrl-C, TERM and HUP; this process only stops to begin stages."""

        def interrupted(number: int, frame: FrameType | None) -> None:
            self.interrupted = True
            # the terminal sends Ctrl-C to the stage too: passed on, it would count twice and stop the stage at once
            if number != signal.SIGINT or not _at_the_terminal():
                for process in list(self._processes):
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
    """Whether the terminal's Ctrl-C reaches this process and its children."""
    for descriptor in (0, 1, 2):
        with contextlib.suppress(OSError):
            return os.tcgetpgrp(descriptor) == os.getpgrp()
    return False
