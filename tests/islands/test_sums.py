"""What is counted of the answers to a parent as groups are stored."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import select
from support.island_samples import answer, fresh, group, put

from islands.population.population import fitness_bin, is_better
from islands.schema import PromptGroups
from islands.types import AT_TARGET, NO_PARENT
from problems.contract import Score


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


def test_a_group_is_stored_with_the_bin_of_its_parent_and_what_its_answers_are_to_it(store):
    problem, population = fresh(store)
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
    g = PromptGroups.c
    counted = select(g.operator, g.parent_bin, g.given, g.better, g.copies, g.repeats, g.compared, g.kept)
    assert store.rows(counted.order_by(g.sequence)) == [
        (0, NO_PARENT, 3, 0, 0, 1, 0, 0.0),
        (1, 2, 6, 2, 2, 3, 6, 0.75 + 0 + 1 + 0 + 0.5 + 0.75),
        (0, 2, 0, 0, 0, 0, 0, 0.0),
        (0, 0, 1, 1, 0, 0, 1, 0.0),
    ]
