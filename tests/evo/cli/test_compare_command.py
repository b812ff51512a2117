"""evo compare as a user meets it: the same runs in one process and in several, interrupted, killed, resumed."""

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from sqlalchemy import text
from support.child_processes import begin, wait_for_groups
from support.command_line import evo, refused
from support.stored_rows import assert_same_run, stored_answers

from evo.cli import invoke
from evo.comparison.workers import PARENT_PROGRAM
from islands.store import Store

pytestmark = pytest.mark.long

ARMS = ["--arm", "guess=scripted:random-route,answers=3", "--arm", "mutant=scripted:mutate,answers=1"]
SMALL = ["maze:test", "--limit", "6", "--iterations", "8", "--seeds", "2", "--name", "c", "--plain", *ARMS]
SMALL += ["--baseline", "best-of-n,hill=mutant", "--baseline", "scs,classic"]
SLOW = [part.replace("scripted:mutate", "scripted:mutate?latency=0.05") for part in SMALL]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The file of the small comparison, made by one process without an interruption, and what it printed."""
    file, out = tmp_path_factory.mktemp("undisturbed") / "evo.db", io.StringIO()
    with contextlib.redirect_stdout(out):
        assert invoke(["compare", *SMALL, "--db", f"sqlite:///{file}", "--processes", "1"]) == 0
    return file, out.getvalue()


@pytest.fixture(scope="module")
def undisturbed(whole):
    """Its rows."""
    return stored_answers(f"sqlite:///{whole[0]}")


@pytest.fixture
def done(whole, here):
    """The directory of a test that has the comparison."""
    for file in whole[0].parent.glob("evo.db*"):
        shutil.copy(file, here)


def test_it_ends_with_the_arms_and_a_verdict(whole):
    out = whole[1]
    assert "c: 6 arms, 6 problems, 2 seeds, 8 iterations of 3 answers planned for each" in out
    assert all(f"\n{arm} " in out for arm in ("guess", "best-of-n", "mutant", "hill", "scs", "classic"))
    table = "Solve rate after 8 of 8 iterations, difference with its 95% interval over problems;"
    assert f"{table} intervals and p allow for 15 pairs (Bonferroni):" in out
    assert "mutant - guess" in out and "evo report c" in out
    assert all(len(line) <= 80 for line in out.splitlines() if line.startswith(("arm", "guess", "best", "mutant")))


def test_json_says_the_same_with_intervals_and_every_arm_costs_the_same(done, capsys):
    shown = json.loads(evo(capsys, "show", "c", "--json", "--against", "mutant")[1])
    assert shown["reference"] == "mutant"
    arms, guess = shown["arms"], shown["arms"]["guess"]
    assert list(arms) == ["guess", "best-of-n", "scs", "mutant", "hill", "classic"]
    assert {arm["rollouts"] * arm["answers_per_rollout"] for arm in arms.values()} == {3}
    assert {arms[name]["policy"] for name in ("mutant", "hill")} == {"scripted:mutate"}
    assert {run["status"] for run in shown["runs"]} == {"done"} and len(shown["runs"]) == 12
    assert guess["answers"] <= 6 * 8 * 2 * 3
    solved, gap = guess["solved"], shown["against"]["guess"]["solved"]
    assert 0 <= solved["low"] <= solved["mean"] <= solved["high"] <= 1
    assert gap["mean"] == pytest.approx(solved["mean"] - arms["mutant"]["solved"]["mean"])


@pytest.mark.parametrize(
    ("how", "processes"), [("nothing", "2"), ("ctrl-c", "1"), ("ctrl-c", "2"), ("kill", "2"), ("kill a worker", "2")]
)
def test_however_it_is_made_and_ended_the_runs_are_the_same(here, capsys, undisturbed, how, processes):
    child = begin("compare", *SLOW, "--processes", processes)
    if how != "nothing":
        wait_for_groups(child, 20)
    if how == "ctrl-c":
        child.send_signal(signal.SIGINT)
    elif how == "kill":
        child.kill()
    elif how == "kill a worker":
        os.kill(next(pid for pid in _held() if pid != child.pid), signal.SIGKILL)
    out, err = child.communicate(timeout=120)
    assert child.returncode == {"nothing": 0, "ctrl-c": 130, "kill": -signal.SIGKILL, "kill a worker": 1}[how], err
    if how == "ctrl-c":
        assert "Resume with: evo resume c" in out
    elif how == "kill a worker":
        assert err.splitlines()[-1] == "evo: a search process ended by itself (exit code -9); evo resume continues"
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and _held():  # workers end when their parent is killed
        time.sleep(0.1)
    assert not _held()
    before = stored_answers("sqlite:///evo.db")
    assert len(before) >= 20
    assert evo(capsys, "resume", "c", "--plain")[0] == 0
    after = stored_answers("sqlite:///evo.db")
    assert set(before) <= set(after)
    assert_same_run(after, undisturbed)


def test_the_parent_of_workers_runs_one_thread_when_it_forks_them():
    """A lock that another thread holds would be held in the child for ever."""
    threads = 'import os\nos.fork = lambda: os._exit(100 + len(os.listdir("/proc/self/task")))\n'
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    program = [sys.executable, "-c", threads + PARENT_PROGRAM.format([0], ["vpo.hf.policy"])]
    assert subprocess.run(program, env=environment, check=False).returncode == 101


def test_what_a_worker_cannot_load_is_one_line(here, capsys):
    arms = ["--arm", "a=embedded:base", "--arm", "b=embedded:vpo"]
    given = ["compare", "programs:easy", "--limit", "2", *arms, "--processes", "2", "--plain"]
    assert "only understands mazes" in refused(capsys, *given)
    assert not (here / "evo.db").exists()


def test_resume_takes_a_comparison_further(done, capsys):
    code, out, err = evo(capsys, "resume", "c", "--iterations", "12", "--plain")
    assert code == 0, err
    assert "12 iterations of 3 answers planned" in out
    assert evo(capsys, "resume", "c/guess/s0", "--iterations", "12", "--plain")[0] == 0
    err = refused(capsys, "resume", "c", "--iterations", "6", "--plain")
    assert "already spent 12 iterations per problem; --iterations 6 is less" in err


def test_a_name_that_is_taken(done, capsys):
    code, _, err = evo(capsys, "compare", *SMALL, "--processes", "1")
    assert code == 2 and "something named c already" in err


def _held():
    with Store.open("sqlite:///evo.db", read_only=True) as store, store.read() as connection:
        owners = connection.execute(text("SELECT owner FROM runs WHERE owner IS NOT NULL")).scalars()
        pids = [json.loads(owner)["pid"] for owner in owners]
    return [pid for pid in pids if _alive(pid)]


def _alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
