"""`--reward search-value`: a critic of archives, fitted to stored searches, and what answers add to its value."""

import numpy as np
import pytest
import torch
from training_runs import SMALL_POLICY, read_metrics, trained, weights

from evo.cli import invoke
from evo.config.colocated import SearchTraining
from evo.config.parse import parse
from evo.config.train import TrainRun
from evo.errors import BadInput
from evo.training.curriculum import Moment, StoredSearch
from evo.training.search_value import DRAWS, REFIT, Calibration, SearchValue, scale_of
from evo.training.setup import begin, resume

BUDGET = 60


def hazard(share):
    """The known chance that one more iteration solves a problem whose archive has come to this share."""
    return 0.002 + 0.06 * share**2


def searches(count=400, target=1.0, rng=None):
    rng = rng or np.random.default_rng(0)
    made = []
    for share in rng.uniform(0.1, 0.9, count):
        answers = [(0, (share, share), share)]
        solved = int(rng.geometric(hazard(share)))
        if solved < BUDGET:
            answers.append((solved, (1.0, 1.0), 1.0))
        made.append(StoredSearch(target, BUDGET, answers))
    return made


@pytest.fixture(scope="module")
def value():
    return SearchValue(searches(), "synthetic", seed=0)


def archive(share):
    return {(share, share): share}


def test_the_value_rises_with_the_share_and_falls_as_the_budget_runs_out(value):
    shares = [value.value(archive(share), 1.0, Moment(10, 1)) for share in (0.2, 0.4, 0.6, 0.8)]
    assert shares == sorted(shares) and shares[-1] > shares[0] + 0.3
    ends = [value.value(archive(0.6), 1.0, Moment(elapsed, 1)) for elapsed in (5, 20, 40, 55)]
    assert ends == sorted(ends, reverse=True) and ends[0] > ends[-1] + 0.3
    assert value.value(archive(0.6), 1.0, Moment(BUDGET, 1)) == 0.0
    assert value.value({**archive(0.6), (1.0, 1.0): 1.0}, 1.0, Moment(5, 5)) == 1.0


def test_the_value_is_the_known_chance_and_calibration_says_so(value):
    moments = [(share, left) for share in (0.3, 0.5, 0.7) for left in (4, 12, 30)]
    known = [1 - (1 - hazard(share)) ** left for share, left in moments]
    fitted = [value.value(archive(share), 1.0, Moment(BUDGET - left, 1)) for share, left in moments]
    assert np.abs(np.subtract(known, fitted)).mean() < 0.08
    found = value.calibration
    assert found.brier < 0.85 * found.base and found.ece < 0.04
    assert sum(count for *_, count in found.bins) == 400 * DRAWS


def test_calibration_by_hand():
    found = Calibration.of(np.array([0.1, 0.1, 0.9, 0.9]), np.array([0.0, 1.0, 1.0, 1.0]))
    assert found.brier == pytest.approx((0.01 + 0.81 + 0.01 + 0.01) / 4)
    assert found.base == pytest.approx(0.1875) and found.ece == pytest.approx((0.4 + 0.1) / 2)


def test_the_lift_is_zero_for_repeats_and_the_rest_of_the_chance_for_a_solution(value):
    held, moment = {(0.4, 0.6): 0.5, (0.6, 0.4): 0.5}, Moment(20, 1)
    wasted = value.value(held, 1.0, moment, spent=1)
    sets = [{}, {(0.4, 0.6): 0.5}, {(0.1, 0.2): 0.15}, {(1.0, 1.0): 1.0}, {(0.8, 0.8): 0.8}]
    none, repeat, dominated, solution, better = value.lifts(held, sets, 1.0, moment)
    assert none == repeat == dominated == 0.0
    assert solution == pytest.approx(1 - wasted) and 0 < better < solution
    easy = value.lifts(archive(0.9), [{(1.0, 1.0): 1.0}], 1.0, Moment(5, 1))[0]
    assert easy < solution  # the search would have come there without it


def test_without_targets_the_value_is_the_expected_best():
    value = SearchValue(searches(100, target=None), "synthetic")
    assert not value.solves and scale_of(None, 0.8) == 0.8 and scale_of(-1.0, -2.0) == 1.0
    early, late = (value.value(archive(0.5), 1.0, Moment(elapsed, 1)) for elapsed in (5, 55))
    assert 0.5 < late < early < 1.0
    assert value.value(archive(0.5), 1.0, Moment(BUDGET, 1)) == 0.5
    assert value.value(archive(1.2), 1.0, Moment(5, 5)) == 1.2


def test_the_level_follows_the_policy():
    value, restored = (SearchValue(searches(60), "synthetic", visit=5) for _ in range(2))
    visit = (archive(0.5), 1.0, Moment(10, 1))
    for step in range(2 * REFIT):
        outcomes = 0.5 if step < REFIT else 1.0  # no prompt is solved, then every second one is
        figures = value.observe([(*visit, 0.5), (*visit, outcomes)])
    assert figures["reached"] == 0.5 and value.drift > 1.0
    assert np.array_equal(value.critic.weights, restored.critic.weights)
    restored.restore(value.state())
    assert restored.value(*visit) == value.value(*visit)


def test_searches_that_cannot_be_fitted_are_refused():
    with pytest.raises(BadInput, match="run a has no finished problems"):
        SearchValue([], "a")
    with pytest.raises(BadInput, match="no variation in outcome: none of its finished searches succeed"):
        SearchValue([StoredSearch(1.0, 9, [(0, (0.5,), 0.5)])] * 9, "a")
    with pytest.raises(ValueError, match="evo train max_at_k --reward search-value"):
        SearchTraining(method="vpo", reward="search-value")


@pytest.mark.usefixtures("one_thread")
def test_a_training_by_value_resumes_as_if_it_had_not_stopped(tmp_path):
    address = f"sqlite:///{tmp_path / 'evo.db'}"
    search = ["run", "maze:train/0-9", "--policy", "scripted:classic", "--iterations", "6", "--until-solved"]
    assert invoke([*search, "--name", "a", "--plain", "--db", address]) == 0
    settings = {"method": "vpo", "reward": "search-value", "problems": ["maze:train/0-9"], "policy": SMALL_POLICY}
    settings |= {"parents_from": "archive:a", "parents": 1.0, "db": address, "precision": "fp32", "visits": 2}
    run = parse(TrainRun, {**settings, "prompts": 4, "rollouts": 4, "steps": 3, "save_every": 1}, "a test")
    for name, stop_after in (("whole", None), ("cut", 2)):
        trained(begin(run, str(tmp_path / name), ""), stop_after)
    trained(resume(str(tmp_path / "cut"), {}))
    whole, cut = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    assert all(torch.equal(whole[name], cut[name]) for name in whole)
    assert read_metrics(tmp_path / "whole", "step") == read_metrics(tmp_path / "cut", "step")
    assert "value_brier" in read_metrics(tmp_path / "whole", "step")[0]
    assert read_metrics(tmp_path / "whole", "critic")[0]["problems"] == 10
    assert "on held-out problems of 10" in (tmp_path / "whole" / "README.md").read_text()
