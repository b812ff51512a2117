"""Baselines of a comparison by name: a trained operator and a population must beat them at equal answers.

    best-of-n   an arm's policy without a parent in the prompt
    hill        the same policy, shown only the best answer so far (islands.population.selection.hill)
    scs         the same policy, shown random successful answers (islands.population.selection.scs)
    classic     for mazes: random re-routings of the parent, no model, islands as in every arm

The first three repeat an arm, by default the first: `hill`, or `hill=ARM`. None of them trains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evo.errors import BadInput

BEST_OF_N, CLASSIC = "best-of-n", "classic"
CLASSIC_POLICY = "scripted:classic"
REPEATS: Mapping[str, Mapping[str, Any]] = {
    BEST_OF_N: {"show_parent": False},
    "hill": {"show_parent": True, "fresh": 0.0, "population": {"strategy": "hill", "islands": 1}},
    "scs": {"show_parent": True, "fresh": 0.0, "population": {"strategy": "scs", "islands": 1}},
}
"""The settings that a baseline changes in the arm that it repeats."""
NAMES = (*REPEATS, CLASSIC)


def parse_baseline(text: str) -> tuple[str, str | None]:
    """`hill` or `hill=ARM` -> the baseline's name, and the arm's. Raises BadInput."""
    name, equals, arm = (part.strip() for part in text.partition("="))
    if name not in NAMES:
        raise BadInput(f"baseline {text}: there is no baseline {name}; there are {', '.join(NAMES)}")
    if name == CLASSIC and equals:
        raise BadInput(f"baseline {text}: classic is a fixed policy and repeats no arm")
    if equals and not arm:
        raise BadInput(f"baseline {text}: expected {name}=ARM")
    return name, arm or None


def chosen_baselines(
    baselines: Sequence[str] | None, best_of_n: Sequence[str] | None, arms: Sequence[str]
) -> dict[str, list[str]]:
    """Baseline -> the arms that it repeats, both in their order; classic repeats none. By default best-of-n of the
    first arm. Raises BadInput for an unknown arm."""
    if baselines is None and best_of_n is None:
        baselines = [BEST_OF_N]
    wanted = [parse_baseline(text) for text in baselines or ()] + [(BEST_OF_N, arm) for arm in best_of_n or ()]
    asked = [(name, arm or arms[0]) for name, arm in wanted]
    for name, arm in asked:
        if arm not in arms:
            raise BadInput(f"{name} of {arm}: there is no such arm; there are {', '.join(arms)}")
    return {
        name: [arm for arm in arms if (name, arm) in asked and name != CLASSIC]
        for name in NAMES
        if any(name == other for other, _ in asked)
    }


def label_of(name: str, arm: str, repeated: Sequence[str]) -> str:
    """The name of the baseline's arm."""
    return name if len(repeated) == 1 else f"{name}-{arm}"


def repeated_as(name: str, arm: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the arm that is a baseline of another with these settings."""
    changes = REPEATS[name]
    population = {**(arm.get("population") or {}), **changes.get("population", {})}
    return {**arm, **changes, "population": population or None, "train": None}
