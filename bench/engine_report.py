"""The tables of bench/engine.py."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Turn:
    """One side's turn. busy: seconds with something under way at the policy; rows: rollouts under way on average;
    cores: CPU seconds by whose they were; shares: exclusive seconds of the event loop's work."""

    side: str
    seconds: float
    rollouts: int
    tokens: int
    answers: int
    busy: float
    rows: float
    cores: dict[str, float]
    shares: dict[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds

    @property
    def core_rate(self) -> float:
        """Tokens a second on a core, everything counted."""
        return self.tokens / sum(self.cores.values())


def ratio(turns: list[Turn], of: str, to: str, rate: str) -> tuple[float, list[float]]:
    """Tokens a second of one side by another's: the median over turns, and turn by turn."""
    ours, theirs = ([getattr(turn, rate) for turn in turns if turn.side == side] for side in (of, to))
    each = [a / b for a, b in zip(ours, theirs, strict=True)]
    return statistics.median(each), each


def report(measured: str, turns: list[Turn], sides: Sequence[str], command: str) -> str:
    """The tables of a run; measured: one line on what every side was asked."""
    whose = ("engine", "loop", "scorer threads", "children")
    lines = [
        f"`{command}`",
        "",
        measured,
        "",
        "| side | answers/s | tokens/s | tokens | seconds | engine busy | rollouts at it | "
        f"core s: {', '.join(whose)} |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for side in sides:
        own = [turn for turn in turns if turn.side == side]
        spent = [statistics.median(turn.cores.get(name, 0.0) for turn in own) for name in whose]
        cells = [
            side,
            f"{statistics.median(turn.answers / turn.seconds for turn in own):.1f}",
            f"{statistics.median(turn.rate for turn in own):.0f}",
            f"{own[0].tokens:,}",
            ", ".join(f"{turn.seconds:.1f}" for turn in own),
            f"{statistics.median(turn.busy / turn.seconds for turn in own):.1%}",
            f"{statistics.median(turn.rows for turn in own):.0f}",
            ", ".join(f"{seconds:.2f}" for seconds in spent),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| tokens/s of | by the clock (every turn) | on a core (every turn) |", "|---|---|---|"]
    for of, to in itertools.combinations(sides, 2):
        shown = []
        for rate in ("rate", "core_rate"):
            middle, each = ratio(turns, of, to, rate)
            shown.append(f"**{middle:.1%}** ({', '.join(f'{one:.0%}' for one in each)})")
        lines.append(f"| {of} / {to} | {' | '.join(shown)} |")
    for side in sides:
        if side.startswith("search"):
            lines += ["", f"{side}, shares of its wall time: {shares([turn for turn in turns if turn.side == side])}"]
    return "\n".join(lines)


def shares(searches: list[Turn]) -> str:
    names = sorted({name for turn in searches for name in turn.shares})
    found = {name: statistics.median(turn.shares.get(name, 0.0) / turn.seconds for turn in searches) for name in names}
    found["engine idle"] = 1 - statistics.median(turn.busy / turn.seconds for turn in searches)
    return ", ".join(f"{name} {share:.2%}" for name, share in found.items())
