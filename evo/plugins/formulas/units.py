"""Units of columns as text, and whether a formula keeps them.

A dimension is the exponents of base units. Constants may carry any unit, so `2.5*x` fits any target; sums need equal
dimensions, and functions such as sin need arguments without one. A prefix (km) has the dimension of its unit. A name
that is no unit of the table is another base unit (`dollar`).
"""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Mapping, Sequence

from evo.plugins.formulas import grammar as g
from evo.plugins.formulas.grammar import Formula
from problems.python_syntax import parse_source

Dimension = tuple[tuple[str, float], ...]
"""Base units with exponents other than 0, sorted by name."""
_NONE: Dimension = ()

_DERIVED: dict[str, dict[str, float]] = {
    **{base: {base: 1} for base in ("m", "s", "A", "K", "mol", "cd")},
    **{"kg": {"kg": 1}, "g": {"kg": 1}, "N": {"kg": 1, "m": 1, "s": -2}, "J": {"kg": 1, "m": 2, "s": -2}},
    **{"W": {"kg": 1, "m": 2, "s": -3}, "Pa": {"kg": 1, "m": -1, "s": -2}, "Hz": {"s": -1}, "C": {"A": 1, "s": 1}},
    **{"V": {"kg": 1, "m": 2, "s": -3, "A": -1}, "ohm": {"kg": 1, "m": 2, "s": -3, "A": -2}},
    **{"F": {"kg": -1, "m": -2, "s": 4, "A": 2}, "H": {"kg": 1, "m": 2, "s": -2, "A": -2}},
    **{"T": {"kg": 1, "s": -2, "A": -1}, "Wb": {"kg": 1, "m": 2, "s": -2, "A": -1}},
    **{"S": {"kg": -1, "m": -2, "s": 3, "A": 2}, "L": {"m": 3}, "bar": {"kg": 1, "m": -1, "s": -2}},
    **{"eV": {"kg": 1, "m": 2, "s": -2}, "min": {"s": 1}, "h": {"s": 1}, "hr": {"s": 1}, "day": {"s": 1}},
    **{"yr": {"s": 1}, "rad": {}, "deg": {}, "sr": {}, "percent": {}, "ppm": {}},
    **{"Bq": {"s": -1}, "Gy": {"m": 2, "s": -2}, "Sv": {"m": 2, "s": -2}, "kat": {"mol": 1, "s": -1}, "lm": {"cd": 1}},
    **{"lx": {"cd": 1, "m": -2}, "cal": {"kg": 1, "m": 2, "s": -2}, "l": {"m": 3}},
    # products that are written without a sign
    **{"Nm": {"kg": 1, "m": 2, "s": -2}, "Wh": {"kg": 1, "m": 2, "s": -2}, "Ws": {"kg": 1, "m": 2, "s": -2}},
    **{
        "VA": {"kg": 1, "m": 2, "s": -3},
        "Ah": {"A": 1, "s": 1},
        "As": {"A": 1, "s": 1},
        "Js": {"kg": 1, "m": 2, "s": -1},
    },
    **{"Vs": {"kg": 1, "m": 2, "s": -2, "A": -1}, "Pas": {"kg": 1, "m": -1, "s": -1}},
}
_WHOLE: dict[str, dict[str, float]] = {
    **dict.fromkeys(
        ("in", "inch", "inches", "ft", "foot", "feet", "yd", "mi", "mile", "miles", "nmi", "au", "ly"), {"m": 1}
    ),
    **dict.fromkeys(("meter", "meters", "metre", "metres", "Å"), {"m": 1}),
    **dict.fromkeys(("d", "days", "wk", "week", "weeks", "month", "months", "year", "years"), {"s": 1}),
    **dict.fromkeys(
        ("sec", "secs", "second", "seconds", "mins", "minute", "minutes", "hrs", "hour", "hours"), {"s": 1}
    ),
    **dict.fromkeys(("lb", "lbs", "oz", "t", "ton", "tons", "tonne", "tonnes", "gram", "grams", "Da"), {"kg": 1}),
    **dict.fromkeys(("atm", "Torr", "torr", "mmHg", "psi"), {"kg": 1, "m": -1, "s": -2}),
    **dict.fromkeys(("lbf", "dyn", "kgf"), {"kg": 1, "m": 1, "s": -2}),
    **dict.fromkeys(("hp", "PS"), {"kg": 1, "m": 2, "s": -3}),
    **dict.fromkeys(("erg", "BTU", "Btu"), {"kg": 1, "m": 2, "s": -2}),
    **dict.fromkeys(("ha", "acre", "acres"), {"m": 2}),
    **dict.fromkeys(("gal", "gallon", "gallons", "litre", "litres", "liter", "liters", "cc"), {"m": 3}),
    **dict.fromkeys(("mph", "kph", "kn", "knot", "knots"), {"m": 1, "s": -1}),
    **dict.fromkeys(("rpm", "rps"), {"s": -1}),
    **dict.fromkeys(("ppb", "ppt", "rev", "turn", "turns", "degree", "degrees", "radian", "radians"), {}),
    **dict.fromkeys(("kelvin", "degK"), {"K": 1}),
    **dict.fromkeys(("celsius", "Celsius"), {"degC": 1}),
    **dict.fromkeys(("fahrenheit", "Fahrenheit"), {"degF": 1}),
}
"""Units that take no prefix."""
_SYMBOLS = ("t", "d", "l")
_BASES = ("m", "s", "kg", "A", "K", "mol", "cd", "degC", "degF")
_SIGNS = str.maketrans(
    {**dict.fromkeys("·⋅×", "*"), **dict.fromkeys("−–", "-"), "^": "**", "%": "percent", "Ω": "ohm", "°": "deg"}
    | {"$": "dollar", "€": "euro"}
)
_PREFIXES = ("da", "y", "z", "a", "f", "p", "n", "u", "μ", "m", "c", "d", "h", "k", "M", "G", "T", "P", "E", "Z", "Y")
_LIKE_ITS_ARGUMENT = (g.NEG, g.ABS)
_POWERS = {g.SQUARE: 2.0, g.CUBE: 3.0, g.SQRT: 0.5}


def parse_unit(text: str) -> Dimension | None:
    """The dimension of a unit such as `m/s^2`, `kg m-3`, `°C` or `1`; None, any dimension, for an empty text.

    Degrees Celsius and Fahrenheit have other zeros, so each is a base unit, other than K. Raises ValueError, one
    line.
    """
    spaced = re.sub(r"([⁰¹²³⁴-⁹⁻]++)(?=[^\W\d_])", r"\1 ", text.strip())
    plain = unicodedata.normalize("NFKC", spaced).translate(_SIGNS)
    plain = re.sub(r"\bdeg(?:rees?)?[ .]*(C|F|K|[cC]elsius|[fF]ahrenheit)\b", lambda m: f"deg{m[1][0].upper()}", plain)
    plain = re.sub(r"([^\W\d_]+)(-?\d+)", lambda m: f"{m[1]}**{m[2]}" if _known(m[1]) is not None else m[0], plain)
    if plain in ("", "-"):
        return _NONE if plain else None
    plain = re.sub(r"\*\*\s*(-?\d+)\s*/\s*(\d+)(?![\w.])", r"**(\1/\2)", plain)  # m^1/2 is a root: no unit has a half
    plain = re.sub(r"(?<=[\w)])\s+(?=[\w(])", "*", plain.strip())
    plain = re.sub(r"(?<![\w.])[^\W\d]\w*", lambda m: f"u_{m[0]}", plain)  # `in` and `as` are words of Python
    try:
        return _dimension(_read(parse_source(f"1{plain}" if plain[0] == "/" else plain, mode="eval").body))
    except (SyntaxError, ValueError, RecursionError):
        raise ValueError(f"{text[:60]!r} is not a unit; write, for example, 'm/s^2' or '1'") from None


def write_dimension(dimension: Dimension) -> str:
    """kg*m^2/s^2, or 1."""
    above = "*".join(_power(name, power) for name, power in dimension if power > 0) or "1"
    return "/".join([above, *(_power(name, -power) for name, power in dimension if power < 0)])


def _power(name: str, power: float) -> str:
    return name if power == 1 else f"{name}^{power:g}"


def base_units(dimension: Dimension | None) -> list[str]:
    """The names in it that are no unit of the table."""
    return [name for name, _ in dimension or () if name not in _BASES]


def is_unit(text: str) -> bool:
    """Whether a text in parentheses after a name, as in `flow (m3/h)`, is made of units that are known. `time (t)` is
    not: it may be the symbol of a quantity."""
    if text.strip() in _SYMBOLS:
        return False
    try:
        return not base_units(parse_unit(text)) and not text.isdecimal()
    except ValueError:
        return False


def _read(node: ast.expr) -> dict[str, float]:
    match node:
        case ast.Constant(value=int() | float()):
            return {}
        case ast.Name(id=named):
            name = named.removeprefix("u_")
            known = _known(name)
            return {name: 1} if known is None else dict(known)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _times(_read(left), _read(right), 1)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _times(_read(left), _read(right), -1)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _times({}, _read(left), _number(right))
    raise ValueError


def _number(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(operand)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _number(left) / _number(right)
    raise ValueError


def _known(name: str) -> Mapping[str, float] | None:
    """The base units of a unit of the table, with or without a prefix."""
    if name in _WHOLE:
        return _WHOLE[name]
    places = (len(prefix) for prefix in ("", *_PREFIXES) if name.startswith(prefix))
    return next((_DERIVED[name[place:]] for place in places if name[place:] in _DERIVED), None)


def _times(left: Mapping[str, float], right: Mapping[str, float], power: float) -> dict[str, float]:
    product = dict(left)
    for name, exponent in right.items():
        product[name] = product.get(name, 0.0) + power * exponent
    return product


def _dimension(exponents: Mapping[str, float]) -> Dimension:
    rounded = {name: round(float(exponent), 6) for name, exponent in exponents.items()}
    return tuple(sorted((name, exponent) for name, exponent in rounded.items() if exponent))


_Quantity = tuple[Dimension | None, float | None]
"""The dimension of a part of a formula, and its value if it is a number."""


class _Inconsistent(Exception):
    """A part breaks the units."""


def is_consistent(formula: Formula, columns: Sequence[Dimension | None], target: Dimension | None) -> bool:
    """Whether the formula keeps the dimensions of its columns and gives the target's. None is any dimension."""

    def combine(code: int, parts: list[_Quantity]) -> _Quantity:
        consistent, dimension = _result(code, [dimension for dimension, _number in parts], parts[-1][1])
        if not consistent:
            raise _Inconsistent
        return dimension, None

    try:
        given, _number = formula.fold(
            lambda index: (columns[index], None), lambda value, _fixed: (None, value), combine
        )
    except _Inconsistent:
        return False
    return given is None or target is None or given == target


def _result(code: int, parts: Sequence[Dimension | None], number: float | None) -> tuple[bool, Dimension | None]:
    """Whether the arguments of a function fit, and the dimension of its value. number: the last argument's value"""
    first, last = parts[0], parts[-1]
    if code in (g.ADD, g.SUB, g.MIN, g.MAX):
        known = [part for part in parts if part is not None]
        return len(set(known)) <= 1, known[0] if known else None
    if code in (g.MUL, g.DIV):
        if first is None or last is None:
            return True, None
        return True, _dimension(_times(dict(first), dict(last), 1 if code == g.MUL else -1))
    if code in _LIKE_ITS_ARGUMENT:
        return True, first
    power = number if code == g.POW else _POWERS.get(code)
    if power is not None:
        return True, None if first is None else _dimension(_times({}, dict(first), power))
    return all(part in (None, _NONE) for part in parts), _NONE
