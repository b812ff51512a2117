"""CPU time decides a time-out: a busy machine is no verdict, and what only sleeps is not waited for."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from problems.sandbox import worker
from problems.sandbox.contract import EvaluatorSpec, Limits, Program, SandboxFault
from problems.sandbox.isolation import choose_mode
from problems.sandbox.pool import Sandbox
from problems.sandbox.worker import Deadline, WorkerPool, processes_below

BURNERS = 4
"""A fifth of a CPU is left: less than a time limit asks for, and more than a tenth, where wall time does decide."""
WORK = """
import time
def f():
    while time.process_time() < 0.4:
        pass
    return "done"
def spin():
    while True:
        pass
def sleep():
    time.sleep(1000)
"""


@pytest.fixture
def cpu() -> Iterator[int]:
    """A CPU on which BURNERS processes that never sleep run too."""
    (chosen, *_) = os.sched_getaffinity(0)
    # each in a session of its own: the scheduler shares a CPU out between sessions, and the sandbox is in another
    burn = [sys.executable, "-S", "-c", "while 1: pass"]
    burners = [subprocess.Popen(burn, start_new_session=True) for _ in range(BURNERS)]
    for burner in burners:
        os.sched_setaffinity(burner.pid, {chosen})
    yield chosen
    for burner in burners:
        burner.kill()
        burner.wait()


def pin(sandbox_pid: int, cpu: int) -> None:
    """The worker, and with it each fork of it, to one CPU."""
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            family, pid = int(place.name), int(place.name)
            while family not in (0, 1, sandbox_pid):
                try:
                    family = int((Path("/proc") / str(family) / "stat").read_text().rpartition(")")[2].split()[1])
                except OSError:
                    break
            if family == sandbox_pid:
                os.sched_setaffinity(pid, {cpu})


@pytest.mark.long
@pytest.mark.parametrize("mode", ["calls", "stdin"])
def test_a_program_on_a_busy_cpu_is_not_timed_out(cpu: int, mode: str) -> None:
    limits = Limits(cpu_seconds=1.0, wall_seconds=100.0)
    with Sandbox(choose_mode(), 1) as sandbox:
        sandbox.run(Program("", ("1",)), limits)
        (worker,) = sandbox.pool(Limits()).idle
        assert worker.process is not None
        pin(worker.process.pid, cpu)
        code = WORK + ("" if mode == "calls" else "print(f())")
        (outcome,) = sandbox.run(Program(code, ("f()" if mode == "calls" else "",), mode), limits)  # type: ignore[arg-type]
    assert outcome.status == "ok", outcome
    assert outcome.wall_seconds > limits.cpu_seconds, "it was not held up, so nothing was tested"


@pytest.mark.long
def test_an_evaluator_on_a_busy_cpu_is_not_timed_out(cpu: int, tmp_path: Path) -> None:
    (tmp_path / "scorer.py").write_text(WORK)
    with (
        Sandbox(choose_mode(), 1) as sandbox,
        sandbox.evaluator(EvaluatorSpec(str(tmp_path / "scorer.py"))) as evaluator,
    ):
        ((worker),) = evaluator._pool.idle
        assert worker.process is not None
        pin(worker.process.pid, cpu)
        outcome = evaluator.call("f", timeout=1.0)
        assert outcome.status == "ok" and outcome.wall_seconds > 1.0, outcome


def test_an_evaluator_that_works_is_stopped_by_its_cpu_time_and_one_that_sleeps_by_the_clock(tmp_path: Path) -> None:
    (tmp_path / "scorer.py").write_text(WORK)
    with (
        Sandbox(choose_mode(), 1) as sandbox,
        sandbox.evaluator(EvaluatorSpec(str(tmp_path / "scorer.py"))) as evaluator,
    ):
        spun = evaluator.call("spin", timeout=0.2)
        assert (spun.status, spun.message) == ("timeout", "more than 0.2 s of CPU time")
        slept = evaluator.call("sleep", timeout=0.2)
        assert (slept.status, slept.message) == ("timeout", "still running after 0.2 s")


@pytest.mark.parametrize(
    ("used", "busy", "says"),
    [
        (0.1, True, None),  # held up by others
        (0.1, False, "still running after 0.5 s"),
        (0.6, True, "more than 0.5 s of CPU time"),
        (0.6, False, "more than 0.5 s of CPU time"),
    ],
)
def test_what_decides(monkeypatch: pytest.MonkeyPatch, used: float, busy: bool, says: str | None) -> None:
    clock = [100.0]
    monkeypatch.setattr(worker.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(worker, "processes_below", lambda root, since: (used + 7.0, busy))
    given = Deadline(1, seconds=0.5, longest=5.0)
    given.restart(7.0)
    assert given.over() is None
    clock[0] += 0.6
    assert given.over() == says
    clock[0] = 104.9
    assert given.over() == says
    given.pause(2.0)
    clock[0] = 106.9
    assert given.over() in (says, None)
    clock[0] = 107.1
    assert given.over() == "still running after 5 s"


def test_only_what_began_since_counts() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while 1: pass'])"
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=True) as parent:
        while processes_below(parent.pid, 0) < (0.05, True):
            pass
        assert processes_below(parent.pid, 1 << 60) == (0, True)
        assert processes_below(os.getpid(), 0)[1]
        os.killpg(parent.pid, 9)


class Starts:
    """Makes stand-ins for workers: the first at once, taking `seconds` of the clock; later ones when they are let."""

    def __init__(self, monkeypatch, seconds):
        self.now, self.seconds, self.made = 0.0, seconds, []
        self.begun, self.let, self.fault = threading.Event(), threading.Event(), None
        monkeypatch.setattr(worker.time, "perf_counter", lambda: self.now)

    def __call__(self):
        if self.made:
            self.begun.set()
            assert self.let.wait(30)
        else:
            self.now += self.seconds
        if self.fault is not None:
            raise self.fault
        worker = types.SimpleNamespace(soiled=False, closed=False)
        worker.close = lambda: setattr(worker, "closed", True)
        self.made.append(worker)
        return worker


def in_thread(work):
    """A thread that takes a worker; `found` is what it got."""
    found = []

    def run():
        try:
            found.append(work())
        except SandboxFault as fault:
            found.append(fault)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, found


def test_quick_calls_take_turns_on_one_worker(monkeypatch):
    """None waits as long as a start takes, so none is made."""
    starts = Starts(monkeypatch, seconds=1000.0)
    pool = WorkerPool(starts, 4, "closed", costly=True)
    for _ in range(50):
        first = pool.take()
        thread, found = in_thread(pool.take)
        pool.give(first)
        thread.join(30)
        assert found == [first]
        pool.give(first)
    assert len(starts.made) == 1 and not starts.begun.is_set()


def test_who_has_waited_for_a_start_begins_one_and_takes_what_is_free_first(monkeypatch):
    starts = Starts(monkeypatch, seconds=0.0)  # so that waiting at all is waiting long enough
    pool = WorkerPool(starts, 2, "closed", costly=True)
    first = pool.take()
    thread, found = in_thread(pool.take)
    assert starts.begun.wait(30)
    pool.give(first)  # while the second starts
    thread.join(30)
    assert found == [first]
    starts.let.set()
    second = pool.take()  # now there are two, and never a third
    assert second is starts.made[1]
    waiting, found = in_thread(pool.take)
    waiting.join(0.1)
    assert found == [] and len(starts.made) == 2
    pool.give(second)
    waiting.join(30)
    assert found == [second]


def test_waiting_adds_up_over_calls(monkeypatch):
    starts = Starts(monkeypatch, seconds=10.0)
    pool = WorkerPool(starts, 2, "closed", costly=True)
    for turn in range(2):
        assert not starts.begun.is_set()
        first = pool.take()
        wait = pool._changed.wait

        def pass_time(left, wait=wait):
            assert left == 10.0 - 6.0 * turn  # noqa: B023
            starts.now += 6.0
            return wait(30)

        monkeypatch.setattr(pool._changed, "wait", pass_time)
        thread, found = in_thread(pool.take)
        while starts.now < 16.0 + 6.0 * turn:
            time.sleep(0.001)
        monkeypatch.setattr(pool._changed, "wait", wait)
        pool.give(first)
        thread.join(30)
        assert found == [first]
        pool.give(first)
    pool.take()
    starts.let.set()
    third, found = in_thread(pool.take)
    third.join(30)
    assert found == [starts.made[1]] and starts.begun.is_set()


def test_a_start_that_fails_leaves_the_others_at_work_and_is_told_when_none_is_left(monkeypatch):
    starts = Starts(monkeypatch, seconds=0.0)
    pool = WorkerPool(starts, 2, "closed", costly=True)
    first = pool.take()
    starts.fault = SandboxFault("no memory for another")
    starts.let.set()
    thread, found = in_thread(pool.take)
    assert starts.begun.wait(30)
    pool.give(first)
    thread.join(30)
    assert found == [first]
    first.soiled = True
    pool.give(first)
    assert first.closed
    with pytest.raises(SandboxFault, match="no memory for another"):
        pool.take()


def test_closing_tells_those_who_wait_and_ends_what_comes_back(monkeypatch):
    starts = Starts(monkeypatch, seconds=0.0)
    pool = WorkerPool(starts, 2, "closed", costly=True)
    first = pool.take()
    thread, found = in_thread(pool.take)
    assert starts.begun.wait(30)
    pool.close()
    thread.join(30)
    assert str(found[0]) == "closed"
    pool.give(first)
    starts.let.set()
    for started in [one for one in threading.enumerate() if one.name == "sandbox-start"]:
        started.join(30)
    assert [worker.closed for worker in starts.made] == [True, True]
