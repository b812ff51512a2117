"""What one check says, and what all of them say of one problem."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Level = Literal["ok", "finding", "note", "skipped"]


@dataclass(frozen=True)
class Finding:
    """One check's outcome.

    check: its name, the same in every report
    level: "ok", "finding" (something to mend: exit code 1), "note" (worth knowing), or "skipped" (with the reason)
    told: one line
    details: further lines
    figures: what was measured, as JSON
    """

    check: str
    level: Level
    told: str
    details: tuple[str, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """As JSON."""
        plain = {"check": self.check, "level": self.level, "told": self.told}
        return {**plain, "details": list(self.details), "figures": dict(self.figures)}


def ok(check: str, told: str, **figures: Any) -> Finding:
    return Finding(check, "ok", told, (), figures)


def found(check: str, told: str, details: Iterable[str] = (), **figures: Any) -> Finding:
    return Finding(check, "finding", told, tuple(details), figures)


def note(check: str, told: str, details: Iterable[str] = (), **figures: Any) -> Finding:
    return Finding(check, "note", told, tuple(details), figures)


def skipped(check: str, why: str) -> Finding:
    return Finding(check, "skipped", why)


@dataclass(frozen=True)
class CheckReport:
    """Of one problem. asked: answers that were scored for it; seconds: what that took"""

    problem: str
    findings: tuple[Finding, ...]
    asked: int = 0
    seconds: float = 0.0

    @property
    def faults(self) -> tuple[Finding, ...]:
        """What is to be mended."""
        return tuple(finding for finding in self.findings if finding.level == "finding")

    def record(self) -> dict[str, Any]:
        """As JSON."""
        findings = [finding.record() for finding in self.findings]
        about = {"problem": self.problem, "sound": not self.faults, "answers_scored": self.asked}
        return {**about, "seconds": round(self.seconds, 3), "findings": findings}
