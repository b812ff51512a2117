"""How much of one answer is in another, by the form in which answers are written."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

LONGEST = 1000
"""Lines of an answer; matching costs up to their square."""


def kept(parent: Sequence[object], child: Sequence[object]) -> tuple[float, float]:
    """The common beginning of two sequences and their common end beyond it, as shares of the length of `parent`."""
    most = min(len(parent), len(child))
    first = next((i for i in range(most) if parent[i] != child[i]), most)
    last = next((i for i in range(most - first) if parent[-1 - i] != child[-1 - i]), most - first)
    return first / max(len(parent), 1), last / max(len(parent), 1)


def share_kept(parent: str, child: str, answer_format: str) -> float | None:
    """The share of a parent that an answer keeps, from 0 to 1.

    In a route, the moves of the common beginning and end; in code and text, the lines that the answer has in the same
    order (difflib), without blank ones; in a single line, its words. None for an empty parent, and for answers of more
    than LONGEST lines.
    """
    if answer_format == "route":
        return sum(kept(parent, child)) if parent else None
    before, after = _pieces(parent, child)
    if not before or max(len(before), len(after)) > LONGEST:
        return None
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks) / len(before)


def _pieces(parent: str, child: str) -> tuple[list[str], list[str]]:
    """Lines without trailing space, or words if the parent has only one line."""
    before, after = ([line.rstrip() for line in text.splitlines() if line.strip()] for text in (parent, child))
    return (parent.split(), child.split()) if len(before) == 1 else (before, after)
