"""What a verification shows: the best answers of a search and others, measured alike, and the sentences on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from evo.stats.differences import Difference, fewest_pairs, paired_difference
from evo.stats.intervals import Interval, mean_interval

SEED, WINNER, TUNED, SAMPLED = "seed", "winner", "tuned start", "plain sampling"
RIVALS = {TUNED: "tuning the seed's numbers does", SAMPLED: "sampling its policy as often does"}
Values = npt.NDArray[np.float64]
_SAME = 1e-9
"""Means that differ by a smaller share of the largest value are equal."""


@dataclass(frozen=True)
class Gain:
    """By how much one answer is better than another.

    difference: positive if it is better, whatever the direction
    units: problems, cases or repeats; better, worse: the number of them on which the first is better, and worse
    """

    difference: Difference
    better: int
    worse: int
    units: int

    @property
    def mean(self) -> float:
        return self.difference.interval.mean

    @property
    def everywhere(self) -> bool:
        """Whether it is better on each of enough units for a sign test."""
        return self.better == self.units >= fewest_pairs()

    def __str__(self) -> str:
        """For a table: with the interval, unless only what was not seen makes it wide."""
        plain = self.better == self.units and not self.difference.shown
        return f"{write_mean(self.difference, not plain)}{f' ({self.better} of {self.units})' * (self.units > 1)}"


def measure_gain(first: Values, second: Values, lower: bool) -> Gain | None:
    """Of the first over the second, (units, repeats) each, on the units that both have; None without any."""
    known = np.isfinite(first).all(axis=1) & np.isfinite(second).all(axis=1)
    if not known.any():
        return None
    a, b = (second[known], first[known]) if lower else (first[known], second[known])
    least = 0.0 if min(a.min(), b.min()) >= 0 else None
    gaps = a.mean(axis=1) - b.mean(axis=1)
    same = _SAME * max(float(np.abs(a).max()), float(np.abs(b).max()))
    difference = paired_difference(a, b, least=least)
    return Gain(difference, int((gaps > same).sum()), int((gaps < -same).sum()), len(gaps))


@dataclass(frozen=True, repr=False)
class MeasuredAnswers:
    """One number of the answers: the fitness, or one objective, as the scorer measures it.

    values: answer -> one array a problem, (C, R): C cases, or 1 if they are not known one by one, under R repeats; NaN
        for a problem without such an answer
    lower: whether lower is better
    """

    name: str
    values: Mapping[str, Sequence[Values]]
    lower: bool

    def units(self, answer: str) -> Values:
        """(units, repeats) as evo.stats takes them: a problem or a case is a unit."""
        arrays = self.values[answer]
        return arrays[0] if len(arrays) == 1 else np.array([[array.mean()] for array in arrays])

    def mean(self, answer: str) -> Interval | None:
        """None without any answer."""
        values = self.units(answer)
        return mean_interval(values) if np.isfinite(values).any() else None

    def gain(self, over: str) -> Gain | None:
        """By how much the winners are better than other answers, on what both have; None without any."""
        return None if over == WINNER else measure_gain(self.units(WINNER), self.units(over), self.lower)


@dataclass(frozen=True, repr=False)
class Verification:
    """The best answers of a run, verified. `print` shows it.

    problems: their names; runs: of the tuned start and of plain sampling
    fitness: of all answers
    held_out: whether these are scores on held-out cases
    objectives: the same for each objective, if there are several
    began: what the search started from: "seed", or the run or file of --start, of which it is the best answer
    notes: what else to know; failed: winners that cannot be scored now
    measured: candidate id of a winner or a seed -> `fitness` and `values` by objective as the scorer measures them,
        means over cases and repeats, None if one is unknown; and `error`, None without one
    """

    run: str
    problems: Sequence[str]
    runs: Mapping[str, str]
    fitness: MeasuredAnswers
    held_out: bool
    objectives: Sequence[MeasuredAnswers] = ()
    began: str = SEED
    notes: Sequence[str] = ()
    failed: Sequence[str] = ()
    measured: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n".join([*self.failed, *self.notes, *self.sentences()])

    @property
    def unit(self) -> str:
        """What intervals are over; "" if there are none, because one problem is scored alike each time."""
        units, repeats = self.fitness.units(WINNER).shape
        if units > 1:
            return f"{units} {self._kind(units)}"
        return f"{repeats} repeats" if any(np.ptp(self.fitness.units(one)) > 0 for one in self.fitness.values) else ""

    def _kind(self, count: int) -> str:
        """The word for units."""
        return ("problem" if len(self.problems) > 1 else "case") + "s" * (count != 1)

    def shows(self, gain: Gain | None) -> bool:
        """Whether the winners are shown to be better; without noise any gain shows it."""
        return gain is not None and gain.mean > 0 and (gain.difference.shown or not self.unit)

    def name(self, answer: str) -> str:
        """As people read it."""
        return self.began if answer == SEED else answer

    def sentences(self) -> list[str]:
        """The result; rivals that are as good come first, each objective last."""
        told, rivals = list[str](), [rival for rival in RIVALS if rival in self.fitness.values]
        for rival, gain in [(rival, self.fitness.gain(rival)) for rival in rivals]:
            if gain is not None and not self.shows(gain) and not gain.everywhere:
                luck = f"little more than {RIVALS[rival]}: by {write_mean(gain.difference)}, which may be luck"
                told.append(f"The search found {luck if gain.mean > 0 else f'no more than {RIVALS[rival]}'}.")
        lower = f" ({self.fitness.name}: lower is better)" if self.fitness.lower else ""
        gain, main = self.fitness.gain(SEED), "There is no score of a seed"
        if gain is not None:
            main = f"The winner is {self._compare(gain, f'the {self.began}')}"
        reached = [f"the {one} reaches {write_mean(self.fitness.mean(one), False)}" for one in (WINNER, *rivals)]
        told.append(f"{main}{lower}; {'; '.join(reached)}.")
        for one in self.objectives:
            if (gain := one.gain(SEED)) is not None and gain.better + gain.worse:
                told.append(f"In {one.name}{' ↓' * one.lower} it is {self._compare(gain, '', whole=False)}.")
        return told

    def _compare(self, gain: Gain, over: str, whole: bool = True) -> str:
        """What follows "the winner is".

        over: the other answer; whole: with the kind of cases, and the number of them that an interval takes"""
        mean, units, unlike = gain.mean, gain.units, gain.better + gain.worse
        than, kind = f" than {over}" * bool(over), self._kind(units)
        where = "held-out cases" if self.held_out else "cases that were searched on"
        if not unlike:
            return f"as good as {over} on {where if units == 1 else f'all {units} {self._named(where, kind)}'}"
        if units == 1:
            return self._compare_one(gain, than, where if whole else "")
        named = self._named(where, kind) if whole else kind
        worse = f" and worse on {gain.worse}" * bool(gain.worse)
        counts = f"better{than} on {gain.better} of {units} {named}{worse}".removesuffix(",")  # of a clause about cases
        amount = f"{'by' if mean >= 0 else 'worse by'} {write_size(gain.difference, gain.difference.shown)} on average"
        if not whole or gain.difference.shown:
            return f"{counts}, {amount}"
        if gain.worse:
            ends = write_size(gain.difference, True)
            return (
                f"{counts}, {'by' if mean >= 0 else 'worse by'} {ends} on average{', which may be luck' * (mean > 0)}"
            )
        few, needed = f"{units} {kind} allow no interval", gain.difference.needed
        if gain.better < units or needed is None or needed <= units:
            return f"{counts}, {amount}; {few}"
        unseen = f"against one {self._kind(1)} that was not seen and is as bad as the values go"
        return f"{counts}, {amount}; {few} {unseen}, {needed} such {self._kind(needed)} would"

    def _compare_one(self, gain: Gain, than: str, where: str) -> str:
        """Of one value each, or of repeats of it."""
        repeated = self.unit if gain.difference.seeds != (1, 1) else ""
        luck = ", which may be luck" if repeated and gain.mean > 0 and not gain.difference.shown else ""
        size = write_size(gain.difference, bool(repeated))
        over = f", over {repeated}" if repeated and where else ""
        return f"{'better' if gain.mean > 0 else 'worse'}{than} by {size}{f' on {where}' * bool(where)}{over}{luck}"

    def _named(self, where: str, kind: str) -> str:
        """ "held-out cases", "problems, on held-out cases"."""
        return where if kind.startswith("case") else f"{kind}, on {where},"

    def record(self) -> dict[str, Any]:
        """As `evo verify --json` prints it: each answer with its mean, and by how much the winner is better."""
        answers = dict[str, Any]()
        for answer in self.fitness.values:
            mean, gain = self.fitness.mean(answer), self.fitness.gain(answer)
            answers[answer] = {"score": mean and mean.as_dict(), **_gain_dict(gain), "shown": self.shows(gain)}
        objectives = {
            one.name: {
                "direction": "min" if one.lower else "max",
                **{answer: (mean := one.mean(answer)) and mean.as_dict() for answer in (SEED, WINNER)},
                **_gain_dict(one.gain(SEED)),
            }
            for one in self.objectives
        }
        return {
            **{"run": self.run, "problems": list(self.problems), "runs": dict(self.runs)},
            **{"metric": self.fitness.name, "direction": "min" if self.fitness.lower else "max"},
            **{"held_out": self.held_out, "unit": self.unit, "began": self.began},
            **{"answers": answers, "objectives": objectives},
            "measured": {str(id): dict(means) for id, means in self.measured.items()},
            **{"sentences": self.sentences(), "notes": list(self.notes), "failed": list(self.failed)},
        }


def _gain_dict(gain: Gain | None) -> dict[str, Any]:
    if gain is None:
        return dict.fromkeys(("winner_better_by", "p", "better_on", "worse_on", "of", "needed"))
    difference = gain.difference
    counts = {"better_on": gain.better, "worse_on": gain.worse, "of": gain.units}
    return {"winner_better_by": difference.interval.as_dict(), "p": difference.p, **counts, "needed": difference.needed}


def write_mean(value: Interval | Difference | None, ends: bool = True) -> str:
    """A mean with its ends, for people; exact ones have more digits."""
    if value is None:
        return "-"
    interval = value.interval if isinstance(value, Difference) else value
    form = ".4g" if interval.known else ".8g"
    return f"{interval.mean:{form}}{interval.ends(form) if ends else ''}"


def write_size(difference: Difference, ends: bool) -> str:
    """The same without the sign of the mean, which words tell."""
    of = difference.interval
    return write_mean(of if of.mean >= 0 else Interval(-of.mean, -of.high, -of.low), ends)
