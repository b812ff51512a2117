"""A search whose policy is refilled while it decodes: one seed is one run, to the last bit, whatever the timing."""

import asyncio
import random

import pytest
from training_runs import SMALL_POLICY

from evo.search.score import AnswerScores
from problems.registry import resolve
from vpo.policies.registry import load_policy


@pytest.fixture
def searched(search_with, tmp_path, monkeypatch):
    """searched(delay, name=..., streams=..., **settings) -> the groups of a search of four mazes, seconds of scoring
    drawn by `delay`."""

    score = AnswerScores.score

    def run(delay=None, *, name, streams=True, **settings):
        async def late(*arguments):
            if delay is not None:
                await asyncio.sleep(delay())
            return await score(*arguments)

        monkeypatch.setattr(AnswerScores, "score", late)
        policy = load_policy(SMALL_POLICY, max_tokens=48)
        policy.streams = streams
        settings = settings if settings.get("resume") else dict(iterations=6, rollouts=2, answers=1, seed=3) | settings
        return search_with(resolve("maze:hard", limit=4), policy, f"sqlite:///{tmp_path}/{name}.db", **settings)

    return run


def bits(launched):
    return [
        (group.sequence, group.prompt, [(r.rollout.text, r.rollout.logprobs.tobytes()) for r in group.rollouts])
        for group in launched.groups
    ]


def texts(groups):
    return [(group.sequence, group.prompt, [r.rollout.text for r in group.rollouts]) for group in groups]


def test_scoring_that_is_slow_now_and_then_changes_no_bit(searched):
    chance = random.Random(0)
    calm = searched(name="calm")
    slow = searched(lambda: chance.choice((0, 0, 0.002, 0.05)), name="slow")
    assert len(calm.groups) == 24 and bits(calm) == bits(slow)
    called = searched(name="called", streams=False)
    assert texts(calm.groups) == texts(called.groups), "rounds or calls: the same search"
    assert type(calm.search.samplers[0]).__name__ == "ContinuousBatcher" != type(called.search.samplers[0]).__name__
    assert calm.search.samplers[0].meter.tokens == calm.status.tokens > 0


@pytest.mark.parametrize("how", ["stop_after", "interrupt_after"])
def test_an_interrupted_search_goes_on_as_if_it_had_not_been(searched, how):
    whole = searched(name="whole")
    first = searched(name="parts", **{how: 7})
    second = searched(name="parts", resume=True)
    assert 7 <= len(first.groups) < 24
    assert texts([*first.groups, *second.groups]) == texts(whole.groups)
