"""Reflections in a search: asked once a parent, shown to its children, counted, stored, the same after a resume."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from command_line import evo
from sqlalchemy import select
from stored_rows import assert_same_run, stored_answers

from evo.cli.inspect import show
from evo.config.run import PromptConfig
from evo.prompts.reflection import SYSTEM, ask_reflection, read_reflection
from islands.db.housekeeping import delete_runs
from islands.db.reflections import read_reflections, reflections_on
from islands.db.schema import Candidate as Row
from islands.db.store import Store
from islands.db.totals import run_totals
from islands.types import Candidate
from problems.types import Rollout
from vpo.policies.contract import PolicyUnavailable, PromptTooLong


@pytest.fixture
def critic(digits_policy):
    """The search's policy, which reflects too: what it says depends on the prompt and its stream alone."""

    class Critic(digits_policy):
        def __init__(self, *, fault=None, **options):
            super().__init__(**options)
            self.fault, self.reflected = fault, []

        async def sample(self, prompts, *, rollouts, answers, seed):
            found = await super().sample(prompts, rollouts=rollouts, answers=answers, seed=seed)
            if prompts[0].system != SYSTEM:
                return found
            assert len(prompts) == rollouts == 1, "which prompts share a call depends on when groups are committed"
            (prompt,) = prompts
            if self.fault is not None:
                raise self.fault
            self.reflected.append(prompt.user.split("# Answer\n")[1].split("\n")[0])
            word = np.random.default_rng([seed, prompt.stream]).integers(10**6)
            text = f"Raise digit {word}. Drop the rest. Never said."
            ids = np.frombuffer(text.encode(), np.uint8).astype(np.int32)
            return [[Rollout(text, ids, np.full(len(ids), -0.5, np.float32), ids[:7])]]

    return Critic


REFLECTED = {"feedback": {"policy": "scripted:echo"}, "answers": 1, "population": {"islands": 2}}


def rows_of(db, name="run"):
    """Candidate text -> (reflection, group that asked)."""
    from sqlalchemy import text

    query = text(
        "SELECT c.text, r.text, r.sequence FROM reflections r JOIN candidates c ON c.id = r.candidate_id "
        "JOIN problems p ON p.id = r.problem_id JOIN runs ON runs.id = p.run_id WHERE runs.name = :run ORDER BY 3, 1"
    )
    with Store.open(db, read_only=True) as store, store.read() as connection:
        return [tuple(row) for row in connection.execute(query, {"run": name})]


def test_a_parent_is_reflected_on_once_and_its_children_are_shown_it(search_with, digits, critic, tmp_path):
    db, policy = f"sqlite:///{tmp_path}/a.db", critic()
    launched = search_with([digits("a")], policy, db, iterations=20, **REFLECTED)
    assert len(policy.reflected) == len(set(policy.reflected)) > 1
    stored = {answer: said for answer, said, _ in rows_of(db)}
    assert set(stored) == set(policy.reflected)
    with Store.open(db, read_only=True) as store:
        texts = reflections_on(store, [group.parent for group in launched.groups])
    for group in launched.groups:
        assert texts[group.parent] in group.prompt.user
        assert texts[group.parent].endswith("Drop the rest.")
        assert "Never said" not in group.prompt.user


def test_its_tokens_are_counted_and_end_a_budget(search_with, digits, critic, tmp_path):
    db = f"sqlite:///{tmp_path}/a.db"
    launched = search_with([digits("a")], critic(), db, iterations=12, **REFLECTED)
    sampled = sum(one.rollout.tokens for group in launched.groups for one in group.rollouts)
    said = [group.reflection for group in launched.groups if group.reflection is not None]
    assert launched.status.reflections == len(said) == len(rows_of(db))
    assert launched.status.tokens == sampled + sum(one.tokens for one in said)
    assert launched.status.reflection_tokens == sum(one.tokens for one in said) > 0
    with Store.open(db, read_only=True) as store:
        assert run_totals(store, launched.run.id).tokens == launched.status.tokens
    budget = f"sqlite:///{tmp_path}/b.db"
    short = search_with([digits("a")], critic(), budget, iterations=500, parallel=2, max_total_tokens=900, **REFLECTED)
    plain = search_with([digits("a")], critic(), budget, name="plain", iterations=500, parallel=2, max_total_tokens=900,
                        **{**REFLECTED, "feedback": {}})  # fmt: skip
    assert "budget of 900 tokens" in short.reason
    assert len(short.groups) < len(plain.groups)


@pytest.mark.parametrize("batch", [0, 3])
def test_the_time_that_a_call_takes_decides_nothing(search_with, digits, critic, tmp_path, batch):
    found = []
    for number, jitter in enumerate((0.0, 0.02)):
        db = f"sqlite:///{tmp_path}/{number}.db"
        policy = critic(batch=batch, jitter=jitter)
        search_with([digits("a"), digits("b")], policy, db, iterations=14, rollouts=2, **REFLECTED)
        found.append((stored_answers(db, "run"), rows_of(db)))
    assert_same_run(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


@pytest.mark.parametrize("batch", [0, 3])
def test_calls_hold_the_same_prompts_whatever_the_time_that_they_take(search_with, digits, critic, tmp_path, batch):
    calls = []
    for number, jitter in enumerate((0.0, 0.02)):
        policy = critic(batch=batch, jitter=jitter)
        search_with([digits("a")], policy, f"sqlite:///{tmp_path}/{number}.db", iterations=14, parallel=6, **REFLECTED)
        calls.append(sorted(map(tuple, policy.calls)))
    assert calls[0] == calls[1]


def test_interrupted_and_resumed_equals_uninterrupted_and_asks_nothing_twice(search_with, digits, critic, tmp_path):
    whole, parts = f"sqlite:///{tmp_path}/whole.db", f"sqlite:///{tmp_path}/parts.db"
    search_with([digits("a"), digits("b")], critic(), whole, iterations=15, **REFLECTED)
    first = critic(jitter=0.01)
    search_with([digits("a"), digits("b")], first, parts, iterations=15, interrupt_after=9, **REFLECTED)
    kept = {answer for answer, _, _ in rows_of(parts)}
    second = critic()
    search_with([digits("a"), digits("b")], second, parts, resume=True)
    assert_same_run(stored_answers(parts, "run"), stored_answers(whole, "run"))
    assert rows_of(parts) == rows_of(whole)
    assert kept
    both_asked = {answer for answer in second.reflected if answer in kept}
    # the two problems share a seed answer: of one text there may be one reflection a problem
    assert both_asked <= {"00000000"}


def test_nothing_is_asked_where_no_parent_is_shown_or_none_is_left_to_improve(search_with, digits, critic, tmp_path):
    policy = critic()
    settings = {**REFLECTED, "prompt": {"show_parent": False}}
    search_with([digits("a")], policy, f"sqlite:///{tmp_path}/a.db", iterations=6, **settings)
    search_with([digits("b", target=0.0)], policy, f"sqlite:///{tmp_path}/b.db", iterations=6, **REFLECTED)
    assert policy.reflected == []


def test_a_prompt_that_is_too_long_leaves_the_parent_without_a_reflection(search_with, digits, critic, tmp_path):
    db = f"sqlite:///{tmp_path}/a.db"
    launched = search_with([digits("a")], critic(fault=PromptTooLong("long")), db, iterations=5, **REFLECTED)
    assert len(launched.groups) == 5
    with Store.open(db, read_only=True) as store:
        assert set(read_reflections(store, [launched.problem_runs[0].record.id]).values()) == {""}


def test_a_policy_that_is_gone_ends_the_search_with_what_is_committed(search_with, digits, critic, tmp_path):
    from evo.errors import SearchFailed

    with pytest.raises(SearchFailed, match="gone"):
        search_with(
            [digits("a")], critic(fault=PolicyUnavailable("gone")), f"sqlite:///{tmp_path}/a.db", iterations=5,
            **REFLECTED,
        )  # fmt: skip


def test_what_is_asked_names_the_failing_components(digits):
    problem = digits("a")
    parent = Candidate(1, "02468", (1.0, 0.25), 0.3, {}, "odd ones are missing", None, 0, 0, None)
    prompt = ask_reflection(problem, parent, PromptConfig(), 5, 96)
    assert "Failing: odd 0.25\nRight: even 1\n" in prompt.user
    assert "odd ones are missing" in prompt.user and "02468" in prompt.user
    assert (prompt.stream, prompt.max_tokens) == (5, 96)
    assert prompt.user[prompt.task_chars :].startswith("\n\n# Answer\n")


@pytest.mark.parametrize(
    "text, said",
    [
        ("One. Two! Three.", "One. Two!"),
        ("```python\nx = 1\n```", ""),
        ("Use 3.5 steps,\nnot 4. Then stop.\n```\nx", "Use 3.5 steps, not 4. Then stop."),
        ("", ""),
        ("a" * 1000, "a" * 399 + "…"),
    ],
)
def test_a_reply_is_read_as_its_first_two_sentences(text, said):
    assert read_reflection(text) == said


def test_it_is_shown_with_the_candidate_and_goes_with_its_run(search_with, digits, critic, tmp_path):
    db = f"sqlite:///{tmp_path}/a.db"
    launched = search_with([digits("a")], critic(), db, iterations=10, **REFLECTED)
    with Store.open(db) as store:
        said = read_reflections(store, [launched.problem_runs[0].record.id])
        (parent,) = [id for id in said if id == launched.groups[0].parent]
        texts = select(Row.c.id).where(Row.c.parent_id == parent)
        child = store.scalar(texts)
        shown = CliRunner().invoke(show, ["run", str(parent), "--db", db])
        assert f"reflection: {said[parent]}" in shown.output
        shown = json.loads(CliRunner().invoke(show, ["run", str(child), "--db", db, "--json"]).output)
        assert shown["parent_reflection"] == said[parent]
        delete_runs(store, [store.run("run")])
        assert read_reflections(store, [launched.problem_runs[0].record.id]) == {}


@pytest.mark.parametrize(
    "asked, told",
    [
        (("maze:test", "--limit", "1", "--reflect", "scripted:mutate"), "reads no words"),
        (("programs:easy/0", "--policy", "scripted:mutate", "--reflect", "embedded:base"), "cannot reflect in words"),
        (("programs:easy/0", "--policy", "scripted:mutate", "--reflect", "nonsense:x"), "is not an address"),
    ],
)
def test_what_cannot_reflect_is_refused_in_one_line(capsys, here, asked, told):
    code, _, said = evo(capsys, "run", *asked, "--plain")
    assert code == 2 and told in said and len(said.strip().splitlines()) == 1
    assert not (here / "evo.db").exists()
