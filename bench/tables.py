"""Tables of results in Markdown, and the differences that stand in them."""

from __future__ import annotations

from collections.abc import Sequence

from vpo.metrics import Interval


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """The first row is the heads."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (rows[0], ["---"] * len(rows[0]), *rows[1:]))


def signed(difference: Interval) -> str:
    """A difference with its interval."""
    return f"{difference.mean:+.3f} [{difference.low:.3f}, {difference.high:.3f}]"
