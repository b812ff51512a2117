"""Which direction of a metric is better. A search maximises; a scorer's metric may be better when smaller.

A direction is declared (`directions` in a scorer file or in an OpenEvolve directory's config.yaml: a metric's name to
"max" or "min"), never guessed: a name that suggests "lower is better" only warns. Timings differ from run to run, so
they are objectives only if they are named.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence

_TIMINGS = {"time", "runtime", "walltime", "duration", "elapsed", "seconds", "sec", "secs", "ms", "us", "ns", "latency"}
_LOWER = _TIMINGS | {
    *("error", "errors", "err", "rmse", "mse", "mae", "loss", "perplexity", "regret", "penalty", "violation"),
    *("violations", "lag", "cost", "overhead"),
}
_HIGHER = {
    *("score", "accuracy", "efficiency", "reward", "quality", "improvement", "inverse", "fitness", "bonus", "rate"),
    *("reduction", "saved", "speedup"),
}


def suggests_lower(name: str) -> bool:
    """Whether a metric by this name is commonly better when lower: `error`, `val_loss`, `meanLag`, `total_ms`."""
    words = _words(name)
    return bool(words & _LOWER) and not words & _HIGHER


def is_timing(name: str) -> bool:
    """Whether a metric by this name measures time: `eval_time`, `latency`, `total_ms`."""
    words = _words(name)
    return bool(words & _TIMINGS) and not words & _HIGHER


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z]+", re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()))


def reward_of(value: float, direction: str | None) -> float:
    """The metric as a reward, higher is better. "min": 1 / (1 + value), and 1 - value below 0: it falls as the
    metric rises and stays above 0, the score of a failed answer."""
    if direction != "min":
        return value
    return 1 / (1 + value) if value >= 0 else 1 - value


def check_directions(value: object) -> dict[str, str]:
    """`directions` as it was declared; ValueError in one line if it is no mapping to "max" and "min"."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(item in ("max", "min") for item in value.values()):
        raise ValueError(f'directions is {value!r}; it must map names of metrics to "max" or "min"')
    return {str(name): str(item) for name, item in value.items()}


def choose_objectives(names: Sequence[str], asked: Iterable[str]) -> tuple[str, ...]:
    """`names` without the timings that were not requested; all of them if no other name is left."""
    wanted = set(asked)
    return tuple(name for name in names if name in wanted or not is_timing(name)) or tuple(names)


def doubts(objectives: Iterable[str], directions: Mapping[str, str]) -> str:
    """One line about objectives whose names suggest the direction that no one declared; "" if there are none."""
    names = [name for name in objectives if name not in directions and suggests_lower(name)]
    if not names:
        return ""
    example = ", ".join(f'{name}: "min"' for name in names)
    return f"higher counts as better in {', '.join(names)}; if lower is, declare directions: {{{example}}}"


def warn_of_objectives(
    file: str, objectives: Iterable[str], timings: Sequence[str], directions: Mapping[str, str], where: str = ""
) -> None:
    """Warn of timings that are not objectives, and of objectives for which `doubts` has a message. file: the
    scorer's; where: directions are declared, if not there"""
    if timings:
        warnings.warn(f"{file}: {', '.join(timings)}: timings, no objectives unless named", stacklevel=6)
    if doubt := doubts(objectives, directions):
        warnings.warn(f"{file}: {doubt}{where}", stacklevel=6)


def describe_directions(objectives: Iterable[str], directions: Mapping[str, str]) -> str:
    """A sentence for the statement about objectives that are better when lower; "" if there are none."""
    lower = [name for name in objectives if directions.get(name) == "min"]
    if not lower:
        return ""
    example = lower[0]
    return f"Lower is better in {', '.join(lower)}; each counts as 1 / (1 + it), as in 1 / (1 + {example})."
