"""The finding of one check, and all findings on one problem."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Level = Literal["ok", "finding", "note", "skipped"]


@dataclass(frozen=True)
class Finding:
    """One check's outcome.

    check: its name, the same in every report
    level: "ok", "finding" (something to fix: exit code 1), "note" (worth knowing), or "skipped" (with the reason)
    summary: one line
    details: further lines
    figures: measurements, as JSON
    """

    check: str
    level: Level
    summary: str
    details: tuple[str, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """The finding as JSON."""
        plain = {"check": self.check, "level": self.level, "message": self.summary}
        return {**plain, "details": list(self.details), "figures": dict(self.figures)}


def ok(check: str, summary: str, **figures: Any) -> Finding:
    return Finding(check, "ok", summary, (), figures)


def faulty(check: str, summary: str, details: Iterable[str] = (), **figures: Any) -> Finding:
    return Finding(check, "finding", summary, tuple(details), figures)


def note(check: str, summary: str, details: Iterable[str] = (), **figures: Any) -> Finding:
    return Finding(check, "note", summary, tuple(details), figures)


def skipped(check: str, why: str) -> Finding:
    return Finding(check, "skipped", why)


@dataclass(frozen=True)
class CheckReport:
    """All findings on one problem. asked: answers that were scored for it; seconds: their total time"""

    problem: str
    findings: tuple[Finding, ...]
    asked: int = 0
    seconds: float = 0.0

    @property
    def faults(self) -> tuple[Finding, ...]:
        """The findings to fix."""
        return tuple(finding for finding in self.findings if finding.level == "finding")

    def record(self) -> dict[str, Any]:
        """The report as JSON."""
        findings = [finding.record() for finding in self.findings]
        about = {"problem": self.problem, "sound": not self.faults, "answers_scored": self.asked}
        return {**about, "seconds": round(self.seconds, 3), "findings": findings}
