"""Searches with vllm: policies: training beside them, their weights proved after every sync, and one engine for arms
that agree in it. The engine is tests/stubs/vllm.py; bench/vllm_policy.py asks vLLM itself."""

import asyncio

import pytest
from command_line import evo
from vllm_stubbed import stubbed_vllm

from evo.config.run import RunConfig
from evo.runs.start import launch
from evo.search.resources import Resources
from islands.db.store import Store
from islands.queries.training import training_steps

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_thread")]
POLICY = "vllm:embedded:base?threads=1"


@pytest.fixture
def stubbed():
    with stubbed_vllm():
        yield


def config(**changes):
    settings = {"problems": ["maze:test"], "limit": 2, "iterations": 2, "rollouts": 2, "answers": 2, "policy": POLICY}
    return RunConfig.model_validate({**settings, **changes})


@pytest.mark.parametrize("replicas", ["", "&replicas=2"])
def test_a_search_trains_the_policy_that_vllm_serves(stubbed, tmp_path, replicas):
    db = f"sqlite:///{tmp_path / 'evo.db'}"
    training = {"method": "vpo", "every": 2, "lr": 1e-3, "precision": "fp32", "steps": 2}

    async def scenario():
        asked = config(iterations=3, train=training, policy=POLICY + replicas)
        launched = await launch(asked, db=db, name="run", command="test")
        engine = launched.policy._engine
        try:
            await launched.search.run()
            version = launched.policy.version
        finally:
            await launched.close()
        return engine, version

    engine, version = asyncio.run(asyncio.wait_for(scenario(), 240))
    with Store.open(db, read_only=True) as store:
        steps = list(training_steps(store, store.run("run").id))
    made = [step.policy_version for step in steps if step.policy_version]
    assert len(steps) == 2 and made and version == made[-1]
    assert all(0 <= step.stats["probe"] < 1e-4 for step in steps if step.policy_version)
    processes = [one._engine._process for one in engine.replicas] if replicas else [engine._process]
    assert all(one.wait(0) is not None for one in processes)


def test_arms_that_agree_in_the_engine_share_one_whatever_they_ask_of_it(stubbed):
    shared = Resources()
    arms = [config(), config(answers=3), config(temperature=0.5), config(policy=f"{POLICY}&temperature=0.7")]
    try:
        policies = [shared.policy(arm, shared.problems(arm)) for arm in arms]
        assert len({id(policy) for policy in policies}) == 4
        assert len({policy._engine._process.pid for policy in policies}) == 1
        assert [policy.temperature for policy in policies] == [1.0, 1.0, 0.5, 0.7]
        assert policies[1].max_tokens > policies[0].max_tokens
        several = config(policy=f"{POLICY}&temperature=0.7,{POLICY}")
        operators = shared.operators(several, shared.problems(several))
        assert [operator.policy.temperature for operator in operators] == [0.7, 1.0]
        process = policies[0]._engine._process
    finally:
        asyncio.run(shared.close())
    assert process.wait(0) is not None


def test_evo_train_wants_the_weights_where_it_samples(capsys, tmp_path):
    out = str(tmp_path / "out")
    code, _, told = evo(capsys, "train", "grpo", "maze:train/0-1", "--policy", POLICY, "--answers", "1", "-o", out)
    assert code == 2 and "name embedded:base, or train during a search" in told and told.count("\n") == 1
