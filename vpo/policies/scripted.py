"""Policies without a model: deterministic, within milliseconds.

    scripted:mutate        changes the answer it is shown: text, numbers, a Python program (vpo.policies.mutation)
    scripted:classic       re-routes mazes (vpo.policies.reroute)
    scripted:random-route  routes that look at nothing
    scripted:tuned         the seed with other numbers, which CMA-ES proposes (evo.prompts.registry)
    scripted:fixed=FILE    answers from a file
    scripted:NAME          an installed entry point of the group "evo.generators" (Generator or TokenGenerator of
                           vpo.policies.scripted)
    scripted:echo  scripted:broken    for dry runs and tests

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
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import Field

from problems.address import did_you_mean, user_path
from problems.contract import BadAddress
from problems.entry_points import find_entry_points, load_entry_point
from problems.types import Prompt, Rollout
from vpo.policies.address import OwnOptions, PolicyAddress, PolicySettings
from vpo.policies.contract import Policy, PolicyTraits, PolicyUnavailable, rollout_bits
from vpo.policies.mutation import edit_block, mutate_answer
from vpo.policies.prompt_formats import CHAT, TUNED

GENERATOR_ENTRY_POINTS = "evo.generators"
_LOG_UNIFORM = -math.log(256.0)


class ScriptedPolicy(Policy):
    """A Policy whose answers a `generator` writes. See the module's docstring for the ones there are."""

    traits = PolicyTraits(logprobs=True)

    def __init__(
        self,
        name: str,
        generator: Generator | TokenGenerator,
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
        self.prompt_format = generator.prompt_format if isinstance(generator, TokenGenerator) else CHAT
        self._generator = generator
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

    def _group(self, prompt: Prompt, rollouts: int, answers: int, seed: int) -> list[Rollout]:
        prompt_ids, form = _bytes_of(prompt.system + prompt.user), find_asked_format(prompt)
        group = []
        for rollout in range(rollouts):
            bits = rollout if self.prompt_format == TUNED else rollout_bits(seed, prompt.stream, rollout)
            if isinstance(self._generator, TokenGenerator):
                text = self._generator.write(prompt, answers, bits)
            else:
                text = format_answers(self._generator(prompt, form, answers, bits), form)
            token_ids = _bytes_of(text)
            logprobs = np.full(len(token_ids), _LOG_UNIFORM, dtype=np.float32)
            group.append(Rollout(text, token_ids, logprobs, prompt_ids))
        return group


class ScriptedOptions(OwnOptions):
    """latency: seconds that every call sleeps; after: calls that `broken` answers"""

    latency: float = Field(0.0, ge=0.0, le=1e6)
    after: int = Field(0, ge=0)


def load_scripted(address: PolicyAddress, settings: PolicySettings) -> ScriptedPolicy:
    """The policy of `scripted:NAME`. Raises BadAddress on an unknown name, option, or file."""
    options, name = address.own_options(ScriptedOptions), address.model
    generator: Generator | TokenGenerator
    if name.startswith("fixed=") and name != "fixed=":
        generator = _fixed(_read_answers(user_path(name.removeprefix("fixed="))))
    elif name in GENERATORS or name == "broken":
        generator = GENERATORS.get(name, mutate)
    else:
        installed = find_entry_points(GENERATOR_ENTRY_POINTS)
        if name not in installed:
            known = [*GENERATORS, *installed]
            raise BadAddress(
                f"policy {address.plain!r} does not exist; there is {', '.join(known)}, broken, and fixed=FILE"
                + did_you_mean(name, known, most=1)
            )
        generator = load_entry_point(installed[name], f"policy {address.plain!r}")
    return ScriptedPolicy(
        name,
        generator,
        temperature=settings.temperature,
        batch=settings.batch or 64,
        latency=options.latency,
        failing_after=options.after if name == "broken" else None,
    )


def find_asked_format(prompt: Prompt) -> str:
    """Which form the prompt asks for, by marks of vpo.chain.wording: "diff", "route", "text", "tagged" or
    "python"."""
    if "<<<<<<< SEARCH" in prompt.user:
        return "diff"
    if "<route_1>" in prompt.user:
        return "route"
    if "<answer_1>" in prompt.user:
        return "text"
    if "<response_1>" in prompt.user or "its tags included" in prompt.user:
        return "tagged"
    return "python"


def format_answers(answers: Sequence[str], form: str) -> str:
    """A chain of these answers in the form asked for, one that vpo.chain.parse reads back."""
    if form == "diff":
        return answers[0]
    if form == "python":
        return "\n---\n".join([f"```python\n{answer}\n```" for answer in answers])
    if form == "tagged" and len(answers) == 1:
        return answers[0]
    tag = {"route": "route", "tagged": "response"}.get(form, "answer")
    return "\n".join([f"<{tag}_{i}>{answer}</{tag}_{i}>" for i, answer in enumerate(answers, 1)])


def _fixed(answers_in_order: list[str]) -> Generator:
    def generator(prompt: Prompt, form: str, answers: int, bits: int) -> list[str]:
        start = bits % len(answers_in_order) if answers < len(answers_in_order) else 0
        return [answers_in_order[(start + i) % len(answers_in_order)] for i in range(answers)]

    return generator


def _read_answers(file: Path) -> list[str]:
    """JSONL: per line a string or an array of strings. Other files: texts between lines `---`."""
    name = f"policy 'scripted:fixed={file}'"
    try:
        text = file.read_text(encoding="utf-8")
        if file.suffix != ".jsonl":
            answers = [part.strip("\n") for part in re.split(r"(?m)^---[ \t]*$", text) if part.strip()]
        else:
            values = [json.loads(line) for line in text.splitlines() if line.strip()]
            answers = [answer for value in values for answer in (value if isinstance(value, list) else [value])]
    except (OSError, ValueError) as error:
        raise BadAddress(f"{name}: the file cannot be read: {error}") from None
    if not answers or not all(isinstance(answer, str) for answer in answers):
        raise BadAddress(f"{name}: the file holds no answers (in JSONL a string or an array of strings a line)")
    return answers


def _bytes_of(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8).astype(np.int32)


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
    parent = (*prompt.shown, "")[0]
    return [edit_block(parent, parent)] if form == "diff" else [parent] * answers


def mutate(prompt: Prompt, form: str, answers: int, bits: int) -> list[str]:
    """Mutations of the parent (vpo.policies.mutation), different from the other answers shown."""
    parent, *others = prompt.shown or ("",)
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
