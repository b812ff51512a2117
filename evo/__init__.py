"""Evolutionary search driven by policies trained to be searched.

    import evo

    result = evo.run("maze:hard", policy="embedded:vpo", limit=5, iterations=50)
    result.best, result.frame()
    evo.compare("maze:hard", arms={"grpo": "embedded:grpo", "vpo": "embedded:vpo"}, limit=20, seeds=3).verdict
    evo.train("vpo", "maze:train", policy="embedded:base", steps=20, output="runs/vpo")
    evo.evaluate("maze:test", policy="runs/vpo")["best@30"]

The functions are the verbs of the command line and take its flags as keywords: `--max-answers 500` is
`max_answers=500`. They are in evo.api. Nothing is imported before it is first used.
Plug-ins add names by entry points of the group `evo.exports`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evo.api.ask_tell import Search as Search
    from evo.api.ask_tell import SearchPrompt as SearchPrompt
    from evo.api.ask_tell import TellResult as TellResult
    from evo.api.drive import Interrupted as Interrupted
    from evo.api.policy import EvaluateResult as EvaluateResult
    from evo.api.policy import TrainResult as TrainResult
    from evo.api.policy import evaluate as evaluate
    from evo.api.policy import train as train
    from evo.api.results import Answer as Answer
    from evo.api.results import ComparisonResult as ComparisonResult
    from evo.api.results import RunResult as RunResult
    from evo.api.results import ScorerWarning as ScorerWarning
    from evo.api.results import load_comparison as load_comparison
    from evo.api.results import load_run as load_run
    from evo.api.run import compare as compare
    from evo.api.run import resume as resume
    from evo.api.run import run as run
    from evo.api.verify import verify as verify
    from evo.comparison.verification import Verification as Verification
    from evo.config.run import RunConfig as RunConfig
    from evo.errors import BadInput as BadInput
    from evo.errors import SearchFailed as SearchFailed
    from evo.version import __version__ as __version__
    from islands.errors import DatabaseUnavailable as DatabaseUnavailable
    from islands.errors import RunBusy as RunBusy
    from islands.errors import RunExists as RunExists
    from islands.errors import UnknownRun as UnknownRun
    from problems.apart import AnswerError as AnswerError
    from problems.apart import call as call
    from problems.contract import BadAddress as BadAddress
    from problems.contract import ScorerFault as ScorerFault
    from vpo.policies.contract import PolicyUnavailable as PolicyUnavailable
    from vpo.training import TrainingDiverged as TrainingDiverged
    from vpo.training import TrainingStopped as TrainingStopped

    FormulaRegressor: Any  # of a plug-in: type checkers read no entry points
else:
    _HOMES = {
        "evo.api.ask_tell": "Search SearchPrompt TellResult",
        "evo.api.drive": "Interrupted",
        "evo.api.results": "Answer ComparisonResult RunResult ScorerWarning load_comparison load_run",
        "evo.api.policy": "EvaluateResult TrainResult evaluate train",
        "evo.api.run": "compare resume run",
        "evo.api.verify": "verify",
        "evo.comparison.verification": "Verification",
        "evo.config.run": "RunConfig",
        "evo.errors": "BadInput SearchFailed",
        "evo.version": "__version__",
        "islands.errors": "DatabaseUnavailable RunBusy RunExists UnknownRun",
        "vpo.policies.contract": "PolicyUnavailable",
        "vpo.training": "TrainingDiverged TrainingStopped",
        # these reach a scorer's sandbox, which has no other room of this package
        "problems.contract": "BadAddress ScorerFault",
        "problems.apart": "AnswerError call",
    }
    _FOUND = {name: home for home, names in _HOMES.items() for name in names.split()}
    __all__ = sorted(_FOUND)

    def _exports() -> dict[str, Any]:
        """What plug-ins add, by entry points. `from evo import *` leaves it out, since it may need an extra."""
        from problems.entry_points import find_entry_points

        return find_entry_points("evo.exports")

    def __getattr__(name: str) -> Any:
        if name in _FOUND:
            return getattr(import_module(_FOUND[name]), name)
        if not name.startswith("_") and (point := _exports().get(name)) is not None:
            return point.load()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*_FOUND, *_exports()})
