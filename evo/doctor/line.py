"""What one check says."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Line:
    """check: its name; told: what was found, one line; remedy: what to do, "" where all is well"""

    check: str
    level: Level
    told: str
    remedy: str = ""

    def record(self) -> dict[str, str]:
        """As JSON."""
        return asdict(self)


def ok(check: str, told: str) -> Line:
    return Line(check, "ok", told)


def warn(check: str, told: str, remedy: str) -> Line:
    return Line(check, "warn", told, remedy)


def fail(check: str, told: str, remedy: str) -> Line:
    return Line(check, "fail", told, remedy)
