"""`--lag` and calls: groups leave as they come back, within bounds, once; single prompts become calls of a policy."""

import asyncio
import time
from types import SimpleNamespace

import numpy as np
import pytest
from support.stored_rows import stored_answers

from evo.cli import invoke
from evo.search.core import Operators
from evo.search.loop import Window
from evo.search.problem_run import WindowSize
from evo.search.sampler import Sampler
from islands.population.population import Population
from problems.types import Prompt, Rollout
from vpo.policies.contract import Policy, PolicyTraits, PolicyUnavailable, PromptTooLong

SEQUENCE, PROBLEM, ITERATION = 0, 1, 2


@pytest.fixture
def slow_at(digits_policy):
    """slow_at(iteration) -> a policy without batches whose rollouts of it take until nothing else is asked for a while:
    no number of seconds is long enough on a busy machine."""

    def make(iteration):
        policy = digits_policy(batch=0)
        sample = policy.sample

        async def slowly(prompts, **asked):
            before = -1
            while prompts[0].stream % (1 << 32) == iteration and len(policy.calls) > before:
                before = len(policy.calls)
                await asyncio.sleep(0.4)
            return await sample(prompts, **asked)

        policy.sample = slowly
        return policy

    return make


def places(db):
    """(problem, iteration) of every stored group, in the order of commits."""
    rows = stored_answers(db, "run")
    by_sequence = {row[SEQUENCE]: (row[PROBLEM], row[ITERATION]) for row in rows}
    assert list(by_sequence) == list(range(len(by_sequence))), "the sequence is the order of commits, without a gap"
    return list(by_sequence.values())


def test_a_slow_rollout_holds_nobody_up_until_the_lag_is_spent(search_with, digits, slow_at, tmp_path):
    ahead = {}
    for lag in (0, 8):
        db = f"sqlite:///{tmp_path}/{lag}.db"
        search_with([digits("a")], slow_at(3), db, iterations=40, parallel=4, lag=lag)
        order = [iteration for _, iteration in places(db)]
        assert sorted(order) == list(range(40))
        ahead[lag] = [iteration for iteration in order[: order.index(3)] if iteration > 3]
    assert ahead == {0: [], 8: list(range(4, 3 + 4 + 8))}  # the window and the lag behind the slow one, and no further


def test_slow_evaluations_leave_the_policy_at_work(search_with, digits, digits_policy, db):
    begun = {}
    for lag in (0, 10):
        problem, policy = digits("a"), digits_policy(batch=0)
        problem.inline = False
        score, ended = problem.score, []

        def slowly(answer, score=score, ended=ended, policy=policy):
            before = -1
            while len(ended) < 2 and len(policy.calls) > before:  # until nothing is asked for a while
                before = len(policy.calls)
                time.sleep(0.3)
            ended.append(before)
            return score(answer)

        problem.score = slowly
        settings = dict(iterations=30, parallel=2, answers=1, scoring_workers=32)
        launched = search_with([problem], policy, db, name=f"lag{lag}", lag=lag, **settings)
        assert launched.status.groups == 30
        begun[lag] = ended[1]  # the first was the seed
    assert begun == {0: 2, 10: 12}


def test_problems_do_not_wait_for_one_another(search_with, digits, slow_at, db):
    search_with([digits("a"), digits("b"), digits("c")], slow_at(2), db, iterations=10, parallel=6, lag=2)
    order = places(db)
    assert sorted(order) == [(name, i) for name in "abc" for i in range(10)]
    for name in "abc":
        own = [i for problem, i in order if problem == name]
        assert [i for i in own[: own.index(2)] if i > 2] == [3, 4, 5]  # a share of two, and two more


@pytest.mark.parametrize(("how", "batch"), [("stop_after", 0), ("interrupt_after", 4)])
def test_a_search_that_was_cut_off_loses_nothing_and_scores_nothing_twice(
    search_with, digits, digits_policy, db, how, batch
):
    settings = dict(iterations=25, rollouts=2, parallel=6, lag=12, population={"migration_interval": 3, "islands": 3})
    problems = [digits("a"), digits("b")]
    first = search_with(problems, digits_policy(batch=batch, jitter=0.02), db, **{how: 13}, **settings)
    before = stored_answers(db, "run")
    assert 13 <= first.status.groups < 50 and first.reason.startswith("interrupted")
    second = search_with(problems, digits_policy(batch=batch, jitter=0.02), db, resume=True)
    assert stored_answers(db, "run")[: len(before)] == before
    assert sorted(places(db)) == [(name, i) for name in "ab" for i in range(25)]
    for problem in problems:
        assert len(problem.scored) == len(set(problem.scored)), "scored twice"
    assert second.core.size.async_window == 12 and second.status.groups == 50 and second.status.migrations > 0
    for one in second.problem_runs:  # what is stored gives the population that the search had
        again = Population(second.store, one.record, one.population.config)
        again.advance(None)
        assert (again.best, again.size) == (one.population.best, one.population.size)
        for island in range(3):
            assert again.members(island) == one.population.members(island)
            assert again.cells(island) == one.population.cells(island)


def test_a_budget_of_answers_is_kept_to_the_group(search_with, digits, digits_policy, db):
    settings = dict(iterations=40, parallel=4, lag=6, max_answers=60)
    search_with([digits("a")], digits_policy(batch=0, jitter=0.01), db, interrupt_after=7, **settings)
    for cut in ({"interrupt_after": 7}, {}):  # cut off and resumed in between
        launched = search_with([digits("a")], digits_policy(batch=0, jitter=0.01), db, resume=True, **cut)
    assert launched.reason == "budget of 60 answers"
    assert sorted(places(db)) == [("a", i) for i in range(30)]


def test_show_says_that_the_seed_does_not_give_the_run_again(search_with, digits, digits_policy, db, capsys):
    search_with([digits("a")], digits_policy(), db, iterations=8, lag=3)
    search_with([digits("a")], digits_policy(), db, name="strict", iterations=8)
    assert invoke(["show", "run", "--db", db]) == 0
    assert "--lag 3: iterations were committed as they finished" in capsys.readouterr().out
    assert invoke(["show", "strict", "--db", db]) == 0
    assert "--lag" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("queued", "back", "waits"), [(0, 1, False), (2, 1, True), (2, 2, True), (2, 3, False), (7, 3, True), (7, 4, False)]
)
def test_a_group_that_is_back_waits_for_as_many_as_have_answers_queued_and_at_most_half(queued, back, waits):
    async def gather():
        window = Window(WindowSize(8, 0), Operators([]), 0)
        groups = [asyncio.get_running_loop().create_future() for _ in range(8)]
        sampled = SimpleNamespace(done=lambda: True)
        window.flying = [SimpleNamespace(group=group, sampled=sampled) for group in groups]
        for group in groups[:back]:
            group.set_result(None)
        gathering = asyncio.ensure_future(window.gather(queued, 60.0))
        await asyncio.sleep(0)
        ended = gathering.done()
        gathering.cancel()
        return not ended

    assert asyncio.run(gather()) == waits


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

    tokenizer = open_model = encode = learner = between = update = logprobs = object()
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
