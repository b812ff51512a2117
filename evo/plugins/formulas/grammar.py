"""The language of formulas: flat postfix code, read from text and written as text, never executed as code.

A formula is a tuple of whole numbers in postfix order and a tuple of numbers. Each code is a function of FUNCTIONS, a
variable (VARIABLE + its index), a constant that may be fitted (CONSTANT), or a number that stays as it is (FIXED). The
last two take their values from the tuple of numbers, in order. In text a number with a point or an exponent is a
constant to fit, and a whole number, `pi` and `e` are fixed: `1.0*x**2` has one constant, `2*x` none.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from problems.python_syntax import parse_python

Part = TypeVar("Part")
MOST_TEXT = 4000
MOST_NODES = 1000
"""Longer formulas are refused: a reader of model output must end."""


class FormulaError(ValueError):
    """A text that is no formula of the grammar; one line that says why."""


@dataclass(frozen=True)
class Function:
    """name: in text; arity: 1 or 2; aliases: other spellings that are read"""

    name: str
    arity: int
    aliases: tuple[str, ...] = ()


FUNCTIONS: tuple[Function, ...] = (
    *(Function("+", 2, ("add",)), Function("-", 2, ("sub", "subtract")), Function("*", 2, ("mul", "multiply"))),
    *(Function("/", 2, ("div", "divide")), Function("**", 2, ("pow", "power")), Function("neg", 1, ("negative",))),
    *(Function("square", 1), Function("cube", 1), Function("sqrt", 1), Function("exp", 1)),
    *(Function("log", 1, ("ln",)), Function("sin", 1), Function("cos", 1), Function("tan", 1)),
    *(Function("arcsin", 1, ("asin",)), Function("arccos", 1, ("acos",)), Function("arctan", 1, ("atan",))),
    *(Function("sinh", 1), Function("cosh", 1), Function("tanh", 1), Function("abs", 1, ("fabs", "Abs"))),
    *(Function("min", 2, ("minimum",)), Function("max", 2, ("maximum",))),
)
ADD, SUB, MUL, DIV, POW, NEG, SQUARE, CUBE, SQRT, EXP, LOG, SIN, COS, TAN = range(14)
ARCSIN, ARCCOS, ARCTAN, SINH, COSH, TANH, ABS, MIN, MAX = range(14, 23)
CONSTANT, FIXED, VARIABLE = 100, 101, 1000
CODES: dict[str, int] = {name: code for code, each in enumerate(FUNCTIONS) for name in (each.name, *each.aliases)}
ARITY: dict[int, int] = {**{code: each.arity for code, each in enumerate(FUNCTIONS)}, CONSTANT: 0, FIXED: 0}
NAMED = {"pi": math.pi, "e": math.e, "E": math.e}
_MODULES = {"np", "numpy", "math", "sp", "sympy"}


def function_name(code: int) -> str:
    """The name of a function."""
    return FUNCTIONS[code].name


def arity(code: int) -> int:
    """How many arguments a code takes from the stack."""
    return 0 if code >= CONSTANT else ARITY[code]


@dataclass(frozen=True)
class Formula:
    """A formula in postfix order (see the module's docstring). Equal formulas are equal objects and hash alike.

    codes: one whole number a node; values: the numbers of its CONSTANT and FIXED nodes, in order
    """

    codes: tuple[int, ...]
    values: tuple[float, ...] = ()

    @property
    def size(self) -> int:
        """Nodes: functions, variables and numbers."""
        return len(self.codes)

    @cached_property
    def variables(self) -> tuple[int, ...]:
        """The indices of the variables that occur, ascending."""
        return tuple(sorted({code - VARIABLE for code in self.codes if code >= VARIABLE}))

    @cached_property
    def fitted(self) -> tuple[int, ...]:
        """The places in `values` of the constants that may be fitted."""
        numbers = [code for code in self.codes if code in (CONSTANT, FIXED)]
        return tuple(place for place, code in enumerate(numbers) if code == CONSTANT)

    def with_constants(self, constants: Sequence[float]) -> Formula:
        """The formula with other numbers at the places `fitted`."""
        values = list(self.values)
        for place, constant in zip(self.fitted, constants, strict=True):
            values[place] = float(constant)
        return Formula(self.codes, tuple(values))

    def freeze(self) -> Formula:
        """The formula with all of its numbers fixed."""
        return Formula(tuple(FIXED if code == CONSTANT else code for code in self.codes), self.values)

    def subtree(self, root: int) -> tuple[int, int]:
        """Begin and end (exclusive) in `codes` of the subtree whose last code is at `root`."""
        begin, missing = root, 1
        while True:
            missing += arity(self.codes[begin]) - 1
            if missing == 0:
                return begin, root + 1
            begin -= 1

    def cut(self, begin: int, end: int) -> Formula:
        """The part codes[begin:end] with its numbers, a formula if the part is a subtree."""
        skipped = _numbers(self.codes[:begin])
        held = _numbers(self.codes[begin:end])
        return Formula(self.codes[begin:end], self.values[skipped : skipped + held])

    def replace(self, begin: int, end: int, other: Formula) -> Formula:
        """The formula with `other` in place of codes[begin:end]."""
        before = _numbers(self.codes[:begin])
        after = before + _numbers(self.codes[begin:end])
        codes = self.codes[:begin] + other.codes + self.codes[end:]
        return Formula(codes, self.values[:before] + other.values + self.values[after:])

    def arguments(self) -> tuple[Formula, ...]:
        """The arguments of the outermost function; empty for a leaf."""
        count, end = arity(self.codes[-1]), len(self.codes) - 1
        parts: list[Formula] = []
        for _ in range(count):
            begin, _end = self.subtree(end - 1)
            parts.append(self.cut(begin, end))
            end = begin
        return tuple(reversed(parts))

    def fold(
        self,
        variable: Callable[[int], Part],
        number: Callable[[float, bool], Part],
        function: Callable[[int, list[Part]], Part],
    ) -> Part:
        """What the whole is made of, from the leaves up: of a variable's index, of a number and whether it is fixed, of
        a function's code and what its arguments are."""
        stack: list[Part] = []
        numbers = iter(self.values)
        for code in self.codes:
            if code >= VARIABLE:
                stack.append(variable(code - VARIABLE))
            elif code >= CONSTANT:
                stack.append(number(next(numbers), code == FIXED))
            else:
                parts = stack[-ARITY[code] :]
                del stack[-ARITY[code] :]
                stack.append(function(code, parts))
        return stack[0]


def _numbers(codes: Sequence[int]) -> int:
    return sum(1 for code in codes if code in (CONSTANT, FIXED))


def variable(index: int) -> Formula:
    """The formula that is one variable."""
    return Formula((VARIABLE + index,))


def constant(value: float) -> Formula:
    """A constant that may be fitted."""
    return Formula((CONSTANT,), (float(value),))


def fixed(value: float) -> Formula:
    """A number that stays as it is."""
    return Formula((FIXED,), (float(value),))


def apply(code: int, *arguments: Formula) -> Formula:
    """The function `code` of these arguments."""
    codes: tuple[int, ...] = ()
    values: tuple[float, ...] = ()
    for each in arguments:
        codes, values = codes + each.codes, values + each.values
    return Formula((*codes, code), values)


# -- reading -----------------------------------------------------------------------------------------------------------


def parse_formula(text: str, names: Sequence[str]) -> Formula:
    """The formula that a text says. Raises FormulaError, one line.

    Accepted are an expression, `y = expression`, Python code of assignments and a `return`, code fences, `np.` and
    `math.` before functions, `^` for powers. names: of the variables, in order
    """
    return _Reader(names).read(text)


_FENCE = re.compile(r"```[a-zA-Z]*\n?(.*?)```", re.DOTALL)


class _Reader:
    def __init__(self, names: Sequence[str]) -> None:
        self._known: dict[str, Formula] = {name: variable(index) for index, name in enumerate(names)}
        self._names = tuple(names)

    def read(self, text: str) -> Formula:
        fence = _FENCE.search(text)
        text = (fence[1] if fence else text).strip().strip("`$").strip()
        if not text:
            raise FormulaError("the answer is empty")
        if len(text) > MOST_TEXT:
            raise FormulaError(f"the formula has {len(text)} characters; at most {MOST_TEXT} are read")
        tree = parse_python(text.replace("^", "**"))
        if tree is None:
            raise FormulaError(f"no formula: {_short(text)}")
        try:
            formula = self._body(tree.body)
        except RecursionError:
            raise FormulaError("the formula is nested too deeply") from None
        if formula is None:
            raise FormulaError(f"no formula: {_short(text)}")
        return formula

    def _body(self, body: Sequence[ast.stmt]) -> Formula | None:
        """The value of the last statement; assignments before it name parts of the formula."""
        result: Formula | None = None
        for statement in body:
            if isinstance(statement, ast.Expr):
                if isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str):
                    continue
                value = statement.value
                result = self._expression(value.body if isinstance(value, ast.Lambda) else value)
            elif isinstance(statement, ast.Return) and statement.value is not None:
                return self._expression(statement.value)
            elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                value = statement.value
                result = self._expression(value.body if isinstance(value, ast.Lambda) else value)
                if statement.targets[0].id not in self._names:
                    self._known[statement.targets[0].id] = result
            elif isinstance(statement, ast.FunctionDef):
                result = self._body(statement.body)
            elif not isinstance(statement, (ast.Import, ast.ImportFrom, ast.Pass)):
                raise FormulaError(f"{type(statement).__name__.lower()} is not part of a formula")
        return result

    def _expression(self, node: ast.expr) -> Formula:
        formula = self._node(node)
        if formula.size > MOST_NODES:
            raise FormulaError(f"the formula has {formula.size} nodes; at most {MOST_NODES} are read")
        return formula

    def _node(self, node: ast.expr) -> Formula:
        match node:
            case ast.Constant(value=bool()):
                raise FormulaError("True and False are no numbers")
            case ast.Constant(value=int(value)):
                return fixed(_finite(value))
            case ast.Constant(value=float(value)):
                return constant(_finite(value))
            case ast.Name(id=name):
                return self._name(name)
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module in _MODULES:
                return self._name(name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self._node(operand)
                if inner.size == 1 and inner.values:
                    return Formula(inner.codes, (-inner.values[0],))
                return apply(NEG, inner)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self._node(operand)
            case ast.BinOp(left=left, op=operator, right=right):
                code = _BINARY.get(type(operator))
                if code is None:
                    raise FormulaError(f"the operator {type(operator).__name__} is not part of a formula")
                return self._checked(_binary(code, self._node(left), self._node(right)))
            case ast.Call(func=function, args=arguments, keywords=[]):
                return self._checked(self._call(function, arguments))
        raise FormulaError(f"{ast.unparse(node)[:40]!r} is not part of a formula")

    def _checked(self, formula: Formula) -> Formula:
        if formula.size > MOST_NODES:
            raise FormulaError(f"the formula has more than {MOST_NODES} nodes")
        return formula

    def _name(self, name: str) -> Formula:
        if name in self._known:
            return self._known[name]
        if name in NAMED:
            return fixed(NAMED[name])
        raise FormulaError(f"there is no variable {name[:40]!r}; there is {', '.join(self._names)}")

    def _call(self, function: ast.expr, arguments: Sequence[ast.expr]) -> Formula:
        match function:
            case ast.Name(id=name) | ast.Attribute(value=ast.Name(), attr=name):
                pass
            case _:
                raise FormulaError(f"{ast.unparse(function)[:40]!r} is not a function of the grammar")
        code = CODES.get(name)
        if code is None:
            raise FormulaError(f"there is no function {name[:40]!r}; there is {', '.join(CALLABLE)}")
        if len(arguments) != ARITY[code]:
            raise FormulaError(f"{name} takes {ARITY[code]} argument(s), not {len(arguments)}")
        operands = [self._node(each) for each in arguments]
        return _binary(code, *operands) if len(operands) == 2 else apply(code, *operands)


def _binary(code: int, left: Formula, right: Formula) -> Formula:
    """Squares and cubes have separate functions."""
    if code == POW and right.codes == (FIXED,) and right.values[0] in (2.0, 3.0):
        return apply(SQUARE if right.values[0] == 2.0 else CUBE, left)
    return apply(code, left, right)


CALLABLE = tuple(each.name for each in FUNCTIONS if each.arity == 1 and each.name != "neg")
"""The functions of one argument that are written as calls."""
_BINARY: dict[type[ast.operator], int] = {
    **{ast.Add: ADD, ast.Sub: SUB, ast.Mult: MUL, ast.Div: DIV, ast.Pow: POW},
}


def _finite(value: float) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise FormulaError("a number is too large")
    return number


def _short(text: str) -> str:
    return repr(" ".join(text.split())[:60])


# -- writing -----------------------------------------------------------------------------------------------------------

_SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(1, 6)
Number = Callable[[float, bool, int], str]
"""Writes a number: its value, whether it is fixed, and how many digits are shown."""


def write_constant(value: float, fixed_number: bool, digits: int = 17) -> str:
    """A number as text that reads back as the same kind: `pi` and whole numbers are fixed, others carry a point."""
    if fixed_number:
        for name, known in NAMED.items():
            if value == known:
                return name
        if value == int(value) and abs(value) < 1e15:
            return str(int(value))
    text = repr(float(value)) if digits >= 17 else f"{value:.{digits}g}"
    return text if fixed_number or "." in text or "e" in text or "n" in text else text + ".0"


def write_formula(
    formula: Formula,
    names: Sequence[str],
    digits: int = 17,
    calls: Callable[[str], str] = str,
    number: Number = write_constant,
) -> str:
    """The formula as text of the grammar, with as few parentheses as reading it back allows.

    digits: of numbers; calls: how the name of a function is written; number: how a number is
    """

    def write_value(value: float, is_fixed: bool) -> tuple[str, int]:
        text = number(value, is_fixed, digits)
        return text, _SIGN if text.startswith("-") else _ATOM

    def write_function(code: int, parts: list[tuple[str, int]]) -> tuple[str, int]:
        first, *second = parts
        return _write_binary(code, first, second[0], calls) if second else _write_unary(code, first, calls)

    return formula.fold(lambda index: (names[index], _ATOM), write_value, write_function)[0]


def _within(part: tuple[str, int], least: int) -> str:
    return part[0] if part[1] >= least else f"({part[0]})"


def _write_binary(
    code: int, left: tuple[str, int], right: tuple[str, int], calls: Callable[[str], str]
) -> tuple[str, int]:
    if code in (MIN, MAX):
        return f"{calls(function_name(code))}({left[0]}, {right[0]})", _ATOM
    if code in (ADD, SUB):
        sign = "+" if code == ADD else "-"
        return f"{_within(left, _SUM)} {sign} {_within(right, _PRODUCT)}", _SUM
    if code in (MUL, DIV):
        return f"{_within(left, _PRODUCT)}{'*' if code == MUL else '/'}{_within(right, _POWER)}", _PRODUCT
    return f"{_within(left, _ATOM)}**{_within(right, _ATOM)}", _POWER


def _write_unary(code: int, argument: tuple[str, int], calls: Callable[[str], str]) -> tuple[str, int]:
    if code == NEG:
        return f"-{_within(argument, _POWER)}", _SIGN
    if code in (SQUARE, CUBE):
        return f"{_within(argument, _ATOM)}**{2 if code == SQUARE else 3}", _POWER
    return f"{calls(function_name(code))}({argument[0]})", _ATOM
