"""The prompts of a training step, and whether a policy mutates what they show, against chance."""

import json

import pytest
from support.training_runs import scored

from evo.training.on_policy import ArchiveCurriculum, Curriculum, TrainingPrompt, parent_usage
from islands.types import NOTHING_SHOWN, Candidate, Selection


def test_every_problem_is_asked_once_a_round_in_an_order_of_its_own():
    curriculum = Curriculum(7, 0.0, seed=3)
    asked = [q.problem for step in range(4) for q in curriculum.draw(step, 7)]
    rounds = [asked[i : i + 7] for i in range(0, 28, 7)]
    assert all(sorted(one) == list(range(7)) for one in rounds)
    assert len({tuple(one) for one in rounds}) == 4


def test_parents_are_valid_answers_of_the_step_before_for_the_same_problem():
    curriculum = Curriculum(50, 0.5, seed=0)
    shown = fresh = 0
    for step in range(40):
        questions = curriculum.draw(step, 4)
        for question in questions:
            if question.selection is NOTHING_SHOWN:
                fresh += 1
            else:
                shown += 1
                assert question.selection.parent.text == f"good {question.problem} {step - 1}"
        groups = [scored(q.problem, (f"good {q.problem} {step}", (0.5,))) for q in questions]
        groups[0] = scored(questions[0].problem, ("bad", (0.5,)), error="failed")
        curriculum.learn(questions, groups)
    assert 0.3 < shown / (shown + fresh) < 0.6


def archives(problems=20, parents=1.0, target=None, **settings):
    return ArchiveCurriculum(problems, parents, seed=0, targets=[target] * problems, **settings)


def test_an_archive_grows_over_steps_and_shows_every_level():
    curriculum = archives(3, under_way=3, most_visits=1000)
    shown = set()
    for step in range(120):
        questions = curriculum.draw(step, 3)
        assert sorted(q.problem for q in questions) == [0, 1, 2]
        groups = []
        for q in questions:
            if q.selection.parent is not None:
                shown.add(q.selection.parent.text)
                assert q.selection.parent.text.startswith(f"{q.problem} ")
            level = step % 5 / 10
            groups.append(scored(q.problem, (f"{q.problem} level {level}", (level, 0.5 - level))))
        curriculum.learn(questions, groups)
    assert shown == {f"{problem} level {level / 10}" for problem in range(3) for level in range(5)}


def test_half_of_the_parents_are_of_the_front():
    curriculum = archives(1, under_way=1, most_visits=10_000)
    questions = curriculum.draw(0, 1)
    curriculum.learn(
        questions, [scored(0, ("a", (1.0, 0.0)), ("b", (0.0, 1.0)), ("low", (0.1, 0.0)), ("0", (0.0, 0.0)))]
    )
    texts = [q.selection.parent.text for step in range(1, 400) for q in curriculum.draw(step, 1)]
    shares = {text: texts.count(text) / len(texts) for text in ("a", "b", "low", "0")}
    assert 0.1 < shares["low"] < 0.24 and min(shares["a"], shares["b"]) > 0.3
    assert shares["0"] == 0.0  # a route that fails is shown only where there is no other


def test_a_solved_problem_and_one_that_had_its_visits_make_place():
    curriculum = archives(20, target=0.9, under_way=4, most_visits=3)
    seen = []
    for step in range(9):
        questions = curriculum.draw(step, 4)
        seen.append({q.problem for q in questions})
        solved = min(seen[-1])
        groups = [scored(q.problem, ("r", (1.0,) if q.problem == solved else (0.5,))) for q in questions]
        curriculum.learn(questions, groups)
        assert solved not in curriculum.visits and solved not in curriculum.pool
    visits = [sum(problem in step for step in seen) for problem in range(20)]
    assert max(visits) <= 3 and sum(count > 0 for count in visits) > 12


def test_an_archive_keeps_the_newest_of_a_vector_and_a_share_of_fresh_prompts_stays():
    curriculum = archives(1, parents=0.5, under_way=1, most_visits=10_000)
    for step in range(10):
        curriculum.learn(curriculum.draw(step, 1), [scored(0, (f"r{step}", (0.5, 0.5)), ("r0", (0.5, 0.5)))])
    assert [c.text for c in curriculum.pool[0]] == ["r8", "r9", "r0"]
    fresh = sum(q.selection is NOTHING_SHOWN for step in range(200) for q in curriculum.draw(step, 1))
    assert 60 < fresh < 140


@pytest.mark.parametrize("make", [lambda: Curriculum(9, 0.5, seed=1), lambda: archives(9, parents=0.7, under_way=4)])
def test_its_state_is_plain_and_goes_on_alike(make):
    one, other = make(), make()
    for step in range(3):
        questions = one.draw(step, 4)
        one.learn(questions, [scored(q.problem, (f"{step}", (0.1 * step, 0.2)), ("b", (0.5, 0))) for q in questions])
    other.restore(json.loads(json.dumps(one.state())))
    assert other.draw(3, 4) == one.draw(3, 4) and other.state() == one.state()


def test_more_prompts_than_problems_ask_some_twice():
    curriculum = archives(2, under_way=32)
    assert sorted(q.problem for q in curriculum.draw(0, 5))[1:4] != [0, 0, 0]
    assert {q.problem for q in curriculum.draw(1, 5)} == {0, 1}


PARENT = Candidate(0, "RRDD", (1.0,), 0.5, {}, None, None, 0, 0, None)


def group(*answers, asked=2):
    return scored(0, *((text, (fitness,)) for text, fitness in answers), asked=asked)


def test_answers_are_measured_against_the_parent_shown_and_the_one_withheld():
    shown = TrainingPrompt(0, Selection(PARENT, (), ()))
    hidden_parent = TrainingPrompt(1, NOTHING_SHOWN, PARENT)
    first = TrainingPrompt(2, NOTHING_SHOWN)
    found = parent_usage(
        [shown, hidden_parent, first],
        [
            group(("RRDR", 0.75), ("RRDD", 0.5)),  # keeps three of four and is fitter; the parent again
            group(("LLLD", 0.6), ("LLLL", 0.1)),  # an end by chance, fitter by chance
            group(("RRDD", 1.0)),
        ],
    )
    assert found == {
        "refined": 0.5, "copied": 0.5, "kept": pytest.approx((0.75 + 1) / 2),
        "refined_chance": 0.5, "kept_chance": pytest.approx(0.125),
    }  # fmt: skip
    assert parent_usage([first], [group()]) == {}


def test_missing_answers_are_asked_for_all_the_same():
    shown = TrainingPrompt(0, Selection(PARENT, (), ()))
    assert parent_usage([shown], [group(("UUUU", 0.9), asked=4)])["refined"] == 0.25
