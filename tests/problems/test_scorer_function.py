"""A scoring function of the caller's: what it may be, whose fault a failure is, what its fingerprint sees."""

import functools
import importlib
import sys
import textwrap

import pytest

from problems import AnswerError, BadAddress, Score, ScorerFault, resolve
from problems.custom.scorer_function import ScorerFunctionProblem, describe_value
from problems.registry import given, shared_sandbox


def problem_of(function, **declared):
    return ScorerFunctionProblem(function, declared, shared_sandbox)


def test_a_closure_is_scored_in_another_process():
    import os

    wanted, here = {"a": 2}, os.getpid()

    def letters(answer):
        return {name: answer.count(name) / count for name, count in wanted.items()} | {"away": os.getpid() != here}

    problem = problem_of(letters, statement="Write.", seed_answer="a", target=1.0, weights={"a": 3, "away": 1})
    assert problem.name == "score:letters" and problem.objectives == ("a", "away") and problem.target == 1.0
    assert problem.statement() == "Write." and problem.seed_answer() == "a"
    assert problem.score("aa") == Score((1.0, 1.0), 1.0)
    assert problem.score("aaaa").fitness == (3 * 2 + 1) / 4


def test_helpers_of_the_same_module_go_along():
    assert problem_of(uses_a_helper).score("abc") == Score((6.0,), 6.0)


def uses_a_helper(answer):
    return doubled(len(answer))


def doubled(number):
    return 2 * number


def test_a_module_of_one_s_own_goes_along_and_counts_in_the_fingerprint(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "my_weights.py"
    file.write_text("import math\n\n\ndef weigh(text):\n    return math.floor(2.5 * len(text))\n")
    my_weights = importlib.import_module("my_weights")
    monkeypatch.setitem(sys.modules, "my_weights", my_weights)

    def weighed(answer):
        return my_weights.weigh(answer)

    problem = problem_of(weighed)
    assert problem.score("ab") == Score((5.0,), 5.0)
    before = problem.fingerprint()
    assert problem_of(weighed).fingerprint() == before
    file.write_text(file.read_text().replace("2.5", "3.5"))
    assert problem.fingerprint() != before


class Longer:
    def __init__(self, by):
        self.by = by

    def __call__(self, answer):
        return len(answer) + self.by


@pytest.mark.parametrize(
    ("function", "title", "expected"),
    [(lambda answer: len(answer), "lambda", 2.0), (Longer(5), "Longer", 7.0), (functools.partial(pow, 2), "pow", None)],
)
def test_anything_that_can_be_called(function, title, expected):
    problem = problem_of(function, objectives=["score"])
    assert problem.name == f"score:{title}"
    if expected is not None:
        assert problem.score("ab").fitness == expected


def fails_in_its_own_way(answer):
    if answer == "rejected":
        raise AnswerError("not this one")
    if answer == "endless":
        while True:
            pass
    if answer == "dead":
        import os

        os._exit(3)
    if answer == "broken":
        return 1 / 0
    return {"b": 1.0} if answer == "other" else {"a": 1.0}


def test_faults_of_the_answer_are_scores_and_those_of_the_function_raise_with_their_line():
    problem = problem_of(fails_in_its_own_way, seed_answer="x", timeout=1.0)
    assert problem.score("rejected").error == "not this one"
    assert "timeout is 1 s" in problem.score("endless").error
    assert problem.score("dead").error
    line = fails_in_its_own_way.__code__.co_firstlineno + 11
    with pytest.raises(ScorerFault, match=rf"line {line} \(return 1 / 0\): ZeroDivisionError: division by zero"):
        problem.score("broken")
    with pytest.raises(ScorerFault, match="objectives are a"):
        problem.score("other")


def test_a_function_that_cannot_score_its_seed_says_so():
    problem = problem_of(fails_in_its_own_way, seed_answer="broken")
    assert "ZeroDivisionError" in str(problem.fault)
    with pytest.raises(ScorerFault, match="ZeroDivisionError"):
        problem.score("fine")


def test_it_sees_the_files_that_are_named_alone(tmp_path):
    file = tmp_path / "numbers.txt"
    file.write_text("7")

    def reads(answer, path=str(file)):
        with open(path) as opened:
            return float(opened.read())

    assert problem_of(reads, readable=[str(file)]).score("x").fitness == 7.0
    assert 'readable=["data.csv"]' in str(problem_of(reads).fault)
    assert problem_of(reads, isolated=False).score("x").fitness == 7.0


@pytest.mark.parametrize(
    ("function", "declared", "message"),
    [
        (3, {}, "must be a function"),
        (int, {}, "must be a function"),
        (functools.partial(print, file=sys.stdout), {}, "cannot be sent to its process"),
        (doubled, {"timeout": -1}, "not a number of seconds"),
        (doubled, {"readable": ["nowhere.csv"]}, "does not exist"),
    ],
)
def test_what_cannot_be_is_told_at_once(function, declared, message):
    with pytest.raises(BadAddress, match=message):
        problem_of(function, **declared)


def test_its_address_names_it_where_it_is_given():
    problem = problem_of(doubled, objectives=["score"])
    with given([problem]):
        assert resolve("score:doubled") == [problem]
    with pytest.raises(BadAddress, match="given again"):
        resolve("score:doubled")


def made_from(source):
    space = {}
    exec(textwrap.dedent(source), space)
    return next(value for name, value in space.items() if name == "f")


def closing_over(value):
    def score(answer):
        return len(answer) * value

    return score


def test_a_fingerprint_changes_with_the_code_and_what_it_refers_to():
    assert describe_value(closing_over(2)) == describe_value(closing_over(2))
    assert describe_value(closing_over(2)) != describe_value(closing_over(3))
    assert describe_value(closing_over({"a": [1]})) != describe_value(closing_over({"a": [2]}))
    same = "def f(a):\n    return helper(a)\ndef helper(a):\n    return {}\n"
    assert describe_value(made_from(same.format(1))) == describe_value(made_from(same.format(1)))
    assert describe_value(made_from(same.format(1))) != describe_value(made_from(same.format(2)))
    assert describe_value(lambda a: 1) != describe_value(lambda a: 2)


def test_a_fingerprint_ends_for_what_refers_to_itself():
    def again(answer):
        return again(answer)

    loop = [1]
    loop.append(loop)
    assert "again" in describe_value(again) and "..." in describe_value(loop)


def test_the_problem_s_fingerprint_counts_what_was_declared(tmp_path):
    data = tmp_path / "data.txt"
    data.write_text("1")

    def prints(**declared):
        return problem_of(doubled, objectives=["score"], **declared).fingerprint()

    assert prints(statement="a") == prints(statement="a") != prints(statement="b")
    before = prints(readable=[str(data)])
    data.write_text("2")
    assert prints(readable=[str(data)]) != before
