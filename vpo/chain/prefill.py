"""The beginning of an answer for a policy to continue: a mutation that keeps the parent up to a random place."""

from __future__ import annotations

import numpy as np

from problems.contract import ANSWER_FORMATS


def draw_prefill(text: str, answer_format: str, rng: np.random.Generator) -> str:
    """A rollout cut at a random place inside its first answer, which equals `text` up to there.

    The layout before it is the one that `instructions` requests. A program is cut between two lines, a route between
    moves, a text between words, all places equally likely; "" if there is nothing to cut.
    """
    if answer_format not in ANSWER_FORMATS:
        raise ValueError(f"unknown answer format {answer_format!r}: one of {', '.join(ANSWER_FORMATS)}")
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
