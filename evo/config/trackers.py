"""Experiment trackers that runs and trainings report to (evo.report.trackers), by name."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Annotated

from pydantic import AfterValidator

from evo.errors import BadInput
from problems.address import did_you_mean

TRACKERS = ("tensorboard", "wandb", "mlflow", "trackio")
"""Each is the name of its package too."""
REPORT_TO = f"Report to experiment trackers while it runs: {', '.join(TRACKERS)}; several with commas; none: no more."
TRACKED_AS = "The name in the trackers; evo writes it."


def _names(given: list[str]) -> list[str]:
    names = [part.strip() for item in given for part in item.split(",") if part.strip()]
    for name in names:
        if name not in (*TRACKERS, "none"):
            raise ValueError(f"{name}{did_you_mean(name, TRACKERS, most=1) or '; there is ' + ', '.join(TRACKERS)}")
    return list(dict.fromkeys(name for name in names if name != "none"))


TrackerNames = Annotated[list[str], AfterValidator(_names)]


def check_trackers(names: Iterable[str]) -> None:
    """Raise BadInput if the library of a tracker is missing."""
    for name in names:
        if find_spec(name) is None:
            raise BadInput(f"--report-to {name} needs the package {name}: pip install {name}")


def tracker_name(name: str) -> str:
    """The name in the trackers of a new run or training: with the time, since another database may have the same run.
    name: of the run, or of what it searches, or a folder"""
    return f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', name).strip('-.')[-60:]}-{time.strftime('%Y%m%d-%H%M%S')}"
