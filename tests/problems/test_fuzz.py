"""Further tests: how inputs are made, which are kept, and that they are read again."""

import json
import random

import pytest

from evo.cli import invoke
from problems import BadAddress, resolve
from problems.programs.cases import CallCase, StdinCase, Task
from problems.programs.fuzz import ALL_TOLD, FAILED, NO_REFERENCE, NOT_PLAIN, REFERENCE_FAILS, SLOW, UNSTABLE, fuzz_task
from problems.programs.typed_mutation import Seen, mutate, mutate_lines
from problems.registry import shared_sandbox
from problems.sandbox.pool import Sandbox


@pytest.fixture(scope="module")
def other():
    with Sandbox.open(workers=1) as sandbox:
        yield sandbox


def called(reference, *cases, seconds=6.0):
    return Task("t", "", tuple(CallCase(*case) for case in cases), entry="f", reference=reference, seconds=seconds)


def fuzzed(task, other, *mutants, **options):
    return fuzz_task(task, shared_sandbox(), other, lambda code: mutants, seed="0", **options)


def noted(*values):
    seen = Seen()
    for value in values:
        seen.note(value)
    return seen


SHAPES = [
    (7, lambda v: 2 <= v <= 9),
    ([3, 4, 2], lambda v: all(2 <= x <= 9 for x in v) and len(v) <= 8),
    ("abc", lambda v: set(v) <= set("abcd") and len(v) <= 8),
    ([[1, 2], [3, 4]], lambda v: {len(row) for row in v} == {2}),
    ((1, "x"), lambda v: type(v) is tuple),
    ({"a": 1}, lambda v: v.keys() == {"a"} and type(v["a"]) is int),
    (0.5, lambda v: type(v) is float),
    (True, lambda v: v is False),
    ({1, 2}, lambda v: type(v) is set),
]


@pytest.mark.parametrize(("value", "holds"), SHAPES, ids=lambda one: type(one).__name__)
def test_a_mutation_keeps_types_and_stays_within_what_was_seen(value, holds):
    rng, seen = random.Random(0), noted(value, 2, 9, 0.25, [2, 3, 4, 9], "dabc")
    made = [mutate(value, seen, rng) for _ in range(200)]
    assert all(type(one) is type(value) and holds(one) for one in made)
    assert any(one != value for one in made)


def consistent(text):
    """An input of the form N, then N numbers, then M, then M lines of two."""
    lines = [line.split() for line in text.splitlines()]
    rows = lines[3:]
    return len(lines[1]) == int(lines[0][0]) and len(rows) == int(lines[2][0]) and all(len(row) == 2 for row in rows)


def test_a_number_that_counts_what_follows_changes_with_it():
    text, rng = "5\n1 2 3 4 9\n3\n7 8\n7 9\n6 6\n", random.Random(0)
    made = {mutate_lines(text, [text], rng) for _ in range(400)}
    assert all(map(consistent, made))
    assert {one.splitlines()[0] for one in made} >= {"4", "5", "6"} and {one.splitlines()[2] for one in made} >= {
        "2",
        "4",
    }
    words = {mutate_lines("4\nabca\n", ["4\nabca\n"], rng) for _ in range(200)}
    assert all(len(one.split()[1]) == int(one.split()[0]) for one in words) and len(words) > 10


def test_an_input_is_kept_where_it_tells_a_mutant_that_no_test_told(other):
    reference = "def f(x):\n    return x if x < 50 else 50\n"
    task = called(reference, ("f(1)", 1), ("f(100)", 50))
    told = "def f(x):\n    return 0\n"
    subtle = "def f(x):\n    return x if x < 40 else 50\n"
    found = fuzzed(task, other, told, subtle)
    assert (found.mutants, found.told_before, found.told_after) == (2, 1, 2)
    (test,) = found.tests
    number = int(test["call"].removeprefix("f(").removesuffix(")"))
    assert 40 <= number < 50 and test["result"] == str(number)
    assert fuzzed(task, other, told).skipped == ALL_TOLD
    equal = fuzzed(task, other, "def f(x):\n    return min(x, 50)\n")
    assert equal.tests == [] and equal.refused["tells no further mutant apart"] == equal.tried > 0


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return x if x in (1, 100) else 1 / 0", FAILED),
        ("return x if x in (1, 100) else __import__('time').time_ns()", UNSTABLE),
        ("CALLS.append(x)\n    return x if x in (1, 100) else len(CALLS)", UNSTABLE),
        ("while x not in (1, 100):\n        pass\n    return x", SLOW),
        ("return x if x in (1, 100) else object()", FAILED),
        ("return x if x in (1, 100) else float('nan')", NOT_PLAIN),
    ],
)
def test_an_input_on_which_the_reference_is_no_witness_is_refused_with_the_reason(other, body, why):
    reference = f"CALLS = []\n\n\ndef f(x):\n    {body}\n"
    task = called(reference, ("f(1)", 1), ("f(100)", 100), seconds=0.3)
    found = fuzzed(task, other, "def f(x):\n    return x\n", tries=6)
    assert found.refused[why] > 0 and found.tests == [], found


def test_a_task_without_a_sound_reference_is_left_as_it_is(other):
    assert fuzzed(called(None, ("f(1)", 1)), other, "x = 1").skipped == NO_REFERENCE
    assert (
        fuzzed(called("def f(x):\n    return 1 / 0\n", ("f(1)", 1), ("f(9)", 9)), other, "x = 1").skipped
        == REFERENCE_FAILS
    )


def test_programs_that_read_standard_input(other):
    reference = "n = int(input())\nprint(max(map(int, input().split())))\n"
    cases = (StdinCase("2\n1 2\n", "2\n"), StdinCase("3\n5 1 9\n", "9\n"))
    last = "input()\nprint(list(map(int, input().split()))[-1])\n"
    second = "input()\nprint(sorted(map(int, input().split()))[1])\n"
    found = fuzzed(Task("t", "", cases, reference=reference), other, last, second, tries=30)
    assert found.tests and all(
        test["stdout"] == f"{max(map(int, test['stdin'].split()[1:]))}\n" for test in found.tests
    )


ROWS = [
    {
        "text": "Cap at 50.",
        "code": "def f(x):\n    return x if x < 50 else 50\n",
        "test_list": ["assert f(1) == 1", "assert f(100) == 50"],
    },
    {"text": "No reference.", "test_list": ["assert g(1) == 1"]},
]


def test_the_command_writes_rows_that_are_read_again_and_says_what_came_of_it(tmp_path, capsys):
    source, out = tmp_path / "own.jsonl", tmp_path / "more.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    assert invoke(["problems", "fuzz", str(source), "-o", str(out), "--json", "--mutants", "30"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["tasks"] == 2 and record["skipped"] == {"no reference": 1}
    assert record["kept"] >= 1 and record["told_after"] > record["told_before"]
    assert record["tried"] == record["kept"] + sum(record["refused"].values())
    before, after = resolve(f"programs:{source}/0"), resolve(f"programs:{out}/0")
    assert len(after[0].task.cases) == len(before[0].task.cases) + record["kept"]
    assert after[0].score(ROWS[0]["code"]).fitness == 1
    assert after[0].fingerprint() != before[0].fingerprint() and "further" not in after[0].statement()
    first = out.read_text()
    assert invoke(["problems", "fuzz", str(source), "-o", str(out), "--mutants", "30"]) == 0
    assert out.read_text() == first, "one seed gives one result"
    told = capsys.readouterr().out
    assert f"{record['kept']} tests added to 1 of 2 tasks" in told and "1 tasks (no reference)" in told


@pytest.mark.parametrize(
    "test",
    [
        {"call": "f(1)"},
        {"call": "f(1)", "result": "g()"},
        {"call": "1 +", "result": "1"},
        {"stdin": "", "stdout": ""},
        7,
    ],
)
def test_further_tests_that_do_not_fit_are_named(tmp_path, test):
    (tmp_path / "own.jsonl").write_text(json.dumps({**ROWS[0], "further_tests": [test]}))
    with pytest.raises(BadAddress, match=r"own\.jsonl:1: ") as caught:
        resolve(f"programs:{tmp_path / 'own.jsonl'}")
    assert "\n" not in str(caught.value)
