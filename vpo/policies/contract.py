"""The contract of a policy: prompts in, prompt groups of rollouts out.

What every implementation must keep (evo.testing.PolicyContract is the suite that runs on all of them, and that a third
party can run on its own):
- `sample` returns one list per prompt, each of exactly `rollouts` Rollouts, in order.
- A rollout depends on (weights, prompt, sampling settings, seed, prompt.stream, its place in the group) and on nothing
  else; batches may differ by floating-point noise only.
- A rollout has at most as many tokens as the policy and its prompt allow; where prompts of one call differ in that, the
  largest may hold for all.
- Log-probabilities are those of the distribution the token was drawn from: after temperature and truncation.
- A backend that is gone raises PolicyUnavailable with the reason; retries are bounded and inside the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from problems.types import Prompt, Rollout, Usage

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

T = TypeVar("T")


class PolicyUnavailable(Exception):
    """The backend cannot answer (gone, refused, out of memory). The message says what to do.

    paid: what a server counted for attempts that gave nothing usable
    """

    paid: Usage | None = None


class GivenUp(PolicyUnavailable):
    """The caller stopped waiting (GivesUp.give_up) before anything was answered."""


class PromptTooLong(ValueError):
    """A prompt leaves no room for an answer in the model's context; the message gives both lengths. paid: as for
    PolicyUnavailable"""

    paid: Usage | None = None


@runtime_checkable
class Policy(Protocol):
    """A source of rollouts.

    version: names the weights that answer now; changes when they do
    prompt_format: how it is asked, a name of vpo.policies.prompt_formats or of an installed package
    temperature: of sampling
    max_tokens: the most tokens one rollout may have; None where the policy chooses
    batch: prompts per call that suit it; 0 where calls may overlap freely (a continuous-batching engine)
    has_logprobs: False where the backend gives none (it can search, not train)
    continues: False where it cannot begin a rollout with Prompt.prefill
    """

    version: str
    prompt_format: str
    temperature: float
    max_tokens: int | None
    batch: int
    has_logprobs: bool
    continues: bool

    async def sample(
        self, prompts: Sequence[Prompt], *, rollouts: int, answers: int, seed: int
    ) -> list[list[Rollout]]: ...

    async def close(self) -> None:
        """Free what it holds. Safe to call twice."""
        ...


@runtime_checkable
class TrainablePolicy(Policy, Protocol):
    """A policy whose weights can be replaced while it serves: one that a co-located trainer may train.

    In a policy with a `batch` everything below takes its turn between two calls of `sample`.

    tokenizer: of its model
    top_p: of sampling
    context: the most tokens of a prompt and its answer
    """

    tokenizer: PreTrainedTokenizerBase
    top_p: float
    context: int

    def encode(self, prompt: Prompt) -> npt.NDArray[np.int32]:
        """The prompt's token ids (P,), as the model is conditioned on them."""
        ...

    def learner(self) -> PreTrainedModel:
        """A model of its own with the weights that this policy was loaded with, for a trainer to keep and to change."""
        ...

    async def between(self, work: Callable[[], T]) -> T:
        """Run `work` where sampling runs, after the call under way; nothing is sampled meanwhile."""
        ...

    async def update(self, weights: Mapping[str, torch.Tensor], version: str) -> None:
        """Sample from these weights (a state_dict of the whole model) from now on, under this version.

        Raises ValueError where they do not fit the model; the old ones then stay.
        """
        ...

    async def logprobs(self, rollouts: Sequence[Rollout]) -> list[npt.NDArray[np.float32]]:
        """(T,) nats for each rollout's tokens after its prompt, by the engine that samples, at its temperature."""
        ...


@runtime_checkable
class LocalPolicy(TrainablePolicy, Protocol):
    """A trainable policy whose model is in this process, so that a trainer can train it in place.

    model: a causal language model of transformers
    """

    model: PreTrainedModel


@runtime_checkable
class RecommendsTemperature(Protocol):
    """A policy whose model says at which temperature it is best sampled; None where it does not."""

    own_temperature: float | None


@runtime_checkable
class ChoosesLimit(Protocol):
    """A policy that chooses the limit of a rollout if the user sets none, because its model may reason before it
    answers."""

    def choose_limit(self, needed: int) -> None:
        """Set `max_tokens`. needed: tokens that the answers of a rollout may take"""
        ...

    def room_for(self, needed: int) -> int:
        """Tokens of a reply of `needed` tokens, with its reasoning if the model reasons."""
        ...


@runtime_checkable
class SharedEngines(Protocol):
    """A policy whose engines may serve others too.

    takes_weights: whether `update` may replace their weights
    """

    takes_weights: bool


@runtime_checkable
class RunningTransfer(Protocol):
    """A policy whose engine can take new weights while it runs.

    transfers: whether it does; set to False, the engine is built again for every update
    """

    transfers: bool


@runtime_checkable
class ParallelDecoding(Protocol):
    """A policy whose engine decodes many rollouts at once.

    slots: how many
    """

    slots: int


@runtime_checkable
class TakesAdapters(Protocol):
    """A trainable policy that takes the weights of a LoRA adapter only."""

    async def update_adapter(self, save: Callable[[Path], None], version: str) -> None:
        """Sample with this adapter from now on, under this version. save: writes it into a directory, as peft does.

        Raises PolicyUnavailable where no server, or one that answers, takes it; the adapter before then stays.
        """
        ...


@runtime_checkable
class SeveralEngines(Protocol):
    """A trainable policy with several engines or servers."""

    async def logprobs_of_each(self, rollouts: Sequence[Rollout]) -> list[list[npt.NDArray[np.float32]]]:
        """TrainablePolicy.logprobs by every engine that answers."""
        ...


@runtime_checkable
class OnServers(Protocol):
    """A policy on servers that may come and go."""

    def servers(self) -> list[dict[str, object]]:
        """One row a server for a display: url, in, load (rollouts in progress), answered, lost (times). [] for one."""
        ...


@runtime_checkable
class Priced(Protocol):
    """A policy whose tokens cost."""

    def cost_of(self, prompt_tokens: int, completion_tokens: int) -> float:
        """The price of so many tokens."""
        ...


@dataclass(frozen=True)
class Waits:
    """What a policy on servers waits for.

    replies: requests that a server is answering; oldest: seconds since the first of them was sent
    retries: requests that wait for their next attempt; pause: seconds for which a server asked to be left alone
    longest: seconds of the longest reply so far
    """

    replies: int = 0
    oldest: float = 0.0
    retries: int = 0
    pause: float = 0.0
    longest: float = 0.0

    def __str__(self) -> str:
        parts = []
        if self.replies:
            parts.append(f"{self.replies} {'reply' if self.replies == 1 else 'replies'} (for {self.oldest:.0f} s)")
        if self.retries:
            parts.append(f"{self.retries} {'retry' if self.retries == 1 else 'retries'}")
        if self.pause >= 1:
            parts.append(f"a server that asked to be left alone for {self.pause:.0f} s")
        return " and ".join(parts)


@runtime_checkable
class GivesUp(Protocol):
    """A policy whose requests may take long, and may be given up."""

    def waits(self) -> Waits:
        """What it waits for now."""
        ...

    def give_up(self, prompt: Prompt) -> None:
        """Wait no longer for this prompt, an object that `sample` was given. `sample` gives the rollouts that are
        there, and the others with a fault; it raises GivenUp if there are none."""
        ...


class Stream(Protocol):
    """A sampling in rounds under way (see Streaming). Asleep until woken."""

    def wake(self) -> None:
        """Go on with the next round; to be called once for every time that the taker returned None."""
        ...

    def close(self) -> None:
        """End at the next step; nothing is delivered any more."""
        ...


@runtime_checkable
class Streaming(Protocol):
    """A policy that takes up new prompts while others go on, at rounds that the caller decides: where that decision
    does not depend on timing, one seed gives one sequence of batches.

    streams: whether that is faster than calls with this model on this machine
    """

    streams: bool

    def stream(
        self,
        *,
        rollouts: int,
        answers: int,
        seed: int,
        take: Callable[[int], Sequence[tuple[int, Prompt]] | None],
        deliver: Callable[[int, list[tuple[int, list[Rollout] | Exception]]], None],
    ) -> Stream | None:
        """Sample in rounds of some steps; None where this model cannot.

        take: before a round, by its number from 0: the prompts that join, numbered by the caller; None to sleep
        deliver: after it, by its number: the groups that ended in it, or what went wrong with them
        Both are called in the policy's own thread, never at the same time.
        """
        ...
