"""What a search ran on, as its run keeps it: a report is often rendered on another machine, at another commit."""

from __future__ import annotations

import os
import platform
import sys
from functools import cache
from pathlib import Path
from typing import Any

from evo.search.defaults import source_commit
from evo.version import __version__
from problems.scoring import cores

LIBRARIES = ("torch", "transformers", "vllm", "peft", "openai", "openevolve", "numpy")
"""Those whose versions may decide what a policy answers; named where the process has imported them."""


def describe_machine() -> dict[str, Any]:
    """This process's machine and software, as JSON takes it: cpu, cores (that it may use), memory_gib, gpus (names),
    system, commit, and versions by name. Nothing that names a person or a host."""
    torch = sys.modules.get("torch")
    gpus = []
    if torch is not None and torch.cuda.is_initialized():
        gpus = [str(torch.cuda.get_device_name(number)) for number in range(torch.cuda.device_count())]
    versions = {"evo": __version__, "python": platform.python_version()}
    for name in LIBRARIES:
        if name in sys.modules:
            said = vars(sys.modules[name]).get("__version__") or _installed_version(name)
            if said is not None:
                versions[name] = str(said)
    return {**_hardware(), "gpus": gpus, "commit": source_commit(), "versions": versions}


def _installed_version(name: str) -> str | None:
    """Of a package that is not loaded itself, only a part of it."""
    from importlib import metadata  # 15 ms

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


@cache
def _hardware() -> dict[str, Any]:
    return {
        "cpu": _cpu_name(),
        "cores": cores(),
        "memory_gib": _memory_gib(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None
