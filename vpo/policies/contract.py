"""The contract of a policy: prompts in, prompt groups of rollouts out.

What every implementation must keep (evo.testing.PolicyContract is the suite that runs on all of them, and that a third
party can run on its own):
- `sample` returns one list per prompt, each of exactly `rollouts` Rollouts, in order.
- A rollout depends on (weights, prompt, sampling settings, seed, prompt.stream, its place in the group) and on nothing
  else; batches may differ by floating-point noise only.
- A rollout has at most as many tokens as the policy allows.
- Log-probabilities are those of the distribution the token was drawn from: after temperature and truncation.
- A backend that is gone raises PolicyUnavailable with the reason; retries are bounded and inside the policy.
"""

from __future__ import annotations

import asyncio
import hashlib
import struct
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from problems.types import Prompt, Rollout

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

ResultT = TypeVar("ResultT")


class PolicyUnavailable(Exception):
    """The backend cannot answer (gone, refused, out of memory). The message says what to do."""


class PromptTooLong(ValueError):
    """A prompt leaves no room for an answer in the model's context; the message gives both lengths."""


class Price(NamedTuple):
    """Of a million tokens: of the prompt, of the completion, of the part of a prompt that a server had cached."""

    prompt: float
    completion: float
    cached: float

    def cost(self, prompt: int, completion: int, cached: int = 0) -> float:
        """The price of these numbers of tokens. cached: those of the prompt that the server had cached"""
        return (self.prompt * (prompt - cached) + self.cached * cached + self.completion * completion) / 1e6


@dataclass(frozen=True)
class PolicyTraits:
    """What a policy can do in addition to sampling. The defaults suit one without a model.

    logprobs: whether rollouts carry token ids and log-probabilities; without them it can search, not train
    weights: what TrainablePolicy.update takes: the whole model's, those of a LoRA adapter, or none
    temperature: of sampling, as its model recommends it; None without a recommendation
    room: tokens that suit a rollout if the user sets no limit, because its model writes more than its answers; 0 where
        only the answers decide
    slots: rollouts that its engine decodes at once; 0 where that is unknown
    price: of its tokens; None where they cost nothing or it is unknown
    remote: whether a server answers: replies may be empty, may take long, and `sample` may be cancelled
    """

    logprobs: bool = False
    weights: Literal["none", "model", "adapter"] = "none"
    temperature: float | None = None
    room: int = 0
    slots: int = 0
    price: Price | None = None
    remote: bool = False


@runtime_checkable
class Policy(Protocol):
    """A source of rollouts. Subclass it for the defaults.

    version: names the weights that answer now; changes when they do
    prompt_format: how it is asked, a name of vpo.policies.prompt_formats or of an installed package
    temperature, top_p: of sampling
    max_tokens: the most tokens one rollout may have; None where the policy chooses
    batch: prompts per call that suit it; 0 where calls may overlap freely (a server)
    traits: what it can do
    """

    version: str
    prompt_format: str
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int | None = None
    batch: int = 0
    traits: PolicyTraits = PolicyTraits()

    async def sample(
        self, prompts: Sequence[Prompt], *, rollouts: int, answers: int, seed: int
    ) -> list[list[Rollout]]: ...

    async def close(self) -> None:
        """Free what it holds. Safe to call twice."""
        return


@runtime_checkable
class TrainablePolicy(Policy, Protocol):
    """A policy whose weights can be replaced while it serves: one that a co-located trainer may train.

    In a policy with a `batch` everything below takes its turn between two calls of `sample`. The callers of another
    policy see to it that no call is in progress.

    tokenizer: of its model
    context: the most tokens of a prompt and its answer
    """

    tokenizer: PreTrainedTokenizerBase
    context: int

    def encode(self, prompt: Prompt) -> npt.NDArray[np.int32]:
        """The prompt's token ids (P,), as the model is conditioned on them."""

    def learner(self) -> PreTrainedModel:
        """A separate model with the weights that this policy was loaded with, for a trainer to keep and to change."""

    async def between(self, work: Callable[[], ResultT]) -> ResultT:
        """Run `work` where sampling runs."""

    async def update(self, weights: Mapping[str, torch.Tensor] | Path, version: str) -> None:
        """Sample from these weights from now on, under this version: a state_dict of the whole model, or by
        traits.weights the directory of a LoRA adapter as peft writes it, which is not needed afterwards.

        Raises ValueError if they do not fit the model, PolicyUnavailable if no server, or one that answers, takes
        them; the old ones then stay.
        """

    async def logprobs(self, rollouts: Sequence[Rollout]) -> list[npt.NDArray[np.float32]]:
        """(T,) nats for each rollout's tokens after its prompt, at the policy's temperature, by what samples."""


class CallWatch(Protocol):
    """Hears how far a call of `sample` is, on the event loop of its caller."""

    def on_tokens(self, tokens: int) -> None:
        """This many tokens are drawn; called from any thread."""

    def on_group(self, prompt: int, rollouts: list[Rollout]) -> None:
        """The prompt of this number has all its rollouts; called before `sample` returns, in any order."""


@runtime_checkable
class LocalPolicy(TrainablePolicy, Protocol):
    """A trainable policy whose model is in this process, so that a trainer can train it in place.

    stops: the tokens that end its rollouts
    """

    stops: frozenset[int]

    def open_model(self) -> PreTrainedModel:
        """The causal language model of transformers that samples from now on, for a trainer to change in place."""

    async def sample(
        self, prompts: Sequence[Prompt], *, rollouts: int, answers: int, seed: int, watch: CallWatch | None = None
    ) -> list[list[Rollout]]:
        """As Policy.sample. watch: hears of tokens, and of each prompt as soon as it is answered"""


def rollout_bits(seed: int, *place: int, size: int = 64) -> int:
    """`size` random bytes of a place (a prompt's stream, a rollout) as a number: a hash costs a tenth of a numpy
    generator."""
    packed = struct.pack(f"<{1 + len(place)}q", *(number & (1 << 63) - 1 for number in (seed, *place)))
    return int.from_bytes(hashlib.blake2b(packed, digest_size=size).digest(), "little")


async def gather_or_cancel(work: Sequence[Coroutine[Any, Any, ResultT]]) -> list[ResultT]:
    """All results in order; the first exception cancels the others and is raised as it is."""
    tasks = [asyncio.create_task(coroutine) for coroutine in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
