"""`scripted:mutate`: a mutation operator that learns nothing and loads no model, for text, numbers and Python programs.

Its edits of the parent that a prompt shows:

    numbers   JSON numbers, lists and objects of them, or rows of numbers: Gaussian steps of sizes from 0.3% to 100%
    text      characters, words or lines replaced, removed, inserted, repeated, reversed, swapped
    program   constants moved; operators and conditions changed; terms, calls and conditions added to expressions, of
              what is in scope; statements removed, doubled or swapped, on the syntax tree. Only between EVOLVE-BLOCK
              marks if it has some; a program in another language is text there
    route     a maze's moves changed (vpo.policies.scripted; scripted:classic knows mazes)

It understands no task, of whose words it only tries the elements of what is in scope. It is a baseline, and an
operator without a model for numbers and programs: prose gets edits of words, which seldom improve it. Problems whose
first answer is written by understanding the task (most programming problems) are beyond it.
"""

from __future__ import annotations

import ast
import builtins
import json
import math
import random
import re
import string
from collections.abc import Callable, Collection, Iterator, Sequence

from problems.openevolve.evolve_block import open_lines
from problems.python_syntax import parse_python

_TRIES = 8
"""Until a mutant is none of the answers that are shown, and until an edit gives another program that parses."""
_MOST = 100_000
"""Characters of an answer that are read as numbers."""
_SMALLEST, _LARGEST = 3e-3, 1.0
"""Step sizes, as shares of what a number is."""
_FARTHEST, _LONGEST = 1e150, 1000
"""Numbers beyond this, of either sign, and those of more characters are left as they are: their squares would not be
finite, and Python refuses to read and to write integers of some thousand digits."""
LONGEST_PIECE = 8

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_KEY = re.compile(r'"(?:[^"\\]|\\.)*"')
_ROWS = re.compile(r"[\s,;\[\](){}]*")
_WORD = re.compile(r"\w+")
_SIGNATURE = re.compile(r"def[ \t]+\w+\([^()]*\)")
_SIGN = re.compile(rb"\*\*|//|<<|>>|<=|>=|==|!=|[-+*/%<>@&|^]|\b(?:and|or)\b")
_KEPT = (ast.Return, ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_ARITHMETIC: tuple[str, ...] = ("+", "-", "*", "/", "//", "%")
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_CLASSES = (string.ascii_lowercase, string.ascii_uppercase, string.digits)

_PROGRAM = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign)


def mutate_answer(parent: str, others: Sequence[str], task: str, python: bool, rng: random.Random) -> str:
    """An answer near `parent`, and mostly none of those shown.

    others: further answers that the prompt shows
    task: the prompt, for its words
    python: whether programs are asked for; a text that is one is edited as one in any case
    """
    tree = None if python else parse_python(parent)
    python = python or tree is not None and any(isinstance(line, _PROGRAM) for line in tree.body)
    shown = {parent.strip(), *(other.strip() for other in others)}
    mutant = parent
    for _ in range(_TRIES):
        if not parent.strip():
            mutant = write_program(task, rng) if python else write_text(task, rng)
        elif python:
            mutant = mutate_program(parent, task, rng)
        else:
            mutant = mutate_text(parent, task, rng) if (form := read_numbers(parent)) is None else _step(form, rng)
        if mutant.strip() and mutant.strip() not in shown:
            break
    return mutant


def edit_block(parent: str, child: str) -> str:
    """The SEARCH/REPLACE edit that makes `child` of `parent`, as one block over all of it."""
    search, replacement = parent.rstrip("\n"), child.rstrip("\n")
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replacement}\n>>>>>>> REPLACE"


def write_program(task: str, rng: random.Random) -> str:
    """A first program if none is given: the function that the task names, or one line."""
    found = _SIGNATURE.search(task)
    return f"{found[0]}:\n    return {rng.randrange(100)}\n" if found else f"print({rng.randrange(100)})\n"


def write_text(task: str, rng: random.Random) -> str:
    """A first answer for a task that comes without one: numbers, letters or words of the task, since any of them may be
    what is asked for."""
    words = _WORD.findall(task) or ["answer"]
    count = rng.choice([int(word) for word in words if word in map(str, range(1, 101))] or [rng.randint(2, 8)])
    numbers = [f"{rng.gauss(0, 1):.4g}" for _ in range(count)]
    letters = "".join(rng.choice(string.ascii_lowercase) for _ in range(rng.randint(2, 12)))
    phrase = " ".join(rng.choice(words) for _ in range(rng.randint(1, 8)))
    return rng.choice((str(rng.randint(0, 100)), f"[{', '.join(numbers)}]", " ".join(numbers), letters, phrase))


# -- numbers

Numbers = tuple[list[str], list[str]]
"""The numbers of a text as they are written, and the n + 1 pieces of text around them."""


def read_numbers(text: str) -> Numbers | None:
    """The numbers of an answer that consists of nothing else, None for any other."""
    if not text.strip() or len(text) > _MOST:
        return None
    searched = text
    try:
        if not _holds_only_numbers(json.loads(text)):
            return None
        searched = _KEY.sub(lambda key: "\0" * len(key[0]), text)
    except (ValueError, RecursionError):
        if _ROWS.sub("", _NUMBER.sub(" ", text)):
            return None
    return _split_numbers(text, searched)


def _split_numbers(text: str, searched: str) -> Numbers | None:
    found = list(_NUMBER.finditer(searched))
    ends, starts = [0, *(match.end() for match in found)], [*(match.start() for match in found), len(text)]
    around = [text[end:start] for end, start in zip(ends, starts, strict=True)]
    return ([match[0] for match in found], around) if found else None


def _holds_only_numbers(value: object) -> bool:
    if isinstance(value, dict | list):
        return bool(value) and all(map(_holds_only_numbers, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int | float) and not isinstance(value, bool)


def _step(numbers: Numbers, rng: random.Random) -> str:
    """Some of the numbers by a normal step. Its size is drawn log-uniformly, since nothing tells the right scale. A
    whole number stays one, and a step that was taken moves it."""
    written, around = numbers
    values = [float(number) for number in written]
    near = [i for i, value in enumerate(values) if abs(value) < _FARTHEST and len(written[i]) <= _LONGEST]
    size = math.exp(rng.uniform(math.log(_SMALLEST), math.log(_LARGEST)))
    typical = math.sqrt(sum(values[i] ** 2 for i in near) / len(near)) or 1.0 if near else 1.0
    share = rng.choice((1 / len(values), 0.3, 1.0))
    for i in [i for i in near if rng.random() < share] or near and [rng.choice(near)]:
        step = rng.gauss(0.0, size * (abs(values[i]) if rng.random() < 0.5 and values[i] else typical))
        if written[i].lstrip("+-").isdigit():
            written[i] = str(int(written[i]) + (round(step) or (1 if step > 0 else -1)))
        else:
            written[i] = f"{values[i] + step:.12g}"
    return "".join(piece for pair in zip(around, [*written, ""], strict=True) for piece in pair)


# -- text


def mutate_text(parent: str, task: str, rng: random.Random) -> str:
    """One to a few edits, on a level that the parent has: lines, words, characters or numbers."""
    levels = ["characters"] * 2
    levels += ["words"] * (len(_WORD.findall(parent)) > 1) + ["lines"] * 2 * ("\n" in parent.strip())
    numbers = _split_numbers(parent, parent)
    level = rng.choice(levels + ["numbers"] * (numbers is not None))
    if level == "numbers" and numbers is not None:
        return _step(numbers, rng)
    glue = {"lines": "\n", "words": " "}.get(level, "")
    pieces = parent.split(glue) if glue else list(parent)
    pool = [*pieces]
    if level == "words":
        pool += _WORD.findall(task)
    if level == "characters":
        pool += [c for kind in _CLASSES if any(character in kind for character in parent) for c in kind]
    pieces = _edit_pieces(pieces, pool, rng)
    while rng.random() < 0.35:
        pieces = _edit_pieces(pieces, pool, rng)
    return glue.join(pieces)


def _edit_pieces(pieces: list[str], pool: Sequence[str], rng: random.Random) -> list[str]:
    """One edit of a sequence: the operators of a genetic algorithm, inversion and inverted repeats among them."""
    size = len(pieces)
    if not size:
        return [rng.choice(pool)]
    at = rng.randrange(size)
    end = min(size, at + rng.randint(1, max(1, min(LONGEST_PIECE, size // 2))))
    part, to, start = pieces[at:end], rng.randrange(size), rng.choice((at, 0))
    swapped = [*pieces]
    swapped[at], swapped[to] = swapped[to], swapped[at]
    one_changed = [*pieces[:at], rng.choice(pool), *pieces[at + 1 :]]
    return rng.choice(
        (
            one_changed,
            one_changed,
            [*pieces[:at], rng.choice(pool), *pieces[at:]],
            pieces[:at] + pieces[end:] or pieces,
            pieces[:end] + part + pieces[end:],
            pieces[:at] + part[::-1] + pieces[end:],
            pieces[:end] + pieces[start:end][::-1] + (pieces[end:] if rng.random() < 0.5 else []),
            swapped,
        )
    )


# -- programs


def mutate_program(parent: str, task: str, rng: random.Random) -> str:
    """One edit, or a few."""
    if parse_python(parent) is None:
        first, last = open_lines(parent)
        lines = parent.split("\n")
        inside = "\n".join(lines[first:last])
        return "\n".join([*lines[:first], mutate_text(inside, task, rng), *lines[last:]]) if inside else parent
    text = parent
    for _ in range(4):
        source = _Source(text, task)
        before = _dumped(source.tree, text)
        for _ in range(_TRIES):
            changed = rng.choice(_EDITS)(source, rng)
            after = None if changed is None else parse_python(changed)
            if changed is not None and after is not None and _dumped(after, changed) != before:
                text = changed
                break
        if rng.random() < 0.6:
            break
    return text


def _dumped(tree: ast.AST, text: str) -> str:
    """The tree as text, in which layout is left out; the program itself where an integer is too long to be written."""
    try:
        return ast.dump(tree)
    except (ValueError, RecursionError):
        return text


class _Source:
    """A program that parses. Edits are by the place of a node, so that comments and layout stay as they are; offsets
    are those of its UTF-8 bytes, as the tree counts columns."""

    def __init__(self, text: str, task: str = "") -> None:
        tree = parse_python(text)
        assert tree is not None
        self.tree, self.data, self.task = tree, text.encode(), task
        self._starts = [0]
        for line in self.data.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)
        first, last = open_lines(text)
        self._open = range(first + 1, last + 1)

    def nodes(self, *kinds: type[ast.AST]) -> list[ast.AST]:
        """The nodes of these kinds in lines that may change, without those inside f-strings and annotations, whose
        places the tree does not tell or which do nothing."""
        return [node for node in self._walk(self.tree) if isinstance(node, kinds) and self.is_open(node)]

    def _walk(self, node: ast.AST) -> Iterator[ast.AST]:
        yield node
        for field, value in ast.iter_fields(node):
            if not isinstance(node, ast.JoinedStr) and field not in ("annotation", "returns", "decorator_list"):
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        yield from self._walk(child)

    def is_open(self, node: ast.AST) -> bool:
        if not isinstance(node, ast.expr | ast.stmt):
            return False
        return node.lineno in self._open and (node.end_lineno or node.lineno) in self._open

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def lines(self, node: ast.stmt) -> tuple[int, int] | None:
        """Offsets of the whole lines that a statement has to itself, None where it shares them."""
        start, end = self._starts[node.lineno - 1], self._starts[node.end_lineno or node.lineno]
        first, last = self.span(node)
        alone = not self.data[start:first].strip() and not self.data[last:end].split(b"#")[0].strip()
        return (start, min(end, len(self.data))) if alone else None

    def text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self.span(node)
        return self.data[start:end].decode()

    def replace(self, span: tuple[int, int], text: str) -> str:
        return (self.data[: span[0]] + text.encode() + self.data[span[1] :]).decode()


def _constants(source: _Source) -> list[tuple[int, int, bool | int | float]]:
    constants = [node for node in source.nodes(ast.Constant) if isinstance(node, ast.Constant)]
    return [
        (*source.span(node), node.value)
        for node in constants
        if isinstance(node.value, bool | int | float) and abs(node.value) < _FARTHEST
    ]


def find_constants(text: str) -> list[tuple[int, int, int | float]] | None:
    """The numbers of a program that may change, in their order: the first byte of each, the one after it, and the
    value. None if it is no Python."""
    if parse_python(text) is None:
        return None
    return sorted(found for found in _constants(_Source(text)) if not isinstance(found[2], bool))


def _move_constant(source: _Source, rng: random.Random) -> str | None:
    constants = _constants(source)
    if not constants:
        return None
    start, end, value = rng.choice(constants)
    moved = jitter(value, rng)
    return source.replace((start, end), f"({moved})" if moved.startswith("-") else moved)


def jitter(value: bool | int | float, rng: random.Random) -> str:
    """A number near this one, which is not beyond _FARTHEST, as Python writes it; the other truth value."""
    if isinstance(value, bool):
        return str(not value)
    if isinstance(value, int):
        near = round(rng.gauss(0, max(1.0, abs(value) * 0.3)))
        step = rng.choice((1, -1, 2, -2, value, -(value // 2), near))
        return repr(value + (step or rng.choice((1, -1))))
    size = math.exp(rng.uniform(math.log(1e-3), math.log(0.5)))
    moved = value + rng.gauss(0, size * (abs(value) or 1.0))
    moved = -moved if rng.random() < 0.05 else moved
    return repr(float(f"{moved:.6g}"))


def _change_sign(source: _Source, rng: random.Random) -> str | None:
    """Another operator of its kind, or a condition negated."""
    nodes = source.nodes(ast.BinOp, ast.AugAssign, ast.Compare, ast.BoolOp, ast.If, ast.While, ast.IfExp)
    if not nodes:
        return None
    node = rng.choice(nodes)
    left: ast.expr
    signs = _ARITHMETIC
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        return source.replace(source.span(node.test), f"(not ({source.text(node.test)}))")
    if isinstance(node, ast.BoolOp):
        left, right, signs = node.values[0], node.values[1], ("and", "or")
    elif isinstance(node, ast.Compare):
        left, right, signs = node.left, node.comparators[0], _COMPARISONS
    else:
        assert isinstance(node, ast.BinOp | ast.AugAssign)
        left, right = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
    found = _SIGN.search(source.data, source.span(left)[1], source.span(right)[0])
    if found is None:
        return None
    return source.replace(found.span(), rng.choice([sign for sign in signs if sign.encode() != found[0]]))


def _change_statement(source: _Source, rng: random.Random) -> str | None:
    """A statement left out, doubled, or after the next one; imports, definitions and what a function returns stay."""
    bodies = [getattr(node, field, None) for node in ast.walk(source.tree) for field in ("body", "orelse", "finalbody")]
    open_bodies = [body for body in bodies if isinstance(body, list) and body and all(map(source.is_open, body))]
    kept = [[statement for statement in body if not isinstance(statement, _KEPT)] for body in open_bodies]
    kept = [body for body in kept if len(body) > 1]
    if not kept:
        return None
    body = rng.choice(kept)
    at = rng.randrange(len(body) - 1)
    first, second = source.lines(body[at]), source.lines(body[at + 1])
    if first is None or second is None:
        return None
    above, between, below = (source.data[a:b].decode() for a, b in (first, (first[1], second[0]), second))
    kind = rng.randrange(4)
    if kind == 0:
        return source.replace(first, above + above)
    if kind == 1:
        return source.replace((first[0], second[1]), below.rstrip("\n") + "\n" + between + above)
    return source.replace(rng.choice((first, second)), "")


# -- expressions

_VALUES = (ast.BinOp, ast.UnaryOp, ast.Constant, ast.Name, ast.Subscript, ast.Attribute, ast.Call, ast.IfExp, ast.Pass)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COLLECTIONS = (ast.Tuple, ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.JoinedStr)
_NO_NUMBER = ("func", "iter", "slice", "annotation", "returns", "decorator_list")
_NUMERIC = ("abs", "min", "max", "sum", "float", "round", "pow")
_ELEMENT = re.compile(r"\b([A-Za-z_]\w*)(\[(?:\"\w+\"|'\w+'|\d+)\]|\.[A-Za-z_]\w*)(?![\w(.])")
_KEY_WORD = re.compile(r"(?<!\[)[\"'`]([A-Za-z_]\w*)[\"'`]")
_WEIGHTS = ("0.1", "0.5", "2.0", "10.0")
LONGEST_EXPRESSION = 200
"""Characters of an expression that is only made shorter."""


def _find_places(source: _Source, objects: set[str]) -> list[tuple[ast.expr | ast.stmt, frozenset[str]]]:
    """Expressions that may be numbers, and `pass`, with the names in their scope. objects: names that hold no number"""
    places: list[tuple[ast.expr | ast.stmt, frozenset[str]]] = []

    def visit(node: ast.AST, names: frozenset[str], value: bool) -> None:
        if isinstance(node, ast.JoinedStr | ast.arguments):
            return
        number = not _collects(node)
        if isinstance(node, ast.Constant):
            near = isinstance(node.value, int | float) and abs(node.value) < _FARTHEST
            number = node.value is None or near and not isinstance(node.value, bool)
        if isinstance(node, ast.Name):
            number = isinstance(node.ctx, ast.Load) and node.id not in objects
        if value and number and isinstance(node, _VALUES) and source.is_open(node):
            places.append((node, names))
        if isinstance(node, _SCOPES):
            names = names | {argument.arg for argument in [*node.args.posonlyargs, *node.args.args]}
        loops = [node, *getattr(node, "generators", [])]
        names = names.union(*(_stored(loop.target) for loop in loops if isinstance(loop, ast.For | ast.comprehension)))
        of_object = isinstance(node, ast.Subscript | ast.Attribute | ast.Starred | ast.Expr)
        for field, child in ast.iter_fields(node):
            if field == "slice" or (field == "args" and _collects(node)):
                continue
            for item in child if isinstance(child, list) else [child]:
                if isinstance(item, ast.AST):
                    visit(item, names, not (of_object and field == "value") and field not in _NO_NUMBER)
                    local = isinstance(item, _SCOPES) or not isinstance(item, ast.stmt)
                    names = names if local else names | _stored(item)

    visit(source.tree, frozenset(), False)
    return places


def _collects(node: ast.AST) -> bool:
    """Whether it calls a function of Python that takes or gives other things than numbers."""
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    return name in dir(builtins) and name not in _NUMERIC


def _stored(node: ast.AST) -> frozenset[str]:
    """The names that a statement or a target gives a value."""
    names = [item for item in ast.walk(node) if isinstance(item, ast.Name)]
    return frozenset(name.id for name in names if isinstance(name.ctx, ast.Store))


def _find_used(source: _Source) -> tuple[set[str], list[str]]:
    """(names that the program uses as something else than a number, functions of one number that it can call)."""
    objects, functions, modules = set[str](), {"abs"}, set[str]()
    for node in ast.walk(source.tree):
        held: list[object] = [getattr(node, "func", None), getattr(node, "iter", None)]
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name for alias in node.names}
            maths = [alias.asname or alias.name for alias in node.names if alias.name in ("math", "numpy")]
            functions |= {f"{module}.{name}" for module in maths for name in ("sqrt", "exp", "log", "tanh", "sin")}
        if isinstance(node, ast.Subscript | ast.Attribute):
            held.append(node.value)
        if isinstance(node, ast.Call):
            held += node.args if _collects(node) else []
            if isinstance(node.func, ast.Attribute) and len(node.args) == 1 and not node.keywords:
                functions |= {source.text(node.func)} if source.text(node.func.value) in modules else set()
        if isinstance(node, ast.Assign):
            pairs = [(node.targets[0], node.value)]
            if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(node.targets[0].elts, node.value.elts, strict=False))
            held += [target for target, value in pairs if isinstance(value, _COLLECTIONS)]
        objects |= {item.id for item in held if isinstance(item, ast.Name)}
    return objects, sorted(functions)


def _find_terms(source: _Source, names: Collection[str], objects: set[str]) -> list[str]:
    """The numbers among the names, and the elements and fields of the names as the program and the task write them."""
    found = [match for match in _ELEMENT.finditer(f"{source.data.decode()}\n{source.task}") if match[1] in names]
    mappings = {match[1] for match in found if match[2][1] in "\"'"}
    terms = {match[0].replace("'", '"') for match in found} | set(names) - objects
    return sorted(terms | {f'{name}["{key}"]' for name in mappings for key in _KEY_WORD.findall(source.task)})


def _change_expression(source: _Source, rng: random.Random) -> str | None:
    """A term added, a call or a condition around it, another term, or an operand alone."""
    objects, functions = _find_used(source)
    places = _find_places(source, objects)
    if not places:
        return None
    node, names = rng.choice(places)
    span, old = source.span(node), source.text(node)
    operands = [node.left, node.right] if isinstance(node, ast.BinOp) else []
    if operands and (rng.random() < 0.3 or len(old) > LONGEST_EXPRESSION):
        return source.replace(span, f"({source.text(rng.choice(operands))})")
    text = f"({old})" if isinstance(node, ast.BinOp | ast.UnaryOp | ast.IfExp) else old
    terms, weight = _find_terms(source, names, objects), rng.choice(_WEIGHTS)
    term, other = (rng.choice(terms) if terms and rng.random() < 0.8 else weight for _ in range(2))
    sign, weighted = rng.choice(_ARITHMETIC[:4]), f"{weight} * {term}"
    made = (
        *(f"{text} {sign} {term}",) * 3,
        *(f"{text} {sign} {weighted}",) * 2,
        f"{rng.choice(('min', 'max'))}({old}, {term})",
        f"{rng.choice(functions)}({old})",
        f"{text} if {term} {rng.choice(_COMPARISONS[:4])} {other} else {weighted}",
        term,
    )
    new = {"None": term, "pass": f"return {term}"}.get(old) or rng.choice(made)
    bare, held = source.replace(span, new), source.replace(span, f"({new})")
    plain, safe = parse_python(bare), parse_python(held)
    differs = plain is None or safe is not None and _dumped(plain, bare) != _dumped(safe, held)
    return held if differs else bare


_EDITS: Sequence[Callable[[_Source, random.Random], str | None]] = (
    *(_move_constant,) * 6,
    *(_change_sign,) * 2,
    _change_statement,
    *(_change_expression,) * 2,
)
