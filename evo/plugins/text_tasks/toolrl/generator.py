"""Dialogues of ToolRL's kind, made up: the calls that are right are known because the request is written from them.

Of rlla_4k's test split they keep how many calls a row has (none in 11 %, else mostly one or two), that three to eight
tools are offered, that a third has masked names (as Hammer's rows), and dialogues of several turns with `<obs>`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from evo.plugins.text_tasks.toolrl.tools import PARAMETER, TOOLS, Tool

LEVELS = {
    "": "dialogues answered by calls of typed tools: 0 to 5 calls, masked names, several turns",
    "easy": "one call, two tools on offer",
    "medium": "one or two calls, three to five tools on offer",
}
_CALLS = {"": (9, 36, 23, 8, 3, 1), "easy": (0, 1), "medium": (0, 2, 1)}
"""How often a dialogue has no call, one, two, ...; the first as counted in the test split of rlla_4k."""
_OFFERED = {"": (3, 8), "easy": (2, 2), "medium": (3, 5)}
MASKED = 1 / 3
EARLIER = 1 / 4
"""The share of dialogues with a reference code in which a call in an earlier turn found it."""
THOUGHT = "The request needs these tools."
_NO_TOOL = "No tool on offer fits, or something is missing."

_FORM = """\
You answer the user of an assistant that can call tools.

**Available Tools**
{tools}

**How to answer**
<think> what the user wants, and which tools serve it </think>
<tool_call>
{{"name": "name of a tool", "parameters": {{"name of a parameter": "its value"}}}}
{{"name": "name of another tool", "parameters": {{}}}}
</tool_call>
<response> what you say to the user </response>

Always write <think>. Then write <tool_call>, with one JSON object a line, in the order of the request; or, where no
tool on offer does what is asked or a value for a parameter was not given, leave it out and write <response>.
Earlier turns are part of the dialogue; what a tool returned stands in <obs>."""


@dataclass
class _Dialogue:
    """offered: the tools as the prompt names them; calls: those that are right; turns: the user's clauses"""

    earlier: str = ""
    clauses: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    response: str = ""


def draw_dialogue(rng: random.Random, level: str, split: str) -> dict[str, Any]:
    """A row of rlla_4k's schema, with the level in extra_info. split: "train" and "test" share no values."""
    weights = _CALLS[level]
    number = rng.choices(range(len(weights)), weights)[0]
    fewest, most = _OFFERED[level]
    size = max(rng.randint(fewest, most), number)
    asked = rng.sample(TOOLS, max(number, 1))
    dialogue = _no_call(rng, asked[0], split) if number == 0 else _calls(rng, asked, split, several=level == "")
    fitting = bool(number) or dialogue.response.startswith("Please")
    offered = _offered(rng, asked, size, fitting, near=level == "")
    names = _masks(rng, offered) if level == "" and rng.random() < MASKED else {}
    system = _FORM.format(tools="\n".join(_described(i, tool, names) for i, tool in enumerate(offered, 1)))
    request = f"<user> Please {_joined(dialogue.clauses)}. </user>"
    user = "**Dialogue**\n" + _renamed(dialogue.earlier, names) + request
    if dialogue.calls:
        calls = "\n".join(json.dumps(_masked(call, names)) for call in dialogue.calls)
        answer = f"<think> {THOUGHT} </think>\n<tool_call>\n{calls}\n</tool_call>"
    else:
        answer = f"<think> {_NO_TOOL} </think>\n<response> {dialogue.response} </response>"
    return {
        "data_source": "synthetic",
        "prompt": [{"role": "system", "content": system}, {"role": "user", "content": user}],
        "ability": "tools",
        "reward_model": {"style": "rule", "ground_truth": answer},
        "extra_info": {"split": split, "level": level},
    }


def _calls(rng: random.Random, asked: Sequence[Tool], split: str, several: bool) -> _Dialogue:
    dialogue = _Dialogue()
    for tool in asked:
        values = {name: slot.draw(rng, split) for name, slot in tool.parameters.items()}
        said = {name: text for name, (_, text) in values.items()}
        if several and tool.code and not dialogue.earlier and rng.random() < EARLIER:
            dialogue.earlier = _earlier(tool.code, values[tool.code][0], tool)
            said[tool.code] = "that you have just found"
        dialogue.clauses.append(_asked(tool, said))
        dialogue.calls.append({"name": tool.name, "parameters": {name: value for name, (value, _) in values.items()}})
    return dialogue


def _earlier(key: str, code: str, tool: Tool) -> str:
    """A turn in which a tool that is no longer requested found a reference."""
    results = json.dumps([{"name": "find_reference", "results": {key: code}}])
    return (
        f"<user> I need the right reference: find the {key} for me. </user>\n"
        f"<obs> {results} </obs>\n<response> I have found it. </response>\n"
    )


def _no_call(rng: random.Random, tool: Tool, split: str) -> _Dialogue:
    """A request that lacks a value, or, as often, one that no tool on offer serves."""
    said = {name: slot.draw(rng, split)[1] for name, slot in tool.parameters.items()}
    if rng.random() < 0.5:
        return _Dialogue(clauses=[_asked(tool, said)], response="None of my tools can do that.")
    missing = rng.choice(sorted(tool.parameters))
    said[missing] = tool.parameters[missing].vague
    return _Dialogue(clauses=[_asked(tool, said)], response=f"Please tell me the {missing}.")


def _offered(rng: random.Random, asked: Sequence[Tool], size: int, fitting: bool, near: bool) -> list[Tool]:
    """The requested tools (unless none is to fit), up to two with similar names, and others."""
    offered = list(asked) if fitting else []
    first = asked[0]
    if near and fitting:
        look_alikes = [
            Tool(first.domain, f"{first.name}_log", f"Shows who used {first.name} on a day.", "{day:date}"),
            Tool(first.domain, f"{first.name}_settings", f"Changes how {first.name} works.", "{on:flag}"),
        ]
        offered += look_alikes[: max(0, min(2, size - len(offered)))]
    others = [tool for tool in TOOLS if tool not in asked]
    offered += rng.sample(others, max(0, size - len(offered)))
    rng.shuffle(offered)
    return offered


def _masks(rng: random.Random, offered: Sequence[Tool]) -> dict[str, dict[str, str]]:
    """tool -> {"": its masked name, parameter -> its masked name}"""
    numbers = rng.sample(range(10, 99), len(offered))
    return {
        tool.name: {"": f"func_{number}", **{name: f"p_{i}" for i, name in enumerate(tool.parameters, 1)}}
        for tool, number in zip(offered, numbers, strict=True)
    }


def _masked(call: dict[str, Any], names: dict[str, dict[str, str]]) -> dict[str, Any]:
    mask = names.get(call["name"], {})
    parameters = {mask.get(key, key): value for key, value in call["parameters"].items()}
    return {"name": mask.get("", call["name"]), "parameters": parameters}


def _described(number: int, tool: Tool, names: dict[str, dict[str, str]]) -> str:
    mask = names.get(tool.name, {})
    parameters = {
        mask.get(name, name): {"description": slot.description, "type": slot.kind, "default": ""}
        for name, slot in tool.parameters.items()
    }
    description = _renamed(tool.description, names)
    return (
        f"{number}. Name: {mask.get('', tool.name)}\nDescription: {description}\nParameters: {json.dumps(parameters)}"
    )


def _renamed(text: str, names: dict[str, dict[str, str]]) -> str:
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, names[name][""])
    return text


def _asked(tool: Tool, said: dict[str, str]) -> str:
    return PARAMETER.sub(lambda matched: said[matched[1]], tool.request)


def _joined(clauses: Sequence[str]) -> str:
    return "; then ".join(clauses)
