"""What scripted policies write: answers made from the answers shown and a hash, without a model."""

from __future__ import annotations

import hashlib
import random
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass

from problems.types import Prompt
from vpo.policies.mutation import edit_block, mutate_answer
from vpo.policies.prompt_formats import TUNED

Generator = Callable[[Prompt, str, int, int], list[str]]
"""(prompt, answer format, m, random bits) -> m answers. Prompt.shown has the answers to change."""


@dataclass(frozen=True)
class TokenGenerator:
    """A generator that reads the prompts of a token language.

    prompt_format: the name of the language
    write: (prompt, m, random bits) -> the text of a chain of m answers in it
    """

    prompt_format: str
    write: Callable[[Prompt, int, int], str]


def random_route(prompt: Prompt, form: str, answers: int, bits: int) -> list[str]:
    """Routes of 8 to 39 moves that lean towards one diagonal, as a maze's corners ask."""
    return [_route(_mix(bits, i)) for i in range(answers)]


def echo(prompt: Prompt, form: str, answers: int, bits: int) -> list[str]:
    """The parent again, m times: what every filter for duplicates must catch."""
    parent = _parent_of(prompt)
    return [edit_block(parent, parent)] if form == "diff" else [parent] * answers


def mutate(prompt: Prompt, form: str, answers: int, bits: int) -> list[str]:
    """Mutations of the parent (vpo.policies.mutation), different from the other answers shown."""
    parent, others = _parent_of(prompt), prompt.shown[1:]
    if form == "route":
        return [_mutate_route(parent, _mix(bits, i)) for i in range(answers)]
    python, mutants = form in ("python", "diff"), list[str]()
    for i in range(1 if form == "diff" else answers):
        rng = random.Random(_mix(bits, i))
        mutants.append(mutate_answer(parent, [*others, *mutants], prompt.user, python, rng))
    return [edit_block(parent, mutants[0])] if form == "diff" else mutants


GENERATORS: dict[str, Generator | TokenGenerator] = {
    **{"mutate": mutate, "random-route": random_route, "echo": echo},
    "tuned": TokenGenerator(TUNED, lambda prompt, answers, rollout: prompt.user.splitlines()[rollout]),
}


def _parent_of(prompt: Prompt) -> str:
    return prompt.shown[0] if prompt.shown else ""


def _route(bits: int) -> str:
    length, towards = 8 + bits % 32, ("UL", "UR", "DL", "DR")[bits >> 5 & 3]
    steps = towards * 3 + "UDLR"  # 16 letters apart from 10: each of the two has weight 4/10
    digits = bits >> 7
    return "".join([steps[(digits >> 8 * i & 255) % 10] for i in range(length)])


def _mutate_route(parent: str, bits: int) -> str:
    moves = re.sub(r"[^UDLR]", "", parent)
    if not moves or bits >> 90 & 3 == 0:
        return _route(bits)
    place = bits % len(moves)
    return moves[:place] + "UDLR"[bits >> 10 & 3] + moves[place + (bits >> 12 & 1) :]


def _mix(bits: int, i: int) -> int:
    """The i-th answer's own 512 bits."""
    if i == 0:
        return bits
    return int.from_bytes(hashlib.blake2b(bits.to_bytes(64, "little"), salt=struct.pack("<q", i)).digest(), "little")
