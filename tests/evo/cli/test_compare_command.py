"""evo compare as a user meets it: the same runs in one process and in several, interrupted, killed, resumed."""

import json
import os
import shutil
import signal
import time

import pytest
from sqlalchemy import text
from support.child_processes import begin, wait_for_groups
from support.command_line import evo
from support.stored_rows import assert_same_run, stored_answers
from support.warm_processes import Forked, in_place_of_subprocess

from evo.cli import invoke
from evo.comparison import workers
from islands.store import Store

pytestmark = pytest.mark.long

ARMS = ["--arm", "guess=scripted:random-route,answers=3", "--arm", "mutant=scripted:mutate,answers=1"]
SMALL = ["maze:test", "--limit", "6", "--iterations", "8", "--seeds", "2", "--name", "c", "--plain", *ARMS]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The file of the small comparison, made by one process that nobody interrupts."""
    file = tmp_path_factory.mktemp("undisturbed") / "evo.db"
    assert invoke(["compare", *SMALL, "--db", f"sqlite:///{file}", "--processes", "1"]) == 0
    return file


@pytest.fixture(scope="module")
def undisturbed(whole):
    """Its rows."""
    return stored_answers(f"sqlite:///{whole}")


@pytest.fixture
def done(whole, here):
    """The directory of a test that has the comparison."""
    for file in whole.parent.glob("evo.db*"):
        shutil.copy(file, here)


@pytest.fixture
def forked_workers(monkeypatch):
    """Workers that a command starts in this process are forks of a server with everything imported."""
    monkeypatch.setattr(workers, "subprocess", in_place_of_subprocess(Forked))


def test_it_ends_with_the_arms_and_a_verdict(here, forked_workers, capsys):
    code, out, err = evo(capsys, "compare", *SMALL)
    assert code == 0, err
    assert "c: 6 problems, 2 seeds, at iteration 8, 3 answers an iteration" in out
    for arm in ("guess", "best-of-n", "mutant"):
        assert f"\n{arm} " in out
    assert (
        "solve rate after 8 iterations, 95% intervals over problems; intervals and p allow for 2 arms (Bonferroni):"
        in out
    )
    assert "mutant - guess" in out
    assert "evo report c" in out
    assert all(len(line) <= 80 for line in out.splitlines() if line.startswith(("arm", "guess", "best", "mutant")))


def test_json_says_the_same_with_intervals(here, capsys):
    code, out, err = evo(capsys, "compare", *SMALL, "--json", "--against", "mutant", "--processes", "1")
    shown = json.loads(out)
    assert code == 0 and shown["reference"] == "mutant"
    assert set(shown["arms"]) == {"guess", "best-of-n", "mutant"}
    assert {run["status"] for run in shown["runs"]} == {"done"} and len(shown["runs"]) == 6
    guess = shown["arms"]["guess"]
    assert guess["answers"] <= 6 * 8 * 2 * 3 and guess["rollouts"] == 1 and shown["arms"]["mutant"]["rollouts"] == 3
    solved, gap = guess["solved"], shown["against"]["guess"]["solved"]
    assert 0 <= solved["low"] <= solved["mean"] <= solved["high"] <= 1
    assert gap["mean"] == pytest.approx(solved["mean"] - shown["arms"]["mutant"]["solved"]["mean"])
    assert [json.loads(evo(capsys, "runs", "--json")[1])[0][key] for key in ("comparison", "arm")] == ["c", "guess"]


def test_every_baseline_runs_by_name_on_equal_answers(here, capsys):
    named = [part for name in ("best-of-n", "hill=mutant", "scs", "classic") for part in ("--baseline", name)]
    code, out, err = evo(capsys, "compare", *SMALL, *named, "--json")
    assert code == 0, err
    arms = json.loads(out)["arms"]
    assert list(arms) == ["guess", "best-of-n", "scs", "mutant", "hill", "classic"]
    assert {arm["rollouts"] * arm["answers_per_rollout"] for arm in arms.values()} == {3}
    assert {arms[name]["policy"] for name in ("mutant", "hill")} == {"scripted:mutate"}
    assert arms["classic"]["policy"] == "scripted:classic"
    assert {run["status"] for run in json.loads(out)["runs"]} == {"done"}


def test_baselines_are_made_alike_by_several_processes_and_by_a_resume(here, capsys, tmp_path_factory):
    named = ["--baseline", "hill=mutant,scs", "--baseline", "classic"]
    whole = f"sqlite:///{tmp_path_factory.mktemp('baselines') / 'whole.db'}"
    assert invoke(["compare", *SMALL, *named, "--db", whole, "--processes", "1"]) == 0
    slow = [part.replace("scripted:mutate", "scripted:mutate?latency=0.05") for part in SMALL]
    child = begin("compare", *slow, *named, "--processes", "2")
    wait_for_groups(child, 20)
    child.kill()
    child.communicate()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and _held():
        time.sleep(0.1)
    assert evo(capsys, "resume", "c", "--plain")[0] == 0
    assert_same_run(stored_answers("sqlite:///evo.db"), stored_answers(whole))


def test_one_process_and_several_make_the_same_runs(here, capsys, undisturbed):
    code, _, err = evo(capsys, "compare", *SMALL, "--processes", "2")
    assert code == 0, err
    assert_same_run(stored_answers("sqlite:///evo.db"), undisturbed)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_ctrl_c_keeps_what_is_committed_and_resume_makes_the_same_runs(
    here, forked_workers, capsys, processes, undisturbed
):
    slow = [part.replace("scripted:mutate", "scripted:mutate?latency=0.05") for part in SMALL]
    child = begin("compare", *slow, "--processes", processes)
    wait_for_groups(child, 20)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert "Resume with: evo resume c" in out
    before = stored_answers("sqlite:///evo.db")
    assert len(before) >= 20
    code, out, err = evo(capsys, "resume", "c", "--plain")
    assert code == 0, err
    after = stored_answers("sqlite:///evo.db")
    assert set(before) <= set(after)
    assert_same_run(after, undisturbed)


def test_crews_end_when_their_parent_is_killed_and_the_comparison_goes_on(here, forked_workers, capsys, undisturbed):
    slow = [part.replace("scripted:mutate", "scripted:mutate?latency=0.05") for part in SMALL]
    child = begin("compare", *slow, "--processes", "2")
    wait_for_groups(child, 10)
    child.kill()
    child.communicate()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and _held():
        time.sleep(0.1)
    assert not _held()
    assert evo(capsys, "resume", "c", "--plain")[0] == 0
    assert_same_run(stored_answers("sqlite:///evo.db"), undisturbed)


def test_a_killed_worker_is_one_line_and_the_others_end(here, forked_workers, capsys, undisturbed):
    slow = [part.replace("scripted:mutate", "scripted:mutate?latency=0.05") for part in SMALL]
    child = begin("compare", *slow, "--processes", "2")
    wait_for_groups(child, 10)
    os.kill(next(pid for pid in _held() if pid != child.pid), signal.SIGKILL)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 1, err
    assert err.splitlines()[-1] == "evo: a search process ended by itself (exit code -9); evo resume continues"
    assert not _held()
    assert evo(capsys, "resume", "c", "--plain")[0] == 0
    assert_same_run(stored_answers("sqlite:///evo.db"), undisturbed)


def test_what_a_worker_cannot_load_is_one_line(here, capsys):
    arms = ["--arm", "a=embedded:base", "--arm", "b=embedded:vpo"]
    code, out, err = evo(capsys, "compare", "programs:easy", "--limit", "2", *arms, "--processes", "2", "--plain")
    assert code == 2 and "only understands mazes" in err and len(err.strip().splitlines()) == 1
    assert not (here / "evo.db").exists()


def test_resume_takes_a_comparison_further(done, forked_workers, capsys):
    code, out, err = evo(capsys, "resume", "c", "--iterations", "12", "--plain")
    assert code == 0, err
    assert "at iteration 12" in out
    assert evo(capsys, "resume", "c/guess/s0", "--iterations", "12", "--plain")[0] == 0
    code, out, err = evo(capsys, "resume", "c", "--iterations", "6", "--plain")
    assert (code, out) == (2, "")
    assert "already spent 12 iterations per problem; --iterations 6 is less" in err and len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["maze:test"], "needs arms"),
        (["maze:test", "--arm", "a=embedded:none"], "no policy embedded:none"),
        (["maze:tset", *ARMS], "maze:tset"),
        (["maze:test", *ARMS, "--against", "vpo"], "against vpo: there is no such arm"),
        (["maze:test", *ARMS, "--best-of-n", "vpo"], "best-of-n of vpo: there is no such arm"),
        (["maze:test", *ARMS, "--baseline", "climb"], "no baseline climb; there are best-of-n, hill, scs, classic"),
        (["programs:easy", *ARMS, "--baseline", "classic"], "classic re-routes mazes, and programs:easy/0 is not one"),
        (["maze:test", *ARMS, "--strategy", "hill", "--islands", "3"], "strategy hill has no islands"),
        (["maze:test", "--arm", "a=x", "--arm", "a=y"], "two arms called a"),
        (
            ["programs:easy", "--limit", "2", "--arm", "a=embedded:base", "--arm", "b=embedded:vpo"]
            + ["--processes", "1"],
            "only understands mazes",
        ),
        (["maze:test", *ARMS, "--answers-per-iteration", "4"], "cannot be made of arm guess's chains of 3"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_stored(here, capsys, arguments, said):
    code, out, err = evo(capsys, "compare", *arguments, "--plain")
    assert code == 2
    assert said in err and len(err.strip().splitlines()) == 1
    assert not (here / "evo.db").exists()


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
