"""What scripted policies write: answers made from the prompt and a hash, without a model."""

from __future__ import annotations

import hashlib
import random
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from problems.types import Prompt
from vpo.policies.mutation.operators import edit_block, mutate_answer

_FENCE = re.compile(r"^(`{3,})([^\n`]*)\n(.*?)^\1[ \t]*$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"(?m)^#+ .*$")
_PARENT = re.compile(r"\b(?:current|parent|improve)\b", re.IGNORECASE)
_AFTER_PLAIN = re.compile(r"\n[ \t]*\n|\nFitness ")
_NUMBER = re.compile(r"(?<![\w.])\d{1,6}(?:\.\d{1,6})?(?![\w.])")
_VARIANT = re.compile(r"(?m)^_variant = \d+\n?")
_BLOCK_START = re.compile(r"(?m)^[^\n\w]*EVOLVE-BLOCK-START.*$")
_BLOCK_END = re.compile(r"(?m)^(?=[^\n\w]*EVOLVE-BLOCK-END)")

Generator = Callable[[Prompt, str, int, int], list[str]]
"""(prompt, answer format, m, random bits) -> m answers."""


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


def _route(bits: int) -> str:
    length, towards = 8 + bits % 32, ("UL", "UR", "DL", "DR")[bits >> 5 & 3]
    steps = towards * 3 + "UDLR"  # 16 letters apart from 10: each of the two has weight 4/10
    digits = bits >> 7
    return "".join([steps[(digits >> 8 * i & 255) % 10] for i in range(length)])


def echo(prompt: Prompt, form: str, answers: int, bits: int) -> list[str]:
    """The parent again, m times: what every filter for duplicates must catch."""
    parent = parent_in(prompt.user)
    if form == "diff":
        line = next((line for line in parent.split("\n") if line.strip()), "pass")
        return [_edit(line, line)]
    return [parent] * answers


def mutate(prompt: Prompt, form: str, answers: int, bits: int) -> list[str]:
    """Mutations of the parent, crossed with the other answers shown (vpo.policies.mutation)."""
    parent, *others = prompt.shown or (parent_in(prompt.user),)
    if form == "route":
        return [_mutate_route(parent, _mix(bits, i)) for i in range(answers)]
    python, mutants = form in ("python", "diff"), list[str]()
    for i in range(1 if form == "diff" else answers):
        rng = random.Random(_mix(bits, i))
        mutants.append(mutate_answer(parent, [*others, *mutants], prompt.user, python, rng))
    return [edit_block(parent, mutants[0])] if form == "diff" else mutants


def vary(prompt: Prompt, form: str, answers: int, bits: int) -> list[str]:
    """The cheapest new answers, for benchmarks and dry runs: one number of the parent changed, and a `_variant` line
    that makes every program a new one.

    Valid Python stays valid. Routes get one move changed, texts one word.
    """
    parent = parent_in(prompt.user)
    if form == "diff":
        return [_mutate_edit(parent, bits)]
    change = {"route": _mutate_route, "text": _mutate_text, "tagged": _mutate_text}.get(form, _mutate_program)
    return [change(parent, _mix(bits, i)) for i in range(answers)]


def _mutate_program(parent: str, bits: int) -> str:
    head, tail, numbers = _anatomy(parent)
    if numbers:
        start, end = numbers[bits % len(numbers)]
        head = head[:start] + _other_number(head[start:end], bits >> 16) + head[end:]
    return f"{head}_variant = {bits >> 64 & (1 << 62) - 1}\n{tail}"


@lru_cache(maxsize=256)
def _anatomy(parent: str) -> tuple[str, str, list[tuple[int, int]]]:
    """(the code up to where the variant's line goes, the rest, where numbers stand in the first part)."""
    code = _VARIANT.sub("", parent)
    end = _BLOCK_END.search(code)  # nothing outside the evolve block may change
    head, tail = (
        (code[: end.start()], code[end.start() :]) if end else (code.rstrip() + "\n" if code.strip() else "", "")
    )
    begin = _BLOCK_START.search(head)
    return head, tail, [number.span() for number in _NUMBER.finditer(head, begin.end() if begin else 0)]


def _other_number(written_number: str, bits: int) -> str:
    factor = (0.5, 0.9, 1.1, 2.0)[bits & 3]
    if "." in written_number:
        return repr(round(float(written_number) * factor + (bits >> 2 & 7) / 1000, 6))
    return str(max(0, int(written_number) + (-1, 1, 2, -2)[bits & 3]))


def _mutate_edit(parent: str, bits: int) -> str:
    lines = [line for line in parent.split("\n") if line.strip() and "EVOLVE-BLOCK" not in line]
    if not lines:
        return _edit("pass", "pass")
    with_numbers = [line for line in lines if _NUMBER.search(line)]
    line = (with_numbers or lines)[bits % len(with_numbers or lines)]
    number = _NUMBER.search(line)
    if number is None:
        return _edit(line, f"{line}  # variant {bits >> 64 & (1 << 62) - 1}")
    return _edit(line, line[: number.start()] + _other_number(number[0], bits >> 16) + line[number.end() :])


def _edit(search: str, replacement: str) -> str:
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replacement}\n>>>>>>> REPLACE"


def _mutate_route(parent: str, bits: int) -> str:
    moves = re.sub(r"[^UDLR]", "", parent)
    if not moves or bits >> 90 & 3 == 0:
        return _route(bits)
    place = bits % len(moves)
    return moves[:place] + "UDLR"[bits >> 10 & 3] + moves[place + (bits >> 12 & 1) :]


def _mutate_text(parent: str, bits: int) -> str:
    words = parent.split(" ")
    words[bits % len(words)] = f"w{bits >> 64 & (1 << 40) - 1:x}"
    return " ".join(words)


def parent_in(text: str) -> str:
    """The parent's text in a prompt.

    The last section whose heading says "current", "parent" or "improve" holds it: in its first fenced block, or as its
    first lines up to a blank one or the fitness. Without such a section it is the last fenced block, without any "".
    """
    if text != _parent_of[0]:
        _parent_of[:] = [text, _find_parent(text)]
    return _parent_of[1]


_parent_of = ["", ""]  # a group's rollouts share their prompt: remember the last one


def _find_parent(text: str) -> str:
    blocks = list(_FENCE.finditer(text))
    headings = [heading for heading in _HEADING.finditer(text) if not _inside(blocks, heading.start())]
    end = len(text)
    for heading in reversed(headings):
        start, stop, end = heading.end(), end, heading.start()
        if not _PARENT.search(heading[0]):
            continue
        for block in blocks:
            if start <= block.start() < stop:
                return block[3].rstrip("\n")
        if plain := _AFTER_PLAIN.split(text[start:stop].strip(), maxsplit=1)[0]:
            return plain
    return blocks[-1][3].rstrip("\n") if blocks else ""


def _inside(blocks: Sequence[re.Match[str]], place: int) -> bool:
    return any(block.start() <= place < block.end() for block in blocks)


def _mix(bits: int, i: int) -> int:
    """The i-th answer's own 512 bits."""
    if i == 0:
        return bits
    return int.from_bytes(hashlib.blake2b(bits.to_bytes(64, "little"), salt=struct.pack("<q", i)).digest(), "little")


GENERATORS: dict[str, Generator] = {
    "mutate": mutate,
    "random-route": random_route,
    "vary": vary,
    "echo": echo,
}
