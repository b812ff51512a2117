"""What is searched: the contract of a problem, the problems themselves, and how answers are scored.

Importing this package loads nothing but the contract; the rest comes when it is first named.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from problems.contract import BadAddress, Problem, Score, ScorerFault

if TYPE_CHECKING:
    from problems.custom.scorer_file import AnswerError
    from problems.registry import describe_sets, register, resolve, set_sandbox_mode
    from problems.scoring import Scorer

_LAZY = {
    "AnswerError": "problems.custom.scorer_file",
    "Scorer": "problems.scoring",
    "describe_sets": "problems.registry",
    "register": "problems.registry",
    "resolve": "problems.registry",
    "set_sandbox_mode": "problems.registry",
}

__all__ = [
    "AnswerError",
    "BadAddress",
    "Problem",
    "Score",
    "Scorer",
    "ScorerFault",
    "describe_sets",
    "register",
    "resolve",
    "set_sandbox_mode",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
