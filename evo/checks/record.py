"""The result of a check, stored so that `evo run` can warn: a small file in the user's cache, by the scorer's
fingerprint.

Not next to the problem, since the scorer's folder is read, copied and fingerprinted. The fingerprint also shows when a
record is out of date.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from pathlib import Path

from problems.contract import Problem

MEANINGFUL = 8
"""Iterations per problem; fewer say little about a policy or a problem."""
MOST = 50
"""Problems that a run looks up."""


def folder() -> Path:
    """The folder of the records."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evo" / "checks"


def write_record(problem: Problem, faults: Sequence[str]) -> None:
    """Keep the names of the checks that failed; a folder that cannot be written is no fault."""
    try:
        place = folder()
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{problem.fingerprint()}.json").write_text(json.dumps({"faults": list(faults)}) + "\n")
    except OSError as error:
        warnings.warn(f"the findings are not stored for evo run: {error}", stacklevel=2)


def read_record(problem: Problem) -> list[str] | None:
    """The checks that failed, [] if none did, None if this version of the scorer was not checked."""
    try:
        faults = json.loads((folder() / f"{problem.fingerprint()}.json").read_text())["faults"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return [str(fault) for fault in faults]


def warn_of_records(problems: Sequence[Problem]) -> None:
    """One line if checks have failed."""
    for problem in problems[:MOST]:
        if problem.fault is None and (faults := read_record(problem)):
            count = len(faults)
            warnings.warn(
                f"evo check found {count} fault{'s' * (count != 1)} in {problem.name}: {', '.join(faults)}",
                stacklevel=2,
            )
            return


def warn_of_budget(iterations: int) -> None:
    """One line if a budget is too small to be meaningful."""
    if iterations < MEANINGFUL:
        warnings.warn(
            f"{iterations} iteration{'s' * (iterations != 1)} per problem are too few to judge a policy; use at least "
            f"{MEANINGFUL}, and 50 to compare two",
            stacklevel=2,
        )
