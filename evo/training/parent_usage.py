"""Whether a policy mutates what it is shown: measured in every step of a training, against chance.

Chance is the same policy on the same problems without the parent: what its answers have in common with a parent that
the prompt could have shown, and how often they are fitter than that one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from evo.search.stop import Stop, StopReason
from evo.training.curriculum import Question
from islands.types import Candidate
from problems.types import ScoredGroup
from vpo.metrics import kept

WINDOW = 40
"""Steps that a verdict rests on."""
CONFIDENCE = 0.95
WATCHED = {
    "kept": "answers keep no more of the parent shown than of one that is not shown",
    "refined": "answers better the parent shown less often than those that see none",
}
"""Of each figure, what is said where it has fallen: the share kept to chance, the refinement rate below it."""


def parent_usage(questions: Sequence[Question], groups: Sequence[ScoredGroup]) -> dict[str, float]:
    """Figures of a step, as shares of the answers asked for; nothing of a kind of prompt that the step had none of.

    refined, copied: fitter than the parent shown; its text again
    kept: how much of the parent the answers begin and end with, a mean over those that were written
    refined_chance, kept_chance: the same beside the parent that a prompt could have shown
    Prompts that begin the answer with a part of the parent are left out: what those keep is not the policy's doing.
    """
    pairs = list(zip(questions, groups, strict=True))
    shown = _shares((q.selection.parent, group) for q, group in pairs if not group.prompt.prefill)
    chance = _shares((q.withheld, group) for q, group in pairs)
    return shown | {f"{name}_chance": share for name, share in chance.items() if name != "copied"}


def _shares(pairs: Iterable[tuple[Candidate | None, ScoredGroup]]) -> dict[str, float]:
    asked = refined = copied = 0
    shares: list[float] = []
    for parent, group in pairs:
        if parent is None:
            continue
        asked += group.answers * len(group.rollouts)
        for answer in group.all_answers():
            refined += answer.score.fitness > parent.fitness
            copied += answer.text == parent.text
            shares.append(sum(kept(parent.text, answer.text)))
    if not asked:
        return {}
    return {"refined": refined / asked, "copied": copied / asked, "kept": sum(shares) / max(len(shares), 1)}


class ParentUsageWatch:
    """Ends a training whose policy no longer mutates: the share kept or the refinement rate was above chance over
    WINDOW steps with both kinds of prompts, and is no longer, by t intervals over the steps' differences. A policy that
    has yet to learn to mutate is left to learn it."""

    def __init__(self) -> None:
        self._steps = deque[tuple[float, float]](maxlen=WINDOW)
        self._above = [False] * len(WATCHED)

    def add(self, figures: Mapping[str, float]) -> Stop | None:
        """Take in a step's `parent_usage`; why to stop, None to go on."""
        if not {"kept", "kept_chance"} <= figures.keys():
            return None
        kept_lead, refined_lead = (figures[name] - figures[f"{name}_chance"] for name in ("kept", "refined"))
        self._steps.append((kept_lead, refined_lead))
        if len(self._steps) < WINDOW:
            return None
        for i, (name, message) in enumerate(WATCHED.items()):
            low, high = _interval([step[i] for step in self._steps])
            fallen = low <= 0 if name == "kept" else high < 0
            if self._above[i] and fallen:
                return Stop(StopReason.CHANCE, message)
            self._above[i] |= low > 0
        return None

    def state(self) -> dict[str, Any]:
        """Plain values that `restore` takes back."""
        return {"steps": [list(step) for step in self._steps], "above": list(self._above)}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._steps.extend((float(kept), float(refined)) for kept, refined in state["steps"])
        self._above = list(state["above"])


def _interval(values: Sequence[float]) -> tuple[float, float]:
    """The t interval of a mean."""
    mean, error = float(np.mean(values)), float(np.std(values, ddof=1)) / len(values) ** 0.5
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)) * error
    return mean - reach, mean + reach
