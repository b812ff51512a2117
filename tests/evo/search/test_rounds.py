"""Rounds: which prompts share one must not depend on how long scoring takes."""

import asyncio
import random
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from evo.search.batching import Batcher
from evo.search.continuous_batching import LAG, ContinuousBatcher, sampler_for
from evo.testing import PolicyContract
from problems.types import Prompt, Rollout
from vpo.policies.contract import Policy, PolicyUnavailable

IDS = np.zeros(2, np.int32)


class Rounds(Policy):
    """A policy whose group i takes 1 + (7 i) % 5 rounds; notes what joined each round."""

    version, prompt_format, batch, streams = "rounds", "chat", 4, True

    def __init__(self, fail_in=None):
        self.worker, self.joined, self.fail_in, self.slept = ThreadPoolExecutor(1), {}, fail_in, 0

    async def sample(self, prompts, *, rollouts, answers, seed):
        return [[rollout_of(prompt)] * rollouts for prompt in prompts]

    async def close(self):
        self.worker.shutdown()

    def stream(self, *, rollouts, answers, seed, take, deliver):
        return RoundStream(self, rollouts, take, deliver)


class RoundStream:
    """The policy's rounds under way, in its thread."""

    def __init__(self, policy, rollouts, take, deliver):
        self.policy, self.rollouts, self.take, self.deliver = policy, rollouts, take, deliver
        self.under_way, self.number, self.closed = {}, 0, False

    def wake(self):
        self.policy.worker.submit(self.go)

    def close(self):
        self.closed = True

    def go(self):
        if self.closed:
            return
        due = self.take(self.number)
        if due is None:
            self.policy.slept += 1
            return
        if due:
            self.policy.joined[self.number] = [prompt.user for _, prompt in due]
        self.under_way.update({number: (1 + 7 * int(prompt.user) % 5, prompt) for number, prompt in due})
        back = []
        for number, (left, prompt) in list(self.under_way.items()):
            if left > 1:
                self.under_way[number] = (left - 1, prompt)
                continue
            del self.under_way[number]
            failed = self.number == self.policy.fail_in
            back.append((number, PolicyUnavailable("gone") if failed else [rollout_of(prompt)] * self.rollouts))
        self.number += 1
        self.deliver(self.number - 1, back)
        self.wake()


def rollout_of(prompt):
    return Rollout(prompt.user, IDS, np.zeros(2, np.float32), IDS)


class TestRounds(PolicyContract):
    varied = False

    def open_policy(self):
        return Rounds()


async def searched(policy, count=60, window=8, delay=lambda: 0.0, during=None):
    """As a search does it: scoring takes its time, groups leave in order, the next one follows each."""
    batcher = ContinuousBatcher(policy, 2, 1, 0)

    async def scored(sampled):
        rollouts, version, seconds = await sampled
        await asyncio.sleep(delay())
        return rollouts[0].text

    texts, flying, asked = [], deque(), 0
    while True:
        while asked < count and len(flying) < window:
            sampled = batcher.submit(Prompt(str(asked)))
            flying.append((sampled, asyncio.create_task(scored(sampled))))
            asked += 1
        if not flying:
            break
        if batcher.holds(flying[0][0]):
            batcher.flush()
        await asyncio.wait([flying[0][1]])
        if during is not None:
            await during(batcher, len(texts))
        left = []
        while flying and flying[0][1].done():
            sampled, task = flying.popleft()
            texts.append(task.result())
            left.append(sampled)
            batcher.leaving(sampled)
            if asked < count:
                following = batcher.submit(Prompt(str(asked)))
                flying.append((following, asyncio.create_task(scored(following))))
                asked += 1
        batcher.left(left)
    await batcher.close()
    return texts, batcher.meter


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 30))


def test_rounds_do_not_depend_on_timing():
    calm = Rounds()
    texts, meter = run(searched(calm))
    assert texts == [str(i) for i in range(60)]
    assert calm.joined[0] == [str(i) for i in range(8)]
    assert sorted(sum(calm.joined.values(), []), key=int) == texts
    assert (meter.rollouts, meter.tokens) == (120, 240)
    for seed in range(3):
        slow, chance = Rounds(), random.Random(seed)
        assert run(searched(slow, delay=lambda chance=chance: chance.choice((0, 0, 0.001, 0.02))))[0] == texts
        assert slow.joined == calm.joined
        assert slow.slept > 0, "the engine should have had to wait"


def test_a_group_is_followed_after_the_lag_and_not_before():
    policy = Rounds()
    run(searched(policy, count=3, window=1))
    # group 0 takes 1 round, group 1 takes 3, group 2 takes 5
    assert policy.joined == {0: ["0"], 1 + LAG: ["1"], 4 + 2 * LAG: ["2"]}


def test_a_pause_changes_no_round():
    async def pause(batcher, landed):
        if landed in (3, 10, 30):
            batcher.pause()
            await asyncio.sleep(0.02)
            batcher.resume()

    calm, paused = Rounds(), Rounds()
    assert run(searched(calm))[0] == run(searched(paused, during=pause))[0]
    assert calm.joined == paused.joined


def test_a_fault_reaches_those_it_concerns():
    async def scenario():
        batcher = ContinuousBatcher(Rounds(fail_in=0), 1, 1, 0)
        futures = [batcher.submit(Prompt(str(i))) for i in range(6)]
        batcher.flush()
        results = []
        for future in futures:
            results += await asyncio.gather(future, return_exceptions=True)
            batcher.leaving(future)
            batcher.left([future])
        await batcher.close()
        return results

    # 0 and 5 end in round 0
    assert [isinstance(one, PolicyUnavailable) for one in run(scenario())] == [True, *[False] * 4, True]


def test_abandon_cancels_what_has_not_begun_and_close_the_rest():
    async def scenario():
        policy = Rounds()
        batcher = ContinuousBatcher(policy, 1, 1, 0)
        futures = [batcher.submit(Prompt(str(i))) for i in range(5)]
        batcher.flush()
        await futures[0]
        batcher.leaving(futures[0])
        late = batcher.submit(Prompt("4"))
        batcher.abandon()
        assert late.cancelled() and not any(future.cancelled() for future in futures)
        batcher.left([futures[0]])
        others = await asyncio.gather(*futures[1:])
        waiting = ContinuousBatcher(Rounds(), 1, 1, 0)
        never = waiting.submit(Prompt("0"))
        await waiting.close()
        await batcher.close()
        return others, never

    others, never = run(scenario())
    assert [group[0].text for group, _, _ in others] == ["1", "2", "3", "4"] and never.cancelled()


def test_rounds_are_for_a_policy_that_can_and_a_search_that_has_it_alone():
    class Cannot(Rounds):
        streams = False

        def stream(self, **_):
            return None

    async def made(policy, alone):
        return type(sampler_for(policy, 1, 1, 0, 4, alone))

    assert run(made(Rounds(), True)) is ContinuousBatcher
    assert run(made(Rounds(), False)) is Batcher
    assert run(made(Cannot(), True)) is Batcher
    with pytest.raises(ValueError, match="rounds"):
        run(made_directly(Cannot()))


async def made_directly(policy):
    return ContinuousBatcher(policy, 1, 1, 0)
