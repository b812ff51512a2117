"""What bench.field makes of its runs, and the tasks that it gives to every system."""

import os
import sys

import pytest

pytest.importorskip("evo.plugins.maths", reason="two of the tasks are of this plug-in")

from bench import field  # noqa: E402
from bench.field_report import anytime, at_tokens, grouped, mean_ranks, spent  # noqa: E402
from bench.field_tasks import field_tasks  # noqa: E402


def call(tokens, prompt=10):
    return {"tokens": tokens, "prompt": prompt}


def scored(fitness):
    return {"fitness": fitness, "error": None if fitness is not None else "crash"}


RUN = {
    "system": "a",
    "task": "t",
    "seed": 0,
    "events": [scored(0.2), call(30), scored(0.5), call(50), scored(None), call(40), scored(0.9)],
}


def test_the_best_after_each_call_begins_with_the_seed_and_never_falls():
    assert anytime(RUN, 3) == [0.2, 0.5, 0.5, 0.9]
    assert anytime(RUN, 2) == [0.2, 0.5, 0.5]
    assert anytime(RUN, 5) == [0.2, 0.5, 0.5, 0.9, 0.9, 0.9]


def test_equal_tokens_count_what_was_scored_before_they_were_spent():
    assert at_tokens(RUN, 29) == 0.2
    assert at_tokens(RUN, 80) == 0.5
    assert at_tokens(RUN, 120) == 0.9
    assert spent(RUN) == (3, 120, 30)


def test_ties_share_a_rank():
    values = {"a": 0.9, "b": 0.9, "c": 0.1}
    pair = [{"system": system, "task": "t", "seed": 0} for system in values]
    found = mean_ranks([pair], list(values), lambda run: values[run["system"]])
    assert found == {"a": 1.5, "b": 1.5, "c": 3.0}
    assert len(grouped(pair, "system")) == 3


def test_every_task_states_itself_and_its_seed_program_is_scored():
    for name, problem in field_tasks().items():
        assert problem.statement().strip(), name
        score = problem.score(problem.seed_answer())
        assert len(score.rewards) == len(problem.objectives), name
        assert score.fitness < (problem.target or 2.0), name


def test_a_system_that_asks_on_when_its_calls_are_spent_is_ended(monkeypatch):
    monkeypatch.setattr(field, "GRACE", 0.0)
    counter = field.Counter(field_tasks()["function_minimization"], calls=1)
    assert counter.take() and not counter.take()
    sleeper = [sys.executable, "-c", "import time; print('on', flush=True); time.sleep(60)"]
    assert field.run_to_the_end(sleeper, dict(os.environ), counter, 50.0) == (0, "")
    counter.refused = None
    assert field.run_to_the_end(sleeper, dict(os.environ), counter, 0.2) == (-1, "not done after 0.2 s")
    ended = [sys.executable, "-c", "import sys; sys.exit('no server')"]
    assert field.run_to_the_end(ended, dict(os.environ), counter, 50.0) == (1, "no server\n")
