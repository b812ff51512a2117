"""kill -9 a search that trains its policy, at random moments: what is on record stays, nothing is doubled, and the
learner comes back to the step that was recorded last."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from islands.db.store import Store
from islands.queries.groups import read_groups
from islands.queries.runs import training_steps

KILLS = 4
RUN = [
    "maze:test", "--limit", "2", "--iterations", "24", "--rollouts", "2", "--answers", "2", "--seed", "3",
    "--train", "vpo", "--train-every", "3", "--lr", "0.0003", "--name", "k", "--plain",
]  # fmt: skip


def begin(arguments, folder):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    quiet = subprocess.DEVNULL
    return subprocess.Popen(
        [sys.executable, "-m", "evo", *arguments], cwd=folder, stdout=quiet, stderr=quiet, env=environment
    )


def stored(db):
    """(groups, steps) as they are on record."""
    try:
        with Store.open(db, read_only=True) as store:
            run = store.run("k")
            groups = [
                (group.sequence, group.policy_version, tuple(r.rollout.text for r in group.rollouts))
                for _, group in read_groups(store, run.id)
            ]
            return groups, list(training_steps(store, run.id))
    except Exception:
        return [], []


@pytest.mark.usefixtures("one_thread")
def test_a_training_search_killed_again_and_again_loses_nothing_on_record(tmp_path):
    db = f"sqlite:///{tmp_path / 'evo.db'}"
    rng = random.Random(5)
    arguments, groups, steps = ["run", *RUN], [], []
    for _ in range(KILLS):
        child = begin(arguments, tmp_path)
        goal, deadline = len(groups) + rng.randint(1, 9), time.monotonic() + 120
        while child.poll() is None and len(stored(db)[0]) < goal and time.monotonic() < deadline:
            time.sleep(rng.random() * 0.1)
        child.send_signal(signal.SIGKILL)
        child.wait()
        now_groups, now_steps = stored(db)
        assert now_groups[: len(groups)] == groups and now_steps[: len(steps)] == steps
        assert [group[0] for group in now_groups] == list(range(len(now_groups)))
        assert [step.step for step in now_steps] == list(range(1, len(now_steps) + 1))
        groups, steps = now_groups, now_steps
        if groups:
            arguments = ["resume", "k", "--plain"]
    assert begin(arguments, tmp_path).wait(timeout=240) == 0
    last_groups, last_steps = stored(db)
    assert last_groups[: len(groups)] == groups and last_steps[: len(steps)] == steps
    assert len(last_groups) == 48 and len(last_steps) == 16
    assert [step.stats["upto"] for step in last_steps] == list(range(2, 48, 3))
    names = [step.policy_version for step in last_steps if step.policy_version]
    assert len(set(names)) == len(names)
