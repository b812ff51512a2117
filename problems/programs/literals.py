"""Plain values as Python expressions that can be evaluated again."""

from __future__ import annotations

import math
from typing import Any


def source_of(value: Any) -> str:
    """As `repr`, at any depth, but infinities, nan and the empty set as calls, which have no literal."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    if isinstance(value, complex):
        return f"complex({source_of(value.real)}, {source_of(value.imag)})"
    if isinstance(value, list):
        return f"[{', '.join(map(source_of, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(source_of, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, set | frozenset):
        inner = ", ".join(sorted(map(source_of, value)))  # sorted: one set, one text
        return f"{type(value).__name__}([{inner}])"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{source_of(key)}: {source_of(item)}" for key, item in value.items()) + "}"
    return repr(value)
