"""`--lag`: groups leave as they come back, within bounds; what is stored stays whole, once, and can be gone on with."""

import asyncio
import time
from types import SimpleNamespace

import pytest
from support.stored_rows import stored_answers

from evo.cli import invoke
from evo.config.run import RunConfig
from evo.search.core import Operators
from evo.search.loop import Window
from evo.search.problem_run import WindowSize, window_of
from islands.population.population import Population

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


def test_a_problem_runs_ahead_by_its_part_of_the_window_and_the_lag():
    window = window_of(RunConfig(parallel=60, lag=7), SimpleNamespace(batch=0), [5] * 5)
    assert window == WindowSize(60, 0, 7, 12 + 7)


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
