"""What every policy keeps, run on all of them (vpo/policies/contract.py)."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from problems.types import Prompt, Rollout
from vpo.policies.contract import Policy
from vpo.policies.registry import load_policy

PROGRAM = "def f(x):\n    return x * 2 + 1\n"
PROMPTS = [
    Prompt(
        f"Current program:\n```python\n{PROGRAM}```\n{'Make it shorter. ' * i}", "Be brief." * (i % 2), stream=100 + i
    )
    for i in range(7)
]


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
        assert policy.temperature == 0.7 and policy.batch == 5 and policy.has_logprobs
        assert address.split("?")[0].split("=")[0] in policy.version
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


def test_nothing_asked_is_nothing_sampled(address: str) -> None:
    assert sampled(address, []) == []


def test_one_seed_and_stream_sample_alike(address: str) -> None:
    first, again = sampled(address, PROMPTS), sampled(address, PROMPTS)
    assert tokens(first) == tokens(again)
    assert [[r.text for r in g] for g in first] == [[r.text for r in g] for g in again]


def test_seed_stream_and_place_in_the_group_each_change_the_sample(address: str) -> None:
    if "echo" in address or "fixed" in address:
        pytest.skip("writes given answers")
    prompt = PROMPTS[3]
    moved = Prompt(prompt.user, prompt.system, stream=9)
    base = tokens(sampled(address, [prompt], rollouts=2))[0]
    assert base[0] != base[1]
    assert base != tokens(sampled(address, [moved], rollouts=2))[0]
    assert base != tokens(sampled(address, [prompt], rollouts=2, seed=6))[0]


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
    continues = policy.continues
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
