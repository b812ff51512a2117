"""Verdicts on test code equal plain Python's: every pair of a right and a wrong answer is judged both ways.

The pairs are in verdicts.yaml. A part of them runs in the suite, all of them under `-m long`.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import types
import unittest
from pathlib import Path
from typing import Any

import pytest
import yaml

FORMS: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("verdicts.yaml").read_text())
FAST = (
    *("sorts in place", "grid of one row", "numpy for bool", "array argument", "state over lines", "SystemExit"),
    *("callback", "digits beyond 4,300", "what equals plain data"),
)


def rows_of(form: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows that pose a form: MBPP's list and script, HumanEval's check; each with and without own solution."""
    if "prompt" in form or "test" in form:
        row = {key: form[key] for key in ("prompt", "entry_point", "text", "test", "code") if key in form}
        return [row, *([{k: v for k, v in row.items() if k != "code"}] if "code" in row else [])]
    lines = form.get("test_list") or [form["tests"]]
    tests = re.findall(r"\w+", "\n".join(lines))
    rows: list[dict[str, Any]] = [{"text": "t", "test_list": lines}, {"text": "t", "test": "\n".join(lines)}]
    rows = rows[1:] if "runner" in form else rows
    rows = [row for row in rows if "own" not in form] + [{**row, "code": form["right"]} for row in rows]
    defined = [node for node in ast.parse(form["right"]).body if hasattr(node, "name") and node.name in tests]
    last = defined[-1] if len(defined) == 1 else None
    if "tests" in form and isinstance(last, ast.FunctionDef) and not ({"shapes", "runner", "own"} & form.keys()):
        check = ast.parse("def check(candidate): pass").body[0]
        check.body = [_Renamed(last.name).visit(s) for s in ast.parse(form["tests"]).body]
        if not any(isinstance(node, ast.ClassDef) and "Test" in ast.unparse(node.bases) for node in check.body):
            prompt = f"def {last.name}(*args):\n    '''Do it.'''\n"
            rows.append({"prompt": prompt, "entry_point": last.name, "test": ast.unparse(check)})
    return rows


class _Renamed(ast.NodeTransformer):
    def __init__(self, name: str) -> None:
        self.name = name

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name("candidate", node.ctx) if node.id == self.name else node


def runs_plainly(form: dict[str, Any], answer: str) -> bool:
    """Whether answer and tests come to their end in this process, one after the other."""
    sys.set_int_max_str_digits(50_000)
    tests = form.get("tests") or form.get("test") or "\n".join(form["test_list"])
    if "prompt" in form:
        answer, tests = f"{form['prompt']}\n{answer}", f"{tests}\ncheck({form['entry_point']})"
    if form.get("runner"):
        Path("test_plain.py").write_text(f"{answer}\n{tests}")
        return pytest.main(["-q", "-p", "no:cacheprovider", "test_plain.py"]) == 0
    sys.modules["plain"] = sys.modules["__main__"] = module = types.ModuleType("plain")
    try:
        exec(compile(answer, "<answer>", "exec", dont_inherit=True), vars(module))
        module.__name__ = "__main__"
        exec(compile(tests, "<tests>", "exec", dont_inherit=True), vars(module))
        suite = unittest.defaultTestLoader.loadTestsFromModule(module)
        if form.get("test"):
            for name, value in list(vars(module).items()):
                if name.startswith("test") and isinstance(value, types.FunctionType):
                    value()
        return unittest.TextTestRunner(stream=io.StringIO()).run(suite).wasSuccessful()
    except SystemExit as ended:  # as unittest.main() ends
        return not ended.code
    except BaseException:
        return False


def main() -> None:
    """Print {form: [verdict on the right answer, on the wrong one]}, each found in a process of its own."""
    verdicts: dict[str, list[bool]] = {}
    for name, form in FORMS.items():
        for answer in ("right", "wrong"):
            sys.stdout.flush()
            if (pid := os.fork()) == 0:
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                    passed = runs_plainly(form, form[answer])
                os._exit(0 if passed else 1)
            verdicts.setdefault(name, []).append(os.waitpid(pid, 0)[1] == 0)
    print(json.dumps(verdicts))


@pytest.mark.long
def test_plain_python_accepts_every_right_answer_and_no_wrong_one(tmp_path: Path) -> None:
    code = f"import sys; sys.path[:0] = [{str(Path(__file__).parent)!r}]; import test_verdicts; test_verdicts.main()"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    found = json.loads(run.stdout)
    assert {name: verdict for name, verdict in found.items() if verdict != [True, False]} == {}
    assert len(found) >= 200


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in FAST else pytest.mark.long) for n in FORMS])
def test_a_pair_is_judged_as_plain_python_judges_it(name: str, posed) -> None:
    form = FORMS[name]
    for row in rows_of(form):
        if "refused" in form:
            with pytest.warns(UserWarning, match=f"skipped: cannot be judged here: .*{form['refused']}"):
                pytest.raises(ValueError, posed, **row)
            continue
        problem = posed(**row)
        right, wrong = problem.score(form["right"]), problem.score(form["wrong"])
        assert right.fitness == 1, f"right is refused: {row}: {right.feedback or right.error}"
        assert wrong.fitness < 1, f"wrong is accepted: {row}"
