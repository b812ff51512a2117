"""Prompts without a parent, where showing one only brings copies of it."""

import re

import numpy as np
import pytest
from support.stored_rows import stored_answers

from evo.search.core import COUNTED_GROUPS, FreshShare
from islands.runs import repeats_by_group
from islands.store import Store
from islands.types import ParentKind
from problems.types import Rollout

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


def test_a_policy_that_repeats_nothing_always_sees_its_parents(search_with, digits, digits_policy, tmp_path):
    dbs = {fresh: f"sqlite:///{tmp_path}/{fresh}.db" for fresh in ("auto", 0.0)}
    for fresh, db in dbs.items():
        launched = search_with([digits("a")], digits_policy(), db, iterations=8, prompt={"fresh": fresh})
        assert launched.status.repeats == 0 and alone(launched) == 0
    assert stored_answers(dbs["auto"], "run") == stored_answers(dbs[0.0], "run")


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
