"""The declarations of a scorer, read before it runs: its time-out, whether it is trusted, the files and resources
that it needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from problems.contract import BadAddress
from problems.resources import GPUS, check_resources

TIMEOUT = 30.0
"""Seconds per answer if the user sets none."""
OPTIONS = ("timeout", "readable", "isolated", "resources")
"""The declarations of a scorer, read before it runs."""


class ScorerOptions(NamedTuple):
    """timeout: seconds per answer; isolated: not trusted; readable: whole paths; resources: see problems.resources"""

    timeout: float
    isolated: bool
    readable: tuple[str, ...]
    resources: Mapping[str, float]


def checked_options(where: str, folder: Path, options: Mapping[str, Any]) -> ScorerOptions:
    """The given OPTIONS, with `readable` relative to `folder`. Raises BadAddress, which begins with `where`."""
    timeout, isolated = options.get("timeout", TIMEOUT), options.get("isolated", True)
    readable = options.get("readable", ())
    if isinstance(readable, str):
        readable = (readable,)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
        raise BadAddress(f"{where}: timeout is {timeout!r}, not a number of seconds")
    if not isinstance(isolated, bool):
        raise BadAddress(f"{where}: isolated is {isolated!r}, not True or False")
    if not isinstance(readable, list | tuple) or not all(isinstance(item, str) for item in readable):
        raise BadAddress(f"{where}: readable is {readable!r}, not a list of paths")
    try:
        resources = check_resources(options.get("resources", {}))
    except ValueError as error:
        raise BadAddress(f"{where}: resources is {error}") from None
    if resources.get(GPUS) and isolated:
        raise BadAddress(f"{where}: the sandbox has no GPUs, which resources names: set isolated = False too")
    paths = [(folder / item).resolve() for item in readable]
    for item in paths:
        if not item.exists():
            raise BadAddress(f"{where}: readable names {item}, which does not exist")
    return ScorerOptions(float(timeout), isolated, tuple(map(str, paths)), resources)
