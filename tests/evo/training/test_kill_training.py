"""kill -9 a search that trains its policy, at random moments: what is on record stays, nothing is doubled, and the
learner comes back to the step that was recorded last."""

import random
import time

import pytest
from support.child_processes import begin, wait_for_groups

from islands.groups import read_groups
from islands.store import Store
from islands.training import training_steps

KILLS = 4
RUN = [
    "maze:test", "--limit", "2", "--iterations", "24", "--rollouts", "2", "--answers", "2", "--seed", "3",
    "--train", "vpo", "--train-every", "3", "--lr", "0.0003", "--name", "k", "--plain",
]  # fmt: skip


def stored(db):
    """(groups, steps) as they are on record."""
    with Store.open(db, read_only=True) as store:
        run = store.run("k")
        groups = [
            (group.sequence, group.policy_version, tuple(r.rollout.text for r in group.rollouts))
            for _, group in read_groups(store, run.id)
        ]
        return groups, list(training_steps(store, run.id))


@pytest.mark.kill
@pytest.mark.long
@pytest.mark.usefixtures("one_thread")
def test_a_training_search_killed_again_and_again_loses_nothing_on_record(tmp_path):
    db = f"sqlite:///{tmp_path / 'evo.db'}"
    rng = random.Random(5)
    arguments, groups, steps = ["run", *RUN], [], []
    for _ in range(KILLS):
        child = begin(*arguments, cwd=tmp_path)
        wait_for_groups(child, len(groups) + rng.randint(0, 8), tmp_path / "evo.db")
        time.sleep(rng.random() * 0.1)  # anywhere in a group or a step
        assert child.poll() is None
        child.kill()
        child.communicate()
        now_groups, now_steps = stored(db)
        assert now_groups[: len(groups)] == groups and now_steps[: len(steps)] == steps
        assert [group[0] for group in now_groups] == list(range(len(now_groups)))
        assert [step.step for step in now_steps] == list(range(1, len(now_steps) + 1))
        groups, steps = now_groups, now_steps
        arguments = ["resume", "k", "--plain"]
    last = begin(*arguments, cwd=tmp_path)
    out, err = last.communicate(timeout=240)
    assert last.returncode == 0, out + err
    last_groups, last_steps = stored(db)
    assert last_groups[: len(groups)] == groups and last_steps[: len(steps)] == steps
    assert len(last_groups) == 48 and len(last_steps) == 16
    assert [step.stats["upto"] for step in last_steps] == list(range(2, 48, 3))
    names = [step.policy_version for step in last_steps if step.policy_version]
    assert len(set(names)) == len(names)
