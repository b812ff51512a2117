"""Several policies in one search: equal budgets, credit, the bandit, and a resume that knows what was learned."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from support.searches import run_search

from evo.config.run import RunConfig
from evo.runs.resume import resume_run
from evo.runs.start import start_run
from evo.search import resources as shared
from evo.search.operators import Operator, Operators, ParetoFront
from islands.groups import read_groups
from islands.store import Store
from problems.contract import Score
from problems.types import Prompt, Rollout, ScoredAnswer, ScoredGroup, ScoredRollout


def group(*answers, sequence=0, version="a", m=1, temperature=1.0):
    """answers: (rewards, fitness) or None for a failed one."""
    ids = np.zeros(1, np.int32)
    rollout = Rollout("", ids, np.zeros(1, np.float32), ids)
    scored = tuple(
        ScoredAnswer(
            str(i), bytes([i]) * 16, Score.failure(2, "bad") if one is None else Score(one[0], one[1], {}), 0.0
        )
        for i, one in enumerate(answers)
    )
    return ScoredGroup(
        1, sequence, 0, 0, None, (), Prompt(""), version, m, 0, temperature, (ScoredRollout(rollout, scored, None),)
    )


def test_credit_is_for_a_new_best_or_a_vector_that_nothing_dominates():
    front = ParetoFront()
    assert front.improved_by(group(((0.5, 0.5), 0.5)))
    assert not front.improved_by(group(((0.5, 0.5), 0.5), ((0.4, 0.5), 0.4), None))
    assert front.improved_by(group(((0.9, 0.1), 0.5))), "another trade-off"
    assert not front.improved_by(group(((0.8, 0.1), 0.45)))
    assert front.improved_by(group(((0.9, 0.9), 0.9)))
    assert not front.improved_by(group(((0.9, 0.1), 0.5))), "what was on the front is dominated now"
    assert not front.improved_by(group(None))
    assert front.improved_by(group(((0.1, 0.1), 0.95))), "fitness may know more than the vector says"


def mixed(count, mixing="bandit"):
    return Operators([Operator("p", None, 1, 1, RunConfig().prompt)] * count, mixing)


def credit(operators, sequence, operator, improved):
    """A group of a problem of its own, which its first answer improves."""
    answers = [((0.5,), 0.5)] if improved else [None]
    operators.credit(replace(group(*answers, sequence=sequence), problem=sequence, operator=operator))


def test_the_bandit_finds_the_operator_that_pays_and_leaves_it_when_it_no_longer_does():
    bandit, rng = mixed(3), np.random.default_rng(0)
    pays = np.array([0.05, 0.4, 0.05])

    def play(start, rounds):
        chosen = []
        for i in range(start, start + rounds):
            bandit.advance(i - 4)  # some are always in flight
            number = bandit.choose(0, 0, i)
            chosen.append(number)
            credit(bandit, i, number, bool(rng.random() < pays[number]))
        return np.bincount(chosen[rounds // 2 :], minlength=3) / (rounds - rounds // 2)

    assert play(0, 400)[1] > 0.7
    pays[:] = (0.4, 0.02, 0.05)
    assert play(400, 600)[0] > 0.6


def test_the_bandit_sees_what_the_order_lets_it_see_and_no_more():
    one, other = mixed(2), mixed(2)
    for i in range(40):
        credit(one, i, i % 2, bool(i % 2))
        credit(other, i, i % 2, bool(i % 2 if i < 20 else 1 - i % 2))
    one.advance(19)
    other.advance(19)
    assert [one.choose(3, 1, i) for i in range(50)] == [other.choose(3, 1, i) for i in range(50)]
    one.advance(None)
    other.advance(None)
    assert [one.choose(3, 1, i) for i in range(50)] != [other.choose(3, 1, i) for i in range(50)]


def test_turns_are_an_even_mixture_over_iterations_and_problems():
    turns = mixed(3, "turns")
    assert sorted(turns.choose(0, 2, i) for i in range(3)) == [0, 1, 2]
    assert len({turns.choose(0, p, 0) for p in range(3)}) == 3
    assert mixed(1).choose(5, 7, 9) == 0


def config(**changes):
    base = {"problems": ["maze:test"], "limit": 3, "iterations": 12, "seed": 2, "rollouts": 1, "answers": 3}
    return RunConfig.model_validate({**base, "policy": "scripted:random-route,scripted:mutate", **changes})


def searched(settings, db, *, name="run", resume=False, stop_after=None):
    opening = resume_run(name, db=db) if resume else start_run(settings, db=db, name=name, command="test")
    run_search(opening, stop_after=stop_after)
    with Store.open(db, read_only=True) as store:
        return [one for _, one in read_groups(store, store.run(name).id)]


def told(groups):
    return [(one.policy_version, [r.rollout.text for r in one.rollouts]) for one in groups]


@pytest.mark.parametrize("mixing", ["bandit", "turns"])
def test_operators_share_a_search_and_one_seed_gives_one_run_resumed_or_not(tmp_path, mixing):
    db = f"sqlite:///{tmp_path / 'evo.db'}"
    whole = searched(config(mixing=mixing), db, name="whole")
    versions = {one.policy_version for one in whole}
    assert len(whole) == 36 and len(versions) == 2
    searched(config(mixing=mixing), db, name="cut", stop_after=13)
    assert told(searched(None, db, name="cut", resume=True)) == told(whole)


def test_operators_give_equal_numbers_of_answers_in_chains_of_their_own():
    parts = shared.Resources()
    settings = config(policy="embedded:vpo,embedded:grpo,embedded:vpo?temperature=1.4&fresh=0.5", rollouts=2)
    problems = parts.problems(settings)
    operators = parts.operators(settings, problems)
    asyncio.run(parts.close())
    assert [(one.rollouts, one.answers) for one in operators] == [(2, 3), (6, 1), (2, 3)]
    assert [one.policy.temperature for one in operators] == [1.0, 1.0, 1.4]
    assert [one.prompt.fresh for one in operators] == ["auto", "auto", 0.5]


def test_a_share_of_fresh_prompts_shows_nothing_and_is_recorded_so(tmp_path):
    db = f"sqlite:///{tmp_path / 'evo.db'}"
    policy = "scripted:mutate,scripted:mutate?fresh=0.5"
    settings = config(policy=policy, mixing="turns", prompt={"fresh": 0.0})
    whole = searched(settings, db, name="whole")
    later = [one for one in whole if one.iteration > 6]  # earlier ones may be asked before anything is found
    first, second = ([one for one in later if one.operator == n] for n in (0, 1))
    assert all(one.parent is not None for one in first)
    fresh = [one for one in second if one.parent is None]
    assert 0 < len(fresh) < len(second)
    assert all("# Answer to improve" not in one.prompt.user for one in fresh)
