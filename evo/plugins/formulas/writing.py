"""Formulas as Python, LaTeX and sympy."""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from evo.plugins.formulas import grammar as g
from evo.plugins.formulas.grammar import Formula, write_formula

_NUMPY = {"min": "minimum", "max": "maximum"}
_RESERVED = {"pi", "e", "E", "np", "numpy", "math", "sp", "sympy", "True", "False", "None"}


def plain_name(name: str, place: int) -> str:
    """A column's name as formulas can write it. place: from 0, for a name without letters"""
    plain = re.sub(r"\W+", "_", unicodedata.normalize("NFKC", name.strip()))
    if not plain.strip("_"):
        return f"x{place + 1}"
    plain = plain if plain == name else plain.strip("_")
    plain = f"_{plain}" if plain[0].isdigit() else plain
    return f"{plain}_" if keyword.iskeyword(plain) or plain in _RESERVED else plain


def plain_names(names: Sequence[str]) -> list[str]:
    """Different names that formulas can write, as near to the given ones as can be. Raises ValueError for two columns
    of one name."""
    twice = sorted({name for name in names if name.strip() and names.count(name) > 1})
    if twice:
        raise ValueError(f"there are several columns with the name {twice[0]!r}; columns need different names")
    plain: list[str] = []
    for place, name in enumerate(names):
        wanted = plain_name(name, place)
        taken = {*plain, *(other for other in names[place + 1 :] if other == wanted)}
        tries = (wanted if k == 1 else f"{wanted}_{k}" for k in range(1, len(names) + 2))
        plain.append(next(tried for tried in tries if tried not in taken))
    return plain


def replace_names(text: str, names: Mapping[str, str]) -> str:
    """A formula as text with plain names in place of a table's."""
    longest = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True) if name)
    return re.sub(rf"(?<!\w)(?:{longest})(?!\w)", lambda found: names[found[0]], text) if longest else text


def to_python(formula: Formula, names: Sequence[str], function: str = "f") -> str:
    """The source of a function of numpy arrays, one argument a column. names: that formulas can write"""
    arguments = [f"{name}_" if name == function else name for name in plain_names(names)]
    body = write_formula(formula, arguments, calls=lambda name: f"np.{_NUMPY.get(name, name)}", number=_python_number)
    if not formula.variables:
        body = f"np.full(np.shape({arguments[0]}), {body})"
    lines = [f"def {function}({', '.join(arguments)}):"]
    lines += [f"    {arguments[i]} = np.asarray({arguments[i]}, dtype=float)" for i in formula.variables]
    return "\n".join(["import numpy as np", "", "", *lines, f"    return {body}", ""])


def _python_number(value: float, fixed_number: bool, digits: int) -> str:
    text = g.write_constant(value, fixed_number, digits)
    return f"np.{text}" if text in ("pi", "e") else text


def to_latex(formula: Formula, names: Sequence[str], digits: int = 6) -> str:
    """The formula as LaTeX, with numbers of so few significant digits."""
    import sympy

    named = {sympy.Symbol(name): latex_name(name) for name in names}
    return str(sympy.latex(to_sympy(formula, names, real=False, digits=digits), symbol_names=named))


def latex_name(name: str) -> str:
    """A name as LaTeX: letters with an index as mathematics writes them (x_1, alpha), words upright."""
    import sympy

    mathematical = str(sympy.latex(sympy.Symbol(name)))
    is_symbol = re.fullmatch(r"(\\\w+|[^\W\d_])(_\{\w+\})?", mathematical)
    return mathematical if is_symbol else r"\mathrm{" + name.replace("_", r"\_") + "}"


def to_sympy(formula: Formula, names: Sequence[str], real: bool = True, digits: int = 17) -> Any:
    """The formula as a sympy expression.

    real: its symbols are known to be real numbers, which proofs need; without it they equal `sympy.Symbol(name)`
    digits: of its constants
    """
    import sympy

    functions: dict[int, Any] = {
        **{g.SIN: sympy.sin, g.COS: sympy.cos, g.TAN: sympy.tan, g.ARCSIN: sympy.asin, g.ARCCOS: sympy.acos},
        **{g.ARCTAN: sympy.atan, g.SINH: sympy.sinh, g.COSH: sympy.cosh, g.TANH: sympy.tanh, g.EXP: sympy.exp},
        **{g.LOG: sympy.log, g.SQRT: sympy.sqrt, g.ABS: sympy.Abs, g.NEG: lambda a: -a},
        **{g.SQUARE: lambda a: a**2, g.CUBE: lambda a: a**3},
        **{g.ADD: lambda a, b: a + b, g.SUB: lambda a, b: a - b, g.MUL: lambda a, b: a * b},
        **{g.DIV: lambda a, b: a / b, g.POW: lambda a, b: a**b, g.MIN: sympy.Min, g.MAX: sympy.Max},
    }
    symbols = [sympy.Symbol(name, real=True) if real else sympy.Symbol(name) for name in names]
    return formula.fold(
        lambda index: symbols[index],
        lambda value, _fixed: _sympy_number(sympy, value, digits),
        lambda code, parts: functions[code](*parts),
    )


def write_sympy(formula: Formula, names: Sequence[str]) -> str:
    """The formula as text that `sympy.sympify` reads back, numbers with 15 significant digits.

    A name that sympy has a meaning for, as S, N, I and beta, is written as Symbol('S'). Raises ImportError without
    sympy.
    """
    from sympy.printing.str import StrPrinter

    class Printer(StrPrinter):  # type: ignore[misc]
        def _print_Symbol(self, symbol: Any) -> str:
            return f"Symbol({symbol.name!r})" if _has_meaning(symbol) else str(symbol.name)

    return str(Printer().doprint(to_sympy(formula, names, real=False, digits=15)))


def _has_meaning(symbol: Any) -> bool:
    """Whether sympy reads the symbol's name as anything but the symbol."""
    import sympy

    try:
        return bool(sympy.sympify(symbol.name) != symbol)
    except (sympy.SympifyError, TypeError, AttributeError, SyntaxError):
        return True


def _sympy_number(sympy: Any, value: float, digits: int) -> Any:
    named = {"pi": sympy.pi, "e": sympy.E}.get(g.write_constant(value, True))
    if named is not None:
        return named
    if abs(value) < 1e15 and value == int(value):
        return sympy.Integer(int(value))
    return sympy.Float(value if digits >= 17 else float(f"{value:.{digits}g}"))
