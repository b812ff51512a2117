"""The transport of worker processes: answers in any order, faults, cancelling, and both ends' deaths."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from problems.child_process import ChildProcess, Owner, WorkerAnswer, WorkerFailed

HERE = Path(__file__).parent


class Lost(Exception):
    """The process has ended."""


def work(owner: Owner) -> None:
    """Answers `later` once `now` was asked, and tells which numbers were cancelled."""
    messages: queue.SimpleQueue = queue.SimpleQueue()
    owner.listen(lambda *message: messages.put(message), lambda: os._exit(0))
    held = []
    while True:
        number, kind, content = messages.get()
        if kind == "close":
            return
        if kind == "later":
            held.append(number)
        elif kind == "cancel":
            owner.tell("cancelled" if content in held else "unknown")
        elif kind == "fault":
            owner.answer(number, WorkerAnswer(fault=ValueError("your input")))
        elif kind == "bug":
            owner.answer(number, WorkerAnswer(bug="Traceback: ours"))
        elif kind == "print":
            print(content, flush=True)
            os._exit(3)
        elif kind == "stay":
            time.sleep(60)
        else:
            owner.answer(number, WorkerAnswer(content))
            for waiting in held:
                owner.answer(waiting, WorkerAnswer("late"))


@pytest.fixture
def started(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    heard: queue.SimpleQueue = queue.SimpleQueue()
    worker = ChildProcess(
        "test_child_process:work", lost=lambda code, line: Lost(f"{code} {line}"), receive=heard.put, log=True
    )
    yield worker, heard
    worker.end(0.0)


def test_answers_come_in_any_order_and_faults_are_raised_where_it_was_asked(started):
    worker, _ = started
    later, now = worker.ask("later"), worker.ask("now", [1])
    assert now.result(30) == [1] and later.result(30) == "late"
    with pytest.raises(ValueError, match="your input"):
        worker.ask("fault").result(30)
    with pytest.raises(WorkerFailed, match="Traceback: ours"):
        worker.ask("bug").result(30)


def test_a_cancelled_request_is_told_to_the_worker(started):
    worker, heard = started
    held = worker.ask("later")
    held.cancel()
    assert heard.get(timeout=30) == "cancelled"
    with pytest.raises(CancelledError):
        held.result(1)


def test_once_the_process_has_ended_everything_fails_alike(started):
    worker, _ = started
    later = worker.ask("later")
    worker.tell("print", "first\nlast line\n")
    for request in (later, worker.ask("now")):
        with pytest.raises(Lost, match="3 last line"):
            request.result(30)
    assert isinstance(worker.gone, Lost)
    worker.tell("now")  # dropped


def test_it_is_ended_in_order_and_killed_if_it_does_not_end(started):
    worker, _ = started
    assert worker.ask("now", 1).result(30) == 1
    assert worker.end(30, Lost("closed")) == 0
    with pytest.raises(Lost, match="closed"):
        worker.ask("now").result(1)
    other = ChildProcess("test_child_process:work", lost=lambda code, _: Lost(str(code)))
    other.tell("stay")
    assert other.end(0.5) == -signal.SIGKILL and other.end(0.5) == -signal.SIGKILL


def test_two_threads_that_end_it_at_once_close_its_pipe_one_after_the_other(started, monkeypatch):
    worker, _ = started
    close, inside, most = worker._pipe.close, [], []

    def close_slowly():
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.05)
        close()
        inside.pop()

    monkeypatch.setattr(worker._pipe, "close", close_slowly)
    threads = [threading.Thread(target=worker.end, args=(10,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[:2] == [1, 1]


def test_ctrl_c_is_the_owners_and_a_killed_owner_takes_its_worker_with_it():
    program = (
        "import os, signal, sys\nfrom problems.child_process import ChildProcess\n"
        f"sys.path.append({str(HERE)!r})\n"
        "worker = ChildProcess('test_child_process:work', lost=lambda code, _: OSError(code))\n"
        "worker.ask('now').result(30)\n"
        "os.kill(worker.pid, signal.SIGINT)\n"
        "print(worker.pid, worker.ask('now', 'alive').result(30), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    pid, word = ended.stdout.split()
    assert word == "alive"
    until = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()


def test_any_thread_may_ask(started):
    worker, _ = started
    results: list[int] = []
    threads = [threading.Thread(target=lambda n=n: results.append(worker.ask("now", n).result(30))) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == list(range(20))
