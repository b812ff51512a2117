"""Attacks on scorers that can be cheated and on those that cannot. Every attack runs in the sandbox, or not at all."""

import re
import socket
from pathlib import Path

import pytest

from evo.checks.attacks import check_attacks
from evo.checks.payloads import MARK
from evo.checks.subject import Subject
from problems import Problem, Score, resolve

SEED = "def f(n):\n    return n + 1\n"
SHARED = """\
import math
answer_format = "python"
seed_answer = {seed!r}
SQUARES = [n * n for n in range(9)]

def near(value, wanted):
    return 1 / (1 + math.fabs(value - wanted))

def score(answer):
    names = {{}}
    try:
        exec(answer + "\\nready = True", names)
        values = [names["f"](n) for n in range(9)]
    except Exception as error:
        return {{"error": f"{{type(error).__name__}}: {{error}}"}}
    return {{"close": sum(near(v, w) for v, w in zip(values, SQUARES)) / 9, "exact": float(values == SQUARES)}}
"""
READ = """\
answer_format = "python"
seed_answer = {seed!r}

def score(answer):
    return {{"lines": answer.count("\\n"), "returns": answer.count("return")}}
"""
APART = (
    '{"task_id": 1, "text": "Write f(n).", "code": "def f(n):\\n    return n * n", '
    '"test_list": ["assert f(2) == 4", "assert f(3) == 9", "assert f(5) == 25"]}\n'
)
CAUGHT = {"reads", "frames", "patches", "forges"}


def attacked(problem):
    return {finding.check: finding for finding in check_attacks(Subject(problem, mutants=16))}


def scorer_file(folder, code, seed=SEED):
    (folder / "scorer.py").write_text(code.format(seed=seed))
    return resolve(str(folder / "scorer.py"))[0]


def test_an_answer_that_shares_the_scorers_process_can_cheat(tmp_path):
    found = attacked(scorer_file(tmp_path, SHARED))
    assert {check for check, finding in found.items() if finding.level == "finding"} >= CAUGHT, found
    assert "SQUARES" not in str(found) and "it read scorer.py" in found["reads"].details[0]
    assert "the variables of score()" in found["frames"].details[0]
    assert found["process"].level == "note" and "it does not execute the seed as it is" in found["process"].summary
    assert any("math.fabs" in line for line in found["patches"].details)
    assert any("near" in line for line in found["patches"].details)
    assert "became 1e+06" in found["forges"].details[0]
    assert found["network"].level == found["leftovers"].level == "ok"


def test_an_object_that_is_equal_to_everything(tmp_path):
    equal = SHARED.replace("1 / (1 + math.fabs(value - wanted))", "float(value == wanted)")
    assert attacked(scorer_file(tmp_path, equal))["equals"].level == "finding"


def test_an_answer_that_runs_apart_cannot_cheat(tmp_path):
    (tmp_path / "tasks.jsonl").write_text(APART)
    found = attacked(resolve(f"programs:{tmp_path}/tasks.jsonl/0")[0])
    assert {"reads", "forges", "leaves early", "equals", "leftovers", "network"} <= set(found)
    assert {finding.level for finding in found.values()} == {"ok"}, found


def test_an_answer_that_a_scorer_executes_as_it_is_runs_apart_too(tmp_path):
    found = attacked(
        scorer_file(tmp_path, SHARED.replace('exec(answer + "\\nready = True", names)', "exec(answer, names)"))
    )
    assert found["process"].level == "ok" and {*CAUGHT, "equals"} <= set(found)
    assert {finding.level for finding in found.values()} == {"ok"}, found


def test_an_answer_that_is_only_read_is_not_attacked_further(tmp_path):
    found = attacked(scorer_file(tmp_path, READ))
    assert list(found) == ["attacks"] and found["attacks"].level == "ok"


@pytest.mark.parametrize(("last", "level"), [("route.py", "finding"), ("judge.py", "ok")])
def test_a_command_that_lets_the_answer_print_the_result(tmp_path, last, level):
    (tmp_path / "route.py").write_text("print('{\"length\": 1.0}')\n")
    (tmp_path / "judge.py").write_text("print('{\"length\": %d}' % len(open('route.py').read()))\n")
    (tmp_path / "problem.yaml").write_text(f"command: python3 {last}\nfiles: [route.py]\n")
    found = attacked(resolve(str(tmp_path))[0])
    if level == "ok":
        assert found["attacks"].level == "ok" and "not executed" in found["attacks"].summary
    else:
        assert found["leaves early"].level == "finding", found


def test_an_unconfined_scorer_is_a_finding_and_is_not_attacked(tmp_path):
    mark = tmp_path / "asked"
    code = f"isolated = False\n{SHARED}".replace(
        "    names = {{}}", f"    open({str(mark)!r}, 'a').write('x')\n    names = {{{{}}}}"
    )
    problem = scorer_file(tmp_path, code)
    before = mark.read_text()
    found = attacked(problem)
    assert found["attacks"].level == "finding" and mark.read_text() == before


class Leaky(Problem):
    """Stands for a sandbox with holes: does what an armed payload would do, and runs nothing of it."""

    objectives, execution, answer_format, name = ("x",), "shared", "python", "leaky"

    def __init__(self, *holes):
        self.holes = holes

    def statement(self):
        return "Anything."

    def seed_answer(self):
        return SEED

    def score(self, answer):
        if not answer.rstrip(" ").endswith("_evo_check()\n"):
            return Score((1.0,), 1.0)
        if "it ran" in answer:
            return Score.failure(1, f"RuntimeError: {MARK}it ran")
        if "network" in self.holes and (port := re.search(r"port = (\d+)", answer)):
            socket.create_connection(("127.0.0.1", int(port[1])), 5).close()
        if "leftovers" in self.holes and (token := re.search(r"token = '([\w-]+)'", answer)):
            file = Path("/tmp", token[1])
            if "find" not in answer and "Popen" in answer:
                file.write_text("left")
            elif file.exists():
                return Score.failure(1, f"RuntimeError: {MARK}a file in /tmp")
        return Score((1.0,), 1.0)


@pytest.mark.parametrize("hole", ["network", "leftovers"])
def test_what_a_sandbox_with_holes_lets_through(hole):
    assert attacked(Leaky(hole))[hole].level == "finding"
    assert attacked(Leaky())[hole].level == "ok"


def test_what_is_scored_in_this_process_is_not_attacked():
    class Here(Leaky):
        execution = "unknown"

        def score(self, answer):
            raise AssertionError("nothing may be asked")

    assert {finding.level for finding in check_attacks(Subject(Here()))} == {"skipped"}
