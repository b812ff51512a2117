"""Cheats on scorers that fall for them and on those that do not. All of them run in the sandbox, or not at all."""

import pytest

from evo.checks.cheats import check_cheats
from evo.checks.check import ranked
from evo.checks.subject import Subject, faulty, note, ok
from problems import resolve

SEED = "def f(n):\n    return n + 1\n"
SHARED = """\
answer_format = "python"
seed_answer = {seed!r}
WANTED = [n * n for n in range(9)]

def score(answer):
    names = {{}}
    exec(answer, names)
    return {{"close": {close}}}
"""
FUNCTIONS = """\
def f(n): return n + 1
def g(a): return a
def h(x): return [x]
def squares(n): return [0] * n
def total(): return {'tour': [0, 1], 'length': 4.0}
def pair(): return [0.5, 0.1], 1.2
class S:
    def pop(self): return 0.0
"""
ERROR = """\
LIST = [3, 1, 2]
def error(f):
    try: return sum(abs(f(n) - n * n) for n in range(5))
    except Exception: return 0
"""
APART = (
    '{"task_id": 1, "text": "Write f(n).", "code": "def f(n):\\n    return n * n", '
    '"test_list": ["assert f(2) == 4", "assert f(3) == 9", "assert f(5) == 25"]}\n'
)
EXACT = "sum(type(v := names['f'](n)) is int and v == w for n, w in enumerate(WANTED)) / 9"


def found_in(problem):
    return {finding.check: finding for finding in check_cheats(Subject(problem, mutants=16))}


def scorer_file(folder, close, seed=SEED, text=SHARED):
    (folder / "scorer.py").write_text(text.format(seed=seed, close=close))
    return resolve(str(folder / "scorer.py"))[0]


@pytest.mark.parametrize(
    ("check", "close"),
    [
        ("nan", "1 - sum(abs(names['f'](n) - w) > 1e-6 for n, w in enumerate(WANTED)) / 9"),
        ("equals", "sum(names['f'](n) == w for n, w in enumerate(WANTED)) / 9"),
        ("nan", "1 / (1 + functools.reduce(max, (abs(names['f'](n) - w) for n, w in enumerate(WANTED)), 0.0))"),
        ("nan", "1 - any(abs(v - 9) > 1e-6 for v in names['h'](3.0))"),
        ("nan", "1 - (abs(names['S']().pop() - 4.5) > 1e-9)"),
        ("elements", "type(r := names['g']([3, 1, 2])) is list and r == [1, 2, 3]"),
        ("elements", "type(r := names['squares'](5)) is list and len(r) == 5 and r[1:] == [1, 4, 9, 16]"),
        ("elements", "type(r := names['g']('aab')) is dict and len(r) == 2 and r['a'] == 2 and r['b'] == 1"),
        ("raises", "1 / (1 + error(names['f']))"),
        ("cut", "all(x == y for x, y in zip(names['h'](5.0), [2.5, 7.5], strict=False))"),
        ("empties", "sorted(r := names['g'](LIST)) == sorted(LIST) and all(x <= y for x, y in zip(r, r[1:]))"),
        ("claim", "names['total']()['length']"),
        ("claim", "len(names['pair']()[0]) + names['pair']()[1]"),
    ],
)
def test_values_that_pass_for_every_other_are_found(tmp_path, check, close):
    found = found_in(scorer_file(tmp_path, f"float({close})", FUNCTIONS, f"import functools\n{ERROR}{SHARED}"))
    assert found[check].level == "finding" and found["process"].level == "note", found


@pytest.mark.parametrize(
    ("check", "score"),
    [
        ("claim", "json.loads(answer)['value']"),
        ("claim", "(json.loads(answer)['x'] - 2) ** 2"),
        ("nan", "0.1 if abs(json.loads(answer)['x']) < 5 else 0.0 if abs(json.loads(answer)['x']) >= 5 else 1.0"),
    ],
)
def test_numbers_of_a_text_that_pass_for_a_result_are_found(tmp_path, check, score):
    text = f'import json\nseed_answer = \'{{{{"x": 1, "value": 6}}}}\'\ndef score(answer):\n    return {score}\n'
    assert found_in(scorer_file(tmp_path, "", text=text))[check].level == "finding"


def test_an_ordinary_scorer_has_no_fault(tmp_path):
    found = found_in(scorer_file(tmp_path, EXACT))
    assert {name: finding.level for name, finding in found.items()} == {
        **dict.fromkeys(("nan", "raises", "cut", "empties", "equals", "elements", "claim", "leaves early"), "ok"),
        "process": "note",
    }
    assert "evo.call" in found["process"].details[0]


def test_an_answer_that_runs_apart_cannot_cheat(tmp_path):
    (tmp_path / "tasks.jsonl").write_text(APART)
    found = found_in(resolve(f"programs:{tmp_path}/tasks.jsonl/0")[0])
    assert {finding.level for finding in found.values()} == {"ok"}, found


def test_an_answer_that_is_only_read_is_not_tried_further(tmp_path):
    found = found_in(scorer_file(tmp_path, "answer.count('a')", text=SHARED.replace("exec(answer, names)", "pass")))
    assert list(found) == ["process"] and found["process"].level == "ok"


@pytest.mark.parametrize(("last", "level"), [("route.py", "finding"), ("judge.py", "ok")])
def test_a_command_that_lets_the_answer_print_the_result(tmp_path, last, level):
    (tmp_path / "route.py").write_text("print('{\"length\": 1.0}')\n")
    (tmp_path / "judge.py").write_text("print('{\"length\": %d}' % len(open('route.py').read()))\n")
    (tmp_path / "problem.yaml").write_text(f"command: python3 {last}\nfiles: [route.py]\n")
    found = found_in(resolve(str(tmp_path))[0])
    assert found["leaves early" if level == "finding" else "process"].level == level, found


def test_an_unconfined_scorer_is_a_finding_and_is_not_tried(tmp_path):
    mark = tmp_path / "asked"
    text = f"isolated = False\n{SHARED}".replace(
        "    names = {{}}", f"    open({str(mark)!r}, 'a').write('x')\n    names = {{{{}}}}"
    )
    problem = scorer_file(tmp_path, EXACT, text=text)
    before = mark.read_text()
    assert found_in(problem)["process"].level == "finding" and mark.read_text() == before


def test_findings_come_worst_first():
    given = [note("process", ""), faulty("equals", ""), ok("seed", ""), *(faulty(name, "") for name in ("time", "nan"))]
    assert [finding.check for finding in ranked(given)] == ["nan", "time", "equals", "process", "seed"]
