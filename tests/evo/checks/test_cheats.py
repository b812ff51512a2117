"""Cheats on scorers that fall for them and on those that do not. All of them run in the sandbox, or not at all."""

import pytest
from support.rows import yaml_rows

from evo.checks.soundness import check_cheats, ranked
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


NO_FAULT = {
    **dict.fromkeys(("nan", "raises", "cut", "empties", "equals", "elements", "claim", "leaves early"), "ok"),
    "process": "note",
}
"""The level of each check."""


def found_in(problem):
    return {finding.check: finding for finding in check_cheats(Subject(problem, mutants=16))}


def scorer_of(folder, text):
    (folder / "scorer.py").write_text(text)
    return resolve(str(folder / "scorer.py"))[0]


def scorer_file(folder, close, seed=SEED, text=SHARED):
    return scorer_of(folder, text.format(seed=seed, close=close))


@pytest.mark.parametrize(("check", "close"), yaml_rows(__file__, "values_that_pass_for_every_other_are_found"))
def test_values_that_pass_for_every_other_are_found(tmp_path, check, close):
    found = found_in(scorer_file(tmp_path, f"float({close})", FUNCTIONS, f"import functools\n{ERROR}{SHARED}"))
    assert found[check].level == "finding" and found["process"].level == "note", found


def test_a_part_of_a_result_may_be_a_better_answer():
    """One height alone has the bound 2; the seed's fifty have 2.028, and a short search finds better ones."""
    assert found_in(resolve("examples/maths/steps.py")[0])["cut"].level == "ok"


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
    assert {name: finding.level for name, finding in found.items()} == NO_FAULT
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
    given = [note("process", ""), faulty("equals", ""), ok("seed", ""), *(faulty(name, "") for name in ("nan", "time"))]
    assert [finding.check for finding in ranked(given)] == ["nan", "time", "equals", "process", "seed"]


RANK = """
import random
seed_answer = "def rank(hours, weight, left):\\n    return left\\n"
directions = {{"delay": "min"}}
draw = random.Random(1)
JOBS = [(draw.randint(1, 20), draw.randint(1, 9), draw.randint(20, 300)) for _ in range(40)]
def score(answer):
    {run}(answer, space := {{}})
    now, delay, waiting = 0, 0, list(JOBS)
    while waiting:
        hours, weight, due = job = min(waiting, key=lambda job: space["rank"](job[0], job[1], job[2] - now))
        waiting.remove(job)
        now += hours
        delay += weight * max(0, now - due)
    return {{"delay": delay}}
"""


@pytest.mark.parametrize("declared", [True, False])
def test_a_text_scorer_that_executes_a_program_is_attacked_with_python(tmp_path, declared):
    """README's first scorer. A rank times 1000, 10^6 and 10^9 is the same order: equal values are no growth."""
    found = found_in(scorer_of(tmp_path, "answer_format = 'python'\n" * declared + RANK.format(run="exec")))
    assert {name: one.level for name, one in found.items()} == NO_FAULT


CLAIM = """
seed_answer = "def f(n):\\n    return n\\n"
{directions}
def score(answer):
    exec(answer, space := {{}})
    return {{"size": {value}}}
"""


@pytest.mark.parametrize(
    ("directions", "value", "advised"),
    [
        ('directions = {"size": "min"}', '-float(space["f"](1))', False),  # declared already
        ('directions = {"size": "max"}', 'float(space["f"](1))', False),
        ("", 'float(space["f"](1))', True),
    ],
)
def test_a_number_that_is_believed_is_a_fault_and_no_declared_direction_is_advised(
    tmp_path, directions, value, advised
):
    claim = found_in(scorer_of(tmp_path, CLAIM.format(directions=directions, value=value)))["claim"]
    assert claim.level == "finding" and "a number that grows is believed" in claim.summary
    assert ("`directions`" in claim.details[0]) == advised


def test_growth_within_what_a_search_reaches_is_no_claim(tmp_path):
    """1 - 1/x grows for ever and stays below 1, which a search of x nearly reaches too."""
    value = 'round(1 - 1 / (1 + abs(space["f"](1))), 9)'
    subject = Subject(scorer_of(tmp_path, CLAIM.format(directions="", value=value)), mutants=16)
    for reached, level in ((1.0, "ok"), (0.6, "finding")):
        subject.__dict__["reached"] = reached
        assert {one.check: one.level for one in check_cheats(subject)}["claim"] == level


def test_a_short_search_reaches_further_than_mutants(tmp_path):
    text = CLAIM.format(directions="", value='-abs(space["f"](1) - 30)')
    subject = Subject(scorer_of(tmp_path, text), mutants=16)
    assert subject.reached >= max(one.fitness for one in subject.mutants if one.valid)
    assert subject.reached > subject.honest.fitness == -29
