"""Programs made of another: with further lines, or with functions that return something else."""

from __future__ import annotations

import ast

from problems.openevolve.evolve_block import open_lines
from problems.python_syntax import parse_python

PRELUDE = """\
class _Everything(float):
    def __new__(cls): return float.__new__(cls, 0.0)
    def _yes(self, *a): return True
    def _self(self, *a): return self
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __bool__ = _yes
    __ne__ = lambda self, *a: False
    __hash__ = float.__hash__
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __abs__ = _self
    __getitem__ = __call__ = __pow__ = __neg__ = __round__ = _self
    def __iter__(self): return iter([self, self])
    def __len__(self): return 2
def _map(to, v, depth=99):
    if depth and isinstance(v, dict): return {k: _map(to, u, depth - 1) for k, u in v.items()}
    if not depth or not isinstance(v, (list, tuple)): return to(v)
    parts = [_map(to, u, depth - 1) for u in v]
    return v._make(parts) if hasattr(v, '_make') else type(v)(parts)
def _fill(v, x): return _map(lambda u: u * x if hasattr(u, 'dtype') else x, v)
def _claim(v, by): return _map(lambda u: by * max(1, abs(u)) if type(u) in (int, float) else u, v, 1)
def _empty(a):
    taken = [x for x in a if hasattr(x, 'fill') or hasattr(x, 'clear')]
    for x in taken: x.fill(0) if hasattr(x, 'fill') else x.clear()
    return [*taken, []][0]
def _size(a): return len(a[0]) if hasattr(a[0], '__len__') else min(int(a[0]), 999)
"""
"""What an expression of `with_functions` may use."""


def place_code(code: str, addition: str) -> str:
    """The program with further lines, at the end of the part that may change."""
    lines, (_, end) = code.split("\n"), open_lines(code)
    indent = lines[end][: len(lines[end]) - len(lines[end].lstrip())] if end < len(lines) else ""
    added = [indent + line if line else line for line in addition.split("\n")]
    return "\n".join([*lines[:end], *added, *lines[end:]]) + ("" if end < len(lines) else "\n")


def with_functions(code: str, returned: str) -> str:
    """The program whose functions and methods return something else; "" if it has none in lines that may change.

    Those that other functions of it call stay: a scorer calls the others.
    returned: an expression of the arguments `a` and `k`, of `own`, the function as it was, and of PRELUDE
    """
    tree, (_, end) = parse_python(code), open_lines(code)
    parts = [node for node in (tree.body if tree else ()) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    functions = [node.name for node in parts if isinstance(node, ast.FunctionDef) and node.lineno <= end]
    used = {(name.id, node.name) for node in parts for name in ast.walk(node) if isinstance(name, ast.Name)}
    called = {name for name, user in used if name != user}
    lines = []
    for name in [name for name in functions if name not in called] or functions:
        lines.append(f"def _evo(*a, own={name}, **k):\n    return {returned}\n{name} = _evo")
    for node in parts:
        for inner in node.body if isinstance(node, ast.ClassDef) and node.lineno <= end else ():
            if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
                name = f"{node.name}.{inner.name}"
                bound = f"def _evo(self, *a, own={name}, **k):\n    own = own.__get__(self)"
                lines.append(f"{bound}\n    return {returned}\n{name} = _evo")
    return place_code(code, PRELUDE + "\n".join(lines)) if lines else ""
