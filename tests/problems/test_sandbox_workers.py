"""CPU time decides a time-out: a busy machine is no verdict, and what only sleeps is not waited for."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest

from problems.sandbox import worker
from problems.sandbox.contract import EvaluatorSpec, SandboxFault
from problems.sandbox.pool import Sandbox
from problems.sandbox.worker import Deadline, WorkerPool, processes_below

WORK = """
import time
def spin():
    while True:
        pass
def sleep():
    time.sleep(1000)
"""


def test_an_evaluator_that_works_is_stopped_by_its_cpu_time_and_one_that_sleeps_by_the_clock(tmp_path: Path) -> None:
    (tmp_path / "scorer.py").write_text(WORK)
    with Sandbox("auto", 1) as sandbox, sandbox.evaluator(EvaluatorSpec(str(tmp_path / "scorer.py"))) as evaluator:
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
    clock = [93.0]
    monkeypatch.setattr(worker.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(worker, "processes_below", lambda root, since: (used + 7.0, busy))
    given = Deadline(1, seconds=0.5, longest=5.0)
    clock[0] += 7.0
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
    """Makes stand-ins for workers, each of which takes `seconds` of the clock."""

    def __init__(self, monkeypatch, seconds):
        self.now, self.seconds, self.made, self.fault = 0.0, seconds, [], None
        monkeypatch.setattr(worker.time, "perf_counter", lambda: self.now)

    def __call__(self):
        self.now += self.seconds
        if self.fault is not None:
            raise self.fault
        worker = types.SimpleNamespace(tainted=False, closed=False)
        worker.close = lambda: setattr(worker, "closed", True)
        self.made.append(worker)
        return worker


@contextlib.contextmanager
def borrower(pool):
    """Another thread that borrows a worker: (an event that lets it give it back, what it got)."""
    done, found = threading.Event(), queue.SimpleQueue()

    def run():
        try:
            with pool.lend() as worker:
                found.put(worker)
                done.wait(30)
        except SandboxFault as fault:
            found.put(fault)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield done, found
    done.set()
    thread.join(30)


def test_quick_calls_take_turns_on_one_worker(monkeypatch):
    """None waits as long as a start takes, so none is made."""
    starts = Starts(monkeypatch, seconds=1000.0)
    pool = WorkerPool(starts, 4, "closed")
    for _ in range(50):
        with contextlib.ExitStack() as stack:
            with pool.lend() as first:
                done, found = stack.enter_context(borrower(pool))
            assert found.get(timeout=30) is first
    assert len(starts.made) == 1


def test_callers_that_waited_as_long_as_a_start_begin_one_and_waiting_adds_up(monkeypatch):
    starts = Starts(monkeypatch, seconds=10.0)
    pool = WorkerPool(starts, 2, "closed")
    wait, waits = pool._changed.wait, []

    def pass_time(left):
        waits.append(left)
        starts.now += 6.0
        return wait(0.01)

    with pool.lend() as first:
        monkeypatch.setattr(pool._changed, "wait", pass_time)
        with borrower(pool) as (done, found):
            assert found.get(timeout=30) is starts.made[1] is not first
            assert waits == [10.0, 4.0]
            with borrower(pool) as (_, third):  # there are two, and never a third
                while len(waits) < 5:
                    time.sleep(0.001)
                assert waits[2:5] == [None] * 3 and third.empty()
                done.set()  # so that the third gets a worker, and its thread ends


def test_a_start_that_fails_is_told_to_its_caller_and_leaves_the_others_at_work(monkeypatch):
    starts = Starts(monkeypatch, seconds=0.0)
    pool = WorkerPool(starts, 2, "closed")
    with pool.lend() as first:
        starts.fault = SandboxFault("no memory for another")
        with borrower(pool) as (_, found):
            assert "no memory for another" in str(found.get(timeout=30))
    with pool.lend() as again:
        assert again is first
        first.tainted = True
    assert first.closed
    with pytest.raises(SandboxFault, match="no memory for another"), pool.lend():
        pass


def test_closing_tells_those_who_wait_and_ends_what_comes_back(monkeypatch):
    starts = Starts(monkeypatch, seconds=0.0)
    pool = WorkerPool(starts, 1, "closed")
    with pool.lend() as first, borrower(pool) as (_, found):
        pool.close()
        assert str(found.get(timeout=30)) == "closed" and not first.closed
    assert first.closed
