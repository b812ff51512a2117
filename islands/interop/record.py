"""The database's record of an imported program: everything that its candidate and its group do not hold.

Its code is the candidate's text, unless it is written differently; its prompt and the model's response are those of its
group. The rest of the file is kept as JSON text and put back around them when the program is exported again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from islands.interop.checkpoint import CheckpointProgram


@dataclass(frozen=True)
class Exchange:
    """The prompt and the response of a model, "" if the checkpoint does not hold them."""

    template: str | None = None
    system: str = ""
    user: str = ""
    response: str | None = None


def exchange_of(program: CheckpointProgram) -> Exchange:
    """OpenEvolve logs {template: {system, user, responses}}; anything else stays in the record."""
    prompts = program.raw.get("prompts")
    if not isinstance(prompts, dict) or len(prompts) != 1:
        return Exchange()
    ((template, asked),) = prompts.items()
    if not isinstance(asked, dict) or not all(isinstance(asked.get(key), str) for key in ("system", "user")):
        return Exchange()
    match asked.get("responses"):
        case [str(response)]:
            return Exchange(template, asked["system"], asked["user"], response)
        case _:
            return Exchange(template, asked["system"], asked["user"])


def pack(program: CheckpointProgram, text: str, exchange: Exchange | None) -> str:
    """The record of a program whose candidate has this text and whose group, if any, this exchange."""
    kept = dict(program.raw)
    moved: dict[str, Any] = {}
    if program.code == text:
        moved["code"] = True
        del kept["code"]
    if exchange is not None and exchange.template is not None:
        moved["template"] = exchange.template
        gone = ("system", "user") if exchange.response is None else ("system", "user", "responses")
        moved["response"] = exchange.response is not None
        asked = kept.pop("prompts")[exchange.template]
        kept["asked"] = {key: value for key, value in asked.items() if key not in gone}
    return json.dumps({"program": kept, "moved": moved})


def unpack(record: str, text: str, system: str, user: str, response: str) -> dict[str, Any]:
    """The program's file as it was read."""
    stored: Mapping[str, Any] = json.loads(record)
    program, moved = dict(stored["program"]), stored["moved"]
    if moved.get("code"):
        program["code"] = text
    if "template" in moved:
        asked = {"system": system, "user": user, **program.pop("asked")}
        if moved["response"]:
            asked["responses"] = [response]
        program["prompts"] = {moved["template"]: asked}
    return program
