"""The reward vector of the VPO paper for ToolRL: [format, tool_name, arg_key, arg_value], each in [0, 1].

It differs from ToolRL's reward (format 0 or 1 by strict order, correctness in [-3, 3]). The deployment scalar is
the mean of the four.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evo.plugins.text_tasks.toolrl.calls import ToolAnswer, ToolCall, parse_tool_answer
from evo.plugins.text_tasks.words import multiset_f1, normalise, set_f1, token_f1

OBJECTIVES = ("format", "tool_name", "arg_key", "arg_value")
EMPTY_THOUGHT = "<think>\n\n</think>\n\n"
"""The text that Qwen3's template puts into the prompt if thinking is off. At evaluation the paper puts it before the
answers of single-answer rollouts, which would have no thought otherwise; those of a chain are scored as they are."""
_CLOSE = 1e-9
_SAME_NAME = 100


@dataclass(frozen=True)
class ToolReward:
    """rewards: in the order of OBJECTIVES; answer: as it was parsed; pairs: (wanted, found) as aligned, either None
    if it has no partner"""

    rewards: tuple[float, float, float, float]
    answer: ToolAnswer
    pairs: tuple[tuple[ToolCall | None, ToolCall | None], ...]


def score_tools(text: str, wanted: Sequence[ToolCall]) -> ToolReward:
    """text: one answer, as it was written; wanted: the calls of the reference, in order"""
    answer = parse_tool_answer(text)
    pairs = align(wanted, answer.calls)
    if not text.strip():
        return ToolReward((0.0, 0.0, 0.0, 0.0), answer, pairs)
    form = float(has_format(answer, bool(wanted)))
    if not pairs:
        return ToolReward((form, 1.0, 1.0, 1.0), answer, pairs)
    names = multiset_f1([normalise(call.name) for call in answer.calls], [normalise(call.name) for call in wanted])
    keys = values = 0.0
    for gold, made in pairs:
        if gold is not None and made is not None:
            keys += set_f1(made.parameters, gold.parameters)
            values += share_of_values(made.parameters, gold.parameters)
    return ToolReward((form, names, keys / len(pairs), values / len(pairs)), answer, pairs)


def has_format(answer: ToolAnswer, calls_wanted: bool) -> bool:
    """A thought; and at least one readable call if calls are wanted, else nothing in the calls' tag."""
    if answer.thought is None:
        return False
    return bool(answer.calls) if calls_wanted else not (answer.calls_text or "").strip()


def align(wanted: Sequence[ToolCall], made: Sequence[ToolCall]) -> tuple[tuple[ToolCall | None, ToolCall | None], ...]:
    """Each wanted call in turn takes the most similar call not yet taken (100 for its name, 1 for each key
    that they share), the first of equals; then the rest of `made`."""
    left = list(range(len(made)))
    pairs: list[tuple[ToolCall | None, ToolCall | None]] = []
    for gold in wanted:
        name = normalise(gold.name)
        likeness = {
            i: _SAME_NAME * (normalise(made[i].name) == name) + len(made[i].parameters.keys() & gold.parameters.keys())
            for i in left
        }
        best = max(likeness, key=lambda i: likeness[i], default=None)  # max keeps the first of equals
        pairs.append((gold, None if best is None else made[best]))
        if best is not None:
            left.remove(best)
    return (*pairs, *((None, made[i]) for i in left))


def share_of_values(made: Mapping[str, Any], wanted: Mapping[str, Any]) -> float:
    """The matches over wanted keys that are there, by the number of wanted keys; 1 if none is wanted."""
    if not wanted:
        return 1.0
    return sum(match_value(made[key], value) for key, value in wanted.items() if key in made) / len(wanted)


def match_value(value: Any, wanted: Any) -> float:
    """How far a value is the wanted one, from 0 to 1, by the type of the wanted one: equal truth values; equal numbers,
    also as text; F1 of a list's normalised items, of an object's keys, of a text's words."""
    if isinstance(wanted, bool):
        return float(isinstance(value, bool) and value == wanted)
    if isinstance(wanted, (int, float)):
        return float(_same_number(value, wanted))
    if isinstance(wanted, list):
        return multiset_f1(_items(value), _items(wanted)) if isinstance(value, list) else 0.0
    if isinstance(wanted, dict):
        return set_f1(value, wanted) if isinstance(value, dict) else 0.0
    if isinstance(wanted, str) and isinstance(value, str):
        return token_f1(value, wanted)
    return float(normalise(_said(value)) == normalise(_said(wanted)))


def _items(values: list[Any]) -> list[str]:
    return [normalise(_said(value)) for value in values]


def _same_number(value: Any, wanted: int | float) -> bool:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value == wanted:
        return True
    said = _said(value)
    try:
        if abs(float(said) - wanted) <= _CLOSE:
            return True
    except (ValueError, OverflowError):  # no number; one too large for a float
        pass
    return normalise(said) == normalise(_said(wanted))


def _said(value: Any) -> str:
    try:
        return str(value)
    except (ValueError, RecursionError):  # an int too long to print, nesting too deep
        return ""
