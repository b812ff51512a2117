"""A user's scorer file: what score() may return, what the file may declare, and whose fault a failure is."""

from __future__ import annotations

import asyncio
import functools
import importlib
import math
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml

import evo
from problems import AnswerError, BadAddress, Score, ScorerFault, resolve
from problems.custom.scorer_function import ScorerFunctionProblem, describe_value, is_own_module
from problems.custom.scorer_problem import is_timing, suggests_lower
from problems.objectives import Objective, measure_objectives
from problems.registry import given
from problems.sandbox import shared_sandbox
from problems.scoring import Scorer, error_kind
from problems.weights import parse_weights


@pytest.mark.parametrize(
    ("body", "objectives", "expected"),
    [
        ("return {'b': 1, 'a': 0.5}", ("b", "a"), Score((1.0, 0.5), 0.75)),
        ("return 3", ("score",), Score((3.0,), 3.0)),
        ("return {'a': 1, 'fitness': 9}", ("a",), Score((1.0,), 9.0)),
        ("return {'a': 1, 'combined_score': 8, 'feedback': 'hm'}", ("a",), Score((1.0,), 8.0, {}, "hm")),
        ("return {'combined_score': 2.5}", ("combined_score",), Score((2.5,), 2.5)),
        ("return {'a': 1, 'features': {'size': 4}}", ("a",), Score((1.0,), 1.0, {"size": 4.0})),
        ("return {'rewards': [1, 2], 'fitness': 7}", ("reward_1", "reward_2"), Score((1.0, 2.0), 7.0)),
        ("return {'rewards': {'y': 1, 'x': 3}}", ("y", "x"), Score((1.0, 3.0), 2.0)),
        ("return {'a': 0, 'error': 'too long'}", ("a",), Score((0.0,), 0.0, {}, "too long", "too long")),
        ("return {'a': 5, 'fitness': 9, 'error': 'too long'}", ("a",), Score((0.0,), 0.0, {}, "too long", "too long")),
        ("import numpy; return {'a': numpy.float64(0.5)}", ("a",), Score((0.5,), 0.5)),
        ("from problems import Score; return Score((1, 2), 5)", ("reward_1", "reward_2"), Score((1.0, 2.0), 5.0)),
        ("return True", ("score",), Score((1.0,), 1.0)),
        ("import decimal; return {'a': decimal.Decimal('0.5'), 'fitness': 2}", ("a",), Score((0.5,), 2.0)),
        ("import fractions; return fractions.Fraction(10**400, 10**399)", ("score",), Score((10.0,), 10.0)),
    ],
)
def test_what_score_may_return(scorer, body, objectives, expected):
    problem = scorer(f"def score(answer):\n    {body}\n")
    assert problem.score("x").check(problem) == expected
    assert problem.objectives == objectives


@pytest.mark.parametrize(
    "given",
    ["'a': -math.inf", "'a': 10**400", "'a': None", "'a': 'none'", "'a': 1, 'fitness': math.nan", "'b': math.inf"],
)
def test_an_error_wins_over_numbers_that_are_none(scorer, given):
    failed = f"{{{given}, 'error': 'wrong value', 'feedback': 'cell 3'}}"
    body = f"import math\ndef score(answer):\n    return {failed} if answer == 'x' else {{'a': 1}}\n"
    problem = scorer(body)
    score = problem.score("x").check(problem)
    assert (score.rewards, score.fitness, score.feedback) == ((0.0,), 0.0, "wrong value\ncell 3")
    assert score.error.startswith("wrong value") and problem.score("y").error is None
    with pytest.raises(ScorerFault, match="the seed answer itself fails .wrong value"):
        scorer(f"seed_answer = 'x'\n{body}").score("x")


@pytest.mark.parametrize("number", ["0.25", "0", "numpy.float32(3)"])
def test_an_error_that_is_a_number_is_no_fault_of_the_answer(scorer, number):
    with pytest.raises(ScorerFault, match="returned error = .* must be the text of a fault"):
        scorer(f"import numpy\ndef score(answer):\n    return {{'a': 1, 'error': {number}}}\n").score("x")


FAILING = {
    "def f(x):\n    y = x\n    return math.log(y)\n": "line 3: NameError: name 'math' is not defined",
    "import json\ndef f(x):\n    return json.loads('{')\n": "line 3: JSONDecodeError: Expecting",
    "def f(x):\n    return )\n": "line 2: SyntaxError: unmatched ')'",
}


def test_a_failure_of_the_answers_own_code_names_its_line(scorer):
    body = "    names = {}\n    exec(answer, names)\n    return names['f'](1)\n"
    problem = scorer(f"objectives = ['a']\ndef score(answer):\n{body}")
    for answer, says in FAILING.items():
        error = problem.score(answer).error
        assert error.startswith(f"the answer fails, {says}") and error_kind(error) == says.split(": ")[1]


FASTEST = """
import operator
seed_answer = "def rank(hours):\\n    return hours\\n"
directions = {"delay": "min"}
TABLE = {1: 2}
def run(answer):
    space = {}
    exec(answer, space)
    return space
def score(answer):
    space = run(answer)
    best = min([3, 1], key=lambda job: space["rank"](job))
    return {"delay": best + (TABLE["x"] if "table" in answer else 0) + 1 / (0 if "zero" in answer else 1)}
"""


LACKING = {
    "def other(hours): return 1": "the answer defines no rank",
    "rank = 3": "a value of a wrong type at line 12 of scorer.py: TypeError: 'int' object is not callable",
    "def rank(hours): return {}": "a value of a wrong type at line 12 of scorer.py: TypeError: '<' not supported",
}


def test_an_answer_that_lacks_a_name_or_gives_a_wrong_type_is_at_fault_itself(scorer):
    """The scorer meets the fault in its own line."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scored = asyncio.run(Scorer(1).score(scorer(FASTEST), [*LACKING]))
    for (score, _), says in zip(scored, LACKING.values(), strict=True):
        assert score.rewards == (0.0,) and says in score.error


@pytest.mark.parametrize("word", ["table", "zero"])
def test_what_only_the_scorer_can_have_done_wrong_stays_its_fault(scorer, word):
    with pytest.warns(UserWarning) as told:
        ((score, _),) = asyncio.run(Scorer(1).score(scorer(FASTEST), [f"def rank(hours): return 1  # {word}"]))
    assert score.rewards == (0.0,) and "the scorer fails on it" in score.error
    assert str(told[0].message).startswith("an answer counts as failed, because the scorer fails on it: ")
    assert "scores 0" not in str(told[0].message)


@pytest.mark.parametrize("seed", ["def other(hours): return 1", "def rank(hours): return {}"])
def test_what_fails_on_the_seed_is_the_scorers_with_its_line(scorer, seed):
    problem = scorer(FASTEST.replace("def rank(hours):\\n    return hours\\n", seed))
    with pytest.raises(ScorerFault, match=r"scorer\.py, line 12: (KeyError|TypeError)"):
        problem.score("def rank(hours): return 1")


def test_what_the_file_may_declare(scorer):
    problem = scorer(
        "objectives = ('x', 'y')\nweights = {'x': 3, 'y': 1}\ntarget = 2\nanswer_format = 'python'\n"
        "def statement():\n    return 'Do it.'\nseed_answer = '```python\\na = 1\\n```'\n"
        "def score(answer):\n    return {'x': 1, 'y': len(answer)}\n"
    )
    assert problem.objectives == ("x", "y") and problem.target == 2.0 and problem.answer_format == "python"
    assert problem.statement() == "Do it." and problem.seed_answer() == "a = 1\n"
    assert problem.score("12345").fitness == (3 * 1 + 5) / 4
    assert problem.canonical("```python\nb\n```") == "b\n"


NEAR = """
seed_answer = "1"
JOBS = [3, 4]
target_date = 5
TARGET_OF_JOBS = 5
weight = 2.0
def weights_of(job):
    return weight
def score(answer):
    direction = sum(JOBS) * weights_of(3)
    return {"delay": direction}
"""


def test_names_of_a_users_own_are_no_misspelt_declarations(scorer):
    """Also one letter from a declaration, where the file reads it."""
    read = "targets = {3: 1}\ndirection = 1\ndef goal(job):\n    return targets[job] * direction\n"
    assert scorer(NEAR + read).score("x").fitness == 14.0
    assert scorer(f"target = 9\ntargets = [1]\n{NEAR}").target == 9  # beside the declaration itself


def test_an_isolated_scorer_sees_its_own_file_and_what_it_names(scorer, tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "table.txt").write_text("42")
    body = (
        "from pathlib import Path\nhere = Path(__file__).parent\n"
        "def score(answer):\n"
        "    try:\n        (here / 'secret.txt').read_text()\n        return {'secret': 1, 'table': 0}\n"
        "    except OSError:\n        pass\n"
        "    return {'secret': 0, 'table': int((here / 'table.txt').read_text())}\n"
    )
    problem = scorer("readable = ['table.txt']\n" + body)
    assert dict(zip(problem.objectives, problem.score("x").rewards, strict=True)) == {"secret": 0, "table": 42}
    trusted = scorer("isolated = False\n" + body, "trusted.py")
    assert dict(zip(trusted.objectives, trusted.score("x").rewards, strict=True)) == {"secret": 1, "table": 0}


def problem_of(function, **declared):
    return ScorerFunctionProblem(function, declared, shared_sandbox)


def test_a_closure_is_scored_in_another_process_with_helpers_of_its_module():
    import os

    wanted, here = {"a": 2}, os.getpid()

    def letters(answer):
        return {name: answer.count(name) / count for name, count in wanted.items()} | {
            "away": os.getpid() != here and doubled(1) == 2
        }

    problem = problem_of(letters, statement="Write.", seed_answer="a", target=1.0, weights={"a": 3, "away": 1})
    assert problem.name == "score:letters" and problem.objectives == ("a", "away") and problem.target == 1.0
    assert problem.statement() == "Write." and problem.seed_answer() == "a"
    assert problem.score("aa") == Score((1.0, 1.0), 1.0)
    assert problem.score("aaaa").fitness == (3 * 2 + 1) / 4


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

    assert is_own_module(my_weights)
    my_weights.__file__ = "/home/me/.local/lib/python3/site-packages/my_weights.py"
    assert not is_own_module(my_weights)  # as a user's own installed packages are: too large to be sent
    my_weights.__file__ = str(file)
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
    problem = problem_of(fails_in_its_own_way, seed_answer="x", timeout=0.5)
    assert problem.score("rejected").error == "not this one"
    assert "timeout is 0.5 s" in problem.score("endless").error
    assert problem.score("dead").error
    line = fails_in_its_own_way.__code__.co_firstlineno + 11
    with pytest.raises(ScorerFault, match=rf"line {line} \(return 1 / 0\): ZeroDivisionError: division by zero"):
        problem.score("broken")
    with pytest.raises(ScorerFault, match="objectives are a"):
        problem.score("other")


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


@functools.lru_cache
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


class Table:
    @functools.cache  # noqa: B019
    def row(self, n):
        return 2 * n


@functools.cache
def cached_score(answer):
    return {"long": float(fibonacci(len(answer)) + Table().row(3))}


@pytest.mark.parametrize("module", ["__main__", __name__])
def test_cached_functions_go_to_the_other_process(monkeypatch, module):
    """cloudpickle alone writes the name of a cached function, which that process cannot import."""
    for function in (fibonacci, cached_score, Table.row, Table):
        monkeypatch.setattr(function, "__module__", module)
    monkeypatch.setitem(sys.modules, "__main__", sys.modules[__name__])
    assert problem_of(cached_score).score("abcdefg").rewards == (13.0 + 6.0,)


def closing_over(value):
    def score(answer):
        return len(answer) * value

    return score


WITH_HELPER = "def f(a):\n    return helper(a)\ndef helper(a):\n    return {}\n"


@pytest.mark.parametrize(
    ("make", "one", "other"),
    [
        (closing_over, 2, 3),
        (closing_over, {"a": [1]}, {"a": [2]}),
        (lambda value: made_from(WITH_HELPER.format(value)), 1, 2),
        (lambda value: functools.cache(made_from(f"def f(a):\n    return {value}\n")), 1, 2),
    ],
)
def test_a_fingerprint_changes_with_the_code_and_what_it_refers_to(make, one, other):
    assert describe_value(make(one)) == describe_value(make(one)) != describe_value(make(other))


def test_a_fingerprint_ends_for_what_refers_to_itself():
    def again(answer):
        return again(answer)

    loop = [1]
    loop.append(loop)
    assert "again" in describe_value(again) and "len(answer) * value" in describe_value(closing_over(loop))
    assert describe_value(lambda a: 1) != describe_value(lambda a: 2)


def test_the_problem_s_fingerprint_counts_what_was_declared(tmp_path):
    data = tmp_path / "data.txt"
    data.write_text("1")

    def prints(**declared):
        return problem_of(doubled, objectives=["score"], **declared).fingerprint()

    assert prints(statement="a") == prints(statement="a") != prints(statement="b")
    before = prints(readable=[str(data)])
    data.write_text("2")
    assert prints(readable=[str(data)]) != before


ASYNC = """
import asyncio
seed_answer = "ab"

async def length(answer):
    await asyncio.sleep(0)
    if answer == "wrong":
        raise KeyError("wrong")
    return len(answer)

async def score(answer):
    first, second = await asyncio.gather(length(answer), length(answer + "c"))
    return {"first": first, "second": second}
"""


def test_score_may_be_a_coroutine_function(scorer):
    problem = scorer(ASYNC)
    assert problem.fault is None and problem.score("abcd").rewards == (4, 5)
    with pytest.raises(ScorerFault, match=r"scorer\.py.*line 8.*KeyError"):
        problem.score("wrong")


def test_a_list_of_seeds_is_where_the_search_starts(scorer):
    problem = scorer("seed_answer = ['a', 'bb', 'ccc']\ndef score(answer):\n    return len(answer)\n")
    assert problem.seed_answer() == "a" and problem.further_seeds() == ["bb", "ccc"]
    assert scorer("seed_answer = 'a'\ndef score(answer):\n    return 1\n").further_seeds() == []
    assert "not text" in str(scorer("seed_answer = ['a', 5]\ndef score(answer):\n    return 1\n").fault)


LOWER = ("error", "val_loss", "lag", "meanLag", "RMSE", "total_ms", "eval_time")
HIGHER = ("accuracy", "time_score", "speed", "timeliness", "terror", "speedup_ms", "loss_reduction", "error_rate")


@pytest.mark.parametrize("name", [*LOWER, *HIGHER])
def test_which_names_suggest_lower_and_which_a_timing(name):
    assert suggests_lower(name) == (name in LOWER)
    assert is_timing(name) == (name in ("total_ms", "eval_time"))


@pytest.mark.parametrize("seed", [None, 0.0, 63.4, -4.0, 1e-6])
def test_a_lower_value_is_a_higher_reward_above_a_failures(seed):
    low, high = measure_objectives(("low", "high"), {"low": "min"}, {"low": seed, "high": seed}, True)
    values = [-1e6, -1.0, -1e-9, 0.0, 1e-9, 0.5, 3.0, 1e12]
    rewards = [low.reward(value) for value in values]
    assert rewards == sorted(set(rewards), reverse=True) and min(rewards) > 0
    assert [low.value(reward) for reward in rewards] == pytest.approx(values, rel=1e-5)
    assert low.scale == abs(seed or 1) and low.reward(low.scale) == 0.5 and math.isnan(low.value(0.0))
    assert high.reward(3.0) == high.value(3.0) == 3.0


ERROR = "def score(answer):\n    return {'error': float(len(answer)), 'size': 1.0}\ndirections = {'error': 'min'}\n"


def test_a_scorer_declares_a_direction(warned):
    problem, told = warned(ERROR)
    assert problem.fault is None and told == [] and problem.objectives == ("error", "size")
    assert problem.score("abc").rewards == (0.25, 1.0) and problem.score("abc").error is None
    assert problem.score("a").fitness > problem.score("abc").fitness > 0
    assert "Lower is better in error" in problem.statement()
    text = "seed_answer = 'ab'\ndirections = {'score': 'min'}\ntarget = 1\ndef score(answer):\n    return len(answer)\n"
    for declared in ("", "objectives = ['score']\n"):  # whose seed would not have to be scored
        problem, told = warned(declared + text)
        assert problem.score("abc") == Score((0.4,), 0.4, values=(3.0,)) and told == []
        assert problem.score("a").fitness == problem.target and problem.metrics[0].seed == 2


def test_a_stored_search_keeps_the_order_and_the_scales_that_it_began_with(scorer):
    text = "weights = {'a': 3, 'b': 1}\ndirections = {'b': 'min'}\n"
    problem = scorer(text + "def score(answer):\n    return {'b': len(answer), 'a': 2}\nseed_answer = 'abcd'\n")
    assert problem.score("abcd") == Score((0.5, 2.0), 6.5 / 4, values=(4.0, 2.0))
    problem.restore([Objective("a"), Objective("b", True, scale=12.0, seed=12.0)])
    assert problem.score("abcd") == Score((2.0, 0.75), 6.75 / 4, values=(2.0, 4.0))
    assert [one.seed for one in problem.metrics] == [None, 12.0] and problem.objectives == ("a", "b")
    problem.restore([Objective("a"), Objective("c")])
    assert problem.objectives == ("a", "b"), "of another search"


def test_a_scorer_whose_name_suggests_lower_is_warned_of(warned):
    problem, told = warned("def score(answer):\n    return {'loss': 1.0, 'size': 2.0}\n")
    assert problem.score("a").rewards == (1.0, 2.0), "a guess changes nothing"
    (line,) = told
    assert "higher counts as better in loss" in line and 'directions: {loss: "min"}' in line and "\n" not in line
    assert warned("directions = {'loss': 'max'}\ndef score(answer):\n    return {'loss': 1.0}\n")[1] == []


def test_timings_of_a_scorer_are_objectives_only_where_they_are_named(warned):
    body = "def score(answer):\n    return {'eval_time': 3.0, 'size': 2.0}\n"
    problem, told = warned(body)
    assert problem.objectives == ("size",) and problem.score("a").rewards == (2.0,)
    assert len(told) == 1 and "eval_time: timings" in told[0]
    for named in ("objectives = ['eval_time', 'size']\n", "weights = {'eval_time': 1, 'size': 1}\n"):
        assert warned(named + body)[0].objectives == ("eval_time", "size")
    problem, told = warned("directions = {'eval_time': 'min'}\n" + body)
    assert problem.score("a").rewards == (0.5, 2.0) and told == []
    assert warned("def score(answer):\n    return {'runtime': 3.0}\n")[0].objectives == ("runtime",)


# -- one process for a scorer and its answers, and evo.call


EXEC = "def load(answer):\n    ns = {}\n    exec(answer, ns)\n    return ns\n"
SCORERS = yaml.safe_load(Path(__file__).with_name("scorers.yaml").read_text())
FAST = ("sorts in place", "records with fields", "a seed of random", "rows that are one row")


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in FAST else pytest.mark.long) for n in SCORERS])
def test_a_scorer_has_one_verdict_as_function_file_and_evaluator(scorer, tmp_path, name):
    form = SCORERS[name]
    body = textwrap.indent(form["body"], "    ")
    space: dict = {}
    exec(f"{EXEC}def score(answer):\n    ns = load(answer)\n{body}", space)
    of_file = scorer(f"{EXEC}seed_answer = {form['seed']!r}\ndef score(answer):\n    ns = load(answer)\n{body}")
    of_function = ScorerFunctionProblem(space["score"], {"seed_answer": form["seed"]}, shared_sandbox)
    (tmp_path / "openevolve").mkdir()
    (tmp_path / "openevolve" / "initial_program.py").write_text(form["seed"])
    evaluate = (
        f"{EXEC}def value(ns):\n{body}\ndef evaluate(path):\n    return {{'score': value(load(open(path).read()))}}\n"
    )
    (tmp_path / "openevolve" / "evaluator.py").write_text(evaluate)
    (of_directory,) = resolve(str(tmp_path / "openevolve"))
    for answer in (form["seed"], *form["answers"]):
        plain = space["score"](answer)
        assert [p.score(answer).fitness for p in (of_file, of_function, of_directory)] == [plain] * 3, answer


CALLING = """
import evo
answer_format = "python"
seed_answer = "def f(a): return a"
def score(answer):
    rows = evo.call(answer, "f", [3, 1, 2])
    return {"right": float(rows == [1, 2, 3]), "kept": float(evo.call(answer, "f", {"k": (1, 2)}) == {"k": (1, 2)})}
"""


def test_evo_call_runs_an_answer_in_a_process_of_its_own(scorer):
    problem = scorer(CALLING)
    right = "def f(a): return sorted(a) if isinstance(a, list) else a"
    assert problem.score(right).rewards == (1.0, 1.0)
    frames = "import sys\ndef f(a):\n    return str(sys._getframe(1).f_globals.get('score'))"
    assert problem.score(frames).rewards == (0.0, 0.0)
    assert problem.score("def f(a): raise KeyError('k')").error == "f(): KeyError: 'k' (line 1)"
    assert "is not plain data" in problem.score("def f(a): return lambda: 1").error
    assert "NameError" in problem.score("def g(a): return 1").error
    assert problem.score("import os\ndef f(a): os._exit(0)").fitness == 0


def test_evo_call_keeps_an_answers_module_during_one_evaluation(scorer):
    body = "import evo\nseed_answer = 'def f(): return 0'\ndef score(answer):\n"
    problem = scorer(f"{body}    return [evo.call(answer, 'f') for _ in range(3)][-1]\n")
    counting = "n = 0\ndef f():\n    global n\n    n += 1\n    return n"
    assert [problem.score(counting).fitness for _ in range(2)] == [3.0, 3.0]


def test_evo_call_fails_an_answer_whose_only_result_is_a_change_of_its_arguments(scorer):
    body = "import evo\nseed_answer = 'def f(a): return a'\ndef score(answer):\n    a = [3, 1, 2]\n"
    problem = scorer(f"{body}    evo.call(answer, 'f', a)\n    return float(a == [1, 2, 3])\n")
    assert "changed its arguments" in problem.score("def f(a):\n    a.sort()\n").error
    assert problem.score("def f(a):\n    return None\n").error is None


def test_evo_call_has_the_time_of_the_evaluation(scorer):
    problem = scorer(f"timeout = 0.5\n{CALLING}")
    assert "f(): " in problem.score("def f(a):\n    while True: pass").error


def test_evo_call_in_an_openevolve_evaluator_and_outside_of_a_scorer(tmp_path):
    (tmp_path / "initial_program.py").write_text("def f(x):\n    return x\n")
    (tmp_path / "evaluator.py").write_text(
        "import evo\ndef evaluate(path):\n    return {'value': evo.call(path, 'f', 3)}\n"
    )
    (problem,) = resolve(str(tmp_path))
    assert problem.fault is None and problem.objectives == ("value",)
    assert problem.score("def f(x):\n    return x * 2\n").fitness == 6.0
    failed = problem.score("def f(x):\n    return x / 0\n")
    assert failed.fitness == 0 and "ZeroDivisionError" in failed.error
    assert evo.call("def f(x, *, k): return x + k", "f", 1, k=2) == 3
    with pytest.raises(evo.AnswerError, match="ZeroDivisionError"):
        evo.call("def f(): return 1 / 0", "f")
    with pytest.raises(ValueError, match="no name"):
        evo.call("", "f()")


@pytest.mark.parametrize("answer", ["def f(x): return 1 / 0", "def f(:", "raise KeyError('k')"])
def test_an_exception_of_code_that_a_scorer_executes_is_the_answers(scorer, answer):
    problem = scorer(f"{EXEC}seed_answer = 'def f(x): return x'\ndef score(a):\n    return load(a)['f'](1)\n")
    failed = problem.score(answer)
    assert failed.fitness == 0 and failed.error
    with pytest.raises(ScorerFault, match="line 7: KeyError: 'f'"):  # the scorer's own
        problem.score("g = 1")


# -- what a user wrote wrong


GROUPS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("mistyped.yaml").read_text(encoding="utf-8"))
LIVECODEBENCH = str(Path(__file__).parents[2] / "examples" / "livecodebench")


@pytest.mark.parametrize(
    ("group", "text", "says"),
    [
        pytest.param(group, *row, id=f"{name}-{n}")
        for name, group in GROUPS.items()
        for n, row in enumerate(group["rows"])
    ],
)
def test_what_is_wrong_is_told_in_one_line(tmp_path, monkeypatch, group, text, says):
    def filled(form: str) -> str:
        return form.replace("TEXT", text).replace("{sample}", LIVECODEBENCH)

    for name, content in group.get("files", {}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(filled(content))
    monkeypatch.chdir(tmp_path)
    if "skips" in group:
        with pytest.warns(UserWarning, match=f"skipped: cannot be judged here: .*{says}"):
            assert resolve(group["address"]) == []
        return
    with pytest.raises(ScorerFault if "fault" in group else BadAddress, match=says) as told:
        if "weights" in group:
            parse_weights(text)
        elif "weighted" in group:
            resolve(group["weighted"])[0].weighted(text)
        else:
            problems = resolve(filled(group["address"]))
            assert "fault" in group, "the address itself is refused"
            problems[0].score(problems[0].canonical(group.get("answer", "x")))
    assert "\n" not in str(told.value)
