"""Tool calls as models write them: JSON objects one after another, or one array of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evo.plugins.text_tasks.problem import first_field

_DECODER = json.JSONDecoder()
_BETWEEN = " \t\r\n,"


@dataclass(frozen=True)
class ToolCall:
    name: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class ToolAnswer:
    """thought, calls_text, response: the bodies of the first such tags, None if one is absent; calls: what could be
    read of calls_text, up to the first that could not"""

    thought: str | None
    calls_text: str | None
    response: str | None
    calls: tuple[ToolCall, ...]


def parse_tool_answer(text: str) -> ToolAnswer:
    """Never raises, whatever the text holds."""
    body = first_field(text, "tool_call")
    calls = () if body is None else tuple(read_calls(body))
    return ToolAnswer(first_field(text, "think"), body, first_field(text, "response"), calls)


def read_calls(body: str) -> Iterator[ToolCall]:
    """The calls in the order written, up to the first that is none.

    An array is read if the body begins with "[", and is empty unless it is completely valid. Otherwise objects follow
    one another with blanks, commas or line ends between them. `arguments` is read for `parameters`; parameters that are
    no object count as {}. A brace inside a string is no brace.
    """
    body = body.strip()
    for value in _array(body) if body.startswith("[") else _stream(body):
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            return
        parameters = value["parameters"] if "parameters" in value else value.get("arguments")
        yield ToolCall(value["name"], parameters if isinstance(parameters, dict) else {})


def _array(body: str) -> list[Any]:
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return []
    return parsed if isinstance(parsed, list) else []


def _stream(body: str) -> Iterator[Any]:
    place = 0
    while place < len(body):
        if body[place] in _BETWEEN:
            place += 1
            continue
        try:
            value, place = _DECODER.raw_decode(body, place)
        except (ValueError, RecursionError):
            return
        yield value
