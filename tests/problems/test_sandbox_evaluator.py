"""Users' scorer files: loaded once, forked per call, whole trees killed. CPU time decides a time-out: a busy machine is
no verdict, and what only sleeps is not waited for."""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import subprocess
import sys
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from problems.sandbox import worker
from problems.sandbox.contract import EvaluatorSpec, Limits, SandboxFault
from problems.sandbox.pool import Evaluator, Sandbox, probe
from problems.sandbox.worker import Deadline, WorkerPool, processes_below

SCORER = Path(__file__).parent / "data" / "scorer.txt"
BESIDE = SCORER.with_name("scorer_beside_files.txt")


def opened_to_all(folder: Path) -> Path:
    """The suite may run as root, and the scorer's user is another."""
    for part in (folder, folder.parent, folder.parent.parent):
        part.chmod(part.stat().st_mode | 0o055)
    return folder


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = opened_to_all(tmp_path_factory.mktemp("scorer"))
    path = folder / "scorer.py"
    path.write_text(SCORER.read_text())
    (folder / "secret.txt").write_text("secret")
    return path


@pytest.fixture(scope="module", params=["bwrap", "landlock"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    if (reason := probe(request.param)) is not None:
        pytest.skip(f"{request.param} is not available here: {reason}")
    with Sandbox(request.param, workers=2) as sandbox:
        yield sandbox


@pytest.fixture(scope="module", params=["bwrap", "landlock", "plain"])
def evaluator(request: pytest.FixtureRequest, scorer: Path) -> Iterator[Evaluator]:
    """An isolated scorer in each mode, and one that is trusted."""
    isolated = request.param != "plain"
    if isolated and (reason := probe(request.param)) is not None:
        pytest.skip(f"{request.param} is not available here: {reason}")
    with pytest.MonkeyPatch.context() as patch, Sandbox(request.param if isolated else "auto", workers=2) as sandbox:
        patch.setenv("EVO_TEST_SECRET", "secret")
        spec = EvaluatorSpec(str(scorer), isolated=isolated, environment={"TOKEN": "given"})
        with sandbox.evaluator(spec, Limits(processes=32, memory=256 << 20)) as evaluator:
            yield evaluator


def isolated(evaluator: Evaluator) -> bool:
    return evaluator._spec.isolated


def test_each_call_starts_from_the_loaded_scorer(evaluator: Evaluator) -> None:
    poison = "import sys\nscorer = sys.modules['scorer']\nscorer.text = lambda *a: 'owned'\nscorer.state = 0\n"
    assert evaluator.call("on", "poison", poison, timeout=30).value == "owned"
    for _ in range(3):
        assert evaluator.call("text", "1", timeout=30).value == {"score": 1.0, "calls": 1}


def test_what_was_raised(evaluator: Evaluator) -> None:
    def of(function: str, *args):
        outcome = evaluator.call(function, *args, timeout=30)
        return outcome.status, outcome.message.partition(":")[0]

    assert of("on", "evaluate", "def f(:") == ("error", "SyntaxError")
    assert of("on", "evaluate", "") == ("error", "AttributeError")
    assert of("on", "guarded", "1 / 0") == ("error", "RuntimeError")
    assert of("faulty", "x") == ("error", "NameError")
    assert of("no_such_function") == ("error", "AttributeError")
    assert "the scorer returned" in evaluator.call("nothing", "x", timeout=30).message
    outcome = evaluator.call("on", "evaluate", "def f(x):\n    return 1 / 0\n", timeout=30)
    assert outcome.message == "ZeroDivisionError: division by zero"


def test_what_runs_beside_the_scorer_works(evaluator: Evaluator) -> None:
    outcome = evaluator.call("on", "by_subprocess", "def f(x): return x + 22\n", timeout=60)
    assert outcome.value == {"score": 42, "code": 0, "errors": ""}
    assert evaluator.call("parallel", timeout=60).value == [1, 2, 3, 4, 5, 6, 7]
    assert evaluator.call("signalled", timeout=30).value == -9


@pytest.mark.parametrize("function", ["tree", "bomb"])
def test_time_out_kills_the_whole_tree(evaluator: Evaluator, function: str) -> None:
    if function == "bomb" and not isolated(evaluator):
        pytest.skip("an unisolated scorer is trusted not to")
    worker = evaluator._pool.idle[-1]
    assert worker.process is not None
    before = descendants(worker.process.pid)
    outcome = evaluator.call(function, timeout=1.0)
    assert outcome.status == "timeout" and outcome.wall_seconds >= 1.0, outcome
    assert descendants(worker.process.pid) == before
    assert evaluator.call("orphan", timeout=30).value == "left one"
    assert descendants(worker.process.pid) == before, "what is left running ends with the call"
    assert evaluator.call("text", "5", timeout=30).value == {"score": 5.0, "calls": 1}
    assert evaluator._pool.idle[-1] is worker  # the same one came back


@pytest.mark.parametrize("isolated", [True, False])
def test_a_tree_ends_with_a_parent_that_is_killed(sandbox: Sandbox, scorer: Path, isolated: bool) -> None:
    code = """
import sys
from problems.sandbox.contract import EvaluatorSpec
from problems.sandbox.pool import Sandbox
evaluator = Sandbox(sys.argv[1], 1).evaluator(EvaluatorSpec(sys.argv[2], isolated=sys.argv[3] == "True"))
print(evaluator._pool.idle[0].process.pid, flush=True)
evaluator.call("tree", timeout=50.0)
"""
    command = [sys.executable, "-c", code, sandbox.mode, str(scorer), str(isolated)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        until = time.monotonic() + 30
        while len(tree := descendants(worker)) < 3 and time.monotonic() < until:
            time.sleep(0.02)
        assert len(tree) >= 3
        parent.kill()
    while (left := [pid for pid in {worker, *tree} if Path(f"/proc/{pid}").exists()]) and time.monotonic() < until:
        time.sleep(0.02)
    assert left == []


def descendants(pid: int) -> set[int]:
    """Processes below one of ours, by the process table."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found: set[int] = set()
    while added := {child for child, parent in parents.items() if parent in {pid, *found}} - found:
        found |= added
    return found


def test_other_ends(evaluator: Evaluator) -> None:
    assert evaluator.call("slow", 0.01, timeout=30).value == "done"
    outcome = evaluator.call("leave", 3, timeout=30)
    assert outcome.status == "crash" and "exit code 3" in outcome.message
    outcome = evaluator.call("hog", timeout=60)
    assert outcome.status == "memory", outcome
    outcome = evaluator.call("talkative", timeout=60)
    assert outcome.value == "said"


def test_the_network(evaluator: Evaluator) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        answer = evaluator.call("connect", server.getsockname()[1], timeout=30).value
    assert answer == ("PermissionError" if isolated(evaluator) else "connected")


def test_what_an_isolated_evaluation_is_refused(evaluator: Evaluator, scorer: Path) -> None:
    if not isolated(evaluator):
        pytest.skip("an unisolated scorer is trusted")
    outcome = evaluator.call("attempts", str(scorer.parent / "secret.txt"), timeout=30)
    assert outcome.status == "ok", outcome
    allowed = {name for name, result in outcome.value.items() if result != "refused"}
    assert not allowed


def test_later_evaluations_are_confined_as_the_first(evaluator: Evaluator, scorer: Path) -> None:
    """Beyond the number for which a worker keeps what confines them."""
    for _ in range(70):
        assert evaluator.call("scratch", timeout=30).value == ["a", "left behind"]
    test_what_an_isolated_evaluation_is_refused(evaluator, scorer)


def test_every_evaluation_draws_at_random_anew(evaluator: Evaluator) -> None:
    drawn = [evaluator.call("chance", timeout=30).value for _ in range(3)]
    assert len(set(drawn)) == 3


def test_what_a_scorer_has_called_at_a_fork_is_called(sandbox: Sandbox, tmp_path: Path) -> None:
    opened_to_all(tmp_path)
    path = tmp_path / "hooked.py"
    path.write_text(
        "import os\ncalls = []\nos.register_at_fork(after_in_child=lambda: calls.append(1))\n"
        "def score(answer):\n    return len(calls)\n"
    )
    with sandbox.evaluator(EvaluatorSpec(str(path))) as evaluator:
        assert evaluator.call("score", "", timeout=30).value >= 1


def test_environment(evaluator: Evaluator) -> None:
    home, token, secret = evaluator.call("look", timeout=30).value
    assert token == "given"
    assert (home, secret) == ((True, None) if isolated(evaluator) else (False, "secret"))


def test_readable_folders(sandbox: Sandbox, tmp_path: Path) -> None:
    opened_to_all(tmp_path)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "beside.py").write_text("VALUE = 7\n")
    (tmp_path / "shared" / "table.txt").write_text("11")
    path = tmp_path / "shared" / "reading.py"
    path.write_text(
        "import os\nfrom beside import VALUE\n"
        "def score(answer):\n"
        "    with open(os.path.join(os.path.dirname(__file__), 'table.txt')) as table:\n"
        "        return {'score': VALUE + int(table.read())}\n"
    )
    with sandbox.evaluator(EvaluatorSpec(str(path), (str(tmp_path / "shared"),))) as evaluator:
        assert evaluator.call("score", "", timeout=30).value == {"score": 18}


@pytest.mark.parametrize("whole", [True, False])
def test_every_evaluation_may_write_in_a_copy_of_its_folder(sandbox: Sandbox, tmp_path: Path, whole: bool) -> None:
    path = opened_to_all(tmp_path) / "beside.py"
    (tmp_path / "data").mkdir()
    for name, text in (("beside.py", BESIDE.read_text()), ("given.txt", "kept"), ("data/table.txt", "1")):
        (tmp_path / name).write_text(text)
    spec = EvaluatorSpec(str(path), (str(tmp_path),) if whole else (), folder=str(tmp_path))
    with sandbox.evaluator(spec) as evaluator:
        for answer in ("a", "b"):
            text, names, logs = evaluator.call("score", answer, timeout=30).value
            assert text == ("kept" if whole else "") + answer, "a file that it may not read is none"
            assert names == ["beside.py", "given.txt", "logs", "renamed"] and logs == [answer, "import.txt"]
    assert {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*")} == {
        *("beside.py", "given.txt", "data", "data/table.txt")
    }
    assert (tmp_path / "given.txt").read_text() == "kept" and not Path("/dev/shm/evo-test-left").exists()


@pytest.mark.parametrize("isolated", [True, False])
def test_a_load_error_names_the_file(sandbox: Sandbox, tmp_path: Path, isolated: bool) -> None:
    opened_to_all(tmp_path)
    path = tmp_path / "broken.py"
    for source, error in (("import nowhere_at_all\n", "nowhere_at_all"), ("def f(:\n", "SyntaxError"), ("1/0", "Zero")):
        path.write_text(source)
        with pytest.raises(SandboxFault) as fault:
            sandbox.evaluator(EvaluatorSpec(str(path), isolated=isolated))
        assert str(path) in str(fault.value) and error in str(fault.value)
    with pytest.raises(SandboxFault, match="missing.py"):
        sandbox.evaluator(EvaluatorSpec(str(tmp_path / "missing.py"), isolated=isolated))


def test_bad_arguments_are_the_callers(evaluator: Evaluator) -> None:
    with pytest.raises(TypeError):
        evaluator.call("text", object(), timeout=5)


def test_a_killed_worker_is_replaced(sandbox: Sandbox, scorer: Path) -> None:
    with sandbox.evaluator(EvaluatorSpec(str(scorer))) as evaluator:
        process = evaluator._pool.idle[-1].process
        assert process is not None
        process.kill()
        time.sleep(0.05)
        assert evaluator.call("text", "2", timeout=30).value == {"score": 2.0, "calls": 1}
    with pytest.raises(SandboxFault, match="closed"):
        evaluator.call("text", "2", timeout=5)


# -- CPU time decides a time-out, and callers share workers


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


CALLER = """
import os, sys, types
sys.modules["problems.apart"] = types.ModuleType("problems.apart")
def dies():
    write = os.write
    os.write = lambda fd, data: (write(fd, data), os._exit(0))
    sys.modules["problems.apart"].host_call("ask")
def lives():
    return sys.modules["problems.apart"].host_call("ask")
"""


def test_a_reply_to_a_fork_that_has_ended_is_not_read_by_the_next(sandbox, tmp_path, monkeypatch):
    path = opened_to_all(tmp_path) / "caller.py"
    path.write_text(CALLER)
    listen = worker.Worker._listen

    def late(one: worker.Worker) -> bool:  # the call and the end of its process come together
        time.sleep(0.2)
        return listen(one)

    monkeypatch.setattr(worker.Worker, "_listen", late)
    with sandbox.evaluator(EvaluatorSpec(str(path)), Limits()) as evaluator:
        for _ in range(2):
            ended = evaluator.call("dies", timeout=30, host_call=lambda name, args, kwargs: 2.0)
            assert (ended.status, ended.message) == ("crash", "the program ended its process (exit code 0)")
            assert evaluator.call("lives", timeout=30, host_call=lambda name, args, kwargs: 3.0).value == 3.0
