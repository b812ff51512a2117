"""Progress: what was read by and by is what is read all at once."""

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from sqlalchemy import update

from evo.progress.model import Progress
from evo.tui.detail import draw_detail
from evo.tui.palette import DARK
from islands.comparisons import PlannedRun, plan
from islands.schema import Candidates, PromptGroups
from islands.store import Store

ITERATIONS = 12


@pytest.fixture
def problems(digits):
    return [digits("digits/a", target=0.8), digits("digits/b", target=0.99), digits("digits/c")]


@pytest.fixture
def search(db, search_with, problems, digits_policy):
    """search(arm, seed, stop_after) -> does some of that arm's groups, and what is left when called again."""
    with Store.open(db) as store:
        config = dict(problems=["x"], iterations=ITERATIONS, rollouts=1, policy="digits")
        runs = [
            PlannedRun(arm, seed, {**config, "answers": answers, "seed": seed})
            for seed in (0, 1)
            for arm, answers in (("base", 2), ("grpo", 2))
        ]
        plan(store, "cmp", runs, command="test", commit="")

    def search(arm, seed, stop_after=None):
        name = f"cmp/{arm}/s{seed}"
        search_with(problems, digits_policy(), db, name=name, resume=True, stop_after=stop_after)
        with Store.open(db) as store:
            run = store.run(name)
            store.finish_run(run.id, "running" if stop_after else "done", summary={"answers": 5, "seconds": 2.0})

    return search


def same(a, b):
    """Snapshots alike, whatever they were made from."""
    for mine, other in zip(a.arms, b.arms, strict=True):
        assert replace(mine, results=None, curve=None) == replace(other, results=None, curve=None)
        for name in ("solved_at", "done", "best"):
            np.testing.assert_array_equal(getattr(mine.results, name), getattr(other.results, name))
    assert a.improvements == b.improvements and a.groups == b.groups
    mine, others = ([(one.name, one.objectives, one.target, one.status) for one in both.problems] for both in (a, b))
    assert mine == others  # what a snapshot tells of a problem; its best answers are its searches'


def settled(progress):
    """The snapshot of all that is committed."""
    progress.refresh()
    return progress.snapshot()


@pytest.mark.long
def test_by_and_by_is_all_at_once(db, search):
    with Store.open(db, read_only=True) as store:
        live = Progress(store, "cmp")
        snapshot = settled(live)
        assert snapshot.problems == () and snapshot.statuses == {"waiting": 4}
        for arm, seed, stop in [("base", 0, 5), ("grpo", 0, 9), ("base", 0, 17), ("grpo", 1, 1), ("base", 0, None),
                                ("grpo", 0, None), ("base", 1, None), ("grpo", 1, None)]:  # fmt: skip
            search(arm, seed, stop)
            snapshot = settled(live)
            same(snapshot, settled(Progress(store, "cmp")))
        assert snapshot.ended and snapshot.groups == 4 * 3 * ITERATIONS
        assert len(snapshot.verdict) == 1 and "grpo - base" in str(snapshot.verdict[0])


def test_a_mean_best_never_falls_when_further_searches_begin(db, search):
    values = []
    for arm, seed, groups in (("base", 0, 2), ("base", 0, None), ("base", 1, 1), ("base", 1, None)):
        search(arm, seed, groups)
        with Store.open(db, read_only=True) as store:
            values.append(Progress.open(store, "cmp").snapshot(statistics=False).arms[0].mean_best.number)
    assert values == sorted(values) and values[0] < values[-1]


def test_searches_have_their_rises_and_solutions(db, search):
    search("base", 0)
    search("grpo", 0, 20)
    with Store.open(db, read_only=True) as store:
        progress = Progress.open(store, "cmp")
        assert progress.comparison.reference == "base"
        assert Progress.open(store, "cmp", against="base").snapshot().reference == "base"
        for found in progress.searches():
            arm, at = progress.comparison.arms[found.arm].name, (found.row, found.run.seed)
            results = progress.results[arm]
            assert found.iterations == results.done[at]
            assert (found.solved_at is None) == (not np.isfinite(results.solved_at[at]))
            best = results.best[at][-1]
            assert found.best is None or found.best.fitness == best
            fitness = [rise.fitness for rise in found.rises]
            assert fitness == sorted(set(fitness))
            assert all(results.best[at][rise.iteration - 1] == rise.fitness for rise in found.rises if rise.iteration)


def test_improvements_are_the_newest_rises_with_what_they_gained(db, search):
    search("base", 0)
    from islands.runs import course_of

    with Store.open(db, read_only=True) as store:
        snapshot = settled(Progress(store, "cmp"))
        run = store.run("cmp/base/s0")
        steps = {
            step.candidate: step.fitness
            for of in course_of(store, run.id).improvements.values()
            for step in of
            if step.iteration >= 0
        }
        assert {line.candidate: line.value.number for line in snapshot.improvements} == steps
        assert list(snapshot.improvements) == sorted(
            snapshot.improvements, key=lambda line: (-line.created, -line.candidate)
        )
        for line in snapshot.improvements:
            assert line.before is None or line.before.number < line.value.number


def test_the_diversity_of_archives_is_that_of_their_elites(db, search):
    search("base", 0)
    from islands.runs import elites
    from vpo.metrics import diversity

    with Store.open(db, read_only=True) as store:
        progress = Progress.open(store, "cmp")
        of_problem = []
        for problem in store.problems(store.run("cmp/base/s0").id):
            vectors = {one.candidate: one.rewards for one in elites(store, [problem.id])}
            of_problem.append(diversity(list(vectors.values())))
        assert progress.diversity["base"].mean == pytest.approx(np.mean(of_problem)) and np.mean(of_problem) > 0
        assert progress.diversity["grpo"] is None


def test_the_detail_of_the_chosen_answer_and_before_there_is_one_what_is_asked(db, search):
    search("base", 0, 6)
    with Store.open(db, read_only=True) as store:
        progress = Progress(store, "cmp")
        progress.select(0, "base")
        first = settled(progress).detail
        search("base", 0)
        best = settled(progress).detail
        record = store.problems(store.run("cmp/base/s0").id)[0]
        answer = best.answer.candidate
        assert (answer.id, answer.fitness) == (record.best, record.best_fitness)
        assert answer.fitness >= first.answer.candidate.fitness and best.answer.lineage[0].id == answer.id
        progress.select(0, "grpo")
        assert settled(progress).detail.answer is None
        progress.select(0, "nobody")
        assert settled(progress).detail is None
    with Store.open(db) as store, store.begin() as tx:
        tx.connection.execute(update(PromptGroups).values(best=None, best_fitness=None))
        tx.connection.execute(update(Candidates).values(error="no score"))
    with Store.open(db, read_only=True) as store:
        progress = Progress(store, "cmp")
        progress.select(1, "base")
        snapshot = settled(progress)
    assert snapshot.detail.answer is None and "Write eight digits." in snapshot.detail.origin.user
    console = Console(width=80, file=io.StringIO())
    console.print(draw_detail(snapshot, 1, 0, DARK))
    text = console.file.getvalue()
    assert all(part in text for part in ("no valid answer yet", "a prompt of this problem", "Write eight digits."))


def test_a_run_taken_up_again_with_more_iterations(db, search, search_with, problems, digits_policy):
    search("base", 0)
    with Store.open(db, read_only=True) as store:
        progress = Progress(store, "cmp")
        assert settled(progress).iterations == ITERATIONS
        search_with(problems, digits_policy(), db, name="cmp/base/s0", resume=True, iterations=ITERATIONS + 8)
        snapshot = settled(progress)
        assert (
            snapshot.iterations == ITERATIONS + 8
            and snapshot.arms[0].results.done[:, 0].tolist() == [ITERATIONS + 8] * 3
        )


def test_telemetry_is_added_up_and_anything_may_be_missing(db, search):
    from islands.runs import run_totals
    from islands.types import Totals, sum_totals

    search("base", 0, 3)
    search("base", 1, 3)
    with Store.open(db) as store:
        first, second = store.run("cmp/base/s0"), store.run("cmp/base/s1")
        said = {"answers_per_second": 10.0, "policy_busy": 0.5, "errors": {"x": 2}, "scoring_queue": 3, "tokens": 7}
        store.finish_run(first.id, "running", summary=said)
        said = {"answers_per_second": 5, "errors": {"x": 1, "y": 4}, "policy_busy": 1}
        store.finish_run(second.id, "running", summary=said)
        arm = settled(Progress(store, "cmp")).arms[0]
        assert (arm.rate("answers"), arm.policy_busy, arm.waiting("scoring_queue")) == (15.0, 0.75, 3)
        committed = sum_totals(run_totals(store, run.id) for run in (first, second))
        assert arm.totals == committed and committed.tokens > 7, "totals are what is committed, whatever a run reports"
        assert arm.rate("tokens") is None
        ended = [replace(run, status="done", summary={"answers": 60, "seconds": 6.0}) for run in (first, second)]
        assert replace(arm, runs=tuple(ended), totals=Totals(answers=120)).rate("answers") == 10.0
        bare = replace(arm, runs=(replace(first, summary={}),))
        assert (bare.rate("answers"), bare.policy_busy, bare.waiting("in_flight")) == (None, None, None)


def test_the_time_left_is_that_of_the_last_minutes_and_none_without_progress(db, search):
    search("base", 0, 6)
    with Store.open(db, read_only=True) as store:
        progress = Progress(store, "cmp")
        progress.refresh()
        first = progress.snapshot(1000.0)
        assert first.remaining is None
        search("base", 0, 18)
        progress.refresh()
        snapshot = progress.snapshot(1010.0)
        assert snapshot.remaining == pytest.approx(
            (snapshot.planned - snapshot.groups) * 10 / (snapshot.groups - first.groups)
        )
        assert progress.snapshot(2000.0).remaining is None
