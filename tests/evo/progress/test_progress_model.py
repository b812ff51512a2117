"""Progress: what was read by and by is what is read all at once; parts of a snapshot, long runs, trainings."""

import io
import json
import os
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from sqlalchemy import update
from support.command_line import evo, refused
from support.page_faults import SKIPPED, TOO_SMALL
from support.run_records import run_record

from evo.comparison.results import Results, drawn_times
from evo.comparison.summary import best_curve, solve_curve
from evo.progress import answer as answers
from evo.progress import model
from evo.progress.answer import Statement, best_known_of, describe_best_known, statement_of
from evo.progress.model import Progress
from evo.progress.snapshot import ArmSnapshot, Snapshot
from evo.progress.training import TrainingProgress
from evo.training.directory import TrainingDirectory
from evo.tui.detail import draw_detail
from evo.tui.palette import DARK
from islands.comparisons import PlannedRun, plan
from islands.schema import Candidates, PromptGroups
from islands.store import Store
from islands.types import ProblemRecord
from problems.contract import Problem, Score
from problems.maze.optimum import best_route
from problems.registry import resolve

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
        base, grpo = (at for at, arm in enumerate(progress.comparison.arms) if arm.name in ("base", "grpo"))
        progress.refresh()
        first = progress.snapshot_with_best(0, base).detail
        search("base", 0)
        assert settled(progress).detail is None
        best = progress.snapshot_with_best(0, base).detail
        record = store.problems(store.run("cmp/base/s0").id)[0]
        answer = best.answer.candidate
        assert (answer.id, answer.fitness) == (record.best, record.best_fitness)
        assert answer.fitness >= first.answer.candidate.fitness and best.answer.lineage[0].id == answer.id
        assert progress.snapshot_with_best(0, grpo).detail.answer is None
    with Store.open(db) as store, store.begin() as tx:
        tx.connection.execute(update(PromptGroups).values(best=None, best_fitness=None))
        tx.connection.execute(update(Candidates).values(error="no score"))
    with Store.open(db, read_only=True) as store:
        progress = Progress(store, "cmp")
        progress.refresh()
        snapshot = progress.snapshot_with_best(1, base)
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


@pytest.mark.parametrize(
    ("statuses", "ended"),
    [
        ({"done": 2}, True),
        ({"running": 1, "done": 1}, False),
        ({"failed": 1, "waiting": 1}, False),  # between two batches of seeds
        ({"interrupted": 1, "waiting": 1}, True),
        ({"failed": 1, "done": 1}, True),
        ({}, False),
    ],
)
def test_a_comparison_ends_with_its_last_batch(statuses, ended):
    runs = tuple(run_record(status=status) for status, count in statuses.items() for _ in range(count))
    assert Snapshot("both", (ArmSnapshot("a", runs),), (), None).ended is ended


RECORD = ProblemRecord(
    1, 1, 0, "half", "my/half.py", ("value",), None, "text", "active", "", None, None, None, None
)  # fmt: skip


class Half(Problem):
    """The number is to be large; .49 is the best known one."""

    name, objectives, best_known = "half", ("value",), 0.49

    def statement(self):
        return "A number."

    def score(self, answer):
        return Score((float(answer),), float(answer))


@pytest.mark.parametrize(
    "fitness, told",
    [
        (None, "best known 2"),
        (1.0, "best known 2, 50% reached"),
        (2.0 * (1 - 1e-12), "best known 2, reached"),
        (1.9999999, "best known 2, 99.9999% reached"),
        (2.1, "best known 2, and this is above it"),
    ],
)
def test_what_is_reached_of_the_best_known(fitness, told):
    assert describe_best_known(fitness, 2.0) == told


def test_the_best_known_is_looked_up(monkeypatch):
    monkeypatch.setattr(answers, "problem_of", lambda record: Half())
    assert best_known_of(RECORD) == 0.49
    assert best_known_of(replace(RECORD, address="maze:test/0")) is None, "no problem of ours has one"


def record(address, fingerprint=None, objectives=("a",)):
    return ProblemRecord(
        1, 1, 0, address, address, objectives, 1.0, "route", "running", "", None, None, None, None, fingerprint
    )


def test_a_maze_has_a_picture_of_the_answer_and_a_program_none():
    (problem,) = resolve("maze:hard/5")
    given = record("maze:hard/5", problem.fingerprint(), problem.objectives)
    rows = statement_of(given, "RRXX not a route").picture.splitlines()
    assert statement_of(given).text == problem.statement()
    assert len(rows) == problem.maze.size and {len(row) for row in rows} == {3 * problem.maze.size}
    assert sum(row.count("[") for row in rows) == 1, "only the start is on the route of an unreadable answer"
    route = statement_of(given, best_route(problem.maze)).picture
    assert "[S]" in route and "[E]" in route and any(arrow in route for arrow in "→←↑↓")
    (problem,) = resolve("programs:shipped/0")
    stated = statement_of(record(problem.name, objectives=problem.objectives), "pass")
    assert stated.text and not stated.picture


@pytest.mark.parametrize(
    "given",
    [
        record("maze:hard/5", "another scorer's"),
        record("maze:gone/5"),
        record("programs:easy"),  # more than one
        record("/tmp/scorer.py"),  # somebody's code, which watching must not run
        record("examples/valley"),
    ],
)
def test_nothing_is_said_of_what_was_not_searched(given):
    assert statement_of(given, "x") == Statement()


def test_the_detail_has_the_prompt_and_the_whole_text(small):
    with Store.open(small, read_only=True) as store:
        found = Progress.open(store, "run").best(0, 0)
    assert found.stored.iteration is not None and found.answer.candidate.text in found.origin.chain
    assert "eight digits" in found.origin.user and found.stated == Statement()
    assert found.origin.place >= 0


def searches(iterations, points=None, problems=4, seeds=2):
    """Finished searches, half of which were solved on their way."""
    rng = np.random.default_rng(0)
    times = drawn_times(iterations, points or iterations)
    solved_at = np.where(rng.random((problems, seeds)) < 0.5, rng.integers(1, iterations, (problems, seeds)), np.inf)
    best = np.sort(rng.random((problems, seeds, iterations)), axis=2)[:, :, times - 1]
    return Results(solved_at, np.full((problems, seeds), iterations), iterations, 2, best, False, times)


def test_a_thinned_curve_goes_through_the_points_of_the_whole_one():
    whole, thinned = searches(5_000), searches(5_000, 100)
    at = np.searchsorted(whole.times, thinned.times)
    assert len(thinned.times) == 100 and thinned.times[-1] == 5_000
    for curve in (solve_curve, best_curve):
        full, few = curve(whole), curve(thinned)
        for name in ("at", "mean", "low", "high"):
            np.testing.assert_allclose(getattr(few, name), getattr(full, name)[at], rtol=1e-12)
    assert (thinned.horizon, thinned.best_horizon) == (whole.horizon, whole.best_horizon) == (5_000, 5_000)
    np.testing.assert_array_equal(thinned.best_at(5_000), whole.best_at(5_000))
    with pytest.raises(ValueError, match="not one of those"):
        thinned.best_at(2)


def test_horizons_of_thinned_searches_are_the_last_times_that_all_have_reached():
    done = np.array([[120, 260], [260, 300]])
    arm = Results(np.full((2, 2), np.inf), done, 1_000, times=np.array([100, 200, 1_000]), best=np.zeros((2, 2, 3)))
    assert (arm.horizon, arm.best_horizon) == (100, 100)
    curve = solve_curve(arm)
    assert np.isfinite(curve.mean[:2]).all() and np.isnan(curve.mean[2])


def test_a_training_is_shown_by_the_metrics_that_have_a_number(small, monkeypatch):
    """Each reading reads the new steps alone."""
    begun, read = list[int](), model.training_steps
    monkeypatch.setattr(
        model, "training_steps", lambda store, run, after: begun.append(after) or read(store, run, after)
    )
    with Store.open(small) as store:
        run = store.run("run")
        progress, stored = Progress(store, "run"), 0
        for upto in (3, 8):
            with store.begin() as tx:
                for step in range(stored, upto):
                    store.add_training_step(run.id, step, {"loss": step / 2 if step else None, "kl": None}, tx)
            stored = upto
            progress.refresh()
            assert list(progress.training(0)) == ["loss"]
            shown = progress.training(0)["loss"]
            np.testing.assert_array_equal(shown.at, np.arange(upto))
            np.testing.assert_array_equal(shown.mean, [np.nan, *np.arange(1, upto) / 2])
    assert begun == [-1, 2, 2, 7]


GAIN = "held out: solve@30 0.20 -> 0.60, best@30 0.70 -> 0.90 on 20 problems of maze:hard"


@pytest.fixture
def folder(here):
    """Of a training that has ended, whose last line is still being written."""
    run = {"method": "vpo", "policy": "embedded:base", "problems": ["maze:train"], "evaluate": ["maze:hard"]}
    about = {"command": "evo train <vpo>", "start": "embedded:base@1", "steps": 2, "held_out": 20, "config": run}
    spent = {"answers": 9, "total_tokens": 99, "seconds": 60.0}
    lines = [
        {"kind": "evaluation", "step": 0, "solve@1": 0.0, "solve@30": 0.2, "best@30": 0.7},
        *({"kind": "step", "step": step, "cut": 0.5, "kl": 0.1 * step} for step in (1, 2)),
        {"kind": "evaluation", "step": 2, "solve@1": 0.1, "solve@30": 0.6, "best@30": 0.9},
    ]
    place = here / "runs" / "vpo"
    place.mkdir(parents=True)
    (place / "train.json").write_text(json.dumps(about))
    (place / "metrics.jsonl").write_text("".join(json.dumps(spent | line) + "\n" for line in lines) + '{"kind": "st')
    (place / "config.json").write_text("{}")
    return "runs/vpo"


def test_show_and_report_have_a_training(folder, capsys):
    code, out, _ = evo(capsys, "show", folder)
    assert code == 0 and GAIN in out and "done, step 2 of 2, 9 answers, 99 tokens, 1:00" in out
    assert re.search(r"^kl +0.1 +0.2 +distance from", out, re.M)
    assert json.loads(evo(capsys, "show", folder, "--json")[1])["gain"] == GAIN
    assert evo(capsys, "report", folder, "-o", "page.html")[0] == 0
    with open("page.html", encoding="utf-8") as page:
        text = page.read()
    assert GAIN.replace("->", "-&gt;") in text and "nats a token" in text and "evo train &lt;vpo&gt;" in text
    assert f"{folder} is the folder of a training: evo show {folder}" in refused(capsys, "watch", folder)


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.parametrize("width", [1440, 390])
def test_its_page_fits(folder, tab, here, capsys, width):
    assert evo(capsys, "report", folder, "-o", "page.html")[0] == 0
    tab.set_viewport_size({"width": width, "height": 844})
    tab.goto((here / "page.html").as_uri())
    tab.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert tab.locator("svg.plot").count() == 5 and tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.evaluate(TOO_SMALL) == tab.evaluate(SKIPPED) == tab.complaints == []


def test_its_state_is_that_of_its_process(folder):
    with TrainingDirectory(folder).lock():
        assert TrainingProgress.open(folder).state == "running"
        with pytest.raises(ValueError, match="another training runs there"), TrainingDirectory(folder).lock():
            pass
    os.utime(f"{folder}/config.json", (1, 1))  # of an earlier end: it was resumed and killed
    assert TrainingProgress.open(folder).state == "stopped"
