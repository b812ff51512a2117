"""Single prompts become calls of a policy, filled or overlapping (evo.search.sampler)."""

import asyncio

import numpy as np
import pytest

from evo.search.sampler import Sampler
from evo.testing import PolicyContract
from problems.types import Prompt, Rollout
from vpo.policies.contract import Policy, PolicyTraits, PolicyUnavailable, PromptTooLong


class Recorder(Policy):
    """A policy that notes each call and answers with the prompt's own text."""

    version, prompt_format, traits = "recorder", "chat", PolicyTraits(logprobs=True)

    def __init__(self, batch, delay=0.0, fail_on=None, short=False):
        self.batch, self.delay, self.fail_on, self.short = batch, delay, fail_on, short
        self.calls = []

    async def sample(self, prompts, *, rollouts, answers, seed):
        self.calls.append([p.user for p in prompts])
        await asyncio.sleep(self.delay)
        if self.fail_on in self.calls[-1]:
            raise PolicyUnavailable("gone")
        ids = np.zeros(3, np.int32)
        made = [[Rollout(p.user, ids, np.zeros(3, np.float32), ids) for _ in range(rollouts)] for p in prompts]
        return made[:-1] if self.short else made

    async def close(self):
        pass


class TestRecorder(PolicyContract):
    varied = False

    def open_policy(self):
        return Recorder(batch=3)


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 10))


def test_batches_are_filled_in_order_of_submission():
    async def scenario():
        policy = Recorder(batch=3)
        sampler = Sampler(policy, rollouts=2, answers=1, seed=0)
        futures = [sampler.submit(Prompt(str(i))) for i in range(7)]
        assert sampler.holds(futures[6]) and not sampler.holds(futures[5])
        sampler.flush()
        results = await asyncio.gather(*futures)
        await sampler.close()
        return policy.calls, results, sampler.meter

    calls, results, meter = run(scenario())
    assert calls == [["0", "1", "2"], ["3", "4", "5"], ["6"]]
    assert [r[0][0].text for r in results] == [str(i) for i in range(7)]
    assert (meter.calls, meter.rollouts, meter.tokens) == (3, 14, 42)


def test_batch_zero_passes_every_prompt_on_at_once():
    async def scenario():
        policy = Recorder(batch=0, delay=0.05)
        sampler = Sampler(policy, rollouts=1, answers=1, seed=0)
        await asyncio.gather(*(sampler.submit(Prompt(str(i))) for i in range(8)))
        busy = sampler.meter.busy()
        await sampler.close()
        return policy.calls, busy

    calls, busy = run(scenario())
    assert sorted(calls) == [[str(i)] for i in range(8)]
    assert 0.04 < busy < 0.3, "overlapping calls count once"


def test_a_failing_call_fails_its_own_prompts_alone():
    async def scenario():
        sampler = Sampler(Recorder(batch=2, fail_on="2"), rollouts=1, answers=1, seed=0)
        futures = [sampler.submit(Prompt(str(i))) for i in range(6)]
        results = await asyncio.gather(*futures, return_exceptions=True)
        await sampler.close()
        return results

    results = run(scenario())
    assert [isinstance(r, PolicyUnavailable) for r in results] == [False, False, True, True, False, False]


def test_a_prompt_that_is_too_long_fails_alone():
    class Short(Recorder):
        async def sample(self, prompts, **options):
            if any(len(p.user) > 3 for p in prompts):
                self.calls.append("refused")
                raise PromptTooLong("too long")
            return await super().sample(prompts, **options)

    async def scenario():
        sampler = Sampler(Short(batch=3), rollouts=1, answers=1, seed=0)
        futures = [sampler.submit(Prompt(text)) for text in ("a", "much too long", "b")]
        results = await asyncio.gather(*futures, return_exceptions=True)
        await sampler.close()
        return results

    results = run(scenario())
    assert [isinstance(r, PromptTooLong) for r in results] == [False, True, False]


def test_a_policy_that_returns_too_few_groups_is_a_bug_and_raises():
    async def scenario():
        sampler = Sampler(Recorder(batch=2, short=True), rollouts=1, answers=1, seed=0)
        futures = [sampler.submit(Prompt(str(i))) for i in range(2)]
        try:
            await futures[0]
        finally:
            await sampler.close()

    with pytest.raises(RuntimeError, match="broke its contract"):
        run(scenario())


def test_close_cancels_what_waits():
    async def scenario():
        sampler = Sampler(Recorder(batch=4), rollouts=1, answers=1, seed=0)
        future = sampler.submit(Prompt("alone"))
        await sampler.close()
        return future.cancelled()

    assert run(scenario())


def test_prompts_that_no_call_has_begun_with_are_let_go():
    async def scenario():
        policy = Recorder(4)
        sampler = Sampler(policy, rollouts=1, answers=1, seed=0)
        futures = [sampler.submit(Prompt(name)) for name in "ab"]
        sampler.abandon()
        await asyncio.sleep(0.02)
        assert policy.calls == [] and all(future.cancelled() for future in futures)
        after = sampler.submit(Prompt("c"))
        sampler.flush()
        await after
        assert policy.calls == [["c"]]
        await sampler.close()

    run(scenario())
