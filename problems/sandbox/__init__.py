"""Runs hostile programs, and users' scorers, where they can do no harm. `child/confinement.py` says what is covered."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from problems.sandbox.contract import (
        CaseOutcome,
        EvaluatorOutcome,
        EvaluatorSpec,
        Limits,
        Program,
        SandboxFault,
        SandboxUnavailable,
        ScratchFile,
    )
    from problems.sandbox.evaluator import Evaluator
    from problems.sandbox.isolation import choose_mode, probe
    from problems.sandbox.pool import Sandbox
    from problems.sandbox.session import Session

_HOMES = {
    "contract": (
        "CaseOutcome",
        "EvaluatorOutcome",
        "EvaluatorSpec",
        "Limits",
        "Program",
        "SandboxFault",
        "SandboxUnavailable",
        "ScratchFile",
    ),
    "evaluator": ("Evaluator",),
    "isolation": ("choose_mode", "probe"),
    "pool": ("Sandbox",),
    "session": ("Session",),
}
__all__ = [
    "CaseOutcome",
    "Evaluator",
    "EvaluatorOutcome",
    "EvaluatorSpec",
    "Limits",
    "Program",
    "Sandbox",
    "SandboxFault",
    "SandboxUnavailable",
    "ScratchFile",
    "Session",
    "choose_mode",
    "probe",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
