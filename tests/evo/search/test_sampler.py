"""Single prompts become calls of a policy, filled or overlapping (evo.search.sampler)."""

import asyncio

import pytest

from evo.search.sampler import Sampler
from evo.search.stop import FINISHED, INTERRUPTED, Stop, StopReason
from problems.types import Prompt


@pytest.fixture(params=["calls", "overlapping calls"])
def sampler_of(request, digits_policy):
    """Makes a sampler of that kind, of 2 rollouts of one answer."""
    return lambda: Sampler(digits_policy(batch=3 if request.param == "calls" else 0), 2, 1, 0)


def scenario(steps):
    return asyncio.run(asyncio.wait_for(steps, 20))


def test_every_prompt_comes_back_with_its_rollouts_and_is_metered(sampler_of):
    async def steps():
        sampler = sampler_of()
        futures = [sampler.submit(Prompt(str(stream), "", stream)) for stream in range(7)]
        found = []
        for future in futures:
            if sampler.holds(future):
                sampler.flush()
            found.append(await future)
        await sampler.drain()
        meter = sampler.meter
        await sampler.close()
        return found, meter

    found, meter = scenario(steps())
    assert all(len(one.rollouts) == 2 and one.version and one.seconds >= 0 for one in found)
    assert meter.rollouts == 14 and meter.tokens == sum(r.tokens for one in found for r in one.rollouts)


def test_what_is_abandoned_or_closed_is_cancelled_and_never_waited_for(sampler_of):
    async def steps():
        sampler = sampler_of()
        sampler.pause()
        futures = [sampler.submit(Prompt(str(stream), "", stream)) for stream in range(4)]
        sampler.flush()
        await asyncio.sleep(0)
        sampler.abandon()
        sampler.resume()
        late = sampler.submit(Prompt("9", "", 9))
        await sampler.close()
        return await asyncio.gather(*futures, late, return_exceptions=True)

    assert all(isinstance(one, asyncio.CancelledError) for one in scenario(steps()))


def test_a_stop_says_its_reason_in_words():
    assert [str(FINISHED), str(INTERRUPTED)] == ["", "interrupted"]
    assert str(Stop(StopReason.FAILED, "no score")) == "failed: no score"
    assert str(Stop(StopReason.BUDGET, "budget of 3 answers")) == "budget of 3 answers"
