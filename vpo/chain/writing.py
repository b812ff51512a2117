"""Chains of answers written as their parser reads them (vpo.chain.parsing): the text that a policy learns to write."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

import numpy as np

from vpo.policies.prompt_formats import check_answers

CONTEXT = 3
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
    groups = SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT)
    for group in groups:
        first, last = group[0], group[-1]
        search, replacement = old[first[1] : last[2]], new[first[3] : last[4]]
        blocks.append("\n".join(["<<<<<<< SEARCH", *search, "=======", *replacement, ">>>>>>> REPLACE"]))
    return "\n\n".join(blocks)


def draw_prefill(text: str, answer_format: str, rng: np.random.Generator) -> str:
    """A rollout cut at a random place inside its first answer, which equals `text` up to there.

    The layout before it is the one that `instructions` requests. A program is cut between two lines, a route between
    moves, a text between words, all places equally likely; "" if there is nothing to cut.
    """
    check_answers(answer_format, 1)
    if answer_format == "python":
        lines = text.strip("\n").split("\n")
        places = [i for i in range(1, len(lines)) if lines[i].strip()]
        return "```python\n" + "\n".join(lines[: rng.choice(places)]) + "\n" if places else ""
    pieces = list(text.strip()) if answer_format == "route" else text.split()
    if len(pieces) < 2:
        return ""
    kept = pieces[: rng.integers(1, len(pieces))]
    if answer_format == "route":
        return "<route_1>" + "".join(kept)
    return ("<response_1>" if answer_format == "tagged" else "<answer_1>") + " ".join(kept)
