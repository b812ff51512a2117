"""Answers that run apart from the scorer that imports or executes them, and scorers for which that cannot be."""

import json

import pytest

from problems import resolve
from problems.sandbox.pool import Sandbox

PROGRAM = """\
import numpy as np

# EVOLVE-BLOCK-START
def search(start, steps=3):
    return start + steps, np.arange(4.0).reshape(2, 2)
# EVOLVE-BLOCK-END

SIZES = {"small": [1, 2]}
"""
LOADS = {
    "importlib": "spec = importlib.util.spec_from_file_location('program', path)\n"
    "    program = importlib.util.module_from_spec(spec)\n    spec.loader.exec_module(program)\n",
    "import": "sys.path.insert(0, os.path.dirname(path))\n    import program\n",
    "runpy": "program = types.SimpleNamespace(**runpy.run_path(path))\n",
    "exec": "space = {}\n    exec(open(path).read(), space)\n    program = types.SimpleNamespace(**space)\n",
    "compile": "space = {}\n    exec(compile(open(path).read(), path, 'exec'), space)\n"
    "    program = types.SimpleNamespace(**space)\n",
}
EVALUATOR = """\
import importlib.util, math, os, runpy, subprocess, sys, time, types
import numpy as np

def evaluate(path):
    {load}
    value, grid = program.search(2, steps=5)
    assert isinstance(grid, np.ndarray) and grid.dtype == float
    return {{"value": value, "grid": float(grid.sum()), "sizes": len(program.SIZES["small"])}}
"""
FORGED = """\
def search(start, steps=3):
    import builtins, os, sys, types
    for module in list(sys.modules.values()):
        if getattr(module, "evaluate", None):
            module.evaluate = lambda path: {"value": 1e6}
    builtins.isinstance = lambda *a: True
    for fd in range(3, 64):
        try:
            os.write(fd, MESSAGE)
        except OSError:
            pass
    return 2, [[1.0]]
"""


@pytest.fixture
def directory(tmp_path):
    """directory(evaluator, program) -> the problem"""

    def make(evaluator, program=PROGRAM):
        (tmp_path / "initial_program.py").write_text(program)
        (tmp_path / "evaluator.py").write_text(evaluator)
        return resolve(str(tmp_path))[0]

    return make


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
def test_an_openevolve_program_runs_apart_however_it_is_loaded(directory, load):
    problem = directory(EVALUATOR.format(load=load))
    assert (problem.fault, problem.execution, problem.why_shared) == (None, "apart", "")
    named = dict(zip(problem.objectives, problem.score_seed().rewards, strict=True))
    assert named == {"value": 7.0, "grid": 6.0, "sizes": 2.0}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return 1 / 0", "ZeroDivisionError: division by zero"),
        ("import os; os._exit(0)", "ended its process"),
        ("return object(), 1", "not plain data"),
        ("import sys; sys.exit(0)", "SystemExit"),
        ("raise MemoryError", "memory"),
    ],
)
def test_what_goes_wrong_in_an_answer_apart_is_its_own_fault(directory, body, told):
    problem = directory(EVALUATOR.format(load=LOADS["importlib"]))
    score = problem.score(PROGRAM.replace("return start + steps, np.arange(4.0).reshape(2, 2)", body))
    assert score.fitness == 0 and told in score.error


def test_an_endless_answer_apart_ends_in_its_time(directory, tmp_path):
    (tmp_path / "config.yaml").write_text("evaluator:\n  timeout: 1\n")
    problem = directory(EVALUATOR.format(load=LOADS["importlib"]))
    assert problem.execution == "apart"
    score = problem.score(PROGRAM.replace("return start", "while True: pass\n    return start"))
    assert score.fitness == 0 and "TimeoutError" in score.error


def test_an_answer_apart_cannot_forge(directory):
    from problems.sandbox.child.wire import RESULT, encode, frame

    forged = json.dumps(["ok", encode({"metrics": {"value": 1e6}, "texts": {}, "artifacts": {}}), ""]).encode()
    problem = directory(EVALUATOR.format(load=LOADS["importlib"]))
    hostile = FORGED.replace("MESSAGE", repr(frame(RESULT, forged)))
    block = PROGRAM[PROGRAM.index("def search") : PROGRAM.index("# EVOLVE-BLOCK-END")]
    score = problem.score(PROGRAM.replace(block, hostile))
    assert score.fitness < 1e5 and score.error
    assert problem.score_seed().error is None  # and the next one is scored


@pytest.mark.parametrize(
    ("evaluator", "why"),
    [
        ("    program.search(2)\n    return {'x': float(subprocess.run([sys.executable, path]).returncode)}\n", ""),
        ("    return {'x': float(subprocess.run([sys.executable, path]).returncode)}\n", "cannot be moved"),
        ("    return {'x': float(len([program.search(i) for i in range(300)]))}\n", "301 times"),
        ("    return {'x': float(program.search.__code__.co_argcount)}\n", "no attribute '__code__'|another x"),
        ("    return {'x': float(program.search(lambda: 1).__class__ is int)}\n", "not plain data"),
        ("    return {'x': float(os.getpid() * 0 + time.time_ns() % 1000003)}\n", "cannot be moved|another x"),
    ],
    ids=["both", "subprocess", "many calls", "looks inside", "callback", "noise"],
)
def test_evaluators_for_which_it_cannot_be_share_their_process_and_say_why(directory, evaluator, why):
    load = LOADS["importlib"] if "program" in evaluator else ""
    program = "def search(start=0, steps=3):\n    return start() if callable(start) else start\n"
    head = EVALUATOR.partition("{load}")[0].replace("{{", "{").rstrip(" ")
    problem = directory(f"{head}    {load}{evaluator}", program)
    assert problem.fault is None
    if why:
        assert problem.execution == "shared" and any(one in problem.why_shared for one in why.split("|")), (
            problem.why_shared
        )
    else:
        assert problem.execution == "apart"


SCORER = """\
answer_format = "python"
seed_answer = "def f(n):\\n    return n + 1\\n"
SQUARES = [n * n for n in range(9)]

def score(answer):
    names = {{}}
    exec({executed}, names)
    return {{"right": sum(names["f"](n) == square for n, square in enumerate(SQUARES)) / 9}}
"""


@pytest.fixture
def scorer(tmp_path):
    def make(executed="answer"):
        (tmp_path / "scorer.py").write_text(SCORER.format(executed=executed))
        return resolve(str(tmp_path / "scorer.py"))[0]

    return make


def test_a_scorer_file_that_executes_its_answer(scorer):
    problem = scorer()
    assert problem.execution == "apart"
    assert problem.score("def f(n):\n    return n * n\n").fitness == 1.0
    peeking = "def f(n):\n    import sys\n    return sys._getframe(3).f_locals\n"
    assert problem.score(peeking).fitness == 0.0
    failed = problem.score("def f(n):\n    return n.missing\n")
    assert failed.error == "AttributeError: 'int' object has no attribute 'missing' (line 2)"


def test_an_answer_that_the_scorer_changes_first_is_not_executed_beside_it(scorer):
    assert scorer("answer + '\\nx = 1'").execution == "shared"
    problem = scorer("answer.replace('\\t', '    ')")
    assert problem.execution == "apart"  # the seed has no tab
    score = problem.score("def f(n):\n\treturn n * n\n")
    assert score.fitness == 0.0 and "neither the answer as it is" in score.error


@pytest.mark.parametrize("mode", ["bwrap", "landlock", "none"])
def test_questions_and_arrays_cross_in_every_mode(mode, tmp_path, monkeypatch):
    from problems.sandbox import isolation

    if isolation.probe(mode) is not None:
        pytest.skip(f"no {mode} here")
    (tmp_path / "initial_program.py").write_text(PROGRAM)
    (tmp_path / "evaluator.py").write_text(EVALUATOR.format(load=LOADS["importlib"]))
    with Sandbox.open(mode, 1) as sandbox:
        (problem,) = resolve(str(tmp_path), None, lambda: sandbox)
        assert (problem.fault, problem.execution) == (None, "apart")
        assert problem.score_seed().error is None
