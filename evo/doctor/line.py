"""The result of one check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class DoctorLine:
    """check: its name; message: one line; remedy: what to do, "" if all is well"""

    check: str
    level: Level
    message: str
    remedy: str = ""

    def record(self) -> dict[str, str]:
        """The line as JSON."""
        return {"check": self.check, "level": self.level, "told": self.message, "remedy": self.remedy}


def ok(check: str, message: str) -> DoctorLine:
    return DoctorLine(check, "ok", message)


def warn(check: str, message: str, remedy: str) -> DoctorLine:
    return DoctorLine(check, "warn", message, remedy)


def fail(check: str, message: str, remedy: str) -> DoctorLine:
    return DoctorLine(check, "fail", message, remedy)
