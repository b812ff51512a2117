"""Training beside a search: what is learned from what, in which order, what is on record, and what a kill costs."""

import asyncio
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from support.command_line import refused
from support.rows import yaml_rows
from support.searches import run_search
from support.stored_rows import stored_groups
from support.training_runs import SMALL_POLICY

from evo.cli import invoke
from evo.config.run import RunConfig
from evo.errors import SearchFailed
from evo.runs.resume import resume_run
from evo.runs.start import start_run
from islands.store import Store
from islands.training import training_steps
from problems.contract import Score
from problems.maze.problem import MazeProblem

pytestmark = pytest.mark.usefixtures("one_thread")

SETTINGS = {
    "problems": ["maze:test"],
    "limit": 2,
    "iterations": 6,
    "rollouts": 3,
    "answers": 2,
    "seed": 1,
    "policy": SMALL_POLICY,
    "train": {"method": "vpo", "every": 3, "lr": 1e-3, "save_every": 2},
}


def config(**changes):
    train = {**SETTINGS["train"], **changes.pop("train", {})}
    return RunConfig.model_validate({**SETTINGS, **changes, "train": train})


def weights_of(model):
    return torch.cat([p.detach().flatten().clone() for _, p in sorted(model.state_dict().items())])


def both(launched):
    """The weights of the learner and of the policy that samples."""
    return weights_of(launched.search.learner.trainer.model), weights_of(launched.operators[0].policy.model)


def run(db, settings=None, *, name="run", resume=False, stop_after=None, change=lambda launched: None):
    """The launched search after it ran, with its learner's and its sampler's weights as they were at the end."""

    def keep(launched):
        launched.learned, launched.sampling = both(launched)

    opening = resume_run(name, db=db) if resume else start_run(settings or config(), db=db, name=name, command="test")
    return run_search(opening, stop_after=stop_after, change=change, at_end=keep, seconds=120)


def groups_of(db):
    return stored_groups(db, "run")


def steps_of(db, name="run"):
    with Store.open(db, read_only=True) as store:
        return list(training_steps(store, store.run(name).id))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A search to its end: its folder, the database in it, and what `run` gives."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("colocated")
    db = f"sqlite:///{folder / 'evo.db'}"
    return folder, db, run(db)


def test_groups_become_steps_steps_become_versions_and_versions_search(whole):
    _, db, launched = whole
    steps, groups = steps_of(db), groups_of(db)
    assert [step.step for step in steps] == [1, 2, 3, 4]
    assert [step.stats["upto"] for step in steps] == [2, 5, 8, 11]
    start = groups[0].policy_version
    assert [step.policy_version for step in steps] == [f"{start}+vpo.{n}" for n in (1, 2, 3, 4)]
    order = [start, *(step.policy_version for step in steps)]
    used = [order.index(group.policy_version) for group in groups]
    assert used == sorted(used) and used[-1] > 0
    for group, version in zip(groups, used, strict=True):  # nobody samples from what was not learned yet
        assert version == 0 or steps[version - 1].stats["upto"] < group.sequence
    assert all(0 <= step.stats["probe"] < 0.05 for step in steps)
    assert steps[0].stats["importance"] == pytest.approx(1, abs=5e-3)  # one set of weights samples and learns
    assert torch.equal(launched.learned, launched.sampling)
    assert {"loss", "kl", "behaviour_nll", "train_seconds", "sync_seconds"} <= set(steps[0].stats)
    assert launched.status.training_seconds > 0


def test_one_seed_gives_one_run(whole, db):
    assert torch.equal(whole[2].learned, run(db).learned)
    first, second = ([[r.rollout.text for r in group.rollouts] for group in groups_of(path)] for path in (whole[1], db))
    assert first == second


@pytest.mark.parametrize("checkpoints", ["kept", "lost"])
def test_what_a_kill_takes_of_the_learner_is_made_again(db, tmp_path, checkpoints):
    whole = run(db, stop_after=10)
    before = steps_of(db)
    assert len(before) >= 2
    if checkpoints == "lost":
        shutil.rmtree(tmp_path / "evo-policies")
    restored = []

    again = run(db, resume=True, change=lambda launched: restored.append(both(launched)))
    assert all(map(torch.equal, restored[0], (whole.learned, whole.sampling)))
    after = steps_of(db)
    assert after[: len(before)] == before
    assert len(after) == 4 and after[-1].stats["upto"] == 11
    assert len(groups_of(db)) == 12 and again.reason == ""


def test_a_sampler_with_other_weights_stops_the_search_and_nothing_is_sampled_from_it(db):
    def break_the_sync(launched):
        async def ignore(weights, version):
            with torch.no_grad():
                for parameter in launched.operators[0].policy.model.parameters():
                    parameter.mul_(1.1)
            launched.operators[0].policy.version = version

        launched.operators[0].policy.update = ignore

    with pytest.raises(SearchFailed, match="differs from the trainer by"):
        run(db, change=break_the_sync)
    assert {group.policy_version for group in groups_of(db)} == {groups_of(db)[0].policy_version}
    assert steps_of(db) == []


def test_a_search_trains_on_rewards_below_0(db, monkeypatch):
    worse = MazeProblem.score

    def negated(self, answer):
        score = worse(self, answer)
        return score if score.error else Score(tuple(r - 1.5 for r in score.rewards), score.fitness - 1.5)

    monkeypatch.setattr(MazeProblem, "score", negated)
    run(db, config(answers=1, train={"method": "grpo"}))
    assert steps_of(db)


def test_a_training_that_diverges_ends_the_search_with_a_sentence(db, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SearchFailed, match=r"training during the search: training stopped at step \d+: .*smaller"):
        run(db, config(train={"lr": 1e30}))


def test_training_ends_where_it_was_told_and_the_search_goes_on(db):
    run(db, config(train={"steps": 1}))
    assert len(steps_of(db)) == 1 and len(groups_of(db)) == 12


@pytest.mark.parametrize(("arguments", "said"), yaml_rows(__file__, "what_cannot_be_trained_is_one_line"))
def test_what_cannot_be_trained_is_one_line(here, capsys, arguments, said):
    Path("train.yaml").write_text("train: {method: vpo, check: [maze:test/5-9]}\n")
    assert said in refused(capsys, "run", "maze:test", "--limit", "2", "--iterations", "2", "--plain", *arguments)
    assert not Path("evo.db").exists() or not _runs()


def _runs():
    with Store.open("sqlite:///evo.db", read_only=True) as store:
        return store.runs()


def test_the_last_checkpoint_is_an_ordinary_one(whole):
    from vpo.policies.address import parse_address
    from vpo.policies.checkpoint import trained_answers
    from vpo.policies.registry import policy_at

    folder, _, launched = whole
    newest = folder / "evo-policies" / "run" / "step-4"
    assert trained_answers(parse_address(str(newest))) == 2
    policy = policy_at(str(newest))
    assert torch.equal(weights_of(policy.model), launched.learned)
    assert json.loads((newest / "evo.json").read_text())["method"] == "vpo"
    asyncio.run(policy.close())


def test_show_tells_which_versions_wrote_the_run(whole, capsys):
    db = whole[1]
    assert invoke(["show", "run", "--db", db]) == 0
    shown = capsys.readouterr().out
    assert "policy versions" in shown and "+vpo." in shown
    assert invoke(["show", "run", "--db", db, "--json"]) == 0
    versions = json.loads(capsys.readouterr().out)["versions"]
    groups = groups_of(db)
    assert [one["version"] for one in versions] == list(dict.fromkeys(group.policy_version for group in groups))
    assert sum(one["groups"] for one in versions) == len(groups) == 12
    first = [a.score.fitness for g in groups if g.policy_version == versions[0]["version"] for a in g.all_answers()]
    assert versions[0]["fitness"] == pytest.approx(np.mean(first))


@pytest.mark.long
def test_checkpoints_beyond_those_kept_are_removed(db, tmp_path):
    run(db, config(iterations=9, train={"every": 2, "save_every": 1, "keep": 2}))
    there = sorted(path.name for path in (tmp_path / "evo-policies" / "run").iterdir())
    assert there == ["step-8", "step-9"] and len(steps_of(db)) == 9
    whole = run(db, resume=True)
    assert whole.search.learner.trainer.steps == sum(step.policy_version is not None for step in steps_of(db))


@pytest.mark.parametrize("offset", [0.05, 0.5, np.nan])
def test_the_probe_is_how_far_the_engine_is_off(db, offset):
    def shifted(launched):
        usual = launched.operators[0].policy.logprobs

        async def logprobs(rollouts):
            return [values + offset for values in await usual(rollouts)]

        launched.operators[0].policy.logprobs = logprobs

    settings = config(iterations=2, train={"every": 2, "tolerance": 0.1})
    if offset < 0.1:
        run(db, settings, change=shifted)
        assert [step.stats["probe"] for step in steps_of(db)] == pytest.approx([offset] * 2, abs=0.02)
    else:
        with pytest.raises(SearchFailed, match="differs from the trainer") as raised:
            run(db, settings, change=shifted)
        gap = re.search(r"differs from the trainer by (\S+) nats a token", str(raised.value))[1]
        assert float(gap) == pytest.approx(offset, abs=0.02, nan_ok=True)
