"""Problems chosen by their metrics in evaluations, as a file that the address `list:FILE` names."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from evo.config.pick import PickConfig
from evo.errors import BadInput
from evo.evaluation.file import read_record
from evo.whole_file import write_whole


@dataclass(frozen=True)
class Picked:
    """names: in the order of the first evaluation; of: how many problems every evaluation measured"""

    names: list[str]
    of: int


def pick_problems(config: PickConfig) -> Picked:
    """The problems whose metric is at most `at_most` in every evaluation. Raises BadInput, one line, for a file that
    is not an evaluation or lacks the metric, and if no problem is left."""
    measured = [_measured(path, config.metric) for path in config.evaluations]
    shared = [name for name in measured[0] if all(name in record for record in measured)]
    if not shared:
        raise BadInput(f"{', '.join(config.evaluations)}: no problem is in all of them")
    names = [name for name in shared if all(record[name] <= config.at_most for record in measured)]
    if not names:
        least = min(max(record[name] for record in measured) for name in shared)
        raise BadInput(
            f"no problem of {len(shared)} has {config.metric} <= {config.at_most:g} in every evaluation; the least is "
            f"{least:.3g}"
        )
    return Picked(names[: config.limit], len(shared))


def write_list(path: Path, picked: Picked, config: PickConfig) -> None:
    """One address per line, after the criterion. A file under its final name is always complete."""
    header = f"# {len(picked.names)} of {picked.of} problems: {config.metric} <= {config.at_most:g}"
    header += f" in {len(config.evaluations)} evaluations"
    write_whole(path, "\n".join([header, *picked.names, ""]))


def _measured(path: str, metric: str) -> dict[str, float]:
    """Problem -> the metric in a file that `evo evaluate -o` wrote."""
    _, rows = read_record(path, path)
    values = {row["problem"]: row.get(metric) for row in rows}
    known = {name: float(value) for name, value in values.items() if isinstance(value, int | float)}
    if not known:
        there = [name for name in (rows[0] if rows else {}) if "@" in name]
        raise BadInput(f"{path}: has no {metric}; it has {', '.join(there) or 'no problems'}")
    return {name: value for name, value in known.items() if math.isfinite(value)}
