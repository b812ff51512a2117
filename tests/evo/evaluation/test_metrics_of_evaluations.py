"""Metrics by hand, intervals, and paired comparisons."""

import json

import numpy as np
import pytest

from evo.evaluation.evaluate import compare_with
from evo.evaluation.metrics import Evaluation, ProblemAnswers, SampledAnswers, compare_problems, metrics_of
from problems.contract import ScorerFault


def answers_of(rewards, *, name="p", target=0.5, fitness=None, written=None, failed=None, objectives=("a", "b")):
    rewards = np.array(rewards, dtype=float)
    n = len(rewards)
    return ProblemAnswers(
        name,
        objectives,
        target,
        rewards,
        rewards.mean(axis=1) if fitness is None else np.array(fitness, dtype=float),
        np.ones(n, bool) if written is None else np.array(written),
        np.zeros(n, bool) if failed is None else np.array(failed),
    )


def sample(seed, *problems, faults=None):
    return SampledAnswers(seed, answers=3, problems=list(problems), faults=faults or {}, costs={"tokens": 10})


def test_figures_by_hand():
    metrics = metrics_of(answers_of([[0, 0], [1, 0], [1, 1], [0, 0.2]], written=[False, True, True, True]))
    assert [metrics[f"best@{k}"] for k in (1, 3, 4)] == pytest.approx([0.4, (3 * 1 + 0.5) / 4, 1])
    # two of four reach .5: of the 4 triples every one holds one of them
    assert [metrics[f"solve@{k}"] for k in (1, 3, 4)] == pytest.approx([0.5, 1, 1])
    # pairs: 1, 2, .2, 1, 1.2, 1.8 over all; of the three valid 1, 1.2, 1.8
    assert metrics["diversity"] == pytest.approx((1 + 2 + 0.2 + 1 + 1.2 + 1.8) / 6)
    assert metrics["diversity_valid"] == pytest.approx(4 / 3)
    assert metrics["pareto_fraction"] == 0.25
    assert metrics["E_w[best]"] == pytest.approx(1)
    assert metrics["distinct_vectors"] == 4
    assert (metrics["written"], metrics["valid"]) == (0.75, 0.75)
    assert (metrics["mean[a]"], metrics["mean[b]"]) == (0.5, pytest.approx(0.3))
    assert "best@10" not in metrics


def test_the_worth_to_a_random_taste():
    # E[max(w, 1 - w)] for w uniform is 3/4
    assert metrics_of(answers_of([[1, 0], [0, 1]]))["E_w[best]"] == pytest.approx(0.75, abs=0.005)


def test_an_answer_at_fault_is_neither_valid_nor_a_solution():
    metrics = metrics_of(answers_of([[1, 1], [1, 1], [0, 0]], failed=[True, False, False]))
    assert metrics["solve@1"] == pytest.approx(1 / 3)
    assert metrics["valid"] == pytest.approx(1 / 3)


def test_a_missing_answer_solves_nothing_however_low_the_target():
    metrics = metrics_of(answers_of([[-1, -1], [0, 0]], target=-0.5, written=[True, False]))
    assert metrics["solve@1"] == 0


def test_what_has_no_target_has_no_solve_rate():
    alone = Evaluation([sample(0, answers_of([[1, 1]], target=None))])
    assert alone.mean("solve@1") is None
    assert alone.per_seed[0]["solve@1"] is None
    both = Evaluation([sample(0, answers_of([[1, 1]], target=None), answers_of([[1, 1], [0, 0]], name="q"))])
    assert both.mean("solve@1") == 0.5, "the mean is of those that have one"
    assert json.loads(json.dumps(both.record()["per_problem"], allow_nan=False))[0]["solve@1"] is None


def test_seeds_are_averaged_within_problems_and_intervals_hold_the_mean():
    rng = np.random.default_rng(0)
    samples = [sample(s, *(answers_of(rng.random((30, 2)), name=f"p{i}") for i in range(20))) for s in (3, 4)]
    evaluation = Evaluation(samples)
    means = [[s.problems[i].fitness.mean() for s in samples] for i in range(20)]
    assert evaluation.per_problem["best@1"] == pytest.approx(np.mean(means, axis=1))
    assert evaluation.mean("best@1") == pytest.approx(np.mean(means))
    assert [evaluation.per_seed[s]["best@1"] for s in (3, 4)] == pytest.approx(np.mean(means, axis=0))
    record = json.loads(json.dumps(evaluation.record(), allow_nan=False))
    assert {"best@1", "best@3", "best@10", "best@30", "solve@30", "diversity", "diversity_valid"} <= set(record)
    for name, (low, high) in record["intervals"].items():
        assert low <= record[name] <= high
        assert high - low < 0.2 or name == "distinct_vectors"
    assert (record["problems"], record["seeds"], record["answers_total"], record["tokens"]) == (20, [3, 4], 30, 20)


def test_problems_may_have_different_numbers_of_objectives():
    wide = answers_of([[1, 0, 0]], name="q", objectives=("a", "b", "c"))
    both = Evaluation([sample(0, answers_of([[1, 1]]), wide)])
    assert not [name for name in both.metrics if name.startswith("mean[")], "no objective is of both"
    assert both.mean("best@1") == pytest.approx((1 + 1 / 3) / 2)


def test_one_problem_has_no_interval():
    record = Evaluation([sample(0, answers_of([[1, 1]]))]).record()
    assert record["best@1"] == 1
    assert record["intervals"] == {}


def test_a_problem_that_one_seed_could_not_judge_counts_in_none():
    a, b = answers_of([[1, 1]], name="a"), answers_of([[0, 0]], name="b")
    evaluation = Evaluation([sample(0, a, b), sample(1, a, faults={"b": "its test is broken"})])
    assert [one.name for one in evaluation.problems] == ["a"]
    assert evaluation.record()["faults"] == {"b": "its test is broken"}
    assert evaluation.mean("best@1") == 1
    with pytest.raises(ScorerFault, match="broken"):
        Evaluation([sample(0, faults={"b": "its test is broken"})])


def test_comparison_pairs_problems_by_name():
    rng = np.random.default_rng(1)
    hard = rng.random(60)  # problems differ far more than the two policies do
    ours = Evaluation([sample(0, *(answers_of([[x, x]], name=f"p{i}") for i, x in enumerate(hard)))])
    rows = [sample(0, *(answers_of([[x - 0.1, x - 0.1]], name=f"p{i}") for i, x in enumerate(hard)))]
    theirs = Evaluation(rows).record()["per_problem"][::-1]
    differences = compare_problems(ours, theirs)
    best = differences["best@1"]
    assert best.interval.mean == pytest.approx(0.1)
    assert best.shown
    assert best.pairs == 60
    assert not differences["diversity"].shown, "no difference at all is none"
    assert compare_problems(ours, theirs[:4])["best@1"].pairs == 4
    assert compare_problems(ours, [{"problem": "other", "best@1": 1.0}]) == {}
    assert compare_problems(ours, [{**row, "best@1": None} for row in theirs]).keys() == differences.keys() - {"best@1"}


def test_every_verdict_has_its_numbers():
    def against(problems):
        theirs, ours = (
            Evaluation([sample(0, *(answers_of([[solved, solved]], name=f"p{i}") for i in range(problems)))])
            for solved in (0, 1)
        )
        rival = {"policy": "theirs", "per_problem": theirs.record()["per_problem"]}
        return compare_with("base.json", rival, ours, "ours")

    record = against(5)
    _, *lines = record["verdicts"]
    none = "no difference shown (ours - theirs = +1.000 ["
    assert f"best@1: {none}0.000, 1.000], p = 0.06; 5 problems cannot show one)" in lines
    assert any(line.startswith(f"solve@1: {none}") for line in lines)
    assert all(" = " in line and not line.startswith("mean[") for line in lines)
    assert against(9)["verdicts"][1] == "best@1: ours - theirs = +1.000 [0.755, 1.000]"
    assert record["differences"]["solve@1"]["p"] == pytest.approx(1 / 16)
    assert not record["differences"]["solve@1"]["shown"]
