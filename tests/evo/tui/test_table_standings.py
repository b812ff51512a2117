"""Who won which problem, and which problems are shown in what order."""

import numpy as np
import pytest
import screen_samples as samples

from evo.comparison.results import Results, standings
from evo.monitor.snapshot import ArmSnapshot, ProblemLine, Snapshot
from evo.tui.problem_table import StandingsCache, gap_text, outcome_text
from evo.tui.view import NAME, WON, TableChoice, natural, part_of, parts_of, select

INF = np.inf


def arm(name, solved_at, best):
    """solved_at, best: (P, S); four iterations of which the last counts."""
    best = np.repeat(np.array(best, dtype=float)[:, :, None], 4, axis=2)
    at = np.array(solved_at, dtype=float)
    found = Results(at, np.full(at.shape, 4), 4, 3, best)
    return ArmSnapshot(name, name, at.shape[1], {"done": at.shape[1]}, 4, 4, 3, results=found)


def board(names=("maze:hard/9", "maze:hard/10", "maze:test/0", "maze:test/1", "maze:test/2")):
    """The reference ref and one arm: sooner, later, solved by more seeds, higher, level."""
    ref = arm(
        "ref", [[4, 4], [1, 1], [INF, INF], [INF, INF], [INF, 2]], [[1, 1], [1, 1], [0.5] * 2, [0.5] * 2, [0.5, 1]]
    )  # noqa: E501
    own = arm(
        "own", [[2, 1], [2, 3], [3, INF], [INF, INF], [3, INF]], [[1, 1], [1, 1], [1, 0.2], [0.75, 0.75], [1, 0.5]]
    )  # noqa: E501
    problems = tuple(ProblemLine(name, 1.0, ("a",)) for name in names)
    return Snapshot("x", (ref, own), problems, "ref", 4, loaded=2, runs=2)


def found_of(snapshot):
    return StandingsCache().of(snapshot)


def test_outcomes_against_the_reference():
    found = found_of(board())
    assert [outcome_text(found, 1, row, 2) for row in range(5)] == ["@2", "@2", "1/2@3", ".750", "1/2@3"]
    assert [gap_text(found, 1, row) for row in range(5)] == ["+2it", "-2it", "+.100", "+.250", "="]
    assert found.counts(1) == (3, 1, 1) and found.counts(0) == (0, 0, 5)


def test_solved_by_more_seeds_wins_whatever_the_fitness_says():
    ref = arm("ref", [[INF, INF, INF]], [[0.9, 0.9, 0.9]])
    own = arm("own", [[2, INF, INF]], [[1.0, 0.1, 0.1]])
    found = standings([ref.results, own.results], 0, 1)
    assert found.sign[1, 0] == 1 and gap_text(found, 1, 0) == "+"


def test_what_has_not_begun_has_neither_won_nor_lost():
    snapshot = samples.running()  # its third arm waits
    found = found_of(snapshot)
    assert np.isnan(found.sign[2]).all() and gap_text(found, 2, 0) == "" and outcome_text(found, 2, 0, 2) == "-"
    assert found.counts(2) == (0, 0, 0)


def test_without_targets_the_fitness_alone_counts():
    nan = [[np.nan], [np.nan]]
    results = [arm("ref", nan, [[0.5], [0.5]]).results, arm("own", nan, [[0.5003], [0.4]]).results]
    found = standings(results, 0, 2)
    assert found.sign[1].tolist() == [0, -1] and gap_text(found, 1, 1) == "-.100"
    assert not found.unsolved.any() and found.differing.tolist() == [False, True]


def test_without_a_reference_nothing_is_won():
    found = standings([arm("own", [[2]], [[1.0]]).results], None, 1)
    assert np.isnan(found.sign).all() and not found.differing.any()


def test_filters():
    snapshot = board()
    found = found_of(snapshot)

    def rows(**choice):
        return select(snapshot, found, TableChoice(**choice))

    assert rows() == [0, 1, 2, 3, 4]
    assert rows(unsolved=True) == [2, 3, 4]  # by no arm under every seed
    assert rows(differing=True) == [2]
    assert rows(part="maze:test") == [2, 3, 4]
    assert rows(search="HARD/1") == [1]
    assert rows(unsolved=True, search="hard") == []


def test_orders():
    snapshot = board()
    found = found_of(snapshot)

    def rows(order, reverse=False):
        return select(snapshot, found, TableChoice(order=order, reverse=reverse))

    assert rows(NAME) == [0, 1, 2, 3, 4]
    assert rows(NAME, reverse=True) == [4, 3, 2, 1, 0]
    assert rows(WON) == [0, 2, 3, 4, 1]
    assert rows(1) == [0, 1, 4, 2, 3]  # all seeds, the soonest first; some, the higher mean first; none
    assert rows(7) == [0, 1, 2, 3, 4]  # an arm that is gone


def test_names():
    assert sorted(["m/10", "m/9", "m/9b"], key=natural) == ["m/9", "m/9b", "m/10"]
    assert part_of("maze:hard/5") == "maze:hard" and part_of("my.py") == "my.py"
    assert parts_of(["b/1", "a/1", "b/2"]) == ["b", "a"]


def test_the_cache_looks_at_results_alone():
    cache, snapshot = StandingsCache(), board()
    first = cache.of(snapshot)
    assert cache.of(snapshot) is first
    assert cache.of(board()) is not first


@pytest.mark.parametrize("make", [samples.finished, samples.running, samples.alone, samples.training])
def test_standings_agree_with_the_results_they_are_of(make):
    snapshot = make()
    found = found_of(snapshot)
    for row, one in enumerate(snapshot.arms):
        known = one.results.solved_at
        assert found.solved[row].tolist() == np.isfinite(known).mean(axis=1).tolist()


def test_the_training_panel_shows_the_step_that_the_trainer_counts():
    from evo.tui.side_panels import draw_training
    from evo.tui.view import View

    assert "step 29 " in draw_training(samples.training(), View(), 80, 10)[0].text()
