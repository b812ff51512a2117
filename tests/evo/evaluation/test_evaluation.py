"""What is asked of a policy, what counts as an answer, metrics by hand, and what answers are worth under weights."""

import asyncio
import json

import numpy as np
import pytest

from evo.errors import BadInput
from evo.evaluation.evaluate import compare_with, format_kinds, prompts_a_call, sample_answers, sample_seeds
from evo.evaluation.metrics import Evaluation, ProblemAnswers, SampledAnswers, compare_problems, metrics_of
from evo.evaluation.preferences import (
    ANSWERS_AT_ONCE,
    BEST_FOUND,
    JUDGED_WEIGHTINGS,
    OPTIMUM,
    is_share,
    join_units,
    judge_worth,
    judging_weights,
    read_rises,
)
from islands.types import CandidateSummary
from problems.contract import ScorerFault
from problems.scoring import Scorer
from problems.types import Rollout
from vpo.policies.contract import Policy, PolicyTraits, PolicyUnavailable, PromptTooLong


class CannedPolicy(Policy):
    """Gives every problem the same rollouts, each a list of answers."""

    version, prompt_format, batch, traits = "canned", "chat", 4, PolicyTraits(logprobs=True)

    def __init__(self, *chains, too_long=()):
        self.chains, self.too_long, self.closed = chains, too_long, False

    async def sample(self, prompts, *, rollouts, answers, seed):
        if any(word in prompt.user for prompt in prompts for word in self.too_long):
            raise PromptTooLong("the prompt takes 900 tokens of a context of 512")
        return [[self._rollout(self.chains[i]) for i in range(rollouts)] for _ in prompts]

    def _rollout(self, answers):
        text = "\n".join(f"<answer_{j + 1}>{word}</answer_{j + 1}>" for j, word in enumerate(answers))
        ids = np.zeros(max(1, len(answers)), np.int32)
        return Rollout(text, ids, np.zeros(len(ids), np.float32), ids)

    async def close(self):
        self.closed = True


def sampled(policy, problems, *, answers=3, total=6, seed=0, **options):
    async def scenario():
        scorer = Scorer(2)
        try:
            return await sample_answers(
                policy, problems, answers=answers, total=total, seed=seed, scorer=scorer, **options
            )
        finally:
            scorer.close()

    return asyncio.run(asyncio.wait_for(scenario(), 30))


def arrays(result):
    return {one.name: (one.rewards.tolist(), one.fitness.tolist(), one.written.tolist()) for one in result.problems}


def test_one_seed_gives_one_result_and_another_seed_another(digits, digits_policy):
    def once(seed, **options):
        return arrays(sampled(digits_policy(**options), [digits("a"), digits("b")], seed=seed))

    assert once(3) == once(3)
    assert once(3) != once(4)
    assert once(3)["a"] != once(3)["b"], "each problem has a random stream of its own"


@pytest.mark.parametrize("batch", [0, 1, 2, 64])
def test_a_problem_gets_the_same_answers_whatever_is_asked_beside_it(digits, digits_policy, batch):
    alone = arrays(sampled(digits_policy(), [digits("p3")]))
    policy = digits_policy(batch=batch, jitter=0.01)
    among = arrays(sampled(policy, [digits(f"p{i}") for i in range(9)]))
    assert among["p3"] == alone["p3"]
    calls = {0: 1, 1: 2, 2: 4, 64: 9}  # 2 chains each, so that 4 x batch rollouts make a call
    assert max(map(len, policy.calls)) == calls[batch]


def test_missing_and_repeated_answers_are_zero_rows(digits):
    """One repeats another if they are the same in canonical form."""
    policy = CannedPolicy(["11111111", "one1111111", "22222222"], [], ["letters", "33333333", "11111111"])
    problem = digits()
    problem.canonical = lambda answer: answer.replace("one", "1").strip()
    result = sampled(policy, [problem], total=9)
    (answers,) = result.problems
    assert answers.written.tolist() == [True, True, False] + [False] * 3 + [True] * 3
    assert answers.failed.tolist() == [False] * 6 + [True, False, False]
    assert answers.rewards.tolist() == [[0, 1], [1, 0], [0, 0], [0, 0], [0, 0], [0, 0], [0, 0], [0, 1], [0, 1]]
    assert answers.fitness[0] == pytest.approx(8 / 72)
    assert answers.fitness[[2, 3, 4, 5, 6]].tolist() == [0] * 5
    assert result.format_errors == {"repeated an answer": 1, "no <answer_1> tag": 1}
    assert result.answer_errors == {"not eight digits": 1}
    assert (result.costs["rollouts"], result.costs["tokens"]) == (3, 7)
    assert sorted(problem.scored) == ["11111111", "22222222", "33333333", "letters"], "each once"


def test_what_the_last_chain_holds_beyond_the_total_is_cut(digits):
    problem = digits()
    chains = [[str(i) * 8, str(i + 1) * 8, str(i + 2) * 8] for i in (1, 4, 7)]
    (answers,) = sampled(CannedPolicy(*chains), [problem], total=7).problems
    assert answers.fitness.tolist() == [pytest.approx(8 * i / 72) for i in range(1, 8)]
    assert (len(answers.rewards), len(answers.written)) == (7, 7), "nothing beyond the budget counts"


def test_one_problems_fault_takes_that_problem_out_and_no_other(digits):
    policy = CannedPolicy(["11111111", "22222222"], ["33333333", "44444444"], too_long=["Read"])
    faulty = digits("faulty", fault_on=lambda answer: answer.startswith("4"))
    long = digits("long")
    long.statement = lambda: "Read all of this."
    told = []
    result = sampled(policy, [digits("a"), faulty, long], answers=2, total=4, on_done=lambda: told.append(None))
    assert [one.name for one in result.problems] == ["a"]
    assert "no score for '44444444'" in result.faults["faulty"]
    assert "900 tokens" in result.faults["long"]
    assert len(told) == 3
    with pytest.raises(ScorerFault, match="44444444"):
        sampled(policy, [long, faulty], answers=2, total=4)
    with pytest.raises(BadInput, match="long: the prompt takes 900"):
        sampled(policy, [long], answers=2, total=4)


def test_a_dead_policy_is_reported_and_nothing_is_closed_for_the_caller(digits, digits_policy):
    async def scenario():
        scorer, policy = Scorer(1), CannedPolicy(["11111111", "22222222"])
        dead = digits_policy(die_after=0, error=PolicyUnavailable("gone"))
        with pytest.raises(PolicyUnavailable, match="gone"):
            await sample_answers(dead, [digits()], answers=2, total=2, seed=0, scorer=scorer)
        first = await sample_answers(policy, [digits()], answers=2, total=2, seed=0, scorer=scorer)
        again = await sample_answers(policy, [digits()], answers=2, total=2, seed=0, scorer=scorer)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        scorer.close()
        return policy.closed, arrays(first) == arrays(again), left

    assert asyncio.run(scenario()) == (False, True, set())


def test_seeds_run_one_after_another(digits, digits_policy):
    told, given = [], dict(answers=2, total=4, seeds=[5, 6], on_done=lambda: told.append(None))
    evaluation = asyncio.run(sample_seeds(digits_policy(), [digits("a"), digits("b")], scorer=Scorer(1), **given))
    assert len(told) == 4
    assert list(evaluation.per_seed) == [5, 6]
    best = [[max(one.fitness) for one in sample.problems] for sample in evaluation.samples]
    assert evaluation.per_problem["best@4"] == pytest.approx(np.mean(best, axis=0))


def test_senseless_requests_are_refused(digits, digits_policy):
    for problems, asked, said in (
        ([digits()], {"answers": 0, "total": 3}, "must be 1 or more"),
        ([digits()], {"answers": 3, "total": 0}, "must be 1 or more"),
        ([], {}, "maze:test"),
        ([digits(), digits()], {}, "digits is there 2 times"),
    ):
        with pytest.raises(BadInput, match=said):
            sampled(digits_policy(), problems, **asked)


def test_calls_have_a_size_that_suits_the_policy_and_format_errors_are_counted_by_reason(digits_policy):
    sizes = [
        prompts_a_call(digits_policy(batch=batch), rollouts) for batch, rollouts in ((64, 10), (16, 1000), (0, 10))
    ]
    assert sizes == [25, 1, 0]
    assert format_kinds("2 of 3 answers found: 1 repeated another") == ["repeated an answer"]
    both = "1 of 3 answers found: unclosed <route_2> tag; 2 repeated"
    assert format_kinds(both) == ["unclosed <route_2> tag", "repeated an answer"]
    assert format_kinds("no route in it") == ["no route in it"]


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


@pytest.mark.parametrize(
    ("answers", "metric", "value"),
    [
        ({"rewards": [[1, 0], [0, 1]]}, "E_w[best]", 0.75),  # E[max(w, 1 - w)] for w uniform
        ({"rewards": [[1, 1], [1, 1], [0, 0]], "failed": [True, False, False]}, "solve@1", 1 / 3),
        ({"rewards": [[1, 1], [1, 1], [0, 0]], "failed": [True, False, False]}, "valid", 1 / 3),
        ({"rewards": [[-1, -1], [0, 0]], "target": -0.5, "written": [True, False]}, "solve@1", 0),  # one is missing
        ({"rewards": [[-1, -1], [-3, -3], [0, 0]], "written": [True, True, False]}, "best@3", -1),
        ({"rewards": [[-1, -1], [-3, -3], [0, 0]], "failed": [False, False, True]}, "best@1", -7 / 3),
        ({"rewards": [[-1, -1], [-3, -3], [0, 0]], "failed": [False, False, True]}, "E_w[best]", -1),
        ({"rewards": [[0, 0], [0, 0]], "failed": [True, True]}, "best@1", 0),
    ],
)
def test_an_answer_that_failed_or_is_missing_solves_nothing_and_is_not_the_best(answers, metric, value):
    assert metrics_of(answers_of(**answers))[metric] == pytest.approx(value, abs=0.005)


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


def test_problems_may_have_different_numbers_of_objectives_and_one_has_no_interval():
    one, wide = answers_of([[1, 1]]), answers_of([[1, 0, 0]], name="q", objectives=("a", "b", "c"))
    both = Evaluation([sample(0, one, wide)])
    assert not [name for name in both.metrics if name.startswith("mean[")], "no objective is of both"
    assert both.mean("best@1") == pytest.approx((1 + 1 / 3) / 2)
    record = Evaluation([sample(0, one)]).record()
    assert (record["best@1"], record["intervals"]) == (1, {})


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


CORNERS_AND_MEAN = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])


def answer(id, iteration, *rewards, failed=False):
    """An answer of the iteration, -1 for a seed; of other problems there were groups between."""
    sequence = 3 * iteration if iteration >= 0 else -1
    error = "failed" if failed else None
    return CandidateSummary(id, 9.0, rewards, error=error, iteration=iteration, sequence=sequence)


THREE = [
    answer(1, -1, 0.2, 0.2),
    answer(2, 0, 0.8, 0.0),
    answer(3, 1, 1.0, 1.0, failed=True),
    answer(4, 1, 0.1, 0.1),
    answer(5, 4, 0.0, 0.6),
    answer(6, 4, 0.5, 0.5),
]


def test_only_valid_answers_that_are_best_under_some_weights_are_rises():
    rises = read_rises(THREE, CORNERS_AND_MEAN)
    assert rises.iterations.tolist() == [0, 1, 5] and rises.sequences.tolist() == [-1, 0, 12]
    np.testing.assert_allclose(rises.best, [[0.2, 0.2, 0.2], [0.8, 0.2, 0.4], [0.8, 0.6, 0.5]])
    assert not rises.negative


def test_worth_and_weightings_solved_against_a_known_optimum():
    worth = judge_worth([read_rises(THREE, CORNERS_AND_MEAN)], np.array([1.0, 0.6, 0.5]))
    np.testing.assert_allclose(worth.plain[0], [0.2, 1.4 / 3, 1.9 / 3])
    np.testing.assert_allclose(worth.shares[0], [np.mean([0.2, 1 / 3, 0.4]), np.mean([0.8, 1 / 3, 0.8]), 2.8 / 3])
    np.testing.assert_allclose(worth.solved[0], [0, 0, 2 / 3])
    assert worth.start == 0 and not worth.why and join_units(["p"], [worth]) == OPTIMUM
    surpassed = judge_worth([read_rises(THREE, CORNERS_AND_MEAN)], np.array([0.4, 0.6, 0.5]))
    assert surpassed.shares[0][-1] == 1.0 and surpassed.solved[0].tolist() == [0, 1 / 3, 1]


def test_without_an_optimum_the_best_that_any_search_found_is_the_measure():
    other = read_rises([answer(1, 2, 0.4, 0.9)], CORNERS_AND_MEAN)
    worth = judge_worth([read_rises(THREE, CORNERS_AND_MEAN), other], None)
    measure = np.array([0.8, 0.9, 0.65])
    np.testing.assert_allclose(worth.shares[0][-1], np.mean([0.8, 0.6, 0.5] / measure))
    np.testing.assert_allclose(worth.shares[1], [np.mean([0.4, 0.9, 0.65] / measure)])
    assert worth.solved is None and join_units(["p"], [worth]) == BEST_FOUND
    known = judge_worth([other], np.array([1.0, 1.0, 1.0]))
    assert is_share(join_units(["p", "q"], [worth, known])) and "if unknown" in join_units(["p", "q"], [worth, known])


@pytest.mark.parametrize(
    "searches, why",
    [
        ([THREE], "there is no other search"),
        ([THREE, [answer(1, 0, -0.5, 2.0)]], "a reward is negative"),
        ([[answer(1, 0, 0.0, 0.0)], []], "no answer is worth more than 0"),
        ([[], []], "no answer is worth more than 0"),
    ],
)
def test_where_shares_are_not_defined_it_is_said_and_rewards_are_given(searches, why):
    worth = judge_worth([read_rises(of, CORNERS_AND_MEAN) for of in searches], None)
    assert why in worth.why and not worth.shares
    assert join_units(["fine", "p"], [judge_worth([], np.ones(3)), worth]).startswith(
        "rewards, as there are no shares of p:"
    )
    assert not is_share(join_units(["p"], [worth]))


def test_a_search_without_an_answer_counts_as_the_worst_beginning_and_at_most_0():
    negative = read_rises([answer(1, 0, -1.0, -0.4), answer(2, 1, 0.0, -0.4)], CORNERS_AND_MEAN)
    worth = judge_worth([negative, read_rises([], CORNERS_AND_MEAN)], None)
    assert worth.start == pytest.approx(np.mean([-1.0, -0.4, -0.7]))
    np.testing.assert_allclose(worth.plain[0], [worth.start, np.mean([0.0, -0.4, -0.2])])
    assert len(worth.plain[1]) == 0


def test_the_weightings_are_those_of_dirichlet():
    """Two corners alone are worth max(w, 1 - w) on average, 3/4; three max(w), 11/18; one objective its best reward."""
    for corners, value in ((2, 3 / 4), (3, 11 / 18)):
        given = [answer(at, 0, *row) for at, row in enumerate(np.eye(corners).tolist())]
        worth = judge_worth([read_rises(given, judging_weights(corners))], None)
        assert worth.plain[0][-1] == pytest.approx(value, abs=0.005)
    weights = judging_weights(1)
    rises = read_rises([answer(1, -1, 0.3), answer(2, 0, 0.2), answer(3, 1, 0.7)], weights)
    assert weights.shape == (JUDGED_WEIGHTINGS, 1) and judge_worth([rises], None).plain[0] == pytest.approx([0.3, 0.7])


def test_long_searches_are_read_in_parts():
    many = [answer(at, at, at % 7 / 7, at % 11 / 11) for at in range(2 * ANSWERS_AT_ONCE + 5)]
    rises = read_rises(iter(many), CORNERS_AND_MEAN)
    values = np.array([one.rewards for one in many]) @ CORNERS_AND_MEAN.T
    best = np.maximum.accumulate(values)
    np.testing.assert_allclose(rises.best, best[rises.iterations - 1])
    np.testing.assert_allclose(rises.best[-1], values.max(axis=0))
