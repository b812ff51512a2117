"""The parallel scorer: order, bounds, faults, counters."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from problems import Problem, Score, Scorer, ScorerFault
from problems.sandbox.contract import SandboxFault
from problems.scoring import MOST_FAULTS


class Toy(Problem):
    """Scores a number; knows how many were at it at once."""

    name, objectives, target = "toy", ("value",), 1.0

    def __init__(self, seconds=0.0, raises=None, gives=None):
        self.seconds, self.raises, self.gives = seconds, raises, gives
        self.lock, self.now, self.most, self.calls, self.threads = threading.Lock(), 0, 0, 0, set()

    def statement(self):
        return "Write a number."

    def score(self, answer):
        if not answer.isdecimal() or len(answer) > 3:
            return Score.failure(1, "no number")
        with self.lock:
            self.now += 1
            self.calls += 1
            self.most = max(self.most, self.now)
            self.threads.add(threading.get_ident())
        try:
            time.sleep(self.seconds * (2 - float(answer) / 100))
            if self.raises is not None and answer == "3":
                raise self.raises
            return self.gives or Score((float(answer),), float(answer))
        finally:
            with self.lock:
                self.now -= 1


class InlineToy(Toy):
    inline = True


def scored(problem, answers, workers=4):
    async def main():
        scorer = Scorer(workers)
        try:
            return scorer, await scorer.score(problem, answers)
        finally:
            scorer.close()

    return asyncio.run(main())


def test_order_is_kept_and_concurrency_bounded():
    toy = Toy(seconds=0.01)
    scorer, results = scored(toy, [str(n) for n in range(20)], workers=3)
    assert [score.fitness for score, _ in results] == list(range(20))
    assert 1 < toy.most <= 3
    assert scorer.scored == 20 and scorer.queued == 0
    assert scorer.busy_seconds == pytest.approx(sum(seconds for _, seconds in results)) and scorer.busy_seconds >= 0.2


def test_several_callers_share_the_bound_and_the_queue_is_counted(monkeypatch):
    toy, go = Toy(seconds=0.02), threading.Event()
    monkeypatch.setattr(time, "sleep", lambda seconds: go.wait(30))

    async def main():
        scorer = Scorer(2)
        groups = [asyncio.create_task(scorer.score(toy, ["1"] * 4)) for _ in range(3)]
        while toy.now < 2:
            await asyncio.sleep(0.001)
        waiting = scorer.queued
        go.set()
        await asyncio.gather(*groups)
        scorer.close()
        scorer.close()
        with pytest.raises(RuntimeError, match="closed"):
            await scorer.score(toy, ["1"])
        return waiting

    assert asyncio.run(main()) == 10
    assert toy.most == 2 and toy.calls == 12


def test_inline_problems_are_scored_on_the_loop():
    toy = InlineToy()
    scored(toy, ["1", "2"])
    assert toy.threads == {threading.get_ident()}
    other = Toy()
    scored(other, ["1", "2"])
    assert threading.get_ident() not in other.threads


@pytest.mark.parametrize("kind", [Toy, InlineToy])
def test_any_exception_of_a_scorer_is_its_fault_and_names_the_problem(kind):
    with pytest.raises(ScorerFault, match="toy: the scorer raised KeyError: 'x'") as caught:
        scored(kind(raises=KeyError("x")), ["1", "2", "3"])
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("error", [ScorerFault("mine"), SandboxFault("broken")])
def test_faults_that_say_whose_they_are_pass_through(error):
    with pytest.raises(type(error)) as caught:
        scored(Toy(raises=error), ["3"])
    assert caught.value is error


def test_a_fault_stops_what_has_not_started():
    toy = Toy(seconds=0.01, raises=ValueError("no"))
    with pytest.raises(ScorerFault):
        scored(toy, ["3"] + ["1"] * 50, workers=1)
    assert toy.calls < 10


@pytest.mark.parametrize(
    ("gives", "says"),
    [
        (Score((1.0, 2.0), 1.0), "2 rewards for the 1 objectives"),
        (Score((float("nan"),), 1.0), "value = nan"),
        (Score((1.0,), float("inf")), "fitness = inf"),
        ({"value": 1.0}, "must return a problems.Score"),
    ],
)
def test_scores_are_checked(gives, says):
    with pytest.raises(ScorerFault, match=says):
        scored(Toy(gives=gives), ["1"])


def test_a_scorer_needs_a_worker():
    with pytest.raises(ValueError, match="at least one worker"):
        Scorer(0)


class Picky(Problem):
    """Fails on answers with an x, and on its seed too once it is broken."""

    name, objectives = "picky", ("length",)

    def __init__(self, seed="seed", broken=False):
        self.seed, self.broken, self.seeds = seed, broken, 0

    def statement(self):
        return "Text."

    def seed_answer(self):
        return self.seed

    def score(self, answer):
        if "x" in answer:
            raise ZeroDivisionError("division by zero")
        return Score((float(len(answer)),), float(len(answer)))

    def score_seed(self):
        self.seeds += 1
        return self.score("x" if self.broken else self.seed)


def test_a_fault_that_an_answer_provokes_is_its_score_and_not_the_end_of_the_problem():
    picky = Picky()
    with pytest.warns(UserWarning, match="picky: the scorer raised ZeroDivisionError"):
        _, found = scored(picky, ["abc", "x", "ab", "xx"], workers=1)
    scores = [score for score, _ in found]
    assert [score.fitness for score in scores] == [3.0, 0.0, 2.0, 0.0] and picky.seeds == 2
    assert "division by zero" in scores[1].error and "division by zero" in scores[1].feedback


@pytest.mark.parametrize("picky", [Picky(broken=True), Picky(seed=""), Picky(seed="x")], ids=["broken", "none", "same"])
def test_a_fault_that_the_seed_does_not_disprove_is_the_scorers(picky):
    with pytest.raises(ScorerFault, match="division by zero"):
        scored(picky, ["x"])


def test_a_scorer_that_takes_nothing_but_its_seed_is_at_fault():
    with pytest.raises(ScorerFault, match="division by zero"), pytest.warns(UserWarning, match="counts as failed"):
        scored(Picky(), ["x" * n for n in range(1, MOST_FAULTS + 1)], workers=1)
    with pytest.warns(UserWarning, match="counts as failed"):
        _, found = scored(Picky(), ["good", *("x" * n for n in range(1, MOST_FAULTS + 1))], workers=1)
    assert len(found) == MOST_FAULTS + 1
