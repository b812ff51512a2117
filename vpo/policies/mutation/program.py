"""Edits of Python programs on their syntax tree, and of programs in other languages by their numbers and lines."""

from __future__ import annotations

import ast
import keyword
import math
import random
import re
from collections.abc import Callable, Sequence

from vpo.policies.mutation.numbers import mutate_vector, numbers_in
from vpo.policies.mutation.source import ARITHMETIC, SourceTree, open_lines

TRIES = 12
"""Until an edit gives another program that parses."""
_SIGNATURE = re.compile(r"def[ \t]+(\w+)\(([^()]*)\)")
_ARITHMETIC = ("+", "-", "*", "/", "//", "%")
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_OPERATOR = re.compile(rb"\*\*|//|<<|>>|<=|>=|==|!=|[-+*/%<>@&|^]|\b(?:and|or)\b")
_Move = Callable[[SourceTree, Sequence[SourceTree], random.Random], str | None]


def mutate_program(parent: str, others: Sequence[str], rng: random.Random) -> str:
    """One edit, or a few."""
    if SourceTree.of(parent) is None:
        return _mutate_foreign(parent, rng)
    mates = [source for other in others if (source := SourceTree.of(other)) is not None]
    text = parent
    for _ in range(4):
        text = _edited(text, mates, rng)
        if rng.random() < 0.6:
            break
    return text


def _edited(text: str, mates: Sequence[SourceTree], rng: random.Random) -> str:
    source = SourceTree.of(text)
    assert source is not None
    before = ast.dump(source.tree)
    moves = [*_MOVES, *(_CROSSINGS if mates else ())]
    for _ in range(TRIES):
        changed = rng.choice(moves)(source, mates, rng)
        if changed is None:
            continue
        after = SourceTree.of(changed)
        if after is not None and ast.dump(after.tree) != before:
            return changed
    return text


def _constant(source: SourceTree, mates: Sequence[SourceTree], rng: random.Random) -> str | None:
    found = [node for node in source.changeable(ast.Constant) if isinstance(node.value, bool | int | float)]
    if not found:
        return None
    node = rng.choice(found)
    assert isinstance(node.value, bool | int | float)
    return source.replace_expression(node, jitter(node.value, rng))


def jitter(value: bool | int | float, rng: random.Random) -> str:
    """A number near this one, as Python writes it; the other truth value."""
    if isinstance(value, bool):
        return str(not value)
    if isinstance(value, int):
        step = rng.choice((1, -1, 2, -2, value, -(value // 2), round(rng.gauss(0, max(1, abs(value) * 0.3)))))
        return repr(value + (step or rng.choice((1, -1))))
    size = math.exp(rng.uniform(math.log(1e-3), math.log(0.5)))
    moved = value + rng.gauss(0, size * (abs(value) or 1.0))
    moved = -moved if rng.random() < 0.05 else moved
    return repr(float(f"{moved:.6g}")) if math.isfinite(moved) else repr(value)


def _operator(source: SourceTree, mates: Sequence[SourceTree], rng: random.Random) -> str | None:
    kinds = (ast.BinOp, ast.Compare, ast.BoolOp, ast.AugAssign)
    nodes = [node for node in source.changeable(*kinds) if isinstance(node, kinds)]
    if not nodes:
        return None
    node = rng.choice(nodes)
    signs: tuple[str, ...] = _ARITHMETIC
    left: ast.expr
    if isinstance(node, ast.Compare):
        left, right, signs = node.left, node.comparators[0], _COMPARISONS
    elif isinstance(node, ast.BoolOp):
        left, right, signs = node.values[0], node.values[1], ("and", "or")
    elif isinstance(node, ast.AugAssign):
        left, right = node.target, node.value
    else:
        left, right = node.left, node.right
    between = source.end(left)
    found = _OPERATOR.search(source.data, between, source.start(right))
    if found is None:
        return None
    return source.replace(found.start(), found.end(), rng.choice([sign for sign in signs if sign.encode() != found[0]]))


def _name(source: SourceTree, mates: Sequence[SourceTree], rng: random.Random) -> str | None:
    """Another variable of the same function."""
    loads = [node for node in source.changeable(ast.Name) if isinstance(source.above[node], ARITHMETIC)]
    loads = [node for node in loads if _is_value(source, node)]
    if not loads:
        return None
    node = rng.choice(loads)
    names = [name for name in source.reckoned_with(source.function_of(node)) if name != node.id]
    return source.replace_expression(node, rng.choice(names)) if names else None


def _expression(source: SourceTree, mates: Sequence[SourceTree], rng: random.Random) -> str | None:
    """An expression within a small one of its own, or one of its parts in its place."""
    node = _pick_expression(source, rng)
    if node is None:
        return None
    text = source.segment(node)
    parts = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    if parts and rng.random() < 0.5:
        return source.replace_expression(node, source.segment(rng.choice(parts)))
    names = source.reckoned_with(source.function_of(node))
    with_ = rng.choice([*names, *names, "0.5", "1", "2", f"{rng.gauss(0, 1):.3g}"])
    kinds = (f"({text}) {rng.choice(_ARITHMETIC)} {with_}", f"min({text}, {with_})", f"max({text}, {with_})",
             f"abs({text})", f"-({text})")  # fmt: skip
    return source.replace_expression(node, rng.choice(kinds))


def _pick_expression(source: SourceTree, rng: random.Random) -> ast.expr | None:
    kinds = (ast.BinOp, ast.Name, ast.Constant, ast.Subscript, ast.UnaryOp, ast.Compare, ast.IfExp)
    found = [node for node in source.changeable(*kinds) if isinstance(node, kinds) and _is_value(source, node)]
    return rng.choice(found) if found else None


def _is_value(source: SourceTree, node: ast.expr) -> bool:
    """Whether it is a number as far as can be told: no text, nothing that is assigned to, and of names those alone that
    stand in arithmetic. A program that gives something of another shape breaks evaluators that expect none."""
    above = source.above[node]
    if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del) or isinstance(getattr(node, "value", None), str):
        return False
    if isinstance(node, ast.Name | ast.Subscript):
        return isinstance(above, ARITHMETIC)
    return True


def _condition(source: SourceTree, mates: Sequence[SourceTree], rng: random.Random) -> str | None:
    kinds = (ast.If, ast.While, ast.IfExp)
    tests = [node.test for node in source.changeable(*kinds) if isinstance(node, kinds)]
    if not tests:
        return None
    test = rng.choice(tests)
    return source.replace_expression(test, f"not ({source.segment(test)})")


def _statement(source: SourceTree, mates: Sequence[SourceTree], rng: random.Random) -> str | None:
    """A statement left out, doubled, or after the next one; what a function returns stays."""
    bodies = [[one for one in body if not isinstance(one, ast.Return)] for body in source.bodies()]
    bodies = [body for body in bodies if len(body) > 1]
    if not bodies:
        return None
    body = rng.choice(bodies)
    at = rng.randrange(len(body) - 1)
    first, second = source.lines_of(body[at]), source.lines_of(body[at + 1])
    if first is None or second is None:
        return None
    one, other = (source.data[place[0] : place[1]].decode() for place in (first, second))
    kind = rng.randrange(4)
    if kind == 0:
        return source.replace(*first, one + one)
    if kind == 1:
        between = source.data[first[1] : second[0]].decode()
        return source.replace(first[0], second[1], other.rstrip("\n") + "\n" + between + one)
    return source.replace(*rng.choice((first, second)), "")


def _take_function(source: SourceTree, mates: Sequence[SourceTree], rng: random.Random) -> str | None:
    """A function as another answer writes it."""
    own = source.changeable(ast.FunctionDef)
    theirs = {one.name: (mate, one) for mate in mates for one in mate.changeable(ast.FunctionDef)}
    shared = [one for one in own if one.name in theirs and one.col_offset == theirs[one.name][1].col_offset]
    if not shared:
        return None
    node = rng.choice(shared)
    mate, other = theirs[node.name]
    return source.replace(source.start(node), source.end(node), mate.segment(other))


def _take_expression(source: SourceTree, mates: Sequence[SourceTree], rng: random.Random) -> str | None:
    """An expression of another answer whose names are known here."""
    mate = rng.choice(mates)
    taken, place = _pick_expression(mate, rng), _pick_expression(source, rng)
    if taken is None or place is None:
        return None
    used = {one.id for one in ast.walk(taken) if isinstance(one, ast.Name)}
    known = {one.id for one in ast.walk(source.tree) if isinstance(one, ast.Name)}
    known |= set(source.names_in(source.function_of(place)))
    return source.replace_expression(place, mate.segment(taken)) if used <= known else None


def _take_constants(source: SourceTree, mates: Sequence[SourceTree], rng: random.Random) -> str | None:
    """Numbers of another answer that differs in its numbers alone: some of them, each between the two."""
    mate = rng.choice(mates)
    ours, theirs = (
        [node for node in one.changeable(ast.Constant) if type(node.value) in (int, float)] for one in (source, mate)
    )
    pairs = [
        (a, b.value)
        for a, b in zip(ours, theirs, strict=False)
        if isinstance(a.value, float) and isinstance(b.value, float) and a.value != b.value
    ]
    if len(ours) != len(theirs) or not pairs:
        return None
    node, value = rng.choice(pairs)
    assert isinstance(node.value, float)
    moved = node.value + rng.uniform(0, 1.3) * (value - node.value)
    return source.replace_expression(node, repr(float(f"{moved:.6g}")))


_MOVES: tuple[_Move, ...] = (
    _constant, _constant, _constant, _constant, _operator, _name, _expression, _expression, _condition, _statement,
)  # fmt: skip
_CROSSINGS: tuple[_Move, ...] = (_take_function, _take_expression, _take_constants)


def _mutate_foreign(parent: str, rng: random.Random) -> str:
    """What is no Python: one of its numbers, or two lines in the other order, in what may change."""
    lines, free = parent.split("\n"), sorted(open_lines(parent))
    if not free:
        return parent
    numbered = [number for number in free if numbers_in(lines[number - 1]) is not None]
    if numbered and rng.random() < 0.8:
        at = rng.choice(numbered) - 1
        vector = numbers_in(lines[at])
        assert vector is not None
        lines[at] = mutate_vector(vector, [], rng)
    else:
        first, second = rng.choice(free) - 1, rng.choice(free) - 1
        lines[first], lines[second] = lines[second], lines[first]
    return "\n".join(lines)


def write_program(task: str, rng: random.Random) -> str:
    """A first program where none is given: the function that the task names, of its arguments; or one that prints."""
    found = _SIGNATURE.findall(task)
    if not found:
        return rng.choice(("print(input())", "print(len(input()))", "print(sum(map(int, input().split())))")) + "\n"
    name, arguments = rng.choice(found)
    words = [re.split(r"[:=]", part)[0].strip(" *\n\t") for part in arguments.split(",")]
    names = [word for word in words if word.isidentifier() and not keyword.iskeyword(word)] or ["0"]
    one, other = rng.choice(names), rng.choice(names)
    joined = f"{one} {rng.choice(_ARITHMETIC)} {other}"
    value = rng.choice((one, joined, f"len({one})", f"sorted({one})", "[]", "0", "True", f"sum({one})"))
    return f"def {name}({arguments}):\n    return {value}\n"
