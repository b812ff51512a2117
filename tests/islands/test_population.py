"""A problem's population: what it stores, chooses and restores."""

from __future__ import annotations

import numpy as np
import pytest
from sqlalchemy import func, select
from support.island_samples import OBJECTIVES, answer, fresh, group, new_problem, put, search, small_config, state

from islands.population.config import PopulationConfig
from islands.population.population import Population
from islands.runs import elites
from islands.schema import AnswerLinks, Candidates, PromptGroups, Rollouts
from islands.store import Store
from problems.contract import ScorerFault
from problems.identity import identity

CONFIGURATIONS = {
    "openevolve": {},
    "unbounded": {"population_size": None},
    "weighted": {"strategy": "weighted", "feature_dimensions": ("rewards",)},
    "climb": {"strategy": "auto", "feature_dimensions": ("score", "diversity", "reward:left")},
    "hill": {"strategy": "hill", "islands": 1},
    "scs": {"strategy": "scs", "islands": 1},
}


def count(store: Store, table: type) -> int:
    with store.reader.connect() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


def elites_of(store: Store, problem_id: int) -> dict[tuple[int, str], int]:
    return {(elite.island, elite.cell): elite.candidate for elite in elites(store, [problem_id])}


def test_a_group_is_stored_whole(store):
    problem, population = fresh(store)
    with store.begin() as tx:
        seed = population.seed(answer("start", 0.1), tx).candidate
    first, second = answer("one", 0.5, feedback="nearly"), answer("two", 0.0, error="crashed")
    placements = put(store, population, group(problem, 0, [first, second], [], [first], island=1, parent=seed))
    assert [p.new for p in placements] == [True, True, False]
    assert placements[0].candidate == placements[2].candidate
    assert [p.improved for p in placements] == [True, False, False]
    assert [count(store, table) for table in (PromptGroups, Rollouts, AnswerLinks, Candidates)] == [1, 3, 3, 3]
    record = population.candidate(placements[0].candidate)
    assert (record.text, record.generation, record.island, record.parent) == ("one", 1, 1, seed)
    assert record.score == first.score and population.candidate(placements[1].candidate).score == second.score
    assert population.known(identity("one", "text")) == record.id and population.known(b"0" * 16) is None
    with pytest.raises(KeyError):
        population.candidate(10**9)
    assert population.members(2) == [seed] and population.candidate(seed).generation == 0, "a seed is on every island"


def test_text_that_databases_refuse_is_kept_exactly(store):
    problem, population = fresh(store)
    texts = [
        "nul \x00 inside",
        "lone \ud83d surrogate",
        "\ue000 private \\x41",
        "snow \u2603 \U0001f600",
        "back\\slash",
    ]
    answers = [answer(text, 0.5, feedback=text, error=text if i == 0 else None) for i, text in enumerate(texts)]
    put(store, population, group(problem, 0, answers, text=texts[0]))
    again = Population(store, problem, small_config())
    again.advance(None)
    for one in answers:
        record = again.candidate(again.known(one.identity))
        assert (record.text, record.feedback, record.error) == (one.text, one.score.feedback, one.score.error)


@pytest.mark.parametrize("settings", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_resuming_gives_the_state_of_every_moment(store, settings):
    problem = new_problem(store)
    config = small_config(**settings)
    live = Population(store, problem, config)
    assert live.best is None and live.select(0, np.random.default_rng(0)).parent is None
    with store.begin() as tx:
        live.seed(answer("start", 0.1), tx)
    states = {-1: state(live)}
    selections = {}
    for sequence in range(48):
        search(store, live, 1, start=sequence, seed=5)
        if sequence % 4 == 3:
            states[sequence] = state(live)
            selections[sequence] = [
                live.select(i % config.islands, np.random.default_rng([sequence, i])) for i in range(9)
            ]
    assert states[47]["last migration"] >= 4 * config.migration_interval
    check_prompts(live, settings.get("strategy") == "scs")
    stored = store.problems(problem.run_id)[0]
    resumed = Population(store, stored, config)
    for sequence, expected in states.items():
        resumed.advance(sequence)
        assert state(resumed) == expected
        for i, selection in enumerate(selections.get(sequence, ())):
            assert resumed.select(i % config.islands, np.random.default_rng([sequence, i])) == selection
    whole = Population(store, stored, config)
    whole.advance(None)
    assert state(whole) == states[47]
    # both go on alike, though each brings its answers to memory by another way
    in_table = elites_of(store, problem.id)
    assert in_table == {(i, cell): c for i in range(config.islands) for cell, c in live.cells(i).items()}
    search(store, live, 6, start=48, seed=6)
    resumed.advance(None)
    assert state(resumed) == state(live)
    assert elites_of(store, problem.id) == {
        (i, cell): c for i in range(config.islands) for cell, c in resumed.cells(i).items()
    }


def check_prompts(population, shows_all):
    """They show members, or of a front what was one, and the fittest first. shows_all: every success, as scs does"""
    islands = range(population.config.islands)
    ids = population._archipelago.columns.ids
    members = {id for island in islands for id in population.members(island)}
    for island in islands:
        assert set(population.cells(island).values()) <= set(population.members(island))
        chosen = population.select(island, np.random.default_rng(island))
        assert chosen.parent is not None and chosen.parent not in chosen.inspirations
        shown = {candidate.id for candidate in (chosen.parent, *chosen.inspirations, *chosen.best)}
        front = {ids[ordinal] for ordinal in population._archipelago.islands[island].front.members}
        assert shown <= members | front or shows_all
        fitness = [candidate.fitness for candidate in chosen.best]
        assert fitness == sorted(fitness, reverse=True)


def test_a_rolled_back_group_leaves_nothing_and_asks_for_a_new_population(store):
    problem, population = fresh(store)
    search(store, population, 3)
    with pytest.raises(ZeroDivisionError), store.begin() as tx:
        population.add(group(problem, 3, [answer("lost", 0.9)]), tx)
        raise ZeroDivisionError
    with pytest.raises(RuntimeError):
        population.select(0, np.random.default_rng(0))
    again = Population(store, problem, small_config())
    again.advance(None)
    assert again.sequence == 2 and again.known(identity("lost", "text")) is None
    search(store, again, 2, start=3)


def test_what_a_transaction_added_can_be_chosen_before_it_ends(store):
    problem, population = fresh(store)
    with store.begin() as tx:
        population.add(group(problem, 0, [answer("first", 0.5)]), tx)
        assert population.select(0, np.random.default_rng(0)).parent.text == "first"
        assert population.candidate(population.known(identity("first", "text"))).fitness == 0.5
        population.add(group(problem, 1, [answer("second", 0.7)], parent=population.best[0]), tx)
    assert population.best[1] == 0.7 and count(store, PromptGroups) == 2


def test_faults_are_found_before_anything_is_written(store):
    problem, population = fresh(store, feature_dimensions=("speed",))
    for faulty, said in (
        (answer("x", features={"size": 1.0}), "'speed', which the scorer did not give .it gave size"),
        (answer("x", rewards=(1.0, 2.0, 3.0)), "3 rewards for the 2 objectives left, right"),
    ):
        with pytest.raises(ScorerFault, match=said):
            population.check(group(problem, 0, [faulty]))
        with pytest.raises(ScorerFault, match=said), store.begin() as tx:
            Population(store, problem, small_config(feature_dimensions=("speed",))).add(group(problem, 0, [faulty]), tx)
    assert count(store, PromptGroups) == 0
    unsettled = Population(store, problem, small_config())  # the first answer of a group decides for the others
    with pytest.raises(ScorerFault, match="'size', which the scorer did not give .it gave no features"):
        unsettled.check(group(problem, 0, [answer("x", features={"size": 1.0}), answer("y")]))
    put(store, population, group(problem, 0, [answer("x", features={"speed": 2.0}), answer("y", error="failed")]))
    assert population.size == 2


def test_groups_come_in_order_and_to_their_own_problem(store):
    problem = new_problem(store)
    other = store.add_problem(problem.run_id, 1, "maze:test/1", "maze 1", OBJECTIVES, 1.0, "text")
    population = Population(store, problem, small_config())
    put(store, population, group(problem, 3, [answer("x")]))
    for wrong, said in (
        (group(problem, 3, [answer("y")]), "comes after group 3"),
        (group(other, 4, [answer("y")]), "was given to the population of"),
        (group(problem, 4, [answer("y")], island=3), "there is no island 3"),
        (group(problem, 4, [answer("y")], parent=999_999), "parent 999999 is not a candidate"),
    ):
        fresh = Population(store, problem, small_config())
        fresh.advance(None)
        with pytest.raises(ValueError, match=said), store.begin() as tx:
            fresh.add(wrong, tx)
    with pytest.raises(RuntimeError, match="a seed comes before"), store.begin() as tx:
        population.seed(answer("late"), tx)


def test_default_dimensions_follow_the_first_valid_answer(store):
    for index, (features, expected) in enumerate(
        [
            ({"b": 1.0, "a": 2.0}, ("a", "b")),
            ({}, ("complexity", "diversity")),
            (dict.fromkeys("abcd", 1.0), ("complexity", "diversity")),
        ]
    ):
        problem = new_problem(store, index=index)
        population = Population(store, problem, small_config())
        failed = answer("bad", 0.0, error="no", features={"z": 1.0})
        put(store, population, group(problem, 0, [failed, answer("good", features=features)]))
        assert store.problems(problem.run_id)[0].dimensions == expected


def test_a_front_has_one_island_unless_more_are_asked_for():
    number = {
        (strategy, islands, d): PopulationConfig(strategy=strategy, islands=islands).resolve(d).islands
        for strategy in ("auto", "pareto", "weighted", "openevolve")
        for islands in (0, 3)
        for d in (1, 4)
    }
    assert [number["auto", 0, d] for d in (1, 4)] == [5, 1]
    assert number["pareto", 0, 1] == 1 and number["weighted", 0, 4] == number["openevolve", 0, 4] == 5
    assert all(found == 3 for (_, islands, _), found in number.items() if islands)
    assert PopulationConfig(population_size=3).resolve(1).islands == 3


def test_the_configuration_is_checked():
    """Its defaults are compared with OpenEvolve's (tests/parity)."""
    config = PopulationConfig()
    assert config.bins(("complexity", "diversity")) == (10, 10) and config.bins(("one",)) == (100,)
    with pytest.raises(ValueError, match="extra"):
        PopulationConfig.model_validate({"island": 3})
    for wrong in (
        {"exploration_ratio": 0.6},
        {"population_size": 3, "islands": 5},
        {"feature_dimensions": ()},
        {"feature_bins": 0},
    ):
        with pytest.raises(ValueError):
            PopulationConfig.model_validate(wrong)
