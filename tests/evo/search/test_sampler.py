"""Single prompts become calls of a policy, filled or overlapping (evo.search.sampler)."""

import asyncio

import numpy as np

from evo.search.sampler import Sampler
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


def sampled(policy, texts, *, rollouts=1, after=None):
    """The groups of prompts with these texts, or what was raised for each, and the sampler after them."""

    async def scenario():
        sampler = Sampler(policy, rollouts=rollouts, answers=1, seed=0)
        futures = [sampler.submit(Prompt(text)) for text in texts]
        if after is not None:
            await after(sampler, futures)
        sampler.flush()
        found = await asyncio.gather(*futures, return_exceptions=True)
        busy = sampler.busy_seconds
        await sampler.close()
        return found, sampler, busy

    return asyncio.run(asyncio.wait_for(scenario(), 10))


def test_batches_are_filled_in_order_of_submission():
    async def hold(sampler, futures):
        assert sampler.holds(futures[6]) and not sampler.holds(futures[5])

    policy = Recorder(batch=3)
    found, sampler, _ = sampled(policy, map(str, range(7)), rollouts=2, after=hold)
    assert policy.calls == [["0", "1", "2"], ["3", "4", "5"], ["6"]]
    assert [groups[0][0].text for groups in found] == [str(i) for i in range(7)]
    assert (sampler.meter.rollouts, sampler.meter.tokens) == (14, 42)


def test_batch_zero_passes_every_prompt_on_at_once():
    policy = Recorder(batch=0, delay=0.2)
    _, sampler, busy = sampled(policy, map(str, range(8)))
    assert sorted(policy.calls) == [[str(i)] for i in range(8)]
    assert 0.19 < busy < 8 * 0.2, "overlapping calls count once"


def test_a_call_or_a_prompt_that_fails_fails_alone_and_too_few_groups_are_a_bug():
    class Short(Recorder):
        async def sample(self, prompts, **options):
            if any(len(p.user) > 3 for p in prompts):
                raise PromptTooLong("too long")
            return await super().sample(prompts, **options)

    for policy, texts, fault, failed in (
        (Recorder(batch=2, fail_on="2"), "012345", PolicyUnavailable, [False, False, True, True, False, False]),
        (Short(batch=3), ("a", "much too long", "b"), PromptTooLong, [False, True, False]),
    ):
        found, *_ = sampled(policy, texts)
        assert [isinstance(one, fault) for one in found] == failed
    found, *_ = sampled(Recorder(batch=2, short=True), "ab")
    assert isinstance(found[0], RuntimeError) and "broke its contract" in str(found[0])


def test_prompts_that_no_call_has_begun_with_are_let_go_and_so_by_a_close():
    async def abandon(sampler, futures):
        sampler.abandon()
        await asyncio.sleep(0.02)
        assert policy.calls == [] and all(future.cancelled() for future in futures)
        waiting = sampler.submit(Prompt("c"))
        await sampler.close()
        assert waiting.cancelled()

    policy = Recorder(batch=4)
    sampled(policy, "ab", after=abandon)


class Model(Recorder):
    """A model in this process, whose prompts are answered one after the other, last first."""

    tokenizer = model = encode = learner = between = update = logprobs = object()
    context, stops = 99, frozenset()

    async def sample(self, prompts, *, rollouts, answers, seed, watch=None):
        groups = await super().sample(prompts, rollouts=rollouts, answers=answers, seed=seed)
        for number in reversed(range(len(prompts))):
            watch.on_tokens(3 * (len(prompts) - number))
            watch.on_group(number, groups[number])
            await asyncio.sleep(self.delay)
        if self.fail_on == "late":
            raise PolicyUnavailable("gone")
        return groups


def test_a_model_here_gives_each_prompt_back_as_it_is_answered():
    order = []

    async def watch(sampler, futures):
        for number, future in enumerate(futures):
            future.add_done_callback(lambda _, number=number: order.append((number, sampler.drawing)))

    found, sampler, busy = sampled(Model(batch=3, delay=0.05), "abc", rollouts=2, after=watch)
    assert [number for number, _ in order] == [2, 1, 0] and {drawing for _, drawing in order} == {0}
    assert [group.rollouts[0].text for group in found] == list("abc")
    assert (sampler.meter.rollouts, sampler.meter.tokens) == (6, 18), "each counts once"
    assert sum(group.seconds for group in found) <= busy


def test_a_model_here_that_dies_keeps_what_it_has_answered_and_training_waits_for_whole_calls():
    async def whole(sampler, futures):
        sampler.whole_calls = True

    found, *_ = sampled(Model(batch=2, fail_on="late"), "ab")
    assert [group.rollouts[0].text for group in found] == ["a", "b"]
    found, *_ = sampled(Model(batch=2, fail_on="late"), "ab", after=whole)
    assert all(isinstance(fault, PolicyUnavailable) for fault in found)
