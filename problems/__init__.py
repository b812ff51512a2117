"""The contract of a problem, the problems themselves, and the scoring of answers.

Importing this package loads only the contract; the rest comes when it is first named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from problems.contract import BadAddress as BadAddress
from problems.contract import Problem as Problem
from problems.contract import Score as Score
from problems.contract import ScorerFault as ScorerFault
from problems.entry_points import lazy_exports

if TYPE_CHECKING:
    from problems.apart import AnswerError as AnswerError
    from problems.registry import describe_sets as describe_sets
    from problems.registry import resolve as resolve
    from problems.sandbox import set_sandbox_mode as set_sandbox_mode
    from problems.scoring import Scorer as Scorer
else:
    __getattr__, __all__ = lazy_exports(
        __name__,
        contract="BadAddress Problem Score ScorerFault",
        apart="AnswerError",
        registry="describe_sets resolve",
        sandbox="set_sandbox_mode",
        scoring="Scorer",
    )
