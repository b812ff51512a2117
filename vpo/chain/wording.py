"""The paragraph that tells an ordinary model how to write its m answers, and the tokens that they need."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from vpo.chain.programs import DEFINITIONS, parse_code
from vpo.policies.prompt_formats import check_answers


@cache
def _wording() -> dict[str, Any]:
    """What wording.yaml holds."""
    import yaml

    words: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return words


def instructions(answer_format: str, answers: int, *, diff: bool = False, start: str = "") -> str:
    """The paragraph that ends an English prompt: how to write `answers` answers.

    answer_format: one of problems.contract.ANSWER_FORMATS
    answers: m >= 1; above 1 the paragraph also requests answers that spread over the trade-offs
    diff: request SEARCH/REPLACE edits of the program shown instead of a whole one (only for a single answer)
    start: the program that the search starts from; if it is one function or method to fill in, the layout shows it
    Raises ValueError on an unknown format, m < 1, or a diff of more than one answer.
    """
    check_request(answer_format, answers, diff)
    words = _wording()
    if diff:
        return str(words["diff"])
    request: str = words["single" if answers == 1 else "chain"][answer_format]
    shown = layout(answers, start) if answer_format == "python" else ""
    return request.format(m=answers, layout=shown, spread=words["spread"].format(m=answers))


def layout(answers: int, start: str) -> str:
    inside = outline(start) or "..."
    if answers == 1:
        return f"```python\n{inside}\n```"
    ideas = islice(cycle(_wording()["ideas"]), answers)
    return "\n\n".join(f"```python\n# Program {i}: {idea}\n{inside}\n```" for i, idea in enumerate(ideas, 1))


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


_CONTEXT = 3
"""Context lines before a change in a SEARCH part; more if they occur elsewhere too."""


def write_chain(answers: Sequence[str], answer_format: str) -> str:
    """The reply that holds these answers, in the layout of the request (vpo.chain.wording)."""
    if answer_format == "python":
        return "\n\n".join(f"```python\n{answer.strip(chr(10))}\n```" for answer in answers)
    if answer_format == "tagged" and len(answers) == 1:
        return answers[0]
    tag = {"route": "route", "tagged": "response"}.get(answer_format, "answer")
    within = "" if tag == "route" else "\n"
    return "\n".join(
        f"<{tag}_{number}>{within}{answer}{within}</{tag}_{number}>" for number, answer in enumerate(answers, 1)
    )


def write_edits(parent: str, child: str) -> str:
    """SEARCH/REPLACE blocks that make `parent` into `child`, one for each stretch of changed lines."""
    old, new = parent.split("\n"), child.split("\n")
    blocks: list[str] = []
    groups = SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT)
    for group in groups:
        first, last = group[0], group[-1]
        search, replacement = old[first[1] : last[2]], new[first[3] : last[4]]
        blocks.append("\n".join(["<<<<<<< SEARCH", *search, "=======", *replacement, ">>>>>>> REPLACE"]))
    return "\n\n".join(blocks)
