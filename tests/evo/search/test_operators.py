"""Several policies in one search: equal budgets, turns, weights, and shares of fresh prompts."""

import pytest
from support.searches import run_search
from support.stored_rows import stored_groups

from evo.config.run import RunConfig
from evo.runs.resume import resume_run
from evo.runs.start import start_run
from evo.search import resources as shared
from evo.search.core import Operators
from evo.search.resources import Operator


def test_turns_are_an_even_mixture_over_iterations_and_problems():
    operator = Operator("p", None, 1, 1, RunConfig().prompt)
    turns = Operators([operator] * 3)
    assert sorted(turns.choose(0, 2, i) for i in range(3)) == [0, 1, 2]
    assert len({turns.choose(0, p, 0) for p in range(3)}) == 3
    assert Operators([operator]).choose(5, 7, 9) == 0


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
