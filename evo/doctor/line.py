"""What one check says."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class DoctorLine:
    """check: its name; told: what was found, one line; remedy: what to do, "" where all is well"""

    check: str
    level: Level
    told: str
    remedy: str = ""

    def record(self) -> dict[str, str]:
        """As JSON."""
        return asdict(self)


def ok(check: str, told: str) -> DoctorLine:
    return DoctorLine(check, "ok", told)


def warn(check: str, told: str, remedy: str) -> DoctorLine:
    return DoctorLine(check, "warn", told, remedy)


def fail(check: str, told: str, remedy: str) -> DoctorLine:
    return DoctorLine(check, "fail", told, remedy)
