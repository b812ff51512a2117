"""One dialogue of ToolRL as a Problem."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from evo.plugins.text_tasks.problem import TextProblem
from evo.plugins.text_tasks.toolrl.calls import ToolCall, parse_tool_answer
from evo.plugins.text_tasks.toolrl.rewards import OBJECTIVES, ToolReward, match_value, score_tools
from problems.contract import BadAddress, Score
from problems.rows import field_of

MOST_TOLD = 3


class ToolProblem(TextProblem):
    """A dialogue with the tools on offer; the answer is a thought, and calls or a response.

    row: of rlla_4k: `prompt` = a system and a user turn, `reward_model.ground_truth` = the reference as it would be
        written. The calls of the reference are what counts; its response and its thought are not compared.
    """

    objectives = OBJECTIVES
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
        self.reference, self.wanted = reference, parsed.calls

    def known_answers(self, seed: int) -> list[str]:
        """The reference."""
        return [self.reference]

    def statement(self) -> str:
        """The system turn, which lists the tools and shows the form of an answer, and the dialogue so far."""
        return "\n\n".join(turn.strip() for turn in self.turns)

    def canonical(self, answer: str) -> str:
        """With its thought, which is a part of the answer here."""
        return answer.replace("\r\n", "\n").replace("\r", "\n").strip()

    def score(self, answer: str) -> Score:
        """Features: how many calls it makes and how many arguments they have together."""
        if not answer.strip():
            return Score.failure(len(OBJECTIVES), "empty answer")
        reward = score_tools(answer, self.wanted)
        calls = reward.answer.calls
        features = {"calls": float(len(calls)), "arguments": float(sum(len(call.parameters) for call in calls))}
        return Score(reward.rewards, sum(reward.rewards) / len(OBJECTIVES), features, self._feedback(reward))

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
        if not lines:
            return ""
        text = "; ".join(lines)
        return f"{text[0].upper()}{text[1:]}."


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
