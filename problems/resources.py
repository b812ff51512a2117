"""The resources of a machine for scoring one answer, as a scorer declares them: {"cpus": 2, "gpus": 1, "NAME": 1}.

A cluster reserves them for each scoring process (evo.cluster.scoring). A single machine scores anyway, and warns if it
plainly lacks them.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from problems.scoring import cores

CPUS, GPUS = "cpus", "gpus"


def check_resources(value: object) -> dict[str, float]:
    """Amounts by name. Raises ValueError, whose text continues after "resources is"."""
    wrong = f'{value!r}, not amounts by name, as in {{"gpus": 1}}'
    if not isinstance(value, Mapping):
        raise ValueError(wrong)
    for name, amount in value.items():
        number = isinstance(amount, int | float) and not isinstance(amount, bool)
        if not isinstance(name, str) or not name or not number or not 0 <= amount < math.inf:
            raise ValueError(wrong)
        if name.lower() in ("cpu", "gpu", "cpus", "gpus") and name not in (CPUS, GPUS):
            raise ValueError(f"{value!r}; the names are cpus and gpus, others are defined by a cluster")
    return {str(name): float(amount) for name, amount in value.items()}


def most_of(declared: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The maximum of each resource: one scoring process serves all problems of a run."""
    largest: dict[str, float] = {}
    for demand in declared:
        for name, amount in demand.items():
            largest[name] = max(amount, largest.get(name, 0.0))
    return largest


def describe_resources(resources: Mapping[str, float]) -> str:
    """The resources as text: "cpus 2, gpus 1"."""
    return ", ".join(f"{name} {amount:g}" for name, amount in sorted(resources.items()))


def lacking(resources: Mapping[str, float], devices: str = "/dev") -> str:
    """The resources that this machine plainly lacks, "" if unknown: GPUs that no driver shows (on Linux), and CPUs."""
    missing = []
    if resources.get(CPUS, 0.0) > cores():
        missing.append(f"{resources[CPUS]:g} CPUs ({cores()} here)")
    gpus = resources.get(GPUS, 0.0)
    if gpus > 0 and sys.platform == "linux" and not Path(devices, "kfd").exists():
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1")
        here = 0 if hidden else sum(device.name[6:].isdecimal() for device in Path(devices).glob("nvidia*"))
        if here < math.ceil(gpus):
            missing.append(f"{gpus:g} GPU{'s' * (gpus != 1)} ({here or 'none'} here)")
    return " and ".join(missing)
