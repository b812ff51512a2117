"""Contract suites: subclass one in a test module, give it a factory of your class, and pytest runs all its tests.

    from evo.testing import ProblemContract

    class TestMine(ProblemContract):
        def problem(self): ...

Names load on first use: a suite for a problem needs no model, and only tests need pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from problems.entry_points import lazy_exports

if TYPE_CHECKING:
    from evo.testing.policy import PolicyContract as PolicyContract
    from evo.testing.policy import TrainablePolicyContract as TrainablePolicyContract
    from evo.testing.problem import ProblemContract as ProblemContract
else:
    __getattr__, __all__ = lazy_exports(
        __name__,
        policy="PolicyContract TrainablePolicyContract",
        problem="ProblemContract",
    )
