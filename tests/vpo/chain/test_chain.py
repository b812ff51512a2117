"""Reading chains: what small models write, and what must not be read into it."""

from __future__ import annotations

import pytest

from vpo.chain import Chain, default_max_tokens, instructions, parse

F = "def f(x):\n    return x + 1"
G = "def g(x):\n    y = x * 2\n    return y"
H = "import math\n\ndef h(x):\n    return math.sqrt(x)"


def fence(code: str, language: str = "python") -> str:
    return f"```{language}\n{code}\n```"


# --- programs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        fence(F),
        fence(F, "py"),
        fence(F, "python3"),
        fence(F, "Python"),
        fence(F, ""),
        f"~~~python\n{F}\n~~~",
        f"````python\n{F}\n````",
        "Sure! Here it is:\n\n" + fence(F) + "\n\nThis adds one. It runs in O(1).",
        f"Here it is: ```python\n{F}\n```",
        fence(F).replace("\n", "\r\n"),
        f"```python\n{F}",  # never closed, but whole
        F,
        f"Here is the function:\n\n{F}",
        f"{F}\n\nThis function adds one to its argument.",
        f"```\n{fence(F, '')}",  # an empty block first
        f"<think>I could write {fence(G)}</think>\n{fence(F)}",
        f"Let me see {fence(G)} no.</think>\n{fence(F)}",
        f"<answer_1>\n{fence(F)}\n</answer_1>",
        f"```python\n<answer_1>\n{F}\n</answer_1>\n```",
        f"<answer_1>\n{F}\n</answer_1>",
        f"{fence(F)}\nUsage:\n{fence('print(f(1))')}",
        f"{fence(F)}\nTests:\n{fence('assert f(1) == 2')}\nOutput:\n{fence('2', '')}",
        f"{fence('pip install numpy', 'bash')}\n{fence(F)}",
        "1. The function:\n\n   ```python\n   def f(x):\n       return x + 1\n   ```",
        "```python\ndef f(x):\n    return x + 1```",
    ],
)
def test_one_program_is_found_however_it_is_wrapped(text: str) -> None:
    assert parse(text, "python", 1) == Chain((F,))


@pytest.mark.parametrize(
    "text",
    [
        f"{fence(F)}\n---\n{fence(G)}\n---\n{fence(H)}",
        f"{fence(F)}\n\n{fence(G, 'py')}\n\n{fence(H, '')}",
        f"Program 1\n{fence(F)}\nProgram 2, faster:\n{fence(G)}\nand\n{fence(H)}\nThey differ.",
        f"<answer_1>{fence(F)}</answer_1>\n<answer_1>{fence(G)}</answer_1>\n<answer_7>{fence(H)}</answer_7>",
        f"```python\n{F}\n---\n{G}\n---\n{H}\n```",
        f"```python\n<answer_1>\n{F}\n</answer_1>\n<answer_2>\n{G}\n</answer_2>\n<answer_3>\n{H}\n</answer_3>\n```",
        f"<answer_1>\n{F}\n</answer_1><answer_2>\n{G}\n</answer_2><answer_3>\n{H}\n</answer_3>",
        f"{F}\n---\n{G}\n---\n{H}",
        f"```python\n{F}\n---\n```python\n{G}\n```python\n{H}\n```",  # closing fences forgotten
        f"{fence(F)}\n---\n{fence(F)}\n---\n{fence(G)}\n---\n{fence(H)}",  # a repeat does not use up a place
        f"{fence(F)}\n{fence('print(f(1))')}\n---\n{fence(G)}\n{fence('g(3)')}\n---\n{fence(H)}",
        f"{fence(F)}\n---\n{fence(G)}\n---\n{fence(H)}\n---\n{fence('z = 1')}",  # m is the most
    ],
)
def test_a_chain_of_programs_keeps_its_order(text: str) -> None:
    assert parse(text, "python", 3) == Chain((F, G, H))


@pytest.mark.parametrize(
    ("text", "answers", "error"),
    [
        (fence("# program 1, complete"), (), "no Python code block"),
        ("I cannot do that.", (), "no Python code block"),
        ("", (), "no Python code block"),
        (fence("x", "json"), (), "no Python code block"),
        (f"{fence(F)}\n---\n```python\ndef g(x):\n    return (x *", (F,), "1 of 3 answers found: unclosed code fence"),
        (f"{fence(F)}\n{fence(F + '  # again')}", (F,), "1 of 3 answers found: 1 repeated another"),
        (f"{fence(F)}\n{fence(G)}", (F, G), "2 of 3 answers found: it wrote no more"),
        (f"<think>hm\n{fence(F)}", (), "the thinking never ended"),
        ("```python\ndef g(x):\n    return (x *", (), "unclosed code fence"),
    ],
)
def test_what_is_missing_is_said_in_one_line(text: str, answers: tuple[str, ...], error: str) -> None:
    assert parse(text, "python", 3) == Chain(answers, error)


def test_a_closed_block_with_a_syntax_error_is_an_answer_at_fault() -> None:
    assert parse(fence("def f(x:\n    return"), "python", 1).answers == ("def f(x:\n    return",)


def test_fences_inside_a_docstring_do_not_end_the_block() -> None:
    code = 'def f(x):\n    """Adds.\n\n```\nf(1)\n```\n    """\n    return x + 1'
    assert parse(fence(code), "python", 1).answers == (code,)


def test_a_separator_inside_a_string_does_not_divide() -> None:
    code = 'TEXT = """\n---\n"""\n\ndef f():\n    return TEXT'
    assert parse(fence(code), "python", 2).answers == (code,)


def test_for_one_answer_the_whole_program_beats_its_parts() -> None:
    whole = f"{F}\n\n{G}"
    assert parse(f"First {fence(F)}\nthen all of it:\n{fence(whole)}", "python", 1).answers == (whole,)


def test_standard_input_programs_are_not_taken_for_examples() -> None:
    one, two = "print(sum(map(int, input().split())))", "a, b = map(int, input().split())\nprint(a + b)"
    assert parse(f"{fence(one)}\n---\n{fence(two)}", "python", 2).answers == (one, two)


# --- routes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "<route_1>RRD</route_1><route_2>DDR</route_2>",
        "I go right first.\n<route_1>\nR, R, D\n</route_1>\nElse down:\n<route_2> d d r </route_2> Done.",
        "<route_1>Right, right, DOWN</route_1>\n<ROUTE_2>[D,D,R]</ROUTE_2>",
        "<route_1>→ → ↓</route_1><route_2>↓↓→</route_2>",
        "<route_1>R R D\n<route_2>D D R</route_2>",  # closing tag forgotten
        "<route_1>RRD</route_2><route_2>DDR</route_1>",
        "<route_1>RRD</route_1><route_1>DDR</route_1>",
        "<route 1>RRD</route 1><route-2>DDR</route-2>",
        "```\n<route_1>RRD</route_1>\n<route_2>DDR</route_2>\n```",
        "<route_1>`RRD`</route_1><route_2>```\nDDR\n```</route_2>",
        "<route_1>...</route_1> goes here:\n<route_1>RRD</route_1><route_2>DDR</route_2>",
        "<route_1>RRD</route_1><route_2>rrd</route_2><route_3>DDR</route_3>",
        "<answer_1>RRD</answer_1><answer_2>DDR</answer_2>",
        "<route_1>RRD</route_1>\r\n<route_2>DDR",  # cut, but all moves
    ],
)
def test_routes_are_read_as_letters(text: str) -> None:
    assert parse(text, "route", 2) == Chain(("RRD", "DDR"))


@pytest.mark.parametrize(
    ("text", "answers", "error"),
    [
        ("RRD then DDR", (), "no <route_1> tag"),
        ("<route_1>RRD</route_1>", ("RRD",), "1 of 2 answers found: it wrote no more"),
        ("<route_1>RRD</route_1><route_2>go up", ("RRD",), "1 of 2 answers found: unclosed <route_2> tag"),
        (
            "<route_1>to the gold</route_1><route_2>DDR</route_2>",
            ("DDR",),
            "1 of 2 answers found: <route_1> holds more",
        ),
        ("<route_1>RRD</route_1><route_2>R R D</route_2>", ("RRD",), "1 of 2 answers found: 1 repeated another"),
    ],
)
def test_routes_left_out_are_named(text: str, answers: tuple[str, ...], error: str) -> None:
    chain = parse(text, "route", 2)
    assert chain.answers == answers
    assert chain.error is not None and chain.error.startswith(error)


def test_a_lone_route_needs_no_tag_and_a_lone_sentence_is_none() -> None:
    assert parse("R R D D", "route", 1) == Chain(("RRDD",))
    assert parse("Right away!", "route", 1).answers == ()


# --- texts ------------------------------------------------------------------------------------------------------------


def test_texts() -> None:
    two = "<answer_1>\nfirst line\n  second line\n</answer_1> and <answer_2>other</answer_2>"
    assert parse(two, "text", 2) == Chain(("first line\n  second line", "other"))
    assert parse(" plain words ", "text", 1) == Chain(("plain words",))
    assert parse("plain words", "text", 2) == Chain((), "no <answer_1> tag")
    assert parse("<answer_1>a b</answer_1", "text", 1).answers == ("a b",)
    assert parse("<answer_1>a b</answer_1><answer_2>a  b</answer_2>", "text", 2).answers == ("a b",)


def test_a_text_that_the_token_limit_cut_is_left_out() -> None:
    text = "<answer_1>whole</answer_1><answer_2>half of"
    assert parse(text, "text", 2).answers == ("whole", "half of")
    assert parse(text, "text", 2, truncated=True) == Chain(("whole",), "1 of 2 answers found: unclosed <answer_2> tag")
    assert parse("half of", "text", 1, truncated=True).answers == ()


# --- edits ------------------------------------------------------------------------------------------------------------


def edit(search: str, replacement: str) -> str:
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replacement}\n>>>>>>> REPLACE"


PARENT = "import math\n\ndef f(x):\n    y = x + 1\n    return y\n"


@pytest.mark.parametrize(
    "text",
    [
        edit("    y = x + 1", "    y = x + 2"),
        "I change one line.\n```diff\n" + edit("    y = x + 1", "    y = x + 2") + "\n```\nDone.",
        edit("    y = x + 1", "    y = x + 2").replace("\n", "\r\n"),
        edit("    y = x + 1   ", "    y = x + 2"),
        edit("    y = x + 1", "    y = x + 3") + "\n" + edit("    y = x + 3", "    y = x + 2"),
        edit("    y = x + 1", "    y = x + 2").replace("SEARCH", " SEARCH  ").replace("<<<<<<<", "<<<<<<"),
        fence(PARENT.replace("x + 1", "x + 2").rstrip("\n")),  # rewrote the whole of it
    ],
)
def test_edits_are_applied_to_the_parent(text: str) -> None:
    chain = parse(text, "python", 1, diff_parent=PARENT)
    assert chain.error is None
    assert [answer.rstrip("\n") for answer in chain.answers] == [PARENT.replace("x + 1", "x + 2").rstrip("\n")]


def test_a_heading_in_a_docstring_may_be_underlined_like_the_divider() -> None:
    heading = '    """Adds.\n\n    Example\n    =======\n    f(1)\n    """'
    added = parse(edit("    y = x + 1", f"{heading}\n    y = x + 20"), "python", 1, diff_parent=PARENT)
    assert added == Chain((PARENT.replace("    y = x + 1", f"{heading}\n    y = x + 20"),))
    removed = parse(edit(f"{heading}\n    y = x + 20", "    y = x + 1"), "python", 1, diff_parent=added.answers[0])
    assert removed == Chain((PARENT,))
    above = "Plan\n=======\n" + edit("import math", "import cmath")
    assert parse(above, "python", 1, diff_parent=PARENT).answers[0].startswith("import cmath")


@pytest.mark.parametrize(
    ("search", "replacement"),
    [
        ("=======\nTitle\n=======", "======\nTitle\n======"),
        ("\n".join(["=======\nline"] * 6), "\n".join(["=======\nother"] * 6)),
        ("<<<<<<< HEAD\n=======\n>>>>>>> theirs", "<<<<<<< ours\n=======\n>>>>>>> theirs"),
        ("<<<<<<<\n>>>>>>>", "<<<<<<<\n=======\n>>>>>>>"),
        ("<<<<<<< SEARCH\nold", "<<<<<<< SEARCH\nnew"),
        ("old\n=======\nnew", "new\n=======\nold"),
    ],
)
def test_lines_like_markers_may_stand_in_a_program(search: str, replacement: str) -> None:
    program = 'TEXT = """\n{}\n"""\nx = 1\n'
    before, after = program.format(search), program.format(replacement)
    assert parse(edit(search, replacement), "python", 1, diff_parent=before) == Chain((after,))
    elsewhere = parse(edit("x = 1", "x = 2"), "python", 1, diff_parent=before)
    assert elsewhere == Chain((before.replace("x = 1", "x = 2"),))


def test_a_block_that_fits_nothing_is_left_out_and_the_rest_is_applied() -> None:
    changed = PARENT.replace("import math", "import cmath")
    for odd, why in (
        (edit("    z = 9", "    z = 8"), "its SEARCH part is not in the program: 'z = 9'"),
        (edit("", "y = 1"), "the SEARCH part is empty"),
        (edit("\n", "y = 1"), "the SEARCH part is empty"),
    ):
        first = parse(edit("import math", "import cmath") + "\n" + odd, "python", 1, diff_parent=PARENT)
        assert first == Chain((changed,), f"left out edit block 2 of 2: {why}")
        last = parse(odd + "\n" + edit("import math", "import cmath"), "python", 1, diff_parent=PARENT)
        assert last == Chain((changed,), f"left out edit block 1 of 2: {why}")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            edit("    w = 9", "    w = 8") + "\n" + edit("    z = 9", "    z = 8"),
            "edit block 1 of 2: its SEARCH part is not in the program: 'w = 9'",
        ),
        (edit("", "import os"), "edit block 1 of 1: the SEARCH part is empty"),
        (edit("    y = x + 1", "    y = x + 2\n=======\n    y = x + 5"), "malformed edit block: a second line ======="),
        (
            edit("import math", "import cmath") + "\n" + edit("    return y", "    return 2\n=======\n    return 3"),
            "malformed edit block: a second line =======",
        ),
        (edit("import math", "import math"), "the edits change nothing"),
        ("<<<<<<< SEARCH\nimport math\n>>>>>>> REPLACE", "malformed edit block"),
        ("<<<<<<< SEARCH\nimport math\n=======\nimport cm", "malformed edit block"),
        ("I would leave it as it is.", "no Python code block"),
    ],
)
def test_an_edit_that_cannot_be_applied_is_an_error_that_names_it(text: str, error: str) -> None:
    chain = parse(text, "python", 1, diff_parent=PARENT)
    assert chain.answers == ()
    assert chain.error is not None and chain.error.startswith(error) and "\n" not in chain.error


# --- wording ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer_format", ["python", "route", "text"])
def test_only_chains_are_asked_to_spread(answer_format: str) -> None:
    assert "trade-off" in instructions(answer_format, 3) and "3" in instructions(answer_format, 3)
    assert "trade-off" not in instructions(answer_format, 1)


def test_the_instructions_are_not_answers_themselves() -> None:
    for answer_format in ("python", "route", "text"):
        chain = parse(instructions(answer_format, 3), answer_format, 3)
        assert chain.answers == () or answer_format == "text"


def test_a_layout_of_programs_shows_what_is_to_be_filled_in() -> None:
    method = "import sys\n\nclass Solution:\n    def f(self, x: int) -> int:\n        pass\n"
    for start in ("def f(x,\n      y=1):\n    pass\n", "from math import *\ndef f(x, y=1):\n    return 0"):
        shown = instructions("python", 3, start=start)
        assert shown.count("def f(x,") == 3 and shown.count("y=1):\n    ...\n```") == 3
        assert parse(shown, "python", 3).answers == ()
    assert "class Solution:\n    def f(self, x: int) -> int:\n        ...\n```" in instructions(
        "python", 1, start=method
    )
    for start in ("", "def f(:", "def f(): pass", "def f():\n    pass\ndef g():\n    pass", "x = {1}\n" + method):
        assert instructions("python", 2, start=start) == instructions("python", 2)
    assert len({line for line in instructions("python", 5).split("\n") if line.startswith("# Program")}) == 5


def test_requests_that_make_no_sense_are_refused() -> None:
    for arguments in (("poem", 1, False), ("python", 0, False), ("python", 2, True), ("route", 1, True)):
        with pytest.raises(ValueError):
            instructions(arguments[0], arguments[1], diff=arguments[2])
    with pytest.raises(ValueError):
        parse("", "python", 3, diff_parent=PARENT)


def test_room_grows_with_the_chain() -> None:
    for answer_format in ("python", "route", "text"):
        assert default_max_tokens(answer_format, 1) < default_max_tokens(answer_format, 3)
    assert default_max_tokens("route", 3, "maze-compact") < default_max_tokens("route", 3)


def test_compact_chains_are_decoded_by_their_language() -> None:
    chain = parse(">00 01 02 12 >00 10 11 <eos>", "route", 2, prompt_format="maze-compact")
    assert chain == Chain(("RRD", "DR"))
    assert parse("", "route", 2, prompt_format="maze-compact") == Chain((), "no route in it")
