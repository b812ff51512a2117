"""Temporary folders: held while their process lives, removed by the next one where it was killed."""

from __future__ import annotations

import importlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from problems import temp_dirs
from problems.child_process import ChildProcess, Owner, WorkerAnswer, WorkerFailed
from problems.shims.user_file import defer


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    temp_dirs._sweep.cache_clear()
    yield tmp_path
    temp_dirs._sweep.cache_clear()


def held_elsewhere(place):
    """A process that holds a folder with a file in it: (process, folder)."""
    code = (
        "import sys, time\nfrom problems import temp_dirs\nfolder = temp_dirs.make('x')\n"
        "open(folder + '/file', 'w').close()\nprint(folder, flush=True)\ntime.sleep(60)"
    )
    environment = {**os.environ, "TMPDIR": str(place), "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
    return process, Path(process.stdout.readline().strip())


def test_a_folder_is_there_until_it_is_released(place):
    folder = temp_dirs.make("x")
    assert Path(folder).parent == place and Path(folder).stat().st_mode & 0o777 == 0o700
    temp_dirs.release(folder)
    temp_dirs.release(folder)
    assert list(place.iterdir()) == []


def test_what_a_killed_process_left_goes_with_the_next_and_what_lives_stays(place):
    dead, left = held_elsewhere(place)
    living, kept = held_elsewhere(place)
    try:
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        assert left.is_dir()
        own = temp_dirs.make("y")
        assert sorted(path.name for path in place.iterdir()) == sorted([kept.name, Path(own).name])
        assert (kept / "file").exists()
    finally:
        living.kill()
        living.wait()
        for process in (dead, living):
            process.stdout.close()


def test_other_folders_and_links_are_not_touched(place, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (place / "evo-sandbox-old").mkdir()
    (place / f"{temp_dirs.PREFIX}link").symlink_to(other)
    temp_dirs.release(temp_dirs.make("x"))
    assert other.is_dir() and (place / "evo-sandbox-old").is_dir()


def test_a_folder_that_another_removes_while_it_is_made_is_made_again(place, monkeypatch):
    usual, made = tempfile.mkdtemp, []

    def taken(**named):
        folder = usual(**named)
        made.append(folder)
        if len(made) == 1:
            Path(folder).rmdir()
        return folder

    monkeypatch.setattr(tempfile, "mkdtemp", taken)
    folder = temp_dirs.make("x")
    assert len(made) == 2 and folder == os.path.realpath(made[1])
    temp_dirs.release(folder)


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
        "test_processes:work", lost=lambda code, line: Lost(f"{code} {line}"), receive=heard.put, log=True
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
    other = ChildProcess("test_processes:work", lost=lambda code, _: Lost(str(code)))
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
        "worker = ChildProcess('test_processes:work', lost=lambda code, _: OSError(code))\n"
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


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The name of a deferred package, which counts in sys.modules["counter"].runs how often its __init__ ran."""
    name = "deferred_sample"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text(
        "import counter\ncounter.runs += 1\nfrom deferred_sample.inner import two\nthree = two + 1\n"
    )
    (tmp_path / name / "inner.py").write_text("two = 2\n")
    (tmp_path / "counter.py").write_text("runs = 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    defer(name)
    yield name
    for loaded in [module for module in sys.modules if module.split(".")[0] in (name, "counter")]:
        del sys.modules[loaded]


def runs():
    return importlib.import_module("counter").runs


def test_a_module_inside_is_imported_alone(package):
    inner = importlib.import_module(f"{package}.inner")
    assert inner.two == 2 and runs() == 0


def test_an_attribute_loads_it_once(package):
    importlib.import_module(f"{package}.inner")
    module = sys.modules[package]
    assert module.three == 3 and module.two == 2
    assert runs() == 1
    with pytest.raises(AttributeError, match="four"):
        _ = module.four


def test_names_are_imported_from_it(package):
    space = {}
    exec(f"from {package} import three", space)
    assert space["three"] == 3 and runs() == 1


def test_one_that_fails_to_load_says_so_every_time(package, tmp_path):
    (tmp_path / package / "__init__.py").write_text("import nothing_of_that_name\n")
    module = importlib.import_module(package)
    for _ in range(2):
        with pytest.raises(ImportError, match="nothing_of_that_name"):
            _ = module.three
    assert importlib.import_module(f"{package}.inner").two == 2


def test_one_that_is_not_installed_is_missing_as_ever():
    defer("nothing_of_that_name")
    with pytest.raises(ModuleNotFoundError, match="nothing_of_that_name"):
        importlib.import_module("nothing_of_that_name")
