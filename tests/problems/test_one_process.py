"""A scorer and its answers share a process, so its verdict is plain Python's; `evo.call` keeps an answer apart."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
import yaml

import evo
from problems import ScorerFault, resolve
from problems.custom.scorer_function import ScorerFunctionProblem
from problems.sandbox import shared_sandbox

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
