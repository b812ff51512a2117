"""The versions that are installed, against the requirements of this project."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterator

from packaging.requirements import Requirement

from evo.doctor.line import DoctorLine, fail, ok, warn
from evo.version import __version__

DISTRIBUTION = "evo-search"
_BREAK_CPU_TORCH = ("torchvision", "torchaudio", "torchcodec")


def check_packages() -> list[DoctorLine]:
    message = f"evo {__version__}, Python {platform.python_version()}"
    try:
        asked = [Requirement(line) for line in importlib.metadata.requires(DISTRIBUTION) or ()]
    except importlib.metadata.PackageNotFoundError:
        remedy = "pip install -e . in the checkout"
        return [warn("packages", f"{message}; evo is not installed, so its requirements are not known", remedy)]
    lines = [*_wrong(asked), *_cuda_beside_cpu()]
    return lines or [ok("packages", f"{message}; {_have(asked)}")]


def _wrong(asked: list[Requirement]) -> Iterator[DoctorLine]:
    """A line for each package that is missing or has the wrong version."""
    for requirement in asked:
        extra = _extra_of(requirement)
        if extra is None and requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        version, remedy = version_of(requirement.name), f"pip install '{requirement.name}{requirement.specifier}'"
        if version is None and extra is None:
            yield fail("packages", f"{requirement.name} is not installed", remedy)
        elif version is not None and not requirement.specifier.contains(version, prereleases=True):
            message = f"{requirement.name} {version} is installed; {extra or 'evo'} needs {requirement.specifier}"
            yield (fail if extra is None else warn)("packages", message, remedy)


def _cuda_beside_cpu() -> Iterator[DoctorLine]:
    torch = version_of("torch") or ""
    wrong = [name for name in _BREAK_CPU_TORCH if "+cpu" not in (version_of(name) or "+cpu")]
    if torch.endswith("+cpu") and wrong:
        message = f"CUDA builds of {', '.join(wrong)} next to torch {torch}: import transformers fails"
        yield fail("packages", message, f"pip uninstall -y {' '.join(wrong)}")


def _have(asked: list[Requirement]) -> str:
    """The extras of which every package is here."""
    extras: dict[str, bool] = {}
    for requirement in asked:
        if (extra := _extra_of(requirement)) is not None and requirement.name != DISTRIBUTION:
            extras[extra] = extras.get(extra, True) and version_of(requirement.name) is not None
    here = [name for name, whole in sorted(extras.items()) if whole]
    return f"extras: {', '.join(here) or 'none'}"


def _extra_of(requirement: Requirement) -> str | None:
    """The extra of a requirement: postgres for `psycopg; extra == "postgres"`."""
    for part in str(requirement.marker or "").replace("(", " ").replace(")", " ").split(" and "):
        name, _, value = part.partition("==")
        if name.strip() == "extra":
            return value.strip().strip("'\"")
    return None


def version_of(name: str) -> str | None:
    """The installed version, None if it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
