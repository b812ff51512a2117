"""What made a result: the commit of the running source, the machine and the versions of its software."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from evo.version import __version__
from problems.scoring import cores


@cache
def source_commit() -> str:
    """The git commit of the running source, "+" if it has changes; the version if it is not a checkout."""
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return f"v{__version__}"
    try:
        described = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return f"v{__version__}"
    return described.stdout.strip()


_LIBRARIES = ("torch", "transformers", "vllm", "peft", "openai", "openevolve", "numpy")
"""Libraries whose versions may change a policy's answers; named if the process has imported them."""


def describe_machine() -> dict[str, Any]:
    """This process's machine and software, as JSON takes it: cpu, cores (that it may use), memory_gib, gpus (names),
    system, commit, and versions by name. Nothing that names a person or a host."""
    from importlib import metadata  # 15 ms

    torch = sys.modules.get("torch")
    gpus = []
    if torch is not None and torch.cuda.is_initialized():
        gpus = [str(torch.cuda.get_device_name(number)) for number in range(torch.cuda.device_count())]
    libraries = {name: metadata.version(name) for name in _LIBRARIES if name in sys.modules}
    versions = {"evo": __version__, "python": platform.python_version(), **libraries}
    processors = Path("/proc/cpuinfo")  # of Linux
    text = processors.read_text(encoding="utf-8", errors="replace") if processors.is_file() else ""
    name = re.search(r"^model name\s*:\s*(.*)", text, re.MULTILINE)
    memory = None
    if {"SC_PAGE_SIZE", "SC_PHYS_PAGES"} <= os.sysconf_names.keys():
        memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    return {
        "cpu": name[1].strip() if name else platform.processor() or platform.machine(),
        "cores": cores(),
        "memory_gib": memory,
        "gpus": gpus,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "commit": source_commit(),
        "versions": versions,
    }
