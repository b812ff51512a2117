"""Whether sympy proves that a found formula is a law: their difference or their ratio is a constant.

Numbers of both are rounded to four significant digits before, as fitted constants are never exact. Variables are known
to be positive if their training range is. A formula that differs from the law by numbers at random points is not tried.
"""

from __future__ import annotations

import multiprocessing
import resource
from typing import Any

import numpy as np

from evo.plugins.formulas.laws import Law
from evo.plugins.formulas.writing import to_sympy

DIGITS = 4
_TOLERANCE = 1e-3
_TINY = 1e-9


def is_equivalent(law: Law, text: str, seconds: float) -> bool:
    """Whether the formula, written in v0, v1, .., is proved within so many CPU seconds of a child process."""
    if not text or law.text.startswith("harmonic"):
        return False
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    child = context.Process(target=_prove_into, args=(writer, law, text, seconds))
    child.start()
    writer.close()
    try:
        return bool(reader.poll(20 * seconds) and reader.recv())
    except EOFError:  # the limit ended it
        return False
    finally:
        child.kill()
        child.join()


def _prove_into(writer: Any, law: Law, text: str, seconds: float) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + _spent(), int(seconds) + _spent() + 1))
    try:
        writer.send(_prove(law, text))
    except Exception:  # sympy's own, such as an imaginary comparison: not proved
        writer.send(False)


def _spent() -> int:
    return int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))


def _prove(law: Law, text: str) -> bool:
    import sympy

    symbols = [
        sympy.Symbol(f"v{i}", real=True, positive=low >= 0 or None)
        for i, (_kind, low, _high, _n) in enumerate(law.train)
    ]
    plain = to_sympy(law.formula, [symbol.name for symbol in symbols])
    truth = sympy.N(plain.subs({sympy.Symbol(symbol.name, real=True): symbol for symbol in symbols}))
    found = sympy.sympify(text.replace("^", "**"), {**_functions(sympy), **{s.name: s for s in symbols}})
    if not _is_near(sympy, law, symbols, truth, found):
        return False

    def expand_waves(expression: Any) -> Any:
        return sympy.expand(sympy.expand_trig(expression))

    def undo_logarithms(expression: Any) -> Any:
        return sympy.expand(sympy.simplify(sympy.exp(expression)))

    for form in (lambda each: each, sympy.expand, expand_waves, undo_logarithms, sympy.simplify):
        one, other = _rounded(sympy, form(truth)), _rounded(sympy, form(found))
        for compared in (one - other, one / other):
            if not sympy.simplify(compared).free_symbols:
                return True
    return False


def _functions(sympy: Any) -> dict[str, Any]:
    """The words of this engine, of pyoperon and of gplearn that sympy does not have."""
    return {
        **{"arcsin": sympy.asin, "arccos": sympy.acos, "arctan": sympy.atan, "abs": sympy.Abs, "pow": sympy.Pow},
        **{"square": lambda a: a**2, "cube": lambda a: a**3, "neg": lambda a: -a, "inv": lambda a: 1 / a},
        **{"add": sympy.Add, "mul": sympy.Mul, "sub": lambda a, b: a - b, "div": lambda a, b: a / b},
        "log": lambda a: sympy.log(sympy.Abs(a)),
        "sqrt": lambda a: sympy.sqrt(sympy.Abs(a)) if a.is_negative else sympy.sqrt(a),
    }


def _is_near(sympy: Any, law: Law, symbols: list[Any], truth: Any, found: Any) -> bool:
    rng = np.random.default_rng(0)
    points = [rng.uniform(low, high, 200) for _kind, low, high, _n in law.train]
    with np.errstate(all="ignore"):
        here, there = (
            np.broadcast_to(sympy.lambdify(symbols, each, "numpy")(*points), (200,)) for each in (truth, found)
        )
        usable = np.isfinite(here) & np.isfinite(there)
        if usable.sum() < 50:
            return False
        here, there = np.real(here[usable]), np.real(there[usable])
        difference, ratio = here - there, here / there
        return bool(
            difference.std() <= _TOLERANCE * here.std() or ratio.std() <= _TOLERANCE * abs(float(np.median(ratio)))
        )


def _rounded(sympy: Any, expression: Any) -> Any:
    """Every number with a decimal point as a fraction of four significant digits, and as 0 if it is tiny."""
    numbers = {number: float(number) for number in expression.atoms(sympy.Float)}
    return expression.xreplace(
        {
            number: sympy.Rational(f"{value:.{DIGITS - 1}e}") if abs(value) > _TINY else sympy.Integer(0)
            for number, value in numbers.items()
        }
    )
