import numpy as np

from evo.search.score import NOTHING_SHOWN
from evo.training.curriculum import Curriculum
from problems.contract import Score
from problems.types import Prompt, Rollout, ScoredAnswer, ScoredGroup, ScoredRollout


def group(problem, *texts, error=None):
    rollout = Rollout("", np.zeros(1, np.int32), np.zeros(1, np.float32), np.zeros(1, np.int32))
    answers = tuple(ScoredAnswer(t, t.encode(), Score((0.5,), 0.5, {"size": 1.0}, "told", error)) for t in texts)
    return ScoredGroup(problem, 0, 0, 0, None, (), Prompt(""), "v", 1, 0, 1.0, (ScoredRollout(rollout, answers),))


def test_every_problem_is_asked_once_a_round_in_an_order_of_its_own():
    curriculum = Curriculum(7, 0.0, seed=3)
    asked = [q.problem for step in range(4) for q in curriculum.questions(step, 7)]
    rounds = [asked[i : i + 7] for i in range(0, 28, 7)]
    assert all(sorted(one) == list(range(7)) for one in rounds)
    assert len({tuple(one) for one in rounds}) == 4


def test_processes_deal_the_problems_out_between_them():
    both = [Curriculum(6, 0.0, 0, rank, 2) for rank in range(2)]
    asked = [q.problem for curriculum in both for q in curriculum.questions(0, 3)]
    assert sorted(asked) == list(range(6))


def test_parents_are_valid_answers_of_the_step_before_for_the_same_problem():
    curriculum = Curriculum(50, 0.5, seed=0)
    shown = fresh = 0
    for step in range(40):
        questions = curriculum.questions(step, 4)
        for question in questions:
            if question.selection is NOTHING_SHOWN:
                fresh += 1
            else:
                shown += 1
                assert question.selection.parent.text == f"good {question.problem} {step - 1}"
        groups = [group(q.problem, f"good {q.problem} {step}") for q in questions]
        groups[0] = group(questions[0].problem, "bad", error="failed")
        curriculum.learn(questions, groups)
    assert 0.3 < shown / (shown + fresh) < 0.6


def test_its_state_is_plain_and_goes_on_alike():
    import json

    one = Curriculum(9, 0.5, seed=1)
    questions = one.questions(0, 4)
    one.learn(questions, [group(q.problem, f"a {q.problem}", f"b {q.problem}") for q in questions])
    other = Curriculum(9, 0.5, seed=1)
    other.restore(json.loads(json.dumps(one.state())))
    assert other.questions(1, 4) == one.questions(1, 4)
