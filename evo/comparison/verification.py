"""What a verification shows: the best answers of a search and others, measured alike, and the sentences on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evo.stats import Difference, mean_interval, paired_difference
from vpo.metrics import Interval

SEED, WINNER, TUNED, SAMPLED = "seed", "winner", "tuned start", "plain sampling"
RIVALS = {TUNED: "tuning the seed's numbers does", SAMPLED: "sampling its policy as often does"}
Values = npt.NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Verification:
    """The best answers of a run, verified. `print` shows it.

    problems: their names; runs: of the tuned start and of plain sampling
    values: answer -> one array a problem, (C, R): C cases, or 1 if they are not known one by one, under R repeats; NaN
        for a problem without such an answer
    metric: its name; lower: whether lower is better; held_out: whether these are scores on held-out cases
    notes: what else to know; failed: winners that cannot be scored now
    """

    run: str
    problems: Sequence[str]
    runs: Mapping[str, str]
    values: Mapping[str, Sequence[Values]]
    metric: str
    lower: bool
    held_out: bool
    notes: Sequence[str] = ()
    failed: Sequence[str] = ()

    def __str__(self) -> str:
        return "\n".join([*self.failed, *self.notes, *self.sentences()])

    def _measured(self, answer: str) -> Values:
        """(units, repeats) as evo.stats takes them: a problem or a case is a unit."""
        arrays = self.values[answer]
        return arrays[0] if len(arrays) == 1 else np.array([[array.mean()] for array in arrays])

    @property
    def unit(self) -> str:
        """What intervals are over; "" if there are none, because one problem is scored alike each time."""
        units, repeats = self._measured(WINNER).shape
        if units > 1:
            return f"{units} {'problems' if len(self.values[WINNER]) > 1 else 'cases'}"
        return f"{repeats} repeats" if any(np.ptp(self._measured(one)) > 0 for one in self.values) else ""

    def mean(self, answer: str) -> Interval | None:
        """None without any answer."""
        values = self._measured(answer)
        return mean_interval(values) if np.isfinite(values).any() else None

    def gain(self, over: str) -> Difference | None:
        """By how much the winners are better than other answers, on the problems that have both; None without any."""
        first, second = self._measured(WINNER), self._measured(over)
        if over == WINNER or not (np.isfinite(first) & np.isfinite(second)).any():
            return None
        both = (second, first) if self.lower else (first, second)
        return paired_difference(*both, least=0.0 if min(map(np.nanmin, both)) >= 0 else None)

    def shows(self, gain: Difference | None) -> bool:
        """Whether the winners are shown to be better; without noise any gain shows it."""
        return gain is not None and gain.interval.mean > 0 and (gain.shown or not self.unit)

    def sentences(self) -> list[str]:
        """The result; rivals that are as good come first."""
        told, rivals = list[str](), [rival for rival in RIVALS if rival in self.values]
        for rival, gain in [(rival, self.gain(rival)) for rival in rivals]:
            if gain is not None and not self.shows(gain):
                luck = f"little more than {RIVALS[rival]}: by {self._by(gain)}, which may be luck"
                told.append(f"The search found {luck if gain.interval.mean > 0 else f'no more than {RIVALS[rival]}'}.")
        kind = "held-out cases" if self.held_out else "cases that were searched on"
        where = f"{self.unit.removesuffix('cases')}{kind}" if "cases" in self.unit else kind
        over = f", over {self.unit}" if self.unit and where == kind else ""
        gain, lower = self.gain(SEED), f" ({self.metric}: lower is better)" if self.lower else ""
        main, shown = "There is no score of a seed", "is" if self.shows(gain) else "is not shown to be"
        if gain is not None:
            main = f"The winner {shown} better than the seed by {self._by(gain)}"
        reached = [f"the {answer} reaches {write(self.mean(answer), False)}" for answer in (WINNER, *rivals)]
        return [*told, f"{main} on {where}{over}{lower}; {'; '.join(reached)}."]

    def _by(self, gain: Difference) -> str:
        why = gain.unknown or ("" if gain.possible else f"{self.unit} are too few to show it")
        return f"{write(gain)} ({why})" if why and self.unit else write(gain)

    def record(self) -> dict[str, Any]:
        """As `evo verify --json` prints it: each answer with its mean, and by how much the winner is better."""
        answers = dict[str, Any]()
        for answer in self.values:
            mean, gain = self.mean(answer), self.gain(answer)
            answers[answer] = {"score": mean and mean.as_dict(), "winner_better_by": gain and gain.interval.as_dict()}
            answers[answer] |= {"p": gain and gain.p, "shown": self.shows(gain)}
        return {
            **{"run": self.run, "problems": list(self.problems), "runs": dict(self.runs), "metric": self.metric},
            **{"direction": "min" if self.lower else "max", "held_out": self.held_out, "unit": self.unit},
            **{"answers": answers, "sentences": self.sentences(), "notes": self.notes, "failed": self.failed},
        }


def write(value: Interval | Difference | None, ends: bool = True) -> str:
    """A mean with its ends, for people; exact ones have more digits."""
    if value is None:
        return "-"
    interval = value.interval if isinstance(value, Difference) else value
    form = ".4g" if interval.known else ".8g"
    return f"{interval.mean:{form}}{interval.ends(form) if ends else ''}"
