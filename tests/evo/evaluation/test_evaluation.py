"""What is asked, what counts as an answer, and what one problem's fault does to the others."""

import asyncio

import numpy as np
import pytest

from evo.errors import BadInput
from evo.evaluation.evaluate import format_kinds, prompts_a_call, sample_answers, sample_seeds
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
    policy = CannedPolicy(["11111111", "11111111", "22222222"], [], ["letters", "33333333", "11111111"])
    problem = digits()
    result = sampled(policy, [problem], total=9)
    (answers,) = result.problems
    assert answers.written.tolist() == [True, True, False] + [False] * 3 + [True] * 3
    assert answers.failed.tolist() == [False] * 6 + [True, False, False]
    assert answers.rewards.tolist() == [[0, 1], [1, 0], [0, 0], [0, 0], [0, 0], [0, 0], [0, 0], [0, 1], [0, 1]]
    assert answers.fitness[0] == pytest.approx(8 / 72)
    assert answers.fitness[[2, 3, 4, 5, 6]].tolist() == [0] * 5
    assert (~answers.written).sum() == 4
    assert result.format_errors == {"repeated an answer": 1, "no <answer_1> tag": 1}
    assert result.answer_errors == {"not eight digits": 1}
    assert (result.costs["rollouts"], result.costs["tokens"]) == (3, 7)
    assert sorted(problem.scored) == ["11111111", "22222222", "33333333", "letters"], "each once"


def test_answers_that_are_one_in_canonical_form_are_one_answer(digits):
    class Spelled(digits):
        def canonical(self, answer):
            return answer.replace("one", "1").strip()

    problem = Spelled()
    result = sampled(CannedPolicy(["11111111", "one1111111", "22222222"]), [problem], total=3)
    assert result.problems[0].written.tolist() == [True, True, False]
    assert result.format_errors == {"repeated an answer": 1}
    assert problem.scored == ["11111111", "22222222"]


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
        ([digits()], {"answers": 0, "total": 3}, ""),
        ([digits()], {"answers": 3, "total": 0}, ""),
        ([], {}, "maze:test"),
        ([digits(), digits()], {}, "digits is there 2 times"),
    ):
        with pytest.raises(BadInput, match=said):
            sampled(digits_policy(), problems, **asked)


def test_calls_have_a_size_that_suits_the_policy(digits_policy):
    assert prompts_a_call(digits_policy(batch=64), 10) == 25
    assert prompts_a_call(digits_policy(batch=16), 1000) == 1
    assert prompts_a_call(digits_policy(batch=0), 10) == 0


def test_format_errors_are_counted_by_reason():
    assert format_kinds("2 of 3 answers found: 1 repeated another") == ["repeated an answer"]
    assert format_kinds("1 of 3 answers found: unclosed <route_2> tag; 2 repeated") == [
        "unclosed <route_2> tag",
        "repeated an answer",
    ]
    assert format_kinds("no route in it") == ["no route in it"]
