"""When a scorer's further workers start, and who gets them; workers here are stand-ins, and the clock is the test's."""

import threading
import time
import types

import pytest

from problems.sandbox import worker
from problems.sandbox.contract import SandboxFault
from problems.sandbox.worker import WorkerPool


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
