"""Formulas as Python, LaTeX and sympy. Only `to_sympy` needs sympy, and imports it when it is called."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from typing import Any

from evo.plugins.formulas import grammar as g
from evo.plugins.formulas.grammar import CONSTANT, FIXED, VARIABLE, Formula, arity, write

_GREEK = (
    *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"),
    *("nu", "xi", "rho", "sigma", "tau", "phi", "chi", "psi", "omega"),
)


def to_python(formula: Formula, names: Sequence[str], function: str = "f") -> str:
    """The source of a function of numpy arrays, one argument a column. It needs numpy, and the caller's functions."""
    own = {g.name_of(code) for code in formula.codes if code in g.OWN}
    plain = to_identifiers(names, (function, *own))
    body = write(formula, plain, calls=lambda name: name if name in own else f"np.{name}", number=_python_number)
    if not formula.variables:
        body = f"np.full(np.shape({plain[0]}), {body})"
    lines = [f"def {function}({', '.join(plain)}):"]
    lines += [f"    {plain[i]} = np.asarray({plain[i]}, dtype=float)" for i in formula.variables]
    lines[:0] = [f"# {name} is a function of yours" for name in sorted(own)]
    return "\n".join(["import numpy as np", "", "", *lines, f"    return {body}", ""])


def to_identifiers(names: Sequence[str], taken: Sequence[str] = ()) -> list[str]:
    """Different names of Python, as near to the given ones as can be; none is of `taken`."""
    plain: list[str] = []
    for name in names:
        plain.append(_identifier(name, (*plain, *taken)))
    return plain


def _identifier(name: str, taken: Sequence[str]) -> str:
    plain = re.sub(r"\W", "_", name)
    plain = f"_{plain}" if not plain or plain[0].isdigit() else plain
    while keyword.iskeyword(plain) or plain == "np" or plain in taken:
        plain += "_"
    return plain


def _python_number(value: float, fixed_number: bool, digits: int) -> str:
    text = g.write_number(value, fixed_number, digits)
    return f"np.{text}" if text in ("pi", "e") else text


def to_sympy(formula: Formula, names: Sequence[str], real: bool = True) -> Any:
    """The formula as a sympy expression. real: its symbols are known to be real numbers, which proofs need; without it
    they equal `sympy.Symbol(name)`. Raises ImportError without sympy."""
    import sympy

    functions: dict[int, Any] = {
        **{g.SIN: sympy.sin, g.COS: sympy.cos, g.TAN: sympy.tan, g.ARCSIN: sympy.asin, g.ARCCOS: sympy.acos},
        **{g.ARCTAN: sympy.atan, g.SINH: sympy.sinh, g.COSH: sympy.cosh, g.TANH: sympy.tanh, g.EXP: sympy.exp},
        **{g.LOG: sympy.log, g.SQRT: sympy.sqrt, g.ABS: sympy.Abs, g.NEG: lambda a: -a},
        **{g.SQUARE: lambda a: a**2, g.CUBE: lambda a: a**3},
        **{g.ADD: lambda a, b: a + b, g.SUB: lambda a, b: a - b, g.MUL: lambda a, b: a * b},
        **{g.DIV: lambda a, b: a / b, g.POW: lambda a, b: a**b},
    }
    symbols = [sympy.Symbol(name, real=True) if real else sympy.Symbol(name) for name in names]
    stack: list[Any] = []
    numbers = iter(formula.values)
    for code in formula.codes:
        if code >= VARIABLE:
            stack.append(symbols[code - VARIABLE])
        elif code in (CONSTANT, FIXED):
            value = next(numbers)
            whole = value == int(value) if abs(value) < 1e15 else False
            known = g.write_number(value, True)
            stack.append(
                sympy.pi
                if known == "pi"
                else sympy.E
                if known == "e"
                else sympy.Integer(int(value))
                if whole
                else sympy.Float(value)
            )
        else:
            arguments = [stack.pop() for _ in range(arity(code))][::-1]
            if code in g.OWN:
                stack.append((g.OWN[code].sympy or sympy.Function(g.name_of(code)))(*arguments))
            else:
                stack.append(functions[code](*arguments))
    return stack[0]


def to_latex(formula: Formula, names: Sequence[str], digits: int = 6) -> str:
    """The formula as LaTeX, without sympy."""
    stack: list[tuple[str, int]] = []
    numbers = iter(formula.values)
    for code in formula.codes:
        if code >= VARIABLE:
            stack.append((_latex_name(names[code - VARIABLE]), 5))
        elif code in (CONSTANT, FIXED):
            stack.append(_latex_number(next(numbers), code == FIXED, digits))
        elif arity(code) == 2:
            right, left = stack.pop(), stack.pop()
            stack.append(_latex_binary(code, left, right))
        else:
            stack.append(_latex_unary(code, stack.pop()))
    return stack[0][0]


def _latex_name(name: str) -> str:
    head, _, tail = name.partition("_")
    if not tail:
        digits = re.fullmatch(r"([A-Za-z]+)(\d+)", head)
        if digits:
            head, tail = digits[1], digits[2]
    head = f"\\{head}" if head in _GREEK else head if len(head) == 1 else f"\\mathrm{{{_escaped(head)}}}"
    return f"{head}_{{{_escaped(tail)}}}" if tail else head


def _escaped(text: str) -> str:
    return re.sub(r"([_%&#$])", r"\\\1", text)


def _latex_number(value: float, fixed_number: bool, digits: int) -> tuple[str, int]:
    text = g.write_number(value, fixed_number, digits)
    if text == "pi":
        return "\\pi", 5
    if "e" in text and text != "e":
        mantissa, _, exponent = text.partition("e")
        return f"{mantissa} \\cdot 10^{{{int(exponent)}}}", 2 if value > 0 else 1
    return text.removesuffix(".0"), 3 if value < 0 else 5


def _grouped(part: tuple[str, int], least: int) -> str:
    return part[0] if part[1] >= least else f"\\left({part[0]}\\right)"


def _latex_binary(code: int, left: tuple[str, int], right: tuple[str, int]) -> tuple[str, int]:
    if code in (g.ADD, g.SUB):
        return f"{_grouped(left, 1)} {'+' if code == g.ADD else '-'} {_grouped(right, 2)}", 1
    if code == g.MUL:
        factor = _grouped(right, 2)
        dot = " \\cdot " if factor[0].isdigit() else " "
        return f"{_grouped(left, 2)}{dot}{factor if right[1] != 3 else _grouped(right, 4)}", 2
    if code == g.DIV:
        return f"\\frac{{{left[0]}}}{{{right[0]}}}", 2
    return f"{_grouped(left, 5)}^{{{right[0]}}}", 4


def _latex_unary(code: int, argument: tuple[str, int]) -> tuple[str, int]:
    if code == g.NEG:
        return f"-{_grouped(argument, 2)}", 1
    if code in (g.SQUARE, g.CUBE):
        return f"{_grouped(argument, 5)}^{{{2 if code == g.SQUARE else 3}}}", 4
    if code == g.SQRT:
        return f"\\sqrt{{{argument[0]}}}", 5
    if code == g.ABS:
        return f"\\left|{argument[0]}\\right|", 5
    if code == g.EXP:
        return f"e^{{{argument[0]}}}", 4
    name = f"\\operatorname{{{_escaped(g.name_of(code))}}}" if code in g.OWN else f"\\{g.name_of(code)}"
    return f"{name}\\left({argument[0]}\\right)", 5
