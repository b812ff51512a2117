"""What every policy keeps, run on all of them (vpo/policies/contract.py)."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from evo.testing import PolicyContract, TrainablePolicyContract
from evo.testing import policy as contract
from problems.types import Prompt, Rollout
from vpo.policies.contract import Policy, TrainablePolicy
from vpo.policies.registry import load_policy

PROMPTS = list(contract.PROMPTS)


class TestPolicies(PolicyContract):
    """Every kind of policy there is."""

    @pytest.fixture(autouse=True)
    def _named(self, address: str) -> None:
        self.address = address
        self.varied = "echo" not in address and "fixed" not in address

    def open_policy(self) -> Policy:
        return load_policy(self.address, threads=1, max_tokens=24)


class TestTrainablePolicies(TrainablePolicyContract):
    @pytest.fixture(autouse=True, params=["llama", "embedded:base", "vllm_url"])
    def _named(self, request: pytest.FixtureRequest) -> None:
        self.address = request.param if ":" in request.param else str(request.getfixturevalue(request.param))

    def open_policy(self) -> TrainablePolicy:
        policy = load_policy(self.address, threads=1, max_tokens=24)
        assert isinstance(policy, TrainablePolicy)
        return policy


def sampled(
    address: str, prompts: list[Prompt], *, rollouts: int = 3, answers: int = 1, seed: int = 5, **settings: object
) -> list[list[Rollout]]:
    async def run() -> list[list[Rollout]]:
        policy = load_policy(address, threads=1, **({"max_tokens": 24} | settings))  # type: ignore[arg-type]
        try:
            return await policy.sample(prompts, rollouts=rollouts, answers=answers, seed=seed)
        finally:
            await policy.close()

    return asyncio.run(run())


def tokens(groups: list[list[Rollout]]) -> list[list[list[int]]]:
    return [[rollout.token_ids.tolist() for rollout in group] for group in groups]


def test_it_is_a_policy_and_closes_twice(address: str) -> None:
    async def run() -> None:
        policy = load_policy(address, temperature=0.7, batch=5, threads=1)
        assert isinstance(policy, Policy)
        assert policy.temperature == 0.7 and policy.batch == 5 and policy.traits.logprobs
        assert (
            address.split("?")[0].split("=")[0].split("@")[0].rpartition("/")[2] in policy.version or "vllm:" in address
        )
        await policy.close()
        await policy.close()

    asyncio.run(run())


def test_one_list_per_prompt_of_as_many_rollouts_as_asked(address: str) -> None:
    groups = sampled(address, PROMPTS, rollouts=3, answers=2)
    assert [len(group) for group in groups] == [3] * 7
    for group in groups:
        for rollout in group:
            assert rollout.token_ids.dtype == np.int32 and rollout.prompt_ids.dtype == np.int32
            assert rollout.logprobs.dtype == np.float32 and rollout.logprobs.shape == rollout.token_ids.shape
            assert np.isfinite(rollout.logprobs).all() and (rollout.logprobs <= 0).all()
            assert len(rollout.token_ids) and rollout.finish in ("stop", "length")
            assert rollout.prompt_ids is group[0].prompt_ids and len(rollout.prompt_ids)


def test_a_rollout_does_not_depend_on_what_shares_its_batch(address: str) -> None:
    together = sampled(address, PROMPTS, rollouts=4)
    for i in (0, 3, 6):
        alone = sampled(address, [PROMPTS[i]], rollouts=2)
        assert tokens(alone)[0] == tokens(together)[i][:2]
        for one, other in zip(alone[0], together[i], strict=False):
            assert np.allclose(one.logprobs, other.logprobs, atol=1e-4)
    backwards = sampled(address, PROMPTS[::-1], rollouts=4)
    assert tokens(backwards)[::-1] == tokens(together)


def test_prompts_that_share_a_stream_and_text_sample_alike(address: str) -> None:
    groups = tokens(sampled(address, [PROMPTS[2], PROMPTS[5], PROMPTS[2]]))
    assert groups[0] == groups[2]


def test_a_rollout_goes_on_from_its_prefill(address: str) -> None:
    policy = load_policy(address, threads=1)
    continues = policy.traits.prefill
    asyncio.run(policy.close())
    if not continues:
        pytest.skip("cannot begin a rollout")
    plain = Prompt("Write a function.", stream=4)
    begun = Prompt("Write a function.", stream=4, prefill="```python\ndef")
    (free,), (group,) = sampled(address, [plain]), sampled(address, [begun])
    for rollout in group:
        assert rollout.text.startswith("```python\ndef")
        assert len(rollout.token_ids) == len(rollout.logprobs) <= 24, "a prefill is no part of what was sampled"
        assert len(rollout.prompt_ids) > len(free[0].prompt_ids)
        assert (rollout.prompt_ids[: len(free[0].prompt_ids) - 1] == free[0].prompt_ids[:-1]).all()
