"""`scripted:mutate`: what it does to text, numbers and programs, and that a search with it gets somewhere."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import json
import random
from functools import cache
from typing import Any

import pytest

from problems.types import Prompt
from vpo.chain import instructions, parse_chain
from vpo.policies.mutation import edit_block, jitter, mutate_answer, read_numbers
from vpo.policies.registry import policy_at

PROGRAM = """import math

# EVOLVE-BLOCK-START
def f(x, y):
    # a comment that stays
    total = 0.5
    for i in range(10):
        if x > i and y < 3:
            total += x * 2 + 17
        total = max(total, y)
    return total, "ö"
# EVOLVE-BLOCK-END

LIMIT = 99
"""
HEAD, TAIL = PROGRAM.split("# EVOLVE-BLOCK-START")[0], PROGRAM.split("# EVOLVE-BLOCK-END")[1]


@cache
def mutants(parent: str, others=(), task="", python=False, count=200) -> list[str]:
    return [mutate_answer(parent, others, task, python, random.Random(seed)) for seed in range(count)]


def test_mutants_of_a_program_parse_differ_and_keep_what_may_not_change() -> None:
    found = mutants(PROGRAM, python=True)
    for code in found:
        assert ast.dump(ast.parse(code)) != ast.dump(ast.parse(PROGRAM))
        assert code.startswith(HEAD) and code.endswith(TAIL)
        assert '"ö"' in code and "# a comment that stays" in code
    assert len(set(found)) > 100


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and type(n.value) is float},
        lambda tree: {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and type(n.value) is int},
        lambda tree: [type(n.op) for n in ast.walk(tree) if isinstance(n, ast.BinOp)],
        lambda tree: [type(n.ops[0]) for n in ast.walk(tree) if isinstance(n, ast.Compare)],
        lambda tree: [type(n.op) for n in ast.walk(tree) if isinstance(n, ast.BoolOp)],
        lambda tree: [type(n) for n in tree.body[1].body],
        lambda tree: sum(isinstance(n, ast.Not) for n in ast.walk(tree)),
    ],
    ids=["floats", "whole numbers", "arithmetic", "comparisons", "and/or", "statements", "conditions"],
)
def test_every_kind_of_edit_happens(change) -> None:
    before = change(ast.parse(PROGRAM))
    assert sum(change(ast.parse(code)) != before for code in mutants(PROGRAM, python=True)) > 3


def test_what_a_function_returns_keeps_its_shape() -> None:
    for code in mutants(PROGRAM, python=True):
        (function,) = [node for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)]
        (returned,) = [node for node in ast.walk(function) if isinstance(node, ast.Return)]
        assert isinstance(returned.value, ast.Tuple) and len(returned.value.elts) == 2


def test_a_bare_expression_gets_terms_calls_and_conditions_of_what_is_in_scope() -> None:
    other = "def other(unseen):\n    hidden = 1\n    return hidden\n"
    parent = f'import math\n\n{other}\ndef priority(job, now):\n    return job["wait"]\n'
    found = mutants(
        parent, task='Elements are job["length"] and "weight"; other["things"] are not here.', python=True, count=300
    )
    for part in ('job["length"]', 'job["weight"]', "now", "math.", "max(", " if ", " - ", " * "):
        assert any(part in code for code in found)
    job = {"wait": 3.0, "length": 2.0, "weight": 0.5}
    for code in found:
        space: dict[str, Any] = {}
        exec(code, space)
        with contextlib.suppress(ArithmeticError, ValueError):
            assert isinstance(space["priority"](job, 7.0), float | int | complex)


@pytest.mark.parametrize("body", ["pass", "return None"])
def test_a_function_that_does_nothing_returns_something(body) -> None:
    assert "def f(name):\n    return name\n" in mutants(f"def f(name):\n    {body}\n", python=True)


def test_a_program_in_another_language_is_changed_between_its_marks() -> None:
    start, end = "// EVOLVE-BLOCK-START\n", "// EVOLVE-BLOCK-END\nint limit = 7;\n"
    parent = f"{start}int f() {{\n  return 3 * 10;\n}}\n{end}"
    found = mutants(parent, python=True, count=50)
    assert all(code.startswith(start) and code.endswith(end) for code in found) and parent not in found


def test_edits_read_back_as_the_mutant() -> None:
    for code in mutants(PROGRAM, python=True):
        chain = parse_chain(edit_block(PROGRAM, code), "python", 1, diff_parent=PROGRAM)
        assert chain.error is None and chain.answers[0].rstrip() == code.rstrip()


@pytest.mark.parametrize("value", [0, 1, -7, 1000, 0.0, 2.5, -1e-9, 1e149, True, 10**149])
def test_constants_stay_of_their_kind_and_move(value) -> None:
    for seed in range(50):
        moved = ast.literal_eval(jitter(value, random.Random(seed)))
        assert type(moved) is type(value) and (moved != value or value in (1e149, 0.0, -1e-9))


@pytest.mark.parametrize(
    "parent", ["3", "0.25", "-1e-3", "[0.5, 2, [3]]", '{"a": 1.5, "b2": [2, 3]}', "1 2 3\n4 5 6", "0.5, 1.5"]
)
def test_numbers_keep_their_form(parent: str) -> None:
    form = read_numbers(parent)
    assert form is not None
    for text in mutants(parent, count=50):
        moved = read_numbers(text)
        assert moved is not None and moved[1] == form[1] and moved[0] != form[0]
        for value, before in zip(moved[0], form[0], strict=True):
            assert value.lstrip("-").isdigit() or not before.isdigit()
        if parent[0] in "[{":
            json.loads(text)


@pytest.mark.parametrize("number", ["9" * 309, "-" + "1" * 5000, "1e400", "1e200", "0" * 5000 + "1"])
def test_numbers_beyond_what_a_float_holds_are_left_as_they_are(number: str) -> None:
    assert set(mutants(number, count=20)) == {number}
    for text in mutants(f"[{number}, 5]", count=20):
        assert text.startswith(f"[{number}, ") and text != f"[{number}, 5]"


@pytest.mark.parametrize("number", ["9" * 309, "9" * 4300, "0x" + "f" * 4000, "0b" + "1" * 20_000, "1e400", "1e400j"])
def test_so_they_are_in_a_program(number: str) -> None:
    codes = mutants(f"x = {number}\ny = 2\n", python=True, count=40)
    assert len(set(codes)) > 5
    for code in codes:
        assert number in code or "x =" not in code  # its line may be left out
        ast.parse(code)


@pytest.mark.parametrize("text", ["abc", "a 1", "[1, true]", '["1"]', "", "[]", "3 apples"])
def test_what_holds_other_things_is_no_vector(text: str) -> None:
    assert read_numbers(text) is None


def test_numbers_take_steps_of_many_sizes() -> None:
    steps = sorted(abs(float(text) - 8.0) for text in mutants("8.0"))
    assert steps[20] < 0.1 and steps[-20] > 2.0


def test_text_is_edited_by_characters_words_and_lines() -> None:
    assert any(text in ("abb", "bba", "aba") for text in mutants("abba"))
    assert "abbaabba" in mutants("abba", count=1000)
    lines = mutants("one\ntwo\nthree")
    assert any(text.split("\n") in (["two", "one", "three"], ["one", "three"]) for text in lines)
    assert all(text.strip() not in ("", "one\ntwo\nthree") for text in lines)


def test_something_is_written_where_nothing_is_shown() -> None:
    written = mutants("", task="Give 4 numbers that differ.")
    assert any(form is not None and len(form[0]) == 4 for form in map(read_numbers, written))
    assert any(text.isalpha() for text in written)
    (code, *_) = mutants("", task="Write a function def add(a, b: int = 3) -> int that ...", python=True, count=1)
    assert isinstance(ast.parse(code).body[0], ast.FunctionDef) and "def add(a, b: int = 3):" in code


def test_the_policy_reads_whole_answers_not_the_prompt_and_repeats_none() -> None:
    user = "# Answer to improve\nFitness 0.5 (a 1)\nFeedback: more\nabba\n\n" + instructions("text", 3)
    prompt = Prompt(user, shown=("abba", "level"))
    policy = policy_at("scripted:mutate")
    found = asyncio.run(policy.sample([prompt], rollouts=20, answers=3, seed=0))[0]
    assert asyncio.run(policy.sample([prompt], rollouts=20, answers=3, seed=0))[0][5].text == found[5].text
    for rollout in found:
        chain = parse_chain(rollout.text, "text", 3)
        assert chain.error is None and len(set(chain.answers)) == 3
        assert not any(word in rollout.text for word in ("Fitness", "Feedback", "more"))
