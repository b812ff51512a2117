"""What is counted of the answers to a parent, on both databases: as groups are stored, again, and by an upgrade."""

from __future__ import annotations

from dataclasses import replace

import pytest
from alembic import command
from alembic.config import Config
from island_samples import answer, group, new_problem, put, search, small_config
from sqlalchemy import text

from islands.db import engine as database
from islands.db.store import Store
from islands.population.operator_counts import added, fitness_bin, is_better, recount
from islands.population.population import Population
from islands.population.rescoring import rescore
from islands.queries.operators import counts_by_problem, summed_counts
from islands.types import AT_TARGET, NO_PARENT, OperatorCount
from problems.contract import Score


def counts(store: Store, run: int) -> list[OperatorCount]:
    with store.read() as connection:
        return summed_counts(connection, run)


def rounded(found: list[OperatorCount]) -> list[OperatorCount]:
    return [replace(one, kept=round(one.kept, 9)) for one in found]


@pytest.mark.parametrize(
    ("fitness", "target", "bin"),
    [
        (0.0, 0.8, 0), (0.19, 0.8, 0), (0.2, 0.8, 1), (0.4, 0.8, 2), (0.61, 0.8, 3), (0.79, 0.8, 3),
        (0.8, 0.8, AT_TARGET), (0.9, 0.8, AT_TARGET),
        (0.3, None, 1), (1.0, None, 3), (7.5, None, 3), (-2.0, None, 0),
        (-2.0, -1.0, 0), (-1.0, -1.0, AT_TARGET),
    ],
)  # fmt: skip
def test_bins_are_quarters_of_the_way_to_the_target(fitness, target, bin):
    assert fitness_bin(Score((fitness,), fitness), target) == bin
    assert fitness_bin(None, target) == NO_PARENT


def test_a_failed_parent_is_at_no_target_and_any_valid_answer_is_better():
    failed, valid = Score((0.0,), 0.0, error="crashed"), Score((0.0,), -3.0)
    assert fitness_bin(failed, 0.0) == 0
    assert is_better(valid, failed) and not is_better(failed, valid) and not is_better(failed, failed)
    assert not is_better(Score((0.0,), 0.5 + 1e-12), Score((0.0,), 0.5)), "the same but for rounding"


def test_answers_are_counted_by_operator_and_by_the_bin_of_their_parent(store):
    problem = new_problem(store)
    population = Population(store, problem, small_config())
    first = put(store, population, group(problem, 0, [answer("a b c d", 0.6), answer("e", 0.1), answer("e", 0.1)]))
    parent, weak = first[0].candidate, first[1].candidate
    answers = [
        answer("a b c x", 0.7),  # better, keeps three words of four
        answer("y", 0.6),  # no better
        answer("a b c d", 0.6),  # a copy of the parent
        answer("e", 0.1),  # a copy of an inspiration
        answer("a b", 0.9, error="crashed"),  # failed
        answer("a b c x", 0.7),  # the first once more: a repeat, and no copy of anything shown
    ]
    asked = group(problem, 1, answers[:3], answers[3:], parent=parent, inspirations=(weak,))
    put(store, population, replace(asked, operator=1))
    put(store, population, group(problem, 2, [], parent=parent))
    put(store, population, group(problem, 3, [answer("f", 0.3)], parent=weak))
    assert counts(store, problem.run_id) == [
        OperatorCount(0, NO_PARENT, 3, 0, 0, 1, 0, 0.0),
        OperatorCount(0, 0, 1, 1, 0, 0, 1, 0.0),
        OperatorCount(1, 2, 6, 2, 2, 3, 6, 0.75 + 0 + 1 + 0 + 0.5 + 0.75),
    ]
    assert [(index, one.bin) for index, one in counts_by_problem(store, problem.run_id)] == [(0, -1), (0, 0), (0, 2)]


def test_a_rolled_back_group_counts_for_nothing(store):
    problem = new_problem(store)
    population = Population(store, problem, small_config())
    with pytest.raises(ZeroDivisionError), store.begin() as tx:
        population.add(group(problem, 0, [answer("a")]), tx)
        raise ZeroDivisionError
    assert counts(store, problem.run_id) == []


def searched(store: Store) -> int:
    """A run of a search with repeats, failed answers and company."""
    problem = new_problem(store)
    search(store, Population(store, problem, small_config()), 60, seed=3)
    return problem.run_id


def test_counting_again_gives_what_was_counted(store):
    run = searched(store)
    (problem,) = store.problems(run)
    found = counts(store, run)
    total = added(replace(one, bin=0) for one in found)
    assert min(total.better, total.copies, total.repeats, total.kept) > 0 and len(found) > 3
    for compare in (True, False):
        with store.begin() as tx:
            recount(tx.connection, problem, compare=compare)
        bare = found if compare else [replace(one, compared=0, kept=0.0) for one in found]
        assert rounded(counts(store, run)) == rounded(bare)


def test_an_upgrade_counts_what_is_stored_but_not_what_answers_keep(address):
    with Store.open(address) as store:
        run = searched(store)
        found = counts(store, run)
    url = database.parse_address(address)
    writer, reader = database.open_engines(url, read_only=False)
    with writer.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(database._folder()))
        config.attributes["connection"] = connection
        command.downgrade(config, "0005")
    for engine in (writer, reader):
        engine.dispose()
    with Store.open(address) as store:
        assert counts(store, run) == [replace(one, compared=0, kept=0.0) for one in found]


def test_other_scores_are_other_counts(store):
    run = searched(store)
    (problem,) = store.problems(run)
    before = counts(store, run)
    with store.read() as connection:
        rows = connection.execute(text("SELECT id, rewards, error FROM candidates")).all()
    scores = {id: Score((0.9, 0.9), 0.9 - id / 1000, {}, "", error) for id, _, error in rows}
    with store.begin() as tx:
        rescore(store, replace(problem, target=None), small_config(), scores, tx)
    after = counts(store, run)
    assert sum(one.answers for one in after) == sum(one.answers for one in before)
    assert sum(one.kept for one in after) == pytest.approx(sum(one.kept for one in before))
    quarters = {one.bin: one.answers for one in after}
    assert quarters[3] == max(quarters.values()) and AT_TARGET not in quarters
    assert sum(one.better for one in after) != sum(one.better for one in before)
