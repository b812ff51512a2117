"""Policies without a model: deterministic, instantaneous, for tests, benchmarks and dry runs.

Names: `random-route`, `mutate`, `echo`, `classic` (re-routes mazes, vpo.embedded.classic), `fixed=FILE`, `broken`.
Options follow a question mark: `latency=SECONDS` sleeps in every call; `broken?after=N` answers N calls (as `mutate`
does) before it fails.

They answer in the form that the prompt asks for (a chain's tags, code blocks, edit blocks), draw from a hash of
(seed, stream, rollout), and carry the bytes of the text as token ids, each with the log-probability of a uniform byte.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import random
import re
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from problems.contract import BadAddress
from problems.types import Prompt, Rollout
from vpo.policies.address import PolicyAddress
from vpo.policies.contract import PolicyUnavailable
from vpo.policies.registry import PolicySettings

_LOG_UNIFORM = -math.log(256.0)
_FENCE = re.compile(r"^(`{3,})([^\n`]*)\n(.*?)^\1[ \t]*$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"(?m)^#+ .*$")
_PARENT = re.compile(r"\b(?:current|parent|improve)\b", re.IGNORECASE)
_AFTER_PLAIN = re.compile(r"\n[ \t]*\n|\nFitness ")
_NUMBER = re.compile(r"(?<![\w.])\d{1,6}(?:\.\d{1,6})?(?![\w.])")
_VARIANT = re.compile(r"(?m)^_variant = \d+\n?")
_BLOCK_START = re.compile(r"(?m)^[^\n\w]*EVOLVE-BLOCK-START.*$")
_BLOCK_END = re.compile(r"(?m)^(?=[^\n\w]*EVOLVE-BLOCK-END)")

Author = Callable[[Prompt, str, int, int], list[str]]
"""(prompt, answer format, m, random bits) -> m answers."""


class ScriptedPolicy:
    """A Policy whose answers an `author` writes. See the module's docstring for the ones there are."""

    prompt_format = "chat"
    has_logprobs = True
    continues = False

    def __init__(
        self,
        name: str,
        author: Author,
        *,
        temperature: float = 1.0,
        batch: int = 64,
        latency: float = 0.0,
        failing_after: int | None = None,
    ) -> None:
        self.version = f"scripted:{name}"
        self.temperature = temperature
        self.batch = batch
        self.max_tokens: int | None = None
        self._author = author
        self._latency = latency
        self._failing_after = failing_after
        self._calls = 0

    async def sample(self, prompts: Sequence[Prompt], *, rollouts: int, answers: int, seed: int) -> list[list[Rollout]]:
        """One list per prompt of `rollouts` Rollouts; yields to the event loop once per call, then for the latency."""
        self._calls += 1
        await asyncio.sleep(self._latency)
        if self._failing_after is not None and self._calls > self._failing_after:
            raise PolicyUnavailable(f"{self.version} is out of order, as its name says; choose another policy")
        return [self._group(prompt, rollouts, answers, seed) for prompt in prompts]

    async def close(self) -> None:
        """Nothing is held."""

    def _group(self, prompt: Prompt, rollouts: int, answers: int, seed: int) -> list[Rollout]:
        prompt_ids = _bytes_of(prompt.system + prompt.user)
        form = asked_format(prompt)
        group = []
        for rollout in range(rollouts):
            text = written(self._author(prompt, form, answers, _bits(seed, prompt.stream, rollout)), form)
            token_ids = _bytes_of(text)
            logprobs = np.full(len(token_ids), _LOG_UNIFORM, dtype=np.float32)
            group.append(Rollout(text, token_ids, logprobs, prompt_ids))
        return group


class Options(BaseModel):
    """latency: seconds that every call sleeps; after: calls that `broken` answers"""

    model_config = ConfigDict(extra="forbid", frozen=True)

    latency: float = Field(0.0, ge=0.0, le=1e6)
    after: int = Field(0, ge=0)


def load_scripted(address: PolicyAddress, settings: PolicySettings) -> ScriptedPolicy:
    """The policy of `scripted:NAME`. Raises BadAddress on an unknown name, option, or file."""
    options, name = address.own_options(Options), address.model
    kind, _, file = name.partition("=")
    failing_after = None
    if kind == "fixed" and file:
        author = _fixed(_answers_in(Path(file).expanduser()))
    elif name in _AUTHORS:
        author = _AUTHORS[name]
    elif name == "broken":
        author, failing_after = mutate, options.after
    else:
        raise BadAddress(
            f"policy {address.plain!r} does not exist; there is {', '.join(_AUTHORS)}, broken, and fixed=FILE"
        )
    return ScriptedPolicy(
        name,
        author,
        temperature=settings.temperature,
        batch=settings.batch or 64,
        latency=options.latency,
        failing_after=failing_after,
    )


def asked_format(prompt: Prompt) -> str:
    """Which form the prompt asks for: "diff", "route", "text" or "python", by the marks vpo.chain's wording leaves."""
    if "<<<<<<< SEARCH" in prompt.user:
        return "diff"
    if "<route_1>" in prompt.user:
        return "route"
    if "<answer_1>" in prompt.user:
        return "text"
    return "python"


def written(answers: Sequence[str], form: str) -> str:
    """A chain of these answers in the form asked for, one that vpo.chain.parse reads back."""
    if form == "diff":
        return answers[0]
    if form == "python":
        return "\n---\n".join([f"```python\n{answer}\n```" for answer in answers])
    tag = "route" if form == "route" else "answer"
    return "\n".join([f"<{tag}_{i}>{answer}</{tag}_{i}>" for i, answer in enumerate(answers, 1)])


def random_route(prompt: Prompt, form: str, answers: int, bits: int) -> list[str]:
    """Routes of 8 to 39 moves that lean towards one diagonal, as a maze's corners ask."""
    return [_route(_mixed(bits, i)) for i in range(answers)]


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
    """Small edits of the parent: one number changed and a `_variant` line that makes every program a new one.

    Valid Python stays valid. Routes get one move changed, texts one word.
    """
    parent = parent_in(prompt.user)
    if form == "diff":
        return [_mutated_edit(parent, bits)]
    change = {"route": _mutated_route, "text": _mutated_text}.get(form, _mutated_program)
    return [change(parent, _mixed(bits, i)) for i in range(answers)]


def classic(prompt: Prompt, form: str, answers: int, bits: int) -> list[str]:
    """Random re-routings of a maze's parent."""
    from vpo.embedded.classic import reroutes

    return reroutes(prompt.user, answers, random.Random(bits))


def _mutated_program(parent: str, bits: int) -> str:
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


def _mutated_edit(parent: str, bits: int) -> str:
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


def _mutated_route(parent: str, bits: int) -> str:
    moves = re.sub(r"[^UDLR]", "", parent)
    if not moves or bits >> 90 & 3 == 0:
        return _route(bits)
    place = bits % len(moves)
    return moves[:place] + "UDLR"[bits >> 10 & 3] + moves[place + (bits >> 12 & 1) :]


def _mutated_text(parent: str, bits: int) -> str:
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


def _fixed(chains: list[list[str]]) -> Author:
    answers_in_order = [answer for chain in chains for answer in chain]

    def author(prompt: Prompt, form: str, answers: int, bits: int) -> list[str]:
        start = bits % len(answers_in_order) if answers < len(answers_in_order) else 0
        return [answers_in_order[(start + i) % len(answers_in_order)] for i in range(answers)]

    return author


def _answers_in(file: Path) -> list[list[str]]:
    """JSONL: per line a string, an array of strings, or an object with `answer`, `text` or `code`. Other files: texts
    between lines `---`."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadAddress(f"policy 'scripted:fixed={file}': the file cannot be read: {error}") from None
    if file.suffix != ".jsonl":
        chains = [[part.strip("\n")] for part in re.split(r"(?m)^---[ \t]*$", text) if part.strip()]
    else:
        chains = [_json_answers(file, number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not any(chains):
        raise BadAddress(f"policy 'scripted:fixed={file}': the file holds no answer")
    return chains


def _json_answers(file: Path, number: int, line: str) -> list[str]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise BadAddress(f"policy 'scripted:fixed={file}': line {number} is not JSON: {error}") from None
    if isinstance(value, dict):
        value = next((value[key] for key in ("answer", "text", "code") if key in value), None)
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(one, str) for one in values):
        raise BadAddress(
            f"policy 'scripted:fixed={file}': line {number} holds no answer (a string, an array of strings)"
        )
    return values


def _bits(seed: int, stream: int, rollout: int) -> int:
    """512 random bits of this place; a hash costs a tenth of a numpy generator."""
    place = struct.pack("<qqq", seed & (1 << 63) - 1, stream & (1 << 63) - 1, rollout)
    return int.from_bytes(hashlib.blake2b(place).digest(), "little")


def _mixed(bits: int, i: int) -> int:
    """The i-th answer's own 512 bits."""
    if i == 0:
        return bits
    return int.from_bytes(hashlib.blake2b(bits.to_bytes(64, "little"), salt=struct.pack("<q", i)).digest(), "little")


def _bytes_of(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8).astype(np.int32)


_AUTHORS: dict[str, Author] = {"random-route": random_route, "mutate": mutate, "echo": echo, "classic": classic}
