"""Tables of bench/chains.py: shares and means over tasks with bootstrap intervals. No figure is typed in here."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vpo.chain.syntax import bound_names, parse_code

Row = dict[str, Any]
Measure = tuple[Callable[[Row], float], Callable[[Row], float]]
"""What is counted of a rollout, and out of how much."""

_REPEATED = re.compile(r"(\d+) repeated")
_READ = re.compile(r"(\d+ of \d+ answers found: )?(\d+ repeated( another)?|it wrote no more)")
RESAMPLES = 4000

MEASURES: dict[str, Measure] = {
    "read": (lambda r: bool(r["valid"]) and _well_formed(r["error"]), lambda r: 1),
    "all m": (lambda r: len(r["valid"]) == r["answers"], lambda r: 1),
    "distinct": (lambda r: len(r["valid"]), lambda r: 1),
    "repeats": (lambda r: repeats(r["error"]), lambda r: 1),
    "cut": (lambda r: r["finish"] == "length", lambda r: 1),
    "valid": (lambda r: sum(r["valid"]), lambda r: len(r["valid"])),
    "pass": (lambda r: sum(r["passes"]), lambda r: len(r["valid"])),
    "solved": (lambda r: any(r["passes"]), lambda r: 1),
    "tokens": (lambda r: r["tokens"], lambda r: 1),
    "tokens/distinct": (lambda r: r["tokens"], lambda r: len(r["valid"])),
    "tokens/valid": (lambda r: r["tokens"], lambda r: sum(r["valid"])),
}

LEGEND = """\
read: rollouts with an answer and nothing unreadable (fewer than m answers, or repeats, are no fault of reading). all m:
rollouts with m distinct answers, that is without any format error. distinct, repeats: answers of a rollout with
different syntax trees, and those dropped. cut: rollouts that the token limit ended. valid: share of the answers that
are valid Python and define what the task names; pass: share that pass all tests. solved: rollouts with an answer that
passes. tokens: a rollout's, a distinct answer's, a valid answer's. Brackets: 95%, tasks resampled.
"""


def table(folders: Sequence[tuple[Path, Sequence[Row]]], by_stage: bool = False) -> str:
    """One Markdown table, a line for every model, wording and m; then why answers are missing.

    by_stage: prompts without and with a parent on lines of their own
    """
    grouped: dict[tuple[str, int, str, str], list[Row]] = {}
    for _, rows in folders:
        for row in rows:
            key = (row["model"], row["answers"], row["wording"], row["stage"] if by_stage else "both")
            grouped.setdefault(key, []).append(row)
    heads = ["model", "m", "wording", "prompts", "rollouts", *MEASURES]
    out = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    reasons = []
    for key, mine in sorted(grouped.items()):
        out.append("| " + " | ".join([*map(str, (*key, len(mine))), *(_cell(name, mine) for name in MEASURES)]) + " |")
        counted = Counter(reason for row in mine for reason in _reasons(row["error"]))
        if counted:
            told = ", ".join(f"{n} {reason}" for reason, n in counted.most_common(6))
            reasons.append(f"- {key[0]}, m = {key[1]}, {key[2]}, {key[3]}: {told}")
    return "\n".join([*out, "", LEGEND, "Why answers are missing, in rollouts:", "", *reasons, ""])


def _cell(name: str, rows: Sequence[Row]) -> str:
    mean, low, high = ratio(rows, MEASURES[name])
    if name in ("cut", "repeats"):
        return f"{mean:.2f}"
    if name.startswith("tokens"):
        return f"{mean:.0f} [{low:.0f}, {high:.0f}]"
    return f"{mean:.2f} [{low:.2f}, {high:.2f}]"


def ratio(rows: Sequence[Row], measure: Measure, seed: int = 0) -> tuple[float, float, float]:
    """(mean, low, high): summed counts over summed sizes, tasks drawn again for the interval. NaN where nothing is."""
    tasks = sorted({row["task"] for row in rows})
    counts = np.array([[sum(f(r) for r in rows if r["task"] == task) for f in measure] for task in tasks], float)
    rng = np.random.default_rng(seed)
    weights: npt.NDArray[np.int64] = rng.multinomial(len(tasks), np.full(len(tasks), 1 / len(tasks)), size=RESAMPLES)
    sums = weights @ counts  # (resamples, 2)
    known = sums[sums[:, 1] > 0]
    if not len(known) or not counts[:, 1].sum():
        return (float("nan"),) * 3
    low, high = np.quantile(known[:, 0] / known[:, 1], [0.025, 0.975])
    return float(counts[:, 0].sum() / counts[:, 1].sum()), float(low), float(high)


def repeats(error: str | None) -> int:
    """How many answers of a chain were dropped as repeats, by its error."""
    found = _REPEATED.search(error or "")
    return int(found[1]) if found else 0


def _well_formed(error: str | None) -> bool:
    return error is None or all(_READ.fullmatch(reason) for reason in error.split("; "))


def _reasons(error: str | None) -> list[str]:
    if error is None:
        return []
    return [
        re.sub(r"^\d+ (?=repeated)", "", reason) for reason in (error.partition(" found: ")[2] or error).split("; ")
    ]


def defines(code: str, names: Sequence[str]) -> bool:
    """Whether it is valid Python that defines the first of `names` (any program will do where there are none)."""
    tree = parse_code(code)
    if tree is None:
        return False
    return not names or any(names[0] in bound_names(node) for node in tree.body)
