"""ToolRL (rlla_4k, arXiv 2504.13958) as the VPO paper scores it: dialogues answered by calls of typed tools.

The reward vector is [format, tool_name, arg_key, arg_value], each in [0, 1]; its scalar is the mean. It differs from
ToolRL's reward (format 0 or 1 by strict order, correctness in [-3, 3]).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evo.plugins.text_tasks.problem import (
    TextProblem,
    first_field,
    multiset_f1,
    normalise_text,
    sentence,
    set_f1,
    token_f1,
)
from problems.contract import BadAddress, Score
from problems.rows import field_of

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


# -- rewards -----------------------------------------------------------------------------------------------------------

_OBJECTIVES = ("format", "tool_name", "arg_key", "arg_value")
_CLOSE = 1e-9
_SAME_NAME = 100


@dataclass(frozen=True)
class ToolReward:
    """rewards: in the order of _OBJECTIVES; answer: as it was parsed; pairs: (wanted, found) as aligned, either None
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
    names = multiset_f1(
        [normalise_text(call.name) for call in answer.calls], [normalise_text(call.name) for call in wanted]
    )
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
        name = normalise_text(gold.name)
        likeness = {
            i: _SAME_NAME * (normalise_text(made[i].name) == name)
            + len(made[i].parameters.keys() & gold.parameters.keys())
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
    return float(normalise_text(_said(value)) == normalise_text(_said(wanted)))


def _items(values: list[Any]) -> list[str]:
    return [normalise_text(_said(value)) for value in values]


def _same_number(value: Any, wanted: int | float) -> bool:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value == wanted:
        return True
    text = _said(value)
    try:
        if abs(float(text) - wanted) <= _CLOSE:
            return True
    except (ValueError, OverflowError):  # no number; one too large for a float
        pass
    return normalise_text(text) == normalise_text(_said(wanted))


def _said(value: Any) -> str:
    try:
        return str(value)
    except (ValueError, RecursionError):  # an int too long to print, nesting too deep
        return ""


# -- the problem -------------------------------------------------------------------------------------------------------

MOST_TOLD = 3


class ToolProblem(TextProblem):
    """A dialogue with the tools on offer; the answer is a thought, and calls or a response.

    row: of rlla_4k: `prompt` = a system and a user turn, `reward_model.ground_truth` = the reference as it would be
        written. The calls of the reference are what counts; its response and its thought are not compared.
    """

    objectives = _OBJECTIVES
    rules = "toolrl 1"

    def __init__(self, name: str, row: Mapping[str, Any], where: str, source: str, licence: str) -> None:
        super().__init__(name, row, where, source, licence)
        turns = field_of(row, "prompt", list, where)
        if not all(isinstance(turn, dict) and isinstance(turn.get("content"), str) for turn in turns) or not turns:
            raise BadAddress(f"{where}: prompt holds no list of turns with content")
        self.turns = tuple(turn["content"] for turn in turns)
        reference = field_of(field_of(row, "reward_model", dict, where), "ground_truth", str, where)
        parsed = parse_tool_answer(reference)
        if not parsed.calls and (parsed.calls_text or "").strip():
            raise BadAddress(f"{where}: the calls of the reference cannot be read")
        self.wanted = parsed.calls

    @property
    def reference(self) -> str:
        return str(self.row["reward_model"]["ground_truth"])

    def statement(self) -> str:
        """The system turn, which lists the tools and shows the form of an answer, and the dialogue so far."""
        return "\n\n".join(turn.strip() for turn in self.turns)

    def canonical(self, answer: str) -> str:
        """With its thought, which is a part of the answer here."""
        return answer.replace("\r\n", "\n").replace("\r", "\n").strip()

    def score(self, answer: str) -> Score:
        """Features: how many calls it makes and how many arguments they have together."""
        if not answer.strip():
            return Score.failure(len(_OBJECTIVES), "empty answer")
        reward = score_tools(answer, self.wanted)
        calls = reward.answer.calls
        features = {"calls": float(len(calls)), "arguments": float(sum(len(call.parameters) for call in calls))}
        return Score(reward.rewards, sum(reward.rewards) / len(_OBJECTIVES), features, self._feedback(reward))

    def _feedback(self, reward: ToolReward) -> str:
        """The faults, without the right values, names or keys."""
        answer, lines = reward.answer, []
        if answer.thought is None:
            lines.append("there is no <think>...</think>")
        body = (answer.calls_text or "").strip()
        if self.wanted and answer.calls_text is None:
            lines.append("there is no <tool_call>...</tool_call>, but the request needs a tool")
        elif self.wanted and not answer.calls:
            lines.append("no call in <tool_call> is a JSON object with name and parameters")
        elif not self.wanted and body:
            lines.append("<tool_call> is not empty, but no tool can be called now: a response is wanted")
        if self.wanted and answer.calls and len(answer.calls) != len(self.wanted):
            lines.append(
                "more calls are needed" if len(answer.calls) < len(self.wanted) else "there are calls too many"
            )
        for gold, made in reward.pairs:
            if gold is not None and made is not None and len(lines) < MOST_TOLD + 2:
                lines += _told_of_call(gold, made)
        return sentence(lines)


def _told_of_call(gold: ToolCall, made: ToolCall) -> list[str]:
    if gold.name != made.name:
        return [f"{made.name[:60]!r} is not the tool for this"]
    lines = []
    strange = [key[:40] for key in made.parameters if key not in gold.parameters]
    if strange:
        lines.append(f"{made.name} is given parameters that it should not be given: {', '.join(strange[:MOST_TOLD])}")
    if any(key not in made.parameters for key in gold.parameters):
        lines.append(f"{made.name} lacks parameters")
    wrong = [
        f"{key[:40]} = {json.dumps(made.parameters[key])[:60]}"
        for key, value in gold.parameters.items()
        if key in made.parameters and match_value(made.parameters[key], value) < 1
    ]
    if wrong:
        lines.append(f"{made.name} has wrong values: {', '.join(wrong[:MOST_TOLD])}")
    return lines
