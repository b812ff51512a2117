"""kill -9 a real run at random moments, again and again, on both databases: nothing committed is lost or doubled, and
the run that comes out equals one that was never disturbed. Short runs of bench/soak.py, which does more of it."""

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sqlalchemy import select, text
from support.stored_rows import committed_groups, stored_answers

from bench import soak
from islands.runs import elites
from islands.schema import Candidates
from islands.store import Store

KILLS = 26
SETTINGS = ["--iterations", "150", "--rollouts", "2", "--answers", "2", "--islands", "3", "--seed", "3", "--plain"]


def forked(arguments, problems, policy):
    """`evo ARGUMENTS` in a child process, its problems and policy put in place of what addresses name; the pid."""
    pid = os.fork()
    if pid:
        return pid
    try:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        from evo import cli
        from evo.search import resources as launching

        launching.resolve_problems = lambda config: problems
        launching.open_policy = lambda config, problems: policy
        os._exit(cli.invoke(arguments))
    except BaseException:
        os._exit(99)


def exit_code(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def rows(db, name):
    doubled = (
        "SELECT count(*) FROM (SELECT c.problem_id, c.identity FROM candidates c GROUP BY c.problem_id, c.identity "
        "HAVING count(*) > 1) AS twice"
    )
    with Store.open(db, read_only=True) as store:
        assert store.scalar(text(doubled)) == 0
        cells = []
        for problem in (each for run in store.runs() if run.name == name for each in store.problems(run.id)):
            held = {elite.candidate: (problem.name, elite.island, elite.cell) for elite in elites(store, [problem.id])}
            chosen = select(Candidates.c.id, Candidates.c.text).where(Candidates.c.id.in_(held))
            cells += sorted((*held[id], answer) for id, answer in store.rows(chosen))
    return stored_answers(db, name), cells


def whole_groups(groups):
    """Group sequence -> its rows; what was committed must never change afterwards."""
    found = {}
    for row in groups:
        found.setdefault(row[0], []).append(row)
    return found


def kill_and_resume(db, settings, problems, policy_of, kills, wait):
    """Kill `evo run`, then `evo resume`, so often, and let the last one end. Yields the groups after each of them;
    what was committed must never change. policy_of(last) -> the policy of a process; wait(groups): until its kill"""
    arguments, done, committed, code = ["run", "x", "--db", db, "--name", "killed", *settings], 0, {}, None
    while code != 0:
        last = done >= kills
        pid = forked(arguments, problems, policy_of(last))
        if not last:
            wait(committed)
            os.kill(pid, signal.SIGKILL)
        code = exit_code(pid)
        done += code == -signal.SIGKILL
        assert code == 0 or (code == -signal.SIGKILL and not last), f"the run ended with {code}"
        now = whole_groups(rows(db, "killed")[0])
        for sequence, group in committed.items():
            assert now.get(sequence) == group, f"group {sequence} changed or vanished after kill {done}"
        assert list(now) == list(range(len(now))), "the sequence is the order of commits, without a gap"
        yield now
        committed = now
        with Store.open(db, read_only=True) as store:
            known = any(run.name == "killed" for run in store.runs())
        arguments = ["resume", "killed", "--db", db, "--plain"] if known else arguments
    assert done >= kills, f"the run was through after {done} kills; slow it down"


@pytest.mark.kill
@pytest.mark.long
@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_a_run_killed_again_and_again_ends_as_if_it_had_not_been(backend, request, tmp_path, digits, digits_policy):
    db = f"sqlite:///{tmp_path}/killed.db" if backend == "sqlite" else request.getfixturevalue("postgres_address")
    problems, chance = [digits("a"), digits("b"), digits("c")], random.Random(20)
    Store.open(db).close()
    assert exit_code(forked(["run", "x", "--db", db, "--name", "calm", *SETTINGS], problems, digits_policy())) == 0
    calm = rows(db, "calm")
    assert len(whole_groups(calm[0])) == 450
    # slow enough that 26 lives of a third of a second cannot finish it on any machine; then it runs out
    ended = kill_and_resume(
        db, SETTINGS, problems, lambda last: digits_policy(delay=0.0 if last else 0.1), KILLS,
        lambda groups: time.sleep(chance.uniform(0.02, 0.35)),
    )  # fmt: skip
    assert len(list(ended)) > KILLS and rows(db, "killed") == calm


@pytest.mark.kill
@pytest.mark.long
def test_a_run_with_a_lag_killed_again_and_again_keeps_every_group_and_asks_for_the_missing(
    tmp_path, digits, digits_policy
):
    """Groups are committed out of the order of their proposals, so every kill leaves gaps, which are filled."""
    file, chance, gaps = tmp_path / "killed.db", random.Random(21), 0
    Store.open(f"sqlite:///{file}").close()

    def wait(groups):
        until = time.monotonic() + 60
        while committed_groups(file) < len(groups) + 4 and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(chance.uniform(0.0, 0.15))

    def policy_of(last):
        return digits_policy(batch=0, jitter=0.0 if last else 0.3)

    settings, problems = ["--lag", "30", "--parallel", "9", *SETTINGS], [digits("a"), digits("b"), digits("c")]
    for now in kill_and_resume(f"sqlite:///{file}", settings, problems, policy_of, 12, wait):
        iterations = {name: [group[0][2] for group in now.values() if group[0][1] == name] for name in "abc"}
        assert all(len(set(own)) == len(own) for own in iterations.values()), "an iteration was committed twice"
        gaps += any(own and len(own) <= max(own) for own in iterations.values())
    assert {name: sorted(own) for name, own in iterations.items()} == dict.fromkeys("abc", list(range(150)))
    assert gaps >= 3, f"kills left gaps {gaps} times: nothing was shown"


ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("UPDATE candidates SET fitness = fitness + 1 WHERE sequence = 2", "lost"),
        ("DELETE FROM answers WHERE rollout_id = (SELECT max(id) FROM rollouts)", "lost"),
        ("UPDATE prompt_groups SET sequence = 99 WHERE sequence = 3", "half"),
        ("UPDATE candidates SET group_id = -1 WHERE sequence = 2", "half"),
        (None, None),
    ],
)
def test_a_group_that_changed_or_is_gone_is_found(statement, kind, tmp_path, search_with, digits, digits_policy):
    db = f"sqlite:///{tmp_path / 'evo.db'}"
    search_with([digits()], digits_policy(), db, iterations=6)
    before = soak.Snapshot(db)
    assert len(before.groups) == 6 and before.known and soak.whole(db) == ""
    if statement:
        with contextlib.closing(sqlite3.connect(tmp_path / "evo.db")) as connection:
            connection.execute(statement)
            connection.commit()
    found = {what for what, words in soak.Snapshot(db).faults_after(before).items() if words}
    assert kind in found if kind else not found


@pytest.mark.long
def test_ten_kills_lose_nothing_and_leave_nothing(tmp_path):
    command = [sys.executable, str(ROOT / "bench" / "soak.py"), "--kills", "10", "--kinds", "train,scorer"]
    ended = subprocess.run(
        [*command, "--databases", "sqlite", "--folder", str(tmp_path)], capture_output=True, text=True, timeout=900
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    state = json.loads((tmp_path / "state.json").read_text())
    assert sum(state["kills"].values()) >= 10 and not state["counts"] and state["scored"] > 0
