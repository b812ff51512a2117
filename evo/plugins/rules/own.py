"""A user's own simulator, in one Python file, as a problem whose answers are rules.

    features = {"work": "hours of work", "wait": "hours since it came"}  # the names in a rule, written out
    families = {"calm": [instance, ...], "rush": [instance, ...]}        # kinds of instances, or one list of them
    def simulate(rule, instance):
        ... rule(work, wait) or rule(work=..., wait=...) ...
        return cost                                                      # lower is better; or costs by name

`rule` takes numbers or arrays, and returns values of their common shape: the smallest goes first. An instance is any
object. The objectives are the families, each with the mean cost of its instances; "FAMILY NAME" for costs by name.

The file may also define `task` (a sentence: what a rule decides), `seed_answer` (a rule, or a list of them; else the
first feature), `held_out` (like families, by instances that steer no search), and `weights`, `target`, `timeout`,
`readable`, `isolated`, `resources` as a scorer file does (problems.custom.scorer_file). It runs as a scorer file runs:
in a sandbox, each rule in a fork. A rule is read by the grammar of formulas there, and never executed as code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from evo.plugins.formulas.grammar import NAMED, VARIABLE, FormulaError
from evo.plugins.rules.problem import RULE_SCORING
from evo.plugins.rules.rule import RuleTask, parse_rule
from problems.contract import BadAddress
from problems.custom.scorer_file import ScorerFileProblem, read_literals
from problems.custom.scorer_problem import SCORER_OPTIONS, ScorerOptions
from problems.fingerprint import fingerprint_of
from problems.sandbox.contract import EvaluatorSpec

if TYPE_CHECKING:
    from problems.sandbox.pool import Sandbox

PLUGINS = Path(__file__).parents[1]
"""Read by the process of the simulator."""


class RulesFileProblem(RuleTask, ScorerFileProblem):
    """The file as a Problem."""

    declarations = ("held_out", "task", "seed_answer", "weights", "target", *SCORER_OPTIONS)

    def __init__(self, path: Path, sandbox: Callable[[], Sandbox]) -> None:
        """Raises BadAddress for features that are not names with texts."""
        self.about = _read_features(path)
        super().__init__(path, sandbox)
        self.execution = "never"

    def process(self, options: ScorerOptions) -> EvaluatorSpec:
        """With the module that makes a scorer of the file."""
        spec = super().process(options)
        environment = {**spec.environment, "EVO_SCORER_ADAPTER": "evo.plugins.rules.simulator"}
        return replace(spec, readable=(*spec.readable, str(PLUGINS)), environment=environment)

    def fingerprint(self) -> str:
        """The fingerprint of the file, as of a scorer's, and of the rules of scoring."""
        return fingerprint_of(RULE_SCORING, super().fingerprint())


def _read_features(path: Path) -> dict[str, str]:
    features = read_literals(path, ("features",)).get("features")
    if not isinstance(features, dict) or not features or not all(isinstance(text, str) for text in features.values()):
        raise BadAddress(f'{path}: features must map names to what they mean, as in {{"work": "hours of work"}}')
    names = tuple(map(str, features))
    for index, name in enumerate(names):
        try:
            usable = name.isidentifier() and name not in NAMED and parse_rule(name, names).codes == (VARIABLE + index,)
        except FormulaError:  # such as `lambda`
            usable = False
        if not usable:
            allowed = f"use letters, digits and _, not first a digit; {', '.join(NAMED)} are numbers"
            raise BadAddress(f"{path}: {name!r} cannot name a feature: {allowed}")
    return dict(zip(names, features.values(), strict=True))
