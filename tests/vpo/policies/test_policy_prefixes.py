"""Prompts whose prefix is kept sample what they sample without it."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch

import vpo.hf.policy
from problems.types import Prompt, Rollout
from vpo.hf.cache import PrefixCache
from vpo.hf.policy import TransformersPolicy
from vpo.hf.rows import can_cut
from vpo.policies.registry import load_policy

TASKS = [
    "# Task\nWrite one word that rhymes with day, and write no other word. ",
    "# Task\nCount from three to nine, and leave out the odd numbers. ",
]
SHOWN = ["The last word was 'hay'.", "Nothing yet.", "The last word was 'hay', which is right.", "7"]
PROMPTS = [
    Prompt(TASKS[i % 2] + shown, stream=i, task_chars=len(TASKS[i % 2])) for i, shown in enumerate(SHOWN + SHOWN[::-1])
]


@pytest.fixture(autouse=True)
def tiny_models_count_as_large(monkeypatch: pytest.MonkeyPatch, one_thread: None) -> None:
    monkeypatch.setattr(vpo.hf.policy, "_SMALL", 0)


def policy_of(checkpoint: object, **settings: object) -> TransformersPolicy:
    policy = load_policy(str(checkpoint), threads=1, max_tokens=12, **settings)
    assert isinstance(policy, TransformersPolicy)
    return policy


def sampled(policy: TransformersPolicy, *calls: list[Prompt]) -> list[Rollout]:
    """The rollouts of these calls, one after the other."""
    groups = [asyncio.run(policy.sample(call, rollouts=2, answers=1, seed=3)) for call in calls]
    return [rollout for call in groups for group in call for rollout in group]


def reused(policy: TransformersPolicy) -> int:
    assert policy.prefixes is not None
    return policy.prefixes.reused


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_a_kept_prefix_changes_no_bit(qwen2: object, dtype: str) -> None:
    kept, forgetful = policy_of(qwen2, dtype=dtype), policy_of(qwen2, dtype=dtype)
    forgetful.prefixes = PrefixCache(limit=0)
    calls = [PROMPTS[:1], PROMPTS[1:3], [*PROMPTS[3:5], Prompt("7", stream=9), *PROMPTS[5:]]]
    for one, other in zip(sampled(kept, *calls), sampled(forgetful, *calls), strict=True):
        assert one.token_ids.tolist() == other.token_ids.tolist()
        assert one.logprobs.tolist() == other.logprobs.tolist()
    lengths = [len(kept.encode(Prompt(task))) for task in TASKS]
    assert reused(kept) > 6 * 64 and reused(kept) < 3 * sum(lengths)
    assert reused(forgetful) == 0


def test_tokens_are_those_of_prompts_in_one_pass(llama: object) -> None:
    cut, whole = policy_of(llama), policy_of(llama)
    whole.prefixes = None
    for one, other in zip(sampled(cut, PROMPTS, PROMPTS), sampled(whole, PROMPTS, PROMPTS), strict=True):
        assert one.token_ids.tolist() == other.token_ids.tolist()
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-4)
    assert reused(cut)


@pytest.mark.parametrize("way", ["update", "in place", "adapter"])
def test_new_weights_drop_what_old_ones_computed(qwen2: object, way: str) -> None:
    policies = [policy_of(qwen2), policy_of(qwen2)]
    if way == "adapter":
        from vpo.training.adapters import with_adapter
        from vpo.training.config import LoraSettings

        for policy in policies:
            policy.model = with_adapter(policy.model, LoraSettings(lora_rank=2), 0)
    sampled(policies[0], PROMPTS)
    assert reused(policies[0])
    for policy in policies:
        if way == "update":
            asyncio.run(policy.update({name: w * 0.9 for name, w in policy.model.state_dict().items()}, "other"))
        else:
            trained = [weight for weight in policy.model.parameters() if weight.requires_grad]
            optimizer = torch.optim.AdamW(trained, lr=0.1)
            for weight in trained:
                weight.grad = torch.ones_like(weight)
            optimizer.step()
    for one, other in zip(*(sampled(policy, PROMPTS) for policy in policies), strict=True):
        assert one.token_ids.tolist() == other.token_ids.tolist()
        assert one.logprobs.tolist() == other.logprobs.tolist()


def test_a_prompt_that_is_asked_again_is_not_computed(qwen2: object) -> None:
    policy = policy_of(qwen2)
    sampled(policy, PROMPTS)
    assert policy.prefixes is not None
    computed, before = policy.prefixes.computed, reused(policy)
    sampled(policy, PROMPTS[:3], PROMPTS)
    assert policy.prefixes.computed == computed
    assert reused(policy) - before == sum(len(policy.encode(prompt)) for prompt in [*PROMPTS[:3], *PROMPTS])


def test_what_is_kept_has_a_limit_and_the_oldest_leaves(llama: object) -> None:
    model = policy_of(llama).model
    prompts = [np.arange(40, dtype=np.int32) + i for i in range(4)]
    token = 2 * 2 * 2 * 8 * 4  # keys and values, layers, heads, width, bytes
    logits = model.config.vocab_size * 4
    prefix, whole = 30 * token + logits, 40 * token + logits

    def reuse(kept: PrefixCache, *asked: int) -> list[int]:
        tokens = []
        for i in asked:
            before = kept.reused
            with torch.inference_mode():
                kept.prefill(model, [(prompts[i], 30)])
            tokens.append(kept.reused - before)
            assert kept.bytes <= kept.limit
        return tokens

    kept = PrefixCache(limit=2 * prefix + whole + 1)
    assert reuse(kept, 0, 1, 1, 0, 0) == [0, 0, 40, 30, 40]
    assert kept.bytes == 2 * prefix + whole  # whole prompts leave first
    assert reuse(kept, 2, 2, 0, 1) == [0, 40, 30, 0]  # the prefix of 1 was used before that of 0
    nothing = PrefixCache(limit=prefix - 1)
    assert reuse(nothing, 0, 0) == [0, 0]
    assert nothing.bytes == 0


def test_models_that_see_a_window_or_rotate_by_length_keep_nothing(mistral: object, llama: object) -> None:
    assert policy_of(mistral).prefixes is None
    model = policy_of(llama).model
    assert can_cut(model)
    model.config.rope_parameters["rope_type"] = "dynamic"
    assert not can_cut(model)
