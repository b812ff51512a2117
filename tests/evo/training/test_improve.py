"""`evo train improve`: better children of a stored search, found by another operator, taught to a policy."""

import contextlib
import json
import shutil

import numpy as np
import pytest
import torch
from support.training_runs import SMALL_POLICY, read_metrics, weights

from evo.cli import invoke
from evo.config.parse import parse
from evo.config.train import TrainRun
from evo.errors import BadInput
from evo.training import improve
from evo.training.improve import Improvements, tenth_of
from evo.training.on_policy import StoredArchives
from evo.training.stored import open_stored
from islands.groups import children
from islands.store import Store
from problems.registry import resolve
from vpo.training.trainer import PolicyTrainer

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    """A database with the run `a` of the re-router, which is no policy that could be trained."""
    torch.set_num_threads(1)
    address = f"sqlite:///{tmp_path_factory.mktemp('improve') / 'evo.db'}"
    command = ["run", "maze:train/0-3", "--policy", "scripted:classic", "--iterations", "30", "--name", "a", "--plain"]
    assert invoke([*command, "--db", address]) == 0
    return address


def settings(db, **changes):
    return parse(TrainRun, {"method": "improve", "from_traces": ["a"], "db": db, **changes}, "a test")


def opened(run):
    with contextlib.ExitStack() as closing:
        stored = open_stored(run, None, Improvements, closing)
        closing.pop_all()  # a read-only file, which the end of the test closes
    return stored


def test_a_child_improves_on_its_parent_or_nothing_was_as_good_in_everything(db):
    found = opened(settings(db))
    with Store.open(db, read_only=True) as store:
        rows = {
            record.id: {row.id: row for row in children(store, record.id)}
            for record in store.problems(store.run("a").id)
        }
    fitter = front = elsewhere = 0
    for lesson in found.lessons:
        of = rows[lesson.problem]
        for child in (of[id] for id in lesson.children):
            assert not child.failed and of[lesson.parent].sequence <= child.sequence
            fitter += child.fitness > of[lesson.parent].fitness
            elsewhere += child.parent != lesson.parent
            if child.fitness <= of[lesson.parent].fitness or child.parent != lesson.parent:
                front += 1
                before = [r.rewards for r in of.values() if r.sequence < child.sequence and not r.failed]
                assert not any(np.all(np.array(other) >= child.rewards) for other in before)
    assert fitter > 10 and elsewhere > 5 and front > elsewhere and fitter + front >= found.runs[0].chosen


def test_levels_are_drawn_alike_but_those_of_few_parents_less(db, monkeypatch):
    monkeypatch.setattr(improve, "_FEW", 10)
    found = opened(settings(db))
    rng = np.random.default_rng(0)
    levels = [found.draw(rng).level for _ in range(3000)]
    weights = np.array([min(len(level), 10) for level in found.by_level])
    shares = [levels.count(level) / len(levels) for level in sorted(set(levels))]
    assert len(set(weights)) > 1 and np.abs(np.array(shares) - weights / weights.sum()).max() < 0.04
    assert [tenth_of(fitness, 1.0) for fitness in (-1, 0, 0.3, 0.85, 1.5)] == [0, 0, 3, 8, 9]
    assert tenth_of(0.5, 0.0) == 0


@pytest.mark.long
def test_a_policy_learns_them_and_a_stopped_run_goes_on_to_the_same_weights(db, tmp_path):
    common = ["--from-traces", "a", "--db", db, "--policy", SMALL_POLICY, "--prompts", "8", "--lr", "3e-3", "--kl", "0"]
    common += ["--precision", "fp32", "--save-every", "5", "--plain"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert invoke(["train", "improve", *common, "--steps", "20", "-o", str(whole)]) == 0
    policy_nll = [line["policy_nll"] for line in read_metrics(whole) if line["kind"] == "step"]
    assert np.mean(policy_nll[-5:]) < np.mean(policy_nll[:5]) - 0.05
    assert invoke(["train", "improve", *common, "--steps", "10", "-o", str(parts)]) == 0
    assert invoke(["train", "--resume", str(parts), "--steps", "20", "--plain"]) == 0
    one, other = weights(whole), weights(parts)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert "different answers" in (whole / "README.md").read_text()


def test_what_it_does_not_take_is_said(db):
    for changes, said in (
        ({"from_traces": []}, "name them with --from-traces RUN"),
        ({"rollouts": 4}, "rollouts cannot be set"),
        ({"method": "vpo", "from_traces": [], "problems": ["maze:train"], "children": 2}, "children is for improve"),
    ):
        with pytest.raises(BadInput, match=said):
            settings(db, **changes)


FROM_ARCHIVES = ["--parents", "1", "--parents-from", "archive:a", "--steps", "2", "--precision", "fp32"]


def test_archives_of_a_run_are_where_parents_come_from(db, tmp_path):
    out = tmp_path / "late"
    given = ["train", "vpo", "maze:train/0-3", "--policy", SMALL_POLICY, "--prompts", "4", "--rollouts", "2"]
    given += FROM_ARCHIVES
    assert invoke([*given, "--db", db, "--plain", "-o", str(out)]) == 0
    first = next(line for line in read_metrics(out) if line["kind"] == "step")
    assert "kept" in first  # the first step shows parents already
    assert json.loads((out / "train.json").read_text())["config"]["parents_from"] == "archive:a"
    given[2] = "maze:train/0-9"
    assert invoke([*given, "--db", db, "--plain", "-o", str(tmp_path / "other")]) == 2


@pytest.mark.parametrize("method", ["pass_at_k", "vpo_pass_at_k", "vpo"])
def test_solving_is_rewarded_from_a_stored_search(db, tmp_path, method):
    """Goals are what the search ended with, so that answers to what it held at some earlier moment reach them."""
    out = tmp_path / method
    given = ["train", method, "maze:train/0-3", "--policy", SMALL_POLICY, "--prompts", "8", "--rollouts", "6"]
    given += [*FROM_ARCHIVES, "--reward", "solve"]
    assert invoke([*given, "--answers", "1", "--db", db, "--plain", "-o", str(out)]) == 0
    steps = [line for line in read_metrics(out) if line["kind"] == "step"]
    assert len(steps) == 2 and all(line["groups"] == 8 for line in steps)


def test_the_goals_of_a_stored_search_are_what_it_ended_with(db):
    with Store.open(db, read_only=True) as store:
        problems = resolve("maze:train/0-3")
        archives = StoredArchives(store, "a", problems)
        for number in range(len(problems)):
            ended = archives.ended(number)
            assert len({rewards for rewards, _ in ended}) == len(ended) > 1
            held = {c.rewards for draw in range(20) for c in archives(number, np.random.default_rng(draw))}
            assert held <= {rewards for rewards, _ in ended}


def test_a_prompt_may_teach_several_children_each_as_a_rollout(db, tmp_path, monkeypatch):
    seen = []
    step = PolicyTrainer.step_on_examples
    monkeypatch.setattr(PolicyTrainer, "step_on_examples", lambda self, batch: seen.extend(batch) or step(self, batch))
    command = ["train", "improve", "--from-traces", "a", "--db", db, "--policy", SMALL_POLICY, "--prompts", "8"]
    assert invoke([*command, "--children", "4", "--steps", "2", "--plain", "-o", str(tmp_path / "several")]) == 0
    sizes = [len(group.examples) for group in seen]
    assert len(sizes) == 16 and max(sizes) in (2, 3, 4)
    for group in seen:  # of distinct children
        assert len({tuple(example.token_ids) for example in group.examples}) == len(group.examples)


def test_a_language_whose_end_is_its_unknown_token_is_still_ended(db, tmp_path):
    start, taught, rewarded = (tmp_path / name for name in ("start", "taught", "rewarded"))
    shutil.copytree(SMALL_POLICY, start)
    settings = json.loads((start / "tokenizer_config.json").read_text())
    (start / "tokenizer_config.json").write_text(
        json.dumps(settings | dict.fromkeys(("unk_token", "pad_token"), "<eos>"))
    )
    common = ["--steps", "1", "--prompts", "4", "--plain"]
    given = ["improve", "--from-traces", "a", "--db", db, "--policy", str(start), "-o", str(taught)]
    assert invoke(["train", *given, *common]) == 0
    given = ["grpo", "maze:train/0-3", "--rollouts", "4", "--policy", str(taught), "-o", str(rewarded)]
    assert invoke(["train", *given, *common]) == 0
    assert [line["cut"] for line in read_metrics(rewarded) if line["kind"] == "step"] == [0.0]
