"""The policies of a search: several with budgets, turns, weights and fresh shares; changed, tuned and classic ones."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import output, refused
from support.completion_server import hosted_server, scripted
from support.searches import run_search
from support.stored_rows import stored_answers, stored_groups

from evo.cli import invoke
from evo.config.run import PromptConfig, RunConfig
from evo.prompts.chat import ChatFormat
from evo.runs.resume import resume_run
from evo.runs.start import start_run
from evo.search import resources as shared
from evo.search.core import COUNTED_GROUPS, FreshShare, Operators
from evo.search.resources import Operator
from islands.runs import best, repeats_by_group
from islands.store import Store
from islands.types import Candidate, ParentKind, Selection
from problems.identity import kept
from problems.maze.board import Maze, simulate
from problems.maze.optimum import optimum
from problems.maze.problem import MazeProblem
from problems.maze.sets import problem_set
from problems.types import Prompt, Rollout
from vpo.policies.contract import PolicyUnavailable
from vpo.policies.registry import policy_at
from vpo.policies.tunable import Tunable


def operators_of(*weights):
    return Operators([Operator("p", None, 1, 1, RunConfig().prompt, weight) for weight in weights])


def test_turns_are_an_even_mixture_over_iterations_and_problems_and_weights_are_shares():
    turns = operators_of(None, None, None)
    assert sorted(turns.choose(0, 2, i) for i in range(3)) == [0, 1, 2]
    assert len({turns.choose(0, p, 0) for p in range(3)}) == 3 and turns.chances is None
    assert operators_of(None).choose(5, 7, 9) == 0
    mixed = operators_of(0.8, 0.2)
    drawn, again = ([mixed.choose(3, p, i) for p in range(4) for i in range(500)] for _ in range(2))
    assert drawn.count(0) / len(drawn) == pytest.approx(0.8, abs=0.03) and drawn == again
    assert operators_of(None, 3.0).chances.tolist() == [0.25, 0.75]


def config(**changes):
    base = {"problems": ["maze:test"], "limit": 3, "iterations": 12, "seed": 2, "rollouts": 1, "answers": 3}
    return RunConfig.model_validate({**base, "policy": "scripted:random-route,scripted:mutate", **changes})


def searched(settings, db, *, name="run", resume=False, stop_after=None):
    opening = resume_run(name, db=db) if resume else start_run(settings, db=db, name=name, command="test")
    run_search(opening, stop_after=stop_after)
    return stored_groups(db, name)


def told(groups):
    return [(one.policy_version, [r.rollout.text for r in one.rollouts]) for one in groups]


@pytest.mark.parametrize(
    "policy", ["scripted:random-route,scripted:mutate", "scripted:random-route?weight=2,scripted:mutate"]
)
def test_operators_share_a_search_and_one_seed_gives_one_run_resumed_or_not(tmp_path, policy):
    db = f"sqlite:///{tmp_path / 'evo.db'}"
    whole = searched(config(policy=policy), db, name="whole")
    versions = {one.policy_version for one in whole}
    assert len(whole) == 36 and len(versions) == 2
    searched(config(policy=policy), db, name="cut", stop_after=13)
    assert told(searched(None, db, name="cut", resume=True)) == told(whole)


def test_operators_give_equal_numbers_of_answers_in_chains_of_their_own():
    opened = []
    parts = shared.Resources(lambda settings, problems: opened.append(settings.policy))
    settings = config(policy="embedded:vpo,embedded:grpo,embedded:vpo?temperature=1.4&fresh=0.5", rollouts=2)
    operators = parts.operators(settings, [])
    assert [(one.rollouts, one.answers) for one in operators] == [(2, 3), (6, 1), (2, 3)]
    assert opened == ["embedded:vpo", "embedded:grpo", "embedded:vpo?temperature=1.4"]
    assert [one.prompt.fresh for one in operators] == ["auto", "auto", 0.5]


def test_a_share_of_fresh_prompts_shows_nothing_and_is_recorded_so(tmp_path):
    db = f"sqlite:///{tmp_path / 'evo.db'}"
    policy = "scripted:mutate,scripted:mutate?fresh=0.5"
    settings = config(policy=policy, prompt={"fresh": 0.0})
    whole = searched(settings, db, name="whole")
    later = [one for one in whole if one.iteration > 6]  # earlier ones may be asked before anything is found
    first, second = ([one for one in later if one.operator == n] for n in (0, 1))
    assert all(one.parent is not None for one in first)
    fresh = [one for one in second if one.parent is None]
    assert 0 < len(fresh) < len(second)
    assert all("# Answer to improve" not in one.prompt.user for one in fresh)


NOTHING, ANSWER = ParentKind.NOTHING, ParentKind.ANSWER
PARENT = re.compile(r"\b\d{8}\b")


def seen(*groups):
    """A share for an answer as the parent after (shown, repeated, answers) of one problem and operator."""
    share = FreshShare()
    share.committed.extend((n, 1, 0, shown, repeated, answers) for n, (shown, repeated, answers) in enumerate(groups))
    share.advance(None)
    return share.of(1, 0, ANSWER)


def test_the_share_is_what_showing_a_parent_wastes_beyond_what_is_wasted_without():
    for groups, share in (
        ((), 0.0),
        (((ANSWER, 0, 2), (ANSWER, 0, 2)), 0.0),
        (((ANSWER, 2, 2),), 2 / 3),
        (((ANSWER, 2, 2), (ANSWER, 1, 2)), 3 / 5),
        (((ANSWER, 2, 2), (NOTHING, 2, 2)), 0.0),
        (((ANSWER, 2, 2), (ANSWER, 2, 2), (NOTHING, 0, 2)), 4 / 5),
        (((ANSWER, 0, 0),), 0.0),  # nothing that could be read is no repeat
        (((ANSWER, 2, 3),), 0.5),
        ((*[(ParentKind.SEED, 0, 3)] * 3, (ANSWER, 2, 3)), 0.5),  # a seed that is not copied says nothing of answers
    ):
        assert seen(*groups) == pytest.approx(share), groups


def test_old_groups_are_forgotten_and_later_ones_not_seen_before_their_time():
    copies = [(n, 1, 0, ANSWER, 1, 1) for n in range(30)]
    share = FreshShare()
    share.committed.extend([*copies, *((n, 1, 0, ANSWER, 0, 1) for n in range(30, 30 + COUNTED_GROUPS))])
    share.advance(29)
    assert share.of(1, 0, ANSWER) == pytest.approx(COUNTED_GROUPS / (COUNTED_GROUPS + 1))
    share.advance(None)
    assert share.of(1, 0, ANSWER) == 0.0
    # of other problems, operators and parents nothing is known
    assert share.of(2, 0, ANSWER) == share.of(1, 1, ANSWER) == share.of(1, 0, ParentKind.SEED) == 0.0


@pytest.fixture
def copier(digits_policy):
    """Copies its parent in three of four answers, where it is shown one."""

    def make(**settings):
        policy = digits_policy(**settings)
        plain = policy._rollout

        def copying(prompt, i, answers, seed):
            shown = PARENT.search(prompt.user)
            if shown is None or np.random.default_rng([seed, prompt.stream, i, 9]).random() < 0.25:
                return plain(prompt, i, answers, seed)
            text = "\n".join(f"<answer_{j + 1}>{shown[0]}</answer_{j + 1}>" for j in range(answers))
            text = f"<answer>{shown[0]}</answer>" if answers == 1 else text
            ids = np.frombuffer(text.encode(), np.uint8).astype(np.int32)
            return Rollout(text, ids, np.full(len(ids), -0.5, np.float32), ids[:4])

        policy._rollout = copying
        return policy

    return make


def alone(launched):
    return sum(group.parent is None for group in launched.groups)


def test_a_policy_that_copies_is_asked_afresh_and_finds_more(search_with, digits, copier, tmp_path):
    found = {}
    for fresh in ("auto", 0.0):
        db = f"sqlite:///{tmp_path}/{fresh}.db"
        found[fresh] = search_with(
            [digits("a")], copier(batch=1), db, iterations=60, answers=1, parallel=1, prompt={"fresh": fresh}
        )
    assert alone(found[0.0]) == 0
    assert 20 < alone(found["auto"]) < 60
    sizes = {fresh: launched.problem_runs[0].population.size for fresh, launched in found.items()}
    assert sizes["auto"] > 1.5 * sizes[0.0]


def test_what_is_known_of_repeats_survives_an_interruption(search_with, digits, copier, tmp_path):
    whole, parts = f"sqlite:///{tmp_path}/whole.db", f"sqlite:///{tmp_path}/parts.db"
    settings = dict(iterations=45, rollouts=2, parallel=6)
    search_with([digits("a"), digits("b")], copier(), whole, **settings)
    search_with([digits("a"), digits("b")], copier(), parts, stop_after=50, **settings)
    launched = search_with([digits("a"), digits("b")], copier(), parts, resume=True)
    assert alone(launched) > 5
    assert stored_answers(whole, "run") == stored_answers(parts, "run")


def test_the_store_says_what_the_search_counted(search_with, digits, copier, tmp_path):
    db = f"sqlite:///{tmp_path}/run.db"
    launched = search_with([digits("a"), digits("b")], copier(batch=2), db, iterations=25, rollouts=2)
    with Store.open(db, read_only=True) as store:
        rows = list(repeats_by_group(store, store.run("run").id, last=1000))
        last = list(repeats_by_group(store, store.run("run").id, last=3))
    assert [row[:2] for row in rows] == [(group.sequence, group.problem) for group in launched.groups]
    assert [row[3] != NOTHING for row in rows] == [group.parent is not None for group in launched.groups]
    assert {row[3] for row in rows} == set(ParentKind)
    assert [row[5] for row in rows] == [len(list(group.all_answers())) for group in launched.groups]
    again = FreshShare()
    again.committed.extend(rows)
    again.advance(None)
    counted = launched.core.fresh_share
    places = [(problem.record.id, 0, shown) for problem in launched.problem_runs for shown in ParentKind]
    assert [again.of(*place) for place in places] == [counted.of(*place) for place in places]
    kinds = {(row[1], row[3]) for row in rows}
    assert set(last) <= set(rows) and 3 * len(kinds) >= len(last) > 3 * len(kinds) - 3


SEARCH = ["run", "programs:easy", "--limit", "1", "--answers", "1", "--name", "one", "--plain", "--iterations", "12"]
RESUME = ["resume", "one", "--plain", "--iterations", "24"]


def shown(capsys) -> dict[str, Any]:
    return dict(json.loads(output(capsys, "show", "one", "--json")))


def operators() -> Counter[tuple[int, str]]:
    """How many groups each (operator, version) wrote."""
    groups = stored_groups("sqlite:///evo.db", "one")
    return Counter((group.operator, group.policy_version.split("@")[0]) for group in groups)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_other_options_of_the_same_model_keep_its_place(here, capsys) -> None:
    with hosted_server(lambda number: "" if number < 6 else 429) as server:
        assert invoke([*SEARCH, "--policy", f"{server.address}?n=off&retries=0", "--parallel", "2"]) == 1
        server.manners.plan = scripted()
        assert invoke([*RESUME, "--policy", f"{server.address}?n=off&concurrency=30"]) == 0
        found = shown(capsys)
        assert found["groups"] == 24 and set(operators()) == {(0, "openai:tiny")}
        (change,) = found["policy_changes"]
        assert "retries=0" in change["before"] and "concurrency=30" in change["after"]
        assert found["config"]["policy"] == change["after"]
        assert "the policy changed:" in output(capsys, "show", "one")
        assert invoke(["resume", "one", "--plain", "--iterations", "26"]) == 0, "it continues as changed"
        assert len(shown(capsys)["policy_changes"]) == 1


def test_a_wrong_policy_leaves_the_run_as_it_was(here, capsys) -> None:
    assert invoke([*SEARCH, "--policy", "scripted:mutate"]) == 0
    before = shown(capsys)
    for policy, said in (
        ("openai:tiny@nowhere", "the run keeps its models, scripted:mutate"),
        ("scripted:mutate,scripted:echo", "only their options can change. Start a new run with"),
        ("scripted:mutate?temperature=hot", "temperature"),
    ):
        assert said in refused(capsys, *RESUME, "--policy", policy)
    assert shown(capsys) == before


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_failures_are_listed_by_reason_with_their_count_and_an_id(here, capsys) -> None:
    def broken(body: dict[str, Any], number: int) -> str:
        return f"```python\ndef initials(name):\n    return {'other' if number == 5 else 'missing'}({number})\n```"

    with hosted_server(scripted(), text=broken) as server:
        assert invoke([*SEARCH, "--policy", f"{server.address}?n=off"]) == 1  # no answer was scored
    failed = shown(capsys)["failed_candidates"]
    assert [failure["count"] for failure in failed] == [11, 1] and "'missing'" in failed[0]["error"]
    assert f"  {failed[0]['id']}  programs:easy/0  11 x " in output(capsys, "show", "one")
    assert "error: " in output(capsys, "show", "one", str(failed[0]["id"]))


SCORER = """
isolated = False
answer_format = "python"
seed_answer = "X, N = 2.0, 3  # at 9\\n"
def score(answer):
    names = {}
    exec(answer, names)
    return {"near": -abs(names["X"] - 2.6) - abs(names["N"] - 5)}
"""


def answers(name):
    with Store.open("sqlite:///evo.db", read_only=True) as store:
        (problem, found) = best(store, store.run(name).id)[0]
        query = "SELECT text FROM candidates WHERE problem_id = ? ORDER BY sequence, id"
        with store.read() as connection:
            return found.fitness, [text for (text,) in connection.exec_driver_sql(query, (problem.id,))]


def test_only_numbers_change_and_whole_ones_stay_whole():
    code = Tunable('x = [1.5, -2, True]\ndef f(n=0):\n    """7"""\n    return f"{n} 8"\n', python=True)
    changed = 'x = [1.65775637711, -5, True]\ndef f(n=(-1)):\n    """7"""\n    return f"{n} 8"\n'
    assert code.at([0.1, 1.0, -1.0]) == changed
    assert Tunable("1, v2 -3.5e2 5", python=False).at([9, -1, 1]) == "8103, v2 -700.0 14"
    block = "a = 1\n# EVOLVE-BLOCK-START\nb = 2.0\n# EVOLVE-BLOCK-END\nc = 3\n"
    assert Tunable(block, python=True).at([0.0]) == block and Tunable("no number", python=False).steps == []
    assert "inf" not in Tunable("1e300 1e9 0.0", python=False).at([1e9, 1e9, 1e9])


def test_a_resumed_run_makes_the_same_answers_and_finds_the_numbers(here):
    pytest.importorskip("cma")
    Path("near.py").write_text(SCORER)
    tuned = ["run", "near.py", "--policy", "scripted:tuned", "--answers", "1", "--rollouts", "2", "--plain"]
    assert invoke([*tuned, "--iterations", "40", "--name", "whole"]) == 0
    assert invoke([*tuned, "--iterations", "13", "--name", "parts"]) == 0  # within a generation of four iterations
    assert invoke(["resume", "parts", "--iterations", "40", "--plain"]) == 0
    assert answers("whole") == answers("parts") and answers("whole")[0] > -0.05


def test_it_is_a_baseline_and_refuses_what_it_cannot_tune(here, capsys, monkeypatch):
    pytest.importorskip("cma")
    Path("near.py").write_text(SCORER)
    few = ["--iterations", "4", "--seeds", "1", "--processes", "1", "--plain", "--name", "c"]
    arms = ["--baseline", "tuned-start", "--arm", "m=scripted:mutate,answers=3"]
    assert invoke(["compare", "near.py", *arms, *few]) == 0
    with Store.open("sqlite:///evo.db") as store:
        config = store.run("c/tuned-start/s0").config
    assert (config["policy"], config["answers"], config["rollouts"]) == ("scripted:tuned", 1, 3)
    capsys.readouterr()
    Path("word.py").write_text("seed_answer = 'word'\ndef score(answer):\n    return len(answer)\n")
    for file, policy, missing, said in (
        ("word.py", "scripted:tuned", {}, "has no numbers to tune"),
        ("near.py", "scripted:tuned,scripted:mutate", {}, "searches alone"),
        ("near.py", "scripted:tuned", {"cma": None}, "pip install"),
    ):
        for name in missing:
            monkeypatch.setitem(sys.modules, name, None)
        assert said in refused(capsys, "run", file, "--policy", policy, "--answers", "1")


def answers_of(problem: MazeProblem, parent: str | None, stream: int = 0) -> list[str]:
    style = ChatFormat(problem, PromptConfig(), 3)
    shown = None
    if parent is not None:
        score = problem.score(parent)
        shown = Candidate(1, parent, score.rewards, score.fitness, score.features, score.feedback, None, 0, 0, None)
    selection = Selection(shown, (), ())
    prompt = style.build(selection, stream)
    ((rollout,),) = asyncio.run(policy_at("scripted:classic").sample([prompt], rollouts=1, answers=3, seed=0))
    return list(style.parse(rollout, selection).answers)


@pytest.mark.parametrize("board", ["test", "large"])
def test_its_answers_reach_the_exit_and_keep_most_of_the_parent_that_is_shown(board: str) -> None:
    shares = {True: 0.0, False: 0.0}
    for i, problem in enumerate(problem_set(f"maze:{board}", 10)):
        parent = answers_of(problem, None, 1000 + i)[0]
        for shown in shares:
            answers = answers_of(problem, parent if shown else None, i)
            assert answers and all(simulate(problem.maze, moves).reached for moves in answers)
            shares[shown] += sum(sum(kept(parent, moves)) for moves in answers) / len(answers) / 10
    assert shares[True] > shares[False] + 0.15


def test_boards_of_any_size_and_parents_with_bumps_or_that_fail_are_read() -> None:
    (problem,) = problem_set("maze:test", 1)  # S at the top left, walls below 00 and 02
    maze = Maze.from_rows(["S . . G", ". # . .", ". L # .", "D . . E"], 10)
    for each, parent in (
        (problem, "URRDRDDRRDRRRDDDDDD"),
        (problem, "RRDR"),
        (MazeProblem("own", maze, optimum(maze)), None),
    ):
        assert all(simulate(each.maze, moves).reached for moves in answers_of(each, parent))


def test_bumps_of_a_parent_are_not_inherited() -> None:
    """A step into the wall that was kept would be one less of the budget."""
    (problem,) = problem_set("maze:test", 1)
    parent = "U" + answers_of(problem, None)[0]
    assert simulate(problem.maze, parent).reached and simulate(problem.maze, parent).bumps == (1,)
    children = [moves for stream in range(10) for moves in answers_of(problem, parent, stream)]
    assert any(moves.startswith(parent[1:4]) for moves in children), "most keep the parent's beginning"
    assert not any(simulate(problem.maze, moves).bumps for moves in children)


def test_what_is_no_maze_is_refused() -> None:
    policy = policy_at("scripted:classic")
    with pytest.raises(PolicyUnavailable, match="only mazes"):
        asyncio.run(policy.sample([Prompt("Write a program.")], rollouts=1, answers=1, seed=0))
