"""Formulas of tables: symbolic regression as problems, as an operator, and as a search of its own.

from evo.plugins.formulas import search

front = search(X, y, names=["m", "v"], seconds=10)
front.best.equation, front.best.r2, front.predict(X)
"""

from __future__ import annotations

from evo.plugins.formulas.front import Front, FrontRow
from evo.plugins.formulas.grammar import Formula, FormulaError, parse, write
from evo.plugins.formulas.search import search

__all__ = ["Formula", "FormulaError", "Front", "FrontRow", "parse", "search", "write"]
