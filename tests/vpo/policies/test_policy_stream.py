"""Rows that join others on the way, and sampling in rounds, against the same rows by themselves."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

from problems.types import Prompt
from vpo.hf.decode import Ask, Decoding, Settings, decode
from vpo.hf.rows import ExpandedRows, SharedRows, can_join
from vpo.policies.contract import PolicyUnavailable, PromptTooLong, Streaming
from vpo.policies.registry import load_policy

PROMPTS = [Prompt("word " * (1 + 3 * (i % 5)), stream=i) for i in range(12)]


def policy_of(checkpoint, **settings):
    return load_policy(str(checkpoint), threads=1, **{"max_tokens": 40, **settings})


def settings_of(policy, share):
    return Settings(1.0, 1.0, policy.stops, 0, 512, 1 << 30, 1 << 16, share)


@pytest.mark.long
@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_rows_that_join_later_draw_what_they_draw_alone(llama, qwen2, share, attention) -> None:
    """Prompts shorter and longer than what is there, groups of several sizes, joining before the first step, after
    some, and once the rows that were first have gone."""
    if share and attention == "eager":
        pytest.skip("shared prompts are for sdpa")
    for checkpoint in (llama, qwen2):
        policy = policy_of(checkpoint)
        policy.model.config._attn_implementation = attention
        prompts = [np.arange(n, dtype=np.int32) + 17 for n in (9, 30, 4, 60, 17, 5)]
        asks = [[Ask(p, i, r, 25 + 8 * r) for r in range(2 + i % 3)] for i, p in enumerate(prompts)]
        settings = settings_of(policy, share)
        whole = {}
        decoding, drawn = Decoding(policy.model, 3, settings), {}
        for group, steps in zip(asks, (0, 6, 11, 5, 40, None), strict=True):
            first = decoding.join(group)
            whole.update(zip(range(first, first + len(group)), decode(policy.model, group, 3, settings), strict=True))
            drawn.update(decoding.run(steps))
        assert len(decoding) == 0
        assert isinstance(decoding._rows, SharedRows if share else ExpandedRows) or decoding._rows is None
        assert drawn.keys() == whole.keys() and len(drawn) == sum(map(len, asks))
        for number, one in whole.items():
            assert drawn[number].token_ids.tolist() == one.token_ids.tolist()
            assert drawn[number].stopped == one.stopped
            np.testing.assert_allclose(drawn[number].logprobs, one.logprobs, atol=1e-4)
        asyncio.run(policy.close())


def test_columns_that_no_row_has_any_more_are_dropped(llama) -> None:
    policy = policy_of(llama)
    for share in (False, True):
        decoding = Decoding(policy.model, 0, Settings(1.0, 1.0, frozenset(), 0, 512, 1 << 30, 1 << 16, share))
        for number in range(12):
            decoding.join([Ask(np.arange(6, dtype=np.int32) + 17, number, r, 20) for r in range(2)])
            decoding.run(15)
            assert decoding._rows.columns <= 6 + 35
        decoding.run(None)
    asyncio.run(policy.close())


class Taker:
    """Hands prompt i to the round that `joins` names for it, and keeps what comes back until all has."""

    def __init__(self, policy, joins, rollouts=3, seed=1):
        self.joins, self.back, self.rounds = joins, {}, {}
        self.done = threading.Event()
        self.stream = policy.stream(rollouts=rollouts, answers=1, seed=seed, take=self.take, deliver=self.deliver)

    def take(self, number):
        if self.done.is_set():
            return None
        return [(i, PROMPTS[i]) for i, joins in self.joins.items() if joins == number]

    def deliver(self, number, outcomes):
        for which, outcome in outcomes:
            assert which not in self.back
            self.back[which], self.rounds[which] = outcome, number
        if len(self.back) == len(self.joins):
            self.done.set()

    def run(self):
        self.stream.wake()
        assert self.done.wait(60)
        return self.back


def texts(groups):
    return [[rollout.text for rollout in group] for group in groups]


def test_rounds_sample_what_calls_do(checkpoint) -> None:
    policy = policy_of(checkpoint)
    called = asyncio.run(policy.sample(PROMPTS, rollouts=3, answers=1, seed=1))
    assert isinstance(policy, Streaming)
    if not can_join(policy.model):
        assert Taker.__init__ and policy.stream(rollouts=1, answers=1, seed=0, take=None, deliver=None) is None
        return
    for joins in ({i: i // 3 for i in range(12)}, {i: 7 * (i % 4) for i in range(12)}):
        taker = Taker(policy, joins)
        back = taker.run()
        assert texts(back[i] for i in range(12)) == texts(called)
        for i in range(12):
            for one, other in zip(back[i], called[i], strict=True):
                np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-4)
                assert one.finish == other.finish and one.prompt_ids.tolist() == other.prompt_ids.tolist()
            assert taker.rounds[i] >= joins[i]
    asyncio.run(policy.close())


@pytest.mark.long
def test_few_rows_and_little_memory_hold_groups_back_and_change_nothing(llama, monkeypatch) -> None:
    policy = policy_of(llama)
    called = asyncio.run(policy.sample(PROMPTS, rollouts=3, answers=1, seed=1))
    run, sizes = Decoding.run, list[int]()

    def noted(self, *rest):
        sizes.append(len(self))
        return run(self, *rest)

    monkeypatch.setattr(Decoding, "run", noted)
    for rows, cells, prompt_cells in ((4, 1 << 30, 1 << 16), (1, 1 << 30, 1 << 16), (512, 260, 1 << 16), (512, 1, 1)):
        policy._rows = rows
        monkeypatch.setattr(policy, "_cells", lambda cells=cells: cells)
        monkeypatch.setattr(policy, "_prompt_cells", lambda prompt_cells=prompt_cells: prompt_cells)
        back = Taker(policy, dict.fromkeys(range(12), 0)).run()
        assert texts(back[i] for i in range(12)) == texts(called)
        assert 0 < max(sizes) <= rows
        sizes.clear()
    asyncio.run(policy.close())


def test_memory_that_runs_out_on_the_way_begins_again_with_fewer_rows(llama, monkeypatch) -> None:
    policy = policy_of(llama)
    called = asyncio.run(policy.sample(PROMPTS, rollouts=3, answers=1, seed=1))
    step, large = SharedRows.step, []

    def short_of_memory(self, tokens):
        if len(tokens) > 9:
            large.append(len(tokens))
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return step(self, tokens)

    monkeypatch.setattr(SharedRows, "step", short_of_memory)
    back = Taker(policy, {i: i // 2 for i in range(12)}).run()
    assert large and texts(back[i] for i in range(12)) == texts(called)
    asyncio.run(policy.close())


def test_what_goes_wrong_is_told_of_each_prompt(llama, monkeypatch) -> None:
    policy = policy_of(llama)
    monkeypatch.setitem(globals(), "PROMPTS", [*PROMPTS[:3], Prompt("word " * 200, stream=3)])
    back = Taker(policy, dict.fromkeys(range(4), 0)).run()
    assert isinstance(back[3], PromptTooLong) and [len(back[i]) for i in range(3)] == [3, 3, 3]

    def broken(self, tokens):
        return SharedRowsStep(self, tokens) * float("nan")

    SharedRowsStep = SharedRows.step
    monkeypatch.setattr(SharedRows, "step", broken)
    back = Taker(policy, {0: 0, 1: 0, 2: 1}).run()
    assert all(isinstance(outcome, PolicyUnavailable) and "float32" in str(outcome) for outcome in back.values())
    asyncio.run(policy.close())


def test_streams_and_calls_take_turns_and_a_closed_stream_is_silent(llama) -> None:
    policy = policy_of(llama)
    one, other = (Taker(policy, {i: i for i in range(6)}, seed=seed) for seed in (1, 2))
    silent = Taker(policy, {0: 0})
    one.stream.wake()
    silent.stream.close()
    silent.stream.wake()
    other.stream.wake()
    called = asyncio.run(policy.sample(PROMPTS[:6], rollouts=3, answers=1, seed=1))
    assert one.done.wait(60) and other.done.wait(60) and not silent.back
    assert texts(one.back[i] for i in range(6)) == texts(called) != texts(other.back[i] for i in range(6))
    asyncio.run(policy.close())
    asyncio.run(policy.close())
