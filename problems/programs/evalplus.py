"""The files of EvalPlus itself (HumanEvalPlus.jsonl, MbppPlus.jsonl): `base_input`, `plus_input`, `canonical_solution`.

They hold inputs and no results: what the reference gives for an input is what is expected, worked out in the sandbox.
Compared as evalplus.eval does: equal, or floats within `atol`; with its oracles of their own for a dozen problems.
MBPP+ writes tuples, sets and complex numbers as JSON lists and text; each problem's own are restored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from problems.programs import assertions
from problems.programs.cases import CallCase, Relation, Task, source_of

_KEYS = {"task_id", "prompt", "entry_point", "canonical_solution", "base_input", "plus_input"}
_SETS = (
    *("similar_elements", "find_char_long", "common_in_nested_lists", "extract_singly", "larg_nnum"),
    *("intersection_array", "find_dissimilar", "Diff"),
)
_PRESENT = ("check_str", "text_match_three", "text_starta_endb")
_ALSO: Mapping[str, str] = {
    "sum_div": "def _also(*_):\n    return 0\n",
    "surface_Area": (
        "def _also(base, height):\n    return round(base**2 + 2 * base * ((base / 2) ** 2 + height**2) ** 0.5)\n"
    ),
    "digit_distance_nums": (
        "def _also(a, b):\n"
        "    width = max(len(str(a)), len(str(b)))\n"
        "    return sum(abs(int(x) - int(y)) for x, y in zip(str(a).zfill(width), str(b).zfill(width)))\n"
    ),
}
"""Readings of three MBPP problems that pass besides the reference's."""


def is_evalplus(row: Mapping[str, Any]) -> bool:
    """Detected from its keys."""
    return row.keys() >= _KEYS


def evalplus_task(row: Mapping[str, Any]) -> Task:
    """The task of one line. Raises ValueError with what is wrong with it."""
    kind, _, number = str(row["task_id"]).partition("/")
    prompt, entry = str(row["prompt"]).replace("\r\n", "\n"), str(row["entry_point"])
    reference = f"{prompt.rstrip()}\n{row['canonical_solution']}"
    restore = _MBPP.get(int(number), _as_it_is) if kind == "Mbpp" and number.isdecimal() else _as_it_is
    inputs = [restore(list(arguments)) for key in ("base_input", "plus_input") for arguments in _inputs(row, key)]
    if not inputs:
        raise ValueError("`base_input` and `plus_input` are empty")
    if entry not in assertions.defined_names(reference):
        raise ValueError(f"`canonical_solution` does not define the entry point {entry}")
    mbpp = kind == "Mbpp"
    tolerance = float(row.get("atol") or 0.0)
    header = assertions.signature(reference, entry) or f"def {entry}(*args):"
    told = prompt.strip().strip('"').strip() if mbpp else f"```python\n{prompt.rstrip()}\n```"
    return Task(
        text=f"{told}\n\nDefine `{header}`" if mbpp else f"Complete this Python function.\n\n{told}",
        seed=f"{header}\n    pass\n" if mbpp else prompt.rstrip() + "\n    pass\n",
        cases=tuple(_case(entry, arguments, tolerance, mbpp) for arguments in inputs),
        entry=entry,
        oracle=f"{reference}\n\n{_ALSO.get(entry, '') if mbpp else ''}",
        names=(entry,),
        reference=reference,
        extra={"id": row["task_id"]},
    )


def _inputs(row: Mapping[str, Any], key: str) -> Sequence[Sequence[Any]]:
    value = row[key]
    if not isinstance(value, list) or not all(isinstance(arguments, list) for arguments in value):
        raise ValueError(f"`{key}` is no list of lists of arguments")
    return value


def _case(entry: str, arguments: Sequence[Any], tolerance: float, mbpp: bool) -> CallCase:
    given = ", ".join(map(source_of, arguments))
    call = f"{entry}({given})"
    relation: Relation = "close"
    accepts: tuple[str, ...] = (call,)
    if mbpp and entry in _SETS:
        relation = "set"
    elif mbpp and entry in _PRESENT:
        relation, accepts = "present", (f"{call} is not None",)
    elif mbpp and entry in _ALSO:
        accepts = (call, f"_also({given})")
    elif mbpp and entry == "are_equivalent":
        return CallCase(call, None, "any")
    elif not mbpp and entry == "find_zero":
        return CallCase(call, arguments[0], "root", tolerance=tolerance)
    return CallCase(call, None, relation, tolerance=tolerance, accepts=accepts)


def _as_it_is(arguments: list[Any]) -> list[Any]:
    return arguments


def _deep(value: Any) -> Any:
    return tuple(map(_deep, value)) if isinstance(value, list) else value


def _rows(value: list[Any]) -> list[Any]:
    return [tuple(row) for row in value]


def _each(convert: Callable[[Any], Any]) -> Callable[[list[Any]], list[Any]]:
    return lambda arguments: [convert(argument) for argument in arguments]


def _first(*converts: Callable[[Any], Any]) -> Callable[[list[Any]], list[Any]]:
    """The leading arguments converted, the rest as they are."""
    return lambda arguments: [
        *(convert(argument) for convert, argument in zip(converts, arguments, strict=False)),
        *arguments[len(converts) :],
    ]


def _sets(value: list[Any]) -> list[Any]:
    return [set(item) if isinstance(item, list) and item else {} for item in value]


_TUPLE = (2, 116, 132, 143, 222, 261, 273, 394, 399, 421, 424, 429, 470, 560, 579, 596, 616, 630, 726, 740, 744, 809)
_ROWS = (63, 64, 70, 94, 120, 237, 272, 299, 400, 409, 417, 438, 473, 614, 780)
_MBPP: Mapping[int, Callable[[list[Any]], list[Any]]] = {
    **dict.fromkeys(_TUPLE, _each(tuple)),
    **dict.fromkeys(_ROWS, _each(_rows)),
    **dict.fromkeys((75, 413, 444, 753), _first(_rows)),
    **dict.fromkeys((106, 750), _first(lambda value: value, tuple)),
    **dict.fromkeys((250, 307, 405, 446, 617, 720, 763, 808), _first(tuple)),
    **dict.fromkeys((259, 401, 445), _each(lambda value: tuple(map(tuple, value)))),
    **dict.fromkeys((580, 615, 791), _each(_deep)),
    115: _first(_sets),
    124: _first(float, complex),
    252: _first(complex),
    278: _first(lambda value: tuple(tuple(item) if isinstance(item, list) else item for item in value)),
    722: _first(lambda value: {key: tuple(item) for key, item in value.items()}),
}
"""How the arguments of each MBPP problem that needs it come back, as evalplus.data.mbpp restores them."""
