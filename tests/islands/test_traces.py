"""Groups found again for training: their index, and some of them by place."""

from __future__ import annotations

import pytest
from sqlalchemy import delete, select, update
from support.island_samples import answer, new_problem, search, small_config

from islands import groups as traces
from islands.population.population import Population
from islands.schema import AnswerLinks, PromptGroups, Rollouts
from islands.training import CHAINS, COLD, NUCLEUS, ONE_ROLLOUT, GroupChoice


@pytest.fixture
def searched(store):
    """A run of 40 groups, and another run beside it."""
    problem, other = new_problem(store, "one"), new_problem(store, "other")
    population = Population(store, problem, small_config())
    with store.begin() as tx:
        population.seed(answer("start", 0.1, (0.15, 0.05)), tx)
    search(store, population, 40)
    search(store, Population(store, other, small_config()), 5, seed=1)
    return store, problem, population


def test_the_index_tells_every_group_in_a_few_numbers(searched):
    store, problem, _ = searched
    rows = GroupChoice(problem.run_id, 100).rows(store)
    groups = [one for _, one in traces.read_groups(store, problem.run_id)]
    assert [(r.sequence, r.problem_id, r.iteration, r.version, r.answers, r.rollouts) for r in rows] == [
        (g.sequence, g.problem, g.iteration, g.policy_version, g.answers, len(g.rollouts)) for g in groups
    ]
    times = [row.created for row in rows]
    assert len(rows) == 40 and times == sorted(times) and times[0] > 1.7e9
    for wanted, kept in (
        (GroupChoice(problem.run_id, 16), lambda row: row.sequence <= 16),
        (GroupChoice(10**6, 100), lambda row: False),
    ):
        assert wanted.rows(store) == [row for row in rows if kept(row)], wanted
        assert wanted.left_out(store) == {}


def test_groups_that_cannot_teach_are_counted_by_the_reason(searched):
    store, problem, _ = searched
    group = PromptGroups.c
    with store.begin() as tx:
        changed = (({"answers": 1}, range(0, 40, 2)), ({"temperature": 0.0}, (3, 4)), ({"top_p": 0.9}, (4, 5, 7)))
        for changes, sequences in changed:
            change = update(PromptGroups).values(**changes)
            tx.connection.execute(change.where(group.run_id == problem.run_id, group.sequence.in_(sequences)))
        few = select(group.id).where(group.run_id == problem.run_id, group.sequence == 6).scalar_subquery()
        last = delete(Rollouts).where(Rollouts.c.group_id == few, Rollouts.c.position > 0)
        tx.connection.execute(
            delete(AnswerLinks).where(AnswerLinks.c.rollout_id.in_(select(Rollouts.c.id).where(last.whereclause)))
        )
        tx.connection.execute(last)
    m = {row.answers for row in GroupChoice(problem.run_id, 100).rows(store)} - {1}
    (m,) = m
    for changes, kept, reasons in (
        ({}, 35, {COLD: 2, NUCLEUS: 2, ONE_ROLLOUT: 1}),
        ({"chains": False}, 18, {CHAINS: 20, COLD: 1, ONE_ROLLOUT: 1}),
        ({"answers": m}, 17, {f"not of {m} answers": 20, COLD: 1, NUCLEUS: 2}),
    ):
        choice = GroupChoice(problem.run_id, 100, **changes)
        assert len(choice.rows(store)) == kept and choice.left_out(store) == reasons


def test_groups_are_found_by_their_places_in_the_order_asked_for(searched, monkeypatch):
    monkeypatch.setattr(traces, "PAGE", 3)
    store, problem, _ = searched
    all_of_them = {one.sequence: one for _, one in traces.read_groups(store, problem.run_id)}
    asked = [17, 3, 39, 0, 21, 3, 8]
    found = traces.groups_at(store, problem.run_id, asked)
    assert [(one.sequence, one.policy_version, one.all_answers()) for one in found] == [
        (place, all_of_them[place].policy_version, all_of_them[place].all_answers()) for place in asked
    ]
    assert traces.groups_at(store, problem.run_id, []) == []
    with pytest.raises(LookupError, match="no group 40$"):
        traces.groups_at(store, problem.run_id, [1, 40])
    with pytest.raises(LookupError, match="no group 50, nor 1 others"):
        traces.groups_at(store, problem.run_id, [60, 50])
