"""Which Python files are a user's simulator rather than a scorer (the entry points `evo.files`). Imports no numpy."""

from __future__ import annotations

import ast
from pathlib import Path

from problems.contract import BadAddress, Problem
from problems.python_syntax import bound_names, defined_names, parse_python
from problems.registry import Sandboxes

NEEDED = ("features", "families", "simulate")
_OUTER = (ast.Import, ast.ImportFrom, ast.AnnAssign)
_SCORERS = {"score", "evaluate"}


class RuleFiles:
    """A file that defines features, families and simulate(rule, instance)."""

    def claims(self, path: Path, code: str) -> bool:
        """Whether the file at `path` with this code is one, or nearly one; a file with score(answer) never is."""
        names = _names(code)
        return not names & _SCORERS and ("simulate" in names or {"features", "families"} <= names)

    def open(self, path: Path, code: str, sandbox: Sandboxes) -> Problem:
        """Raises BadAddress for a name that is missing, and for features that are none."""
        if missing := [name for name in NEEDED if name not in _names(code)]:
            needed = "features, families and simulate(rule, instance)"
            raise BadAddress(f"{path} evolves rules if it defines {needed}; {', '.join(missing)} is missing")
        from evo.plugins.rules.own import RulesFileProblem

        return RulesFileProblem(path, sandbox)


def _names(code: str) -> frozenset[str]:
    """At the top level."""
    tree = parse_python(code)
    return (
        frozenset()
        if tree is None
        else defined_names(code) | bound_names(n for n in tree.body if isinstance(n, _OUTER))
    )


FILES = RuleFiles()
