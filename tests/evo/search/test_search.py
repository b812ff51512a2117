"""The search loop against a problem and a policy made for it: order, determinism, faults, budgets, resumes."""

from __future__ import annotations

import asyncio
import json
import math
import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import text
from support.command_line import refused
from support.stored_rows import assert_same_run, stored_answers, stored_groups

import evo
from evo.cli import invoke
from evo.errors import BadInput, SearchFailed, UnusableScorer
from evo.exit_status import exit_code_of
from evo.progress.model import Progress
from evo.runs.resume import plan_resume
from evo.search.stop import StopReason
from islands.errors import DatabaseUnavailable
from islands.store import Store
from vpo.policies.contract import PolicyUnavailable


def test_every_iteration_of_every_problem_is_committed_once_in_full_batches(search_with, digits, digits_policy, db):
    policy = digits_policy(batch=4, jitter=0.003)
    launched = search_with([digits("a"), digits("b"), digits("c")], policy, db, iterations=20, rollouts=2)
    rows = stored_answers(db, "run")
    assert {(row[1], row[2]) for row in rows} == {(name, i) for name in "abc" for i in range(20)}
    assert [group.sequence for group in launched.groups] == list(range(60))
    assert {len(call) for call in policy.calls} == {4} and len(policy.calls) == 15
    assert launched.status.groups == 60 and launched.reason == ""
    assert launched.status.answers == len([row for row in rows if row[7] is not None])


@pytest.mark.parametrize("batch", [4, 0])
def test_one_seed_is_one_run_whatever_the_timing_and_another_is_another(
    search_with, digits, digits_policy, tmp_path, batch
):
    runs = []
    for i, (jitter, seed) in enumerate(((0.0, 5), (0.01, 5), (0.0, 6))):
        db, policy = f"sqlite:///{tmp_path}/{i}.db", digits_policy(batch=batch, jitter=jitter)
        search_with([digits("a"), digits("b")], policy, db, iterations=15, parallel=6, seed=seed)
        runs.append(stored_answers(db, "run"))
    assert runs[0] == runs[1] != runs[2]


def test_a_problem_runs_alike_whatever_is_searched_beside_it(search_with, digits, digits_policy, tmp_path):
    alone, beside = f"sqlite:///{tmp_path}/alone.db", f"sqlite:///{tmp_path}/beside.db"
    search_with([digits("a")], digits_policy(batch=1), alone, iterations=12, parallel=1)
    search_with([digits("a"), digits("b")], digits_policy(batch=1), beside, iterations=12, parallel=1)
    one, both = stored_answers(alone, "run"), stored_answers(beside, "run")
    assert [row[1:] for row in one] == [row[1:] for row in both if row[1] == "a"]


def test_an_answer_seen_before_is_not_scored_again(search_with, digits, digits_policy, db):
    problem, policy = digits("a"), digits_policy(batch=4)
    real = policy._rollout
    policy._rollout = lambda prompt, *asked: real(type(prompt)("same", "", prompt.stream % 7), *asked)
    launched = search_with([problem], policy, db, iterations=40)
    assert len(problem.scored) == len(set(problem.scored)), "scored twice"
    assert launched.status.repeats > 50
    assert launched.problem_runs[0].population.size == len(set(problem.scored))


@pytest.mark.parametrize(
    "settings",
    [
        {"iterations": 30, "rollouts": 2, "population": {"migration_interval": 3, "islands": 3}},
        {"prompt": {"show_parent": False}, "population": {"strategy": "weighted", "migration_interval": 2}},
        {"population": {"strategy": "hill", "migration_interval": 2, "population_size": 5}},
        {"population": {"strategy": "scs", "migration_interval": 2, "population_size": 5}},
        {"patience": 15, "parallel": 5},
    ],
    ids=["islands", "best-of-n", "hill", "scs", "patience"],
)
def test_interrupted_and_resumed_equals_uninterrupted(search_with, digits, digits_policy, tmp_path, settings):
    whole, parts = f"sqlite:///{tmp_path}/whole.db", f"sqlite:///{tmp_path}/parts.db"
    settings = {"iterations": 20, **settings}
    problems = [digits("a"), digits("b")]
    search_with(problems, digits_policy(), whole, **settings)
    first = search_with(problems, digits_policy(), parts, stop_after=11, **settings)
    assert 11 <= first.status.groups < 2 * settings["iterations"]
    second = search_with(problems, digits_policy(), parts, resume=True)
    assert stored_answers(whole, "run") == stored_answers(parts, "run")
    assert second.status.groups == 2 * settings["iterations"] or "patience" in settings
    if "islands" in settings.get("population", {}):
        assert second.status.migrations > 0


def test_resuming_a_finished_run_adds_nothing_and_more_iterations_go_on(search_with, digits, digits_policy, tmp_path):
    short, long = f"sqlite:///{tmp_path}/short.db", f"sqlite:///{tmp_path}/long.db"
    search_with([digits("a")], digits_policy(), short, iterations=10)
    before = stored_answers(short, "run")
    search_with([digits("a")], digits_policy(), short, resume=True)
    assert stored_answers(short, "run") == before
    search_with([digits("a")], digits_policy(), short, resume=True, iterations=25)
    search_with([digits("a")], digits_policy(), long, iterations=25)
    assert stored_answers(short, "run") == stored_answers(long, "run")


def test_a_scorer_fault_stops_its_problem_alone(search_with, digits, digits_policy, db):
    bad = digits("bad", fault_on=lambda answer: answer.startswith("7"))
    launched = search_with([bad, digits("good")], digits_policy(), db, iterations=30)
    by_name = {problem_run.problem.name: problem_run for problem_run in launched.problem_runs}
    stop = by_name["bad"].stop
    assert stop.reason is StopReason.FAILED and stop.message.startswith("bad: no score for '7")
    assert by_name["good"].committed == 30
    assert not any(row[8] and row[8].startswith("7") for row in stored_answers(db, "run") if row[1] == "bad")

    def statuses():
        with Store.open(db, read_only=True) as store:
            return {p.name: (p.status, p.message) for p in store.problems(store.run("run").id)}

    assert statuses()["bad"][0] == "failed" and "no score for" in statuses()["bad"][1]
    launched = search_with([digits("bad"), digits("good")], digits_policy(), db, resume=True)  # mended
    assert launched.problem_runs[0].committed == 30 and statuses()["bad"][0] != "failed"


def test_a_seed_that_could_not_be_scored_is_planted_once_its_scorer_is_mended(search_with, digits, digits_policy, db):
    broken = digits("a", fault_on=lambda answer: answer == "00000000")
    launched = search_with([broken, digits("b")], digits_policy(), db, iterations=5)
    assert [one.committed for one in launched.problem_runs] == [0, 5]
    launched = search_with([digits("a"), digits("b")], digits_policy(), db, resume=True)
    assert launched.problem_runs[0].committed == 5
    first = launched.groups[0]
    assert first.parent is not None, "the first prompt shows the seed"


def test_a_run_whose_problems_all_fail_on_their_seeds_is_not_created(search_with, digits, digits_policy, db):
    broken = [digits(name, fault_on=lambda answer: True) for name in "ab"]
    with pytest.raises(UnusableScorer, match="a: no score for '00000000'"):
        search_with(broken, digits_policy(), db, iterations=5)
    with pytest.raises(DatabaseUnavailable):
        Store.open(db, must_exist=True)


def test_a_dead_policy_ends_the_run_with_its_reason_and_keeps_what_was_committed(
    search_with, digits, digits_policy, db
):
    for after, error, raised in (
        (5, PolicyUnavailable("server went away"), SearchFailed),
        (2, ZeroDivisionError("a bug of the policy is raised as it is"), ZeroDivisionError),
    ):
        policy, name = digits_policy(die_after=after, error=error), raised.__name__
        with pytest.raises(raised, match=str(error)):
            search_with([digits("a")], policy, db, name=name, iterations=100)
        kept = stored_answers(db, name)
        assert kept
        launched = search_with([digits("a")], digits_policy(), db, name=name, resume=True)
        assert launched.status.groups == 100
        assert stored_answers(db, name)[: len(kept)] == kept


@pytest.mark.parametrize(
    ("budget", "reason", "spent"),
    [
        ({"max_answers": 24}, "24 answers", lambda status: status.groups * 2 == 24),  # two asked for, found or not
        ({"max_total_tokens": 800}, "800 tokens", lambda status: status.tokens >= 800),
        ({"max_seconds": 0.2}, "0.2 seconds", lambda status: status.groups > 0),
    ],
)
def test_budgets_end_the_run(search_with, digits, digits_policy, db, budget, reason, spent):
    launched = search_with([digits("a")], digits_policy(delay=0.01), db, iterations=100_000, **budget)
    assert reason in launched.reason and spent(launched.status)


def test_until_solved_stops_the_solved_problem_alone(search_with, digits, digits_policy, db):
    easy, hard = digits("easy", target=0.3), digits("hard", target=2.0)
    launched = search_with([easy, hard], digits_policy(), db, iterations=40, until_solved=True)
    problem_runs = {problem_run.problem.name: problem_run for problem_run in launched.problem_runs}
    assert problem_runs["easy"].solved
    assert problem_runs["easy"].committed < 40
    assert problem_runs["hard"].committed == 40
    assert not problem_runs["hard"].solved
    resumed = search_with([digits("easy", target=0.3), digits("hard", target=2.0)], digits_policy(), db, resume=True)
    assert resumed.status.groups == launched.status.groups
    assert resumed.status.problem_runs[0].solved_at == launched.status.problem_runs[0].solved_at


def test_a_run_whose_problems_changed_is_refused(search_with, digits, digits_policy, db):
    search_with([digits("a")], digits_policy(), db, iterations=2)
    with pytest.raises(BadInput, match="its problems have changed"):
        search_with([digits("b")], digits_policy(), db, resume=True)
    changed = digits("a")
    changed.objectives = ("even", "odd", "prime")
    with pytest.raises(BadInput, match="now has the objectives"):
        search_with([changed], digits_policy(), db, resume=True)


def test_best_of_n_never_shows_a_parent(search_with, digits, digits_policy, db):
    launched = search_with([digits("a")], digits_policy(), db, iterations=10, prompt={"show_parent": False})
    assert len({row[4] for row in stored_answers(db, "run")}) == 1
    assert {(group.parent, group.inspirations) for group in launched.groups} == {(None, ())}
    with Store.open(db, read_only=True) as store:
        queries = ("count(parent_id) FROM prompt_groups", "count(parent_id) FROM candidates")
        assert [store.scalar(text(f"SELECT {query}")) for query in queries] == [0, 0]
        assert store.scalar(text("SELECT max(generation) FROM candidates")) == 0


def test_a_seed_that_no_prompt_shows_is_nobodys_parent(search_with, digits, digits_policy, db):
    """As of a maze: its search starts from no answer, so what the first prompts show is the task alone."""
    problem = digits("a")
    problem.seed_answer = lambda: ""
    launched = search_with([problem], digits_policy(batch=1), db, iterations=6, parallel=1)
    assert launched.groups[0].parent is None and launched.groups[5].parent is not None


def test_an_interrupt_lets_go_of_what_the_policy_has_not_begun(search_with, digits, digits_policy, tmp_path):
    whole, parts = f"sqlite:///{tmp_path}/whole.db", f"sqlite:///{tmp_path}/parts.db"
    names = "abcdefgh"
    search_with([digits(n) for n in names], digits_policy(batch=4), whole, iterations=6)
    policy = digits_policy(batch=4, delay=0.05)
    launched = search_with([digits(n) for n in names], policy, parts, iterations=6, interrupt_after=4)
    begun = sum(map(len, policy.calls))
    assert launched.status.groups == begun < 48, "every group that was begun is committed, and no other was begun"
    assert len(policy.calls) <= 3
    search_with([digits(n) for n in names], digits_policy(batch=4), parts, resume=True)
    assert stored_answers(whole, "run") == stored_answers(parts, "run")


def test_an_interrupt_keeps_what_a_model_here_has_answered_of_a_call(
    search_with, digits, digits_policy, tmp_path, monkeypatch
):
    """The third call writes two of its four answers and is then slow; the others are dropped and made by a resume."""

    class Model(digits_policy):
        tokenizer = open_model = encode = learner = between = update = logprobs = object()
        context, stops = 99, frozenset()

        async def sample(self, prompts, *, rollouts, answers, seed, watch=None):
            groups = await super().sample(prompts, rollouts=rollouts, answers=answers, seed=seed)
            for number in (0, 1) if self.delay and len(self.calls) == 3 else ():
                watch.on_group(number, groups[number])
            await asyncio.sleep(60 if self.delay and len(self.calls) == 3 else 0)
            return groups

    monkeypatch.setattr("evo.search.loop._MODEL_GRACE", 0.1)
    whole, parts, problems = (f"sqlite:///{tmp_path}/whole.db", f"sqlite:///{tmp_path}/parts.db", [digits("a")])
    search_with(problems, digits_policy(batch=4), whole, iterations=20, parallel=8)
    with pytest.warns(UserWarning, match="^4 answers in flight were dropped"):
        launched = search_with(
            problems, Model(batch=4, delay=0.01), parts, iterations=20, parallel=8, interrupt_after=10
        )
    assert launched.status.groups == 10, "eight of two calls, and two of the third"
    search_with(problems, Model(batch=4), parts, resume=True)
    assert stored_answers(whole, "run") == stored_answers(parts, "run")


def test_a_long_statement_is_stored_once(search_with, digits, digits_policy, tmp_path):
    task = np.random.default_rng(0).bytes(500_000).hex()

    class Long(digits):
        def statement(self):
            return task

    files = [tmp_path / f"{iterations}.db" for iterations in (4, 24)]
    for file in files:
        search_with([Long("a")], digits_policy(), f"sqlite:///{file}", iterations=int(file.stem))
    few, many = (file.stat().st_size for file in files)
    assert many - few < 20 * 10_000
    assert all(task in group.prompt.user for group in stored_groups(f"sqlite:///{files[1]}", "run"))


def test_while_the_oldest_group_is_waited_for_the_record_tells_how_many_are_there(
    search_with, digits, digits_policy, db, monkeypatch
):
    class SlowFirst(digits_policy):
        async def sample(self, prompts, **settings):
            first = not self.calls
            groups = await super().sample(prompts, **settings)
            until = time.monotonic() + 20
            while first and summary().get("sampled_ahead") != 7 and time.monotonic() < until:
                await asyncio.sleep(0.02)
            seen.extend([summary()] if first else [])
            return groups

    def summary():
        with Store.open(db, read_only=True) as store:
            return store.run("run").summary

    seen = []
    monkeypatch.setattr("evo.search.loop._WAITING_SECONDS", 0.02)
    launched = search_with([digits("a")], SlowFirst(batch=0), db, iterations=20, parallel=8)
    (waiting,) = seen
    assert (waiting["in_flight"], waiting["sampled_ahead"], waiting["groups"]) == (8, 7, 0)
    assert waiting["policy_busy"] > 0
    assert launched.status.groups == 20 and "in_flight" not in summary()


def test_a_budget_below_what_is_spent_is_refused_and_changes_nothing(search_with, digits, digits_policy, db):
    search_with([digits("a")], digits_policy(), db, iterations=10)
    with Store.open(db, read_only=True) as store:
        before = store.run("run")
    for budget, message in (
        ({"iterations": 7}, "already spent 10 iterations per problem; --iterations 7 is less"),
        ({"max_answers": 19}, "already spent 20 answers; --max-answers 19 is less"),
        ({"max_total_tokens": 1}, "--max-total-tokens 1 is less"),
        ({"max_seconds": 1e-6}, "--max-seconds 1e-06 is less"),
    ):
        with pytest.raises(BadInput, match=message):
            plan_resume("run", db, budget)
    with Store.open(db, read_only=True) as store:
        after = store.run("run")
    assert (after.config, after.summary, after.status) == (before.config, before.summary, before.status)


def test_a_finished_run_that_is_resumed_keeps_its_best_and_its_seconds(search_with, digits, digits_policy, db, clock):
    first = search_with([digits("a")], digits_policy(delay=0.01), db, iterations=10)
    with Store.open(db) as store:
        store.finish_run(store.run("run").id, "done", summary=first.status.metrics())
    clock.ahead += 1675
    again = search_with([digits("a")], digits_policy(), db, resume=True)
    assert again.status.problem_runs[0].best == again.best[0][1] == first.best[0][1]
    assert again.status.active.seconds < first.status.active.seconds + 60
    for rate in ("answers_per_second", "policy_busy"):
        assert again.status.metrics()[rate] > 0


def test_a_screen_counts_the_seconds_of_searching_alone(search_with, digits, digits_policy, db, clock):
    """Of a run that was killed, rested and was resumed: no second of the rest."""
    from evo.progress.model import Progress

    first = search_with([digits("a")], digits_policy(), db, iterations=10, stop_after=4)
    clock.ahead += 5
    first.status.active.periods.append((time.time(), math.inf))  # as a process that was killed leaves it
    clock.ahead += 5
    with Store.open(db) as store:
        store.finish_run(store.run("run").id, "running", summary=first.status.metrics())
    clock.ahead += 1675
    second = search_with([digits("a")], digits_policy(), db, resume=True)
    with Store.open(db) as store:
        store.finish_run(store.run("run").id, "done", summary=second.status.metrics())
    clock.ahead += 100
    with Store.open(db, read_only=True) as store:
        assert 5 <= Progress.open(store, "run").snapshot().elapsed(clock.time()) < 65


DAY = 86_400.0


@pytest.fixture
def jumping(monkeypatch):
    """time.time is off by up to a day, otherwise at every call."""
    usual, chance = time.time, random.Random(2)

    def jump():
        monkeypatch.setattr(time, "time", lambda: usual() + chance.choice([-DAY, 0.0, DAY]))

    return jump


def test_a_search_is_the_same_and_is_resumed_and_watched(jumping, search_with, digits, digits_policy, tmp_path):
    calm, db = f"sqlite:///{tmp_path / 'calm.db'}", f"sqlite:///{tmp_path / 'evo.db'}"
    search_with([digits()], digits_policy(), calm, iterations=20, max_seconds=600)
    jumping()
    search_with([digits()], digits_policy(), db, iterations=20, max_seconds=600, stop_after=8)
    with Store.open(db, read_only=True) as store:
        assert Progress.open(store, "run").snapshot().groups < 20
    search_with([digits()], digits_policy(), db, resume=True)
    assert_same_run(stored_answers(db), stored_answers(calm))
    with Store.open(db, read_only=True) as store:
        snapshot = Progress.open(store, "run").snapshot()
        assert snapshot.groups == 20 and snapshot.elapsed(time.time()) >= 0
        assert 0 <= store.run("run").summary["seconds"] < 600


GONE = "no longer be written: sqlite.* was moved, replaced or deleted"


@pytest.mark.parametrize("how", ["moved", "deleted"])
def test_a_comparison_begins_no_further_run(digits, db, how):
    file = Path(db.removeprefix("sqlite:///"))

    class Spoiling(digits):
        def score(self, answer):
            if len(self.scored) == 12:
                file.unlink() if how == "deleted" else file.rename(f"{file}.moved")
            return super().score(answer)

    problem, arms = Spoiling(), {"vary": "scripted:mutate", "mutate": "scripted:mutate"}
    settings = {"iterations": 200, "seeds": 3, "baselines": [], "progress": False}
    with pytest.raises(SearchFailed, match=GONE) as caught:
        evo.compare(problem, arms=arms, db=db, **settings)
    assert exit_code_of(caught.value) == 1 and "\n" not in str(caught.value)
    assert len(problem.scored) < 200  # of 1,200: those in flight of the two runs of the first seed
    assert not file.exists()


def test_a_search_that_waits_for_a_slow_reply_notices_it(search_with, digits, digits_policy, db, monkeypatch):
    class Silent(digits_policy):
        async def sample(self, prompts, **settings):
            Path(db.removeprefix("sqlite:///")).unlink()
            await asyncio.Event().wait()

    monkeypatch.setattr("evo.search.loop._WAITING_SECONDS", 1e9)  # nothing is written meanwhile
    with pytest.raises(SearchFailed, match=GONE):
        search_with([digits("a")], Silent(batch=1), db, iterations=20)


SCORER = """
isolated = False
seed_answer = ["aa", "bbb"]
def score(answer):
    return float(min(len(answer), 3))
"""
SEARCH = ["run", "scorer.py", "--policy", "scripted:mutate", "--answers", "1", "--seed", "2", "--plain"]
RUN = [*SEARCH, "--iterations", "60"]


@pytest.fixture
def lengths(here: Path) -> None:
    (here / "scorer.py").write_text(SCORER)


def groups(name: str) -> int:
    return len(stored_groups("sqlite:///evo.db", name))


def test_patience_stops_a_problem_that_no_longer_improves(lengths, capsys) -> None:
    assert invoke([*RUN, "--patience", "8", "--parallel", "4", "--name", "short", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["problems"][0]["stopped"] == "plateau: no better answer in 8 iterations"
    assert 8 <= groups("short") <= 8 + 4, "those in flight are finished"
    before = stored_answers("sqlite:///evo.db", "short")
    assert invoke(["resume", "short", "--plain"]) == 0
    assert_same_run(stored_answers("sqlite:///evo.db", "short"), before)
    assert invoke(["resume", "short", "--patience", "20", "--plain"]) == 0 and 20 <= groups("short") <= 24


def test_a_search_starts_from_all_seeds_and_files(lengths, capsys) -> None:
    Path("more.txt").write_text("dddd")
    assert invoke([*SEARCH, "--iterations", "3", "--start", "more.txt", "--name", "many"]) == 0
    query = "SELECT text FROM candidates WHERE sequence = -1 ORDER BY id"
    with closing(sqlite3.connect("evo.db")) as connection:
        answers = [text for (text,) in connection.execute(query)]
    assert answers == ["aa", "bbb", "dddd"]
    assert invoke([*RUN, "--start", "missing.txt", "--name", "none"]) == 2
    assert "missing.txt" in capsys.readouterr().err


GROW = """
import json, pathlib, sys
request = json.load(sys.stdin)
assert "FEEDBACK.md" not in request["files"]
answer = pathlib.Path("answer.txt")
answer.write_text(answer.read_text() + "a")
"""


def test_a_script_mutates_one_answer_a_reply_and_the_run_resumes(here: Path, capsys) -> None:
    def summary(*arguments: str) -> dict:
        assert invoke([*arguments, "--plain", "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    counting = "isolated = False\nseed_answer = 'b'\ntarget = 5\ndef score(answer):\n    return answer.count('a')\n"
    (here / "scorer.py").write_text(counting)
    (here / "grow.py").write_text(GROW)
    run = ("run", "scorer.py", "--policy", "command:python grow.py", "--name", "grown", "--parallel", "1")
    assert "--answers 1" in refused(capsys, *run, "--answers", "3")
    first = summary(*run, "--iterations", "4")
    assert first["answers"] == 4 and first["problems"][0]["best"] >= 1
    more = summary("resume", "grown", "--iterations", "9")
    assert more["answers"] == 9 and more["problems"][0]["best"] > first["problems"][0]["best"]
    assert invoke(["best", "grown"]) == 0 and "aa" in capsys.readouterr().out


@pytest.mark.parametrize("until_solved", [(), ("--until-solved",)])
def test_an_answer_at_fault_solves_nothing_and_is_never_the_best(until_solved, here: Path, capsys) -> None:
    """Its fitness of 0 is above every valid answer's, and above the target."""
    scorer = "objectives = ['score']\nseed_answer = '100'\ntarget = -0.5\ndef score(answer):\n"
    for name, limit in (("never", 0), ("some", 95)):
        (here / f"{name}.py").write_text(
            f"{scorer}    return -abs(float(answer)) if float(answer) < {limit} else {{'error': 'too large'}}\n"
        )
    run = ("--policy", "scripted:mutate", "--answers", "1", "--iterations", "12", "--plain", "--json", *until_solved)
    assert invoke(["run", "some.py", *run]) == 0
    (some,) = json.loads(capsys.readouterr().out)["problems"]
    assert some["iterations"] == 12 and some["solved_at"] is None and some["best"] < -1
    assert invoke(["run", "never.py", *run]) == 1
    (never,) = json.loads(capsys.readouterr().out)["problems"]
    assert never["iterations"] == 12 and never["solved_at"] is never["best"] is never["values"] is None
