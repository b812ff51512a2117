"""Formulas of tables: symbolic regression as problems, as an operator, and as a separate search.

from evo.plugins.formulas import search_formulas

front = search_formulas(X, y, names=["m", "v"], seconds=10)
front.best.equation, front.best.r2, front.predict(X)
"""

from __future__ import annotations

from evo.plugins.formulas.front import Front, FrontRow
from evo.plugins.formulas.grammar import Formula, FormulaError, parse_formula, write_formula
from evo.plugins.formulas.search import search_formulas

__all__ = ["Formula", "FormulaError", "Front", "FrontRow", "parse_formula", "search_formulas", "write_formula"]
