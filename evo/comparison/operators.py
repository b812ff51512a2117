"""How operators use the parents in their prompts: refinement rate by the parent's fitness, share kept, copies, repeats.
Shares are of the answers of all problems; their intervals are over problems (evo.stats.ratios).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from evo.comparison.arms import Arm
from evo.stats import Difference, ratio_difference, ratio_interval
from evo.stats.intervals import Interval
from islands.types import AT_TARGET, NO_PARENT, QUARTERS, OperatorCount
from vpo.policies.address import parse_addresses

Floats = npt.NDArray[np.float64]

BELOW = "below"
"""All parents below the target."""
BINS: Mapping[int, str] = {0: "0-.25", 1: ".25-.5", 2: ".5-.75", 3: ".75-1", AT_TARGET: "solved"}
"""Bins of a parent's fitness as a share of the target."""
SHOWN = [*range(QUARTERS), AT_TARGET]
_FIELDS = ("answers", "better", "copies", "repeats", "compared", "kept")


@dataclass(frozen=True, eq=False)
class OperatorCounts:
    """One operator of an arm. Arrays by field, each (P problems, S seeds, NO_PARENT and the bins). label: the arm's
    name, and the policy too if the arm has several"""

    label: str
    policy: str
    of: Mapping[str, Floats]

    @property
    def answers(self) -> int:
        return int(self.of["answers"].sum())

    @cached_property
    def shares(self) -> Mapping[str, float]:
        """The shares over all problems and seeds, those that have a trial, by the names of `rates`."""
        return {name: float(hits.sum() / trials.sum()) for name, (hits, trials) in self.rates().items() if trials.any()}

    def at(self, name: str, bins: Sequence[int]) -> Floats:
        """(P, S) the sum of a field over these bins."""
        return np.asarray(self.of[name][:, :, [bin - NO_PARENT for bin in bins]].sum(axis=2))

    def rates(self) -> dict[str, tuple[Floats, Floats]]:
        """Name -> (P, S) hits and trials: `refined` of BELOW and of every bin, `kept`, `copies` (of the answers to a
        parent), `repeats` and `alone` (of all answers; `alone` counts answers to a prompt without a parent)."""
        found = {f"refined {name}": (self.at("better", [bin]), self.at("answers", [bin])) for bin, name in BINS.items()}
        quarters, every = list(range(QUARTERS)), [NO_PARENT, *SHOWN]
        return {
            f"refined {BELOW}": (self.at("better", quarters), self.at("answers", quarters)),
            **found,
            "kept": (self.at("kept", SHOWN), self.at("compared", SHOWN)),
            "copies": (self.at("copies", SHOWN), self.at("answers", SHOWN)),
            "repeats": (self.at("repeats", every), self.at("answers", every)),
            "alone": (self.at("answers", [NO_PARENT]), self.at("answers", every)),
        }


def count_operators(
    arm: Arm, rows: Mapping[int, int], counts: Sequence[Iterable[tuple[int, OperatorCount]]]
) -> list[OperatorCounts]:
    """An arm's operators in the order of its configuration; those without answers are left out.

    rows: a problem's index in its run -> its row, for those that count; counts: of each run, (index, count)
    """
    policies = list(map(str, parse_addresses(arm.policy)))
    shape = (len(policies), len(rows), len(arm.runs), len(BINS) + 1)
    sums = {name: np.zeros(shape) for name in _FIELDS}
    for column, of_run in enumerate(counts):
        for index, count in of_run:
            if index in rows and count.operator < len(policies):
                for name in _FIELDS:
                    sums[name][count.operator, rows[index], column, count.bin - NO_PARENT] += getattr(count, name)
    answered = [number for number in range(len(policies)) if sums["answers"][number].any()]
    return [
        OperatorCounts(
            arm.name if len(answered) == 1 else f"{arm.name}: {policies[number]}",
            policies[number],
            {name: values[number] for name, values in sums.items()},
        )
        for number in answered
    ]


def intervals(operator: OperatorCounts, *, crossed_seeds: bool) -> dict[str, Interval]:
    """Every rate that has a trial, with its 95% interval over problems."""
    return {
        name: ratio_interval(hits, trials, crossed_seeds=crossed_seeds)
        for name, (hits, trials) in operator.rates().items()
        if trials.any()
    }


def refinement_differences(
    operators: Mapping[str, Sequence[OperatorCounts]], pairs: Iterable[tuple[str, str]], *, crossed_seeds: bool
) -> dict[tuple[str, str], dict[str, Difference]]:
    """(arm, other) -> refinement rate -> arm - other, paired over problems and corrected for the number of pairs. Only
    for arms of one operator, and for rates that both have. pairs: of the comparison (Summary.pairs)"""
    single = {arm: found[0].rates() for arm, found in operators.items() if len(found) == 1}
    known = [pair for pair in pairs if single.keys() >= set(pair)]
    gaps: dict[tuple[str, str], dict[str, Difference]] = {}
    for arm, other in known:
        ours, theirs = single[arm], single[other]
        for name in (f"refined {bin}" for bin in (BELOW, *(BINS[quarter] for quarter in range(QUARTERS)))):
            if (ours[name][1].sum(axis=1) * theirs[name][1].sum(axis=1)).any():
                gaps.setdefault((arm, other), {})[name] = ratio_difference(
                    *ours[name], *theirs[name], crossed_seeds=crossed_seeds, comparisons=len(known)
                )
    return gaps


def operator_dict(operator: OperatorCounts, *, crossed_seeds: bool) -> dict[str, Any]:
    """JSON values: every rate with its interval and its number of answers."""
    rates = operator.rates()
    found = {
        name: {**one.as_dict(), "of": int(rates[name][1].sum())}
        for name, one in intervals(operator, crossed_seeds=crossed_seeds).items()
    }
    refined = {bin: found.get(f"refined {bin}") for bin in (BELOW, *BINS.values())}
    rest = {name: found.get(name) for name in ("kept", "copies", "repeats", "alone")}
    return {"policy": operator.policy, "answers": operator.answers, "refined": refined, **rest}


RATE_TITLES: Mapping[str, str] = {
    f"refined {BELOW}": "better",
    **{f"refined {BINS[quarter]}": f"<{25 * (quarter + 1)}%" for quarter in range(QUARTERS)},
    f"refined {BINS[AT_TARGET]}": "at the target",
    "kept": "kept",
    "copies": "copied",
    "repeats": "repeated",
    "alone": "no parent",
}
SHOWN_RATES = [rate for rate in RATE_TITLES if rate not in (f"refined {BELOW}", f"refined {BINS[AT_TARGET]}")]
"""Those that fit a terminal."""


def short_label(name: str) -> str:
    """The label of one of an arm's operators, without the kind of its address."""
    arm, parted, policy = name.partition(": ")
    return f"{arm}: {policy.partition(':')[2] or policy}" if parted else name


def share_text(value: float | None) -> str:
    """4.3%, 43%, "-"."""
    return "-" if value is None else f"{value:.1%}" if 0 < value < 0.0995 else f"{value:.0%}"
