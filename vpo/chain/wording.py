"""The paragraph that tells an ordinary model how to write its m answers, and the tokens that they need."""

from __future__ import annotations

import ast

from vpo.chain.programs import DEFINITIONS, parse_code
from vpo.policies.prompt_formats import check_answers

_SPREAD = (
    "Make the {m} answers spread over the trade-offs: each should be the best of the {m} at something, so where the "
    "objectives pull apart let a different one give way each time. An answer that repeats another is thrown away."
)
_NOTHING_ELSE = "No tests, no examples, no explanations"
_IDEAS = (
    "the most direct way",
    "a different algorithm",
    "with the standard library",
    "as short as possible",
    "careful with special cases",
)
"""The words that distinguish the programs of a layout. Asked only for "different" programs, a small model repeats
one."""

# Models keep to a layout that is shown far more often than to one that is described, most often if it comes last
_SINGLE = {
    "python": f"Write one complete program. {_NOTHING_ELSE}: the reply is just this code block:\n\n{{layout}}",
    "route": "End with your route, nothing but its moves, between <route_1> and </route_1>.",
    "text": "Write your answer, and nothing else, between <answer_1> and </answer_1>.",
    "tagged": "Write one answer, and nothing else, in exactly the form that the task asks for, its tags included.",
}

_CHAIN = {
    "python": (
        f"Write {{m}} new programs for the task, no two alike. {_SPREAD} Every block must be complete and work alone. "
        f"{_NOTHING_ELSE}: the reply is just these {{m}} code blocks:\n\n{{layout}}"
    ),
    "route": (
        "Give {m} different routes, one after another, each between its own numbered tags and with nothing but its "
        "moves inside: the first between <route_1> and </route_1>, the last between <route_{m}> and </route_{m}>. "
        f"{_SPREAD}"
    ),
    "text": (
        "Give {m} different answers, one after another, each between its own numbered tags and with nothing but the "
        "answer inside: the first between <answer_1> and </answer_1>, the last between <answer_{m}> and </answer_{m}>. "
        f"{_SPREAD}"
    ),
    "tagged": (
        "Give {m} different answers, one after another, each complete in the form that the task asks for, its tags "
        "included, and each inside its own numbered tags: the first between <response_1> and </response_1>, the last "
        f"between <response_{{m}}> and </response_{{m}}>. {_SPREAD}"
    ),
}

_DIFF = """Change the current program with one or more edit blocks of exactly this form:

<<<<<<< SEARCH
lines of the current program, copied exactly with their indentation
=======
the lines that take their place
>>>>>>> REPLACE

Each SEARCH part must occur in the current program; the blocks are applied in order, all of them or none."""


def instructions(answer_format: str, answers: int, *, diff: bool = False, start: str = "") -> str:
    """The paragraph that ends an English prompt: how to write `answers` answers.

    answer_format: one of problems.contract.ANSWER_FORMATS
    answers: m >= 1; above 1 the paragraph also requests answers that spread over the trade-offs
    diff: request SEARCH/REPLACE edits of the program shown instead of a whole one (only for a single answer)
    start: the program that the search starts from; if it is one function or method to fill in, the layout shows it
    Raises ValueError on an unknown format, m < 1, or a diff of more than one answer.
    """
    check_request(answer_format, answers, diff)
    if diff:
        return _DIFF
    request = _SINGLE[answer_format] if answers == 1 else _CHAIN[answer_format]
    return request.format(m=answers, layout=layout(answers, start) if answer_format == "python" else "")


def layout(answers: int, start: str) -> str:
    inside = outline(start) or "..."
    if answers == 1:
        return f"```python\n{inside}\n```"
    return "\n\n".join(
        f"```python\n# Program {i}: {_IDEAS[(i - 1) % len(_IDEAS)]}\n{inside}\n```" for i in range(1, answers + 1)
    )


def outline(program: str) -> str:
    """A program that is one function, or one class with one method, with `...` as its body; "" for any other."""
    tree = parse_code(program)
    nodes = [node for node in tree.body if not isinstance(node, (ast.Import, ast.ImportFrom))] if tree else []
    lines: list[str] = []
    while len(nodes) == 1 and isinstance(nodes[0], DEFINITIONS):
        node = nodes[0]
        if node.body[0].lineno == node.lineno:
            return ""
        lines += program.split("\n")[node.lineno - 1 : node.body[0].lineno - 1]
        if not isinstance(node, ast.ClassDef):
            return "\n".join([*lines, " " * node.body[0].col_offset + "..."])
        nodes = node.body
    return ""


def check_request(answer_format: str, answers: int, diff: bool) -> None:
    """ValueError if no chain of this kind can be requested."""
    check_answers(answer_format, answers)
    if diff and answers > 1:
        raise ValueError("diff mode writes one answer per rollout; ask for answers=1 or for full rewrites")
    if diff and answer_format == "route":
        raise ValueError("diff mode edits programs and texts; a route is always written whole")
