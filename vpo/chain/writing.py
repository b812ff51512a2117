"""Chains of answers written as their parser reads them (vpo.chain.parsing): the text that a policy learns to write."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

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
