"""The contracts between a search and what samples its policy and learns from its groups.

A sampler takes prompts one by one and gives rollouts, in an order that depends only on the order of the calls below.

`evo.search.batching` makes calls of a fixed number of prompts, or one of each prompt where calls may overlap.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from problems.types import NO_USAGE, Prompt, Rollout, ScoredGroup, Usage, prompt_tokens

Job = Callable[[], Awaitable[None]]
"""Something that has the policy to itself, such as a training step."""


class Sampled(NamedTuple):
    """A prompt's G rollouts, the version of the policy that wrote them, and its share of the call's seconds."""

    rollouts: list[Rollout]
    version: str
    seconds: float


class Sampler(Protocol):
    """Samples one policy for one search. All methods are called on the search's event loop.

    meter: what sampling has cost so far
    """

    meter: SamplingMeter

    def submit(self, prompt: Prompt) -> asyncio.Future[Sampled]:
        """Hand in a prompt. The future resolves when its rollouts are back, or raises the policy's error."""
        ...

    def holds(self, future: asyncio.Future[Sampled]) -> bool:
        """Whether this prompt waits for `flush`, because no call that holds it has begun."""
        ...

    def flush(self) -> None:
        """Begin the prompts that wait, however few."""
        ...

    def leaving(self, future: asyncio.Future[Sampled]) -> None:
        """This group, the oldest, leaves the search's window; prompts submitted from now on take its place."""
        ...

    def left(self, futures: Sequence[asyncio.Future[Sampled]]) -> None:
        """These groups have left, and their replacements have been submitted."""
        ...

    def between(self, job: Job) -> None:
        """Run `job` after the calls that are queued now and before those that come later. Its error is raised by
        every later prompt. RuntimeError if sampling is not made of calls."""
        ...

    async def drain(self) -> None:
        """Wait for the queued jobs; raises the error of any."""
        ...

    def pause(self) -> None:
        """Begin nothing until `resume`; running calls continue. Prompts and their batches stay the same."""
        ...

    def resume(self) -> None:
        """Continue after `pause`."""
        ...

    def abandon(self) -> None:
        """Cancel every prompt that the policy has not begun; the others continue."""
        ...

    def give_up(self) -> None:
        """Wait no longer for the prompts that the policy has begun, if it can leave them."""
        ...

    async def close(self) -> None:
        """End; every prompt that is not back is cancelled."""
        ...


@dataclass
class SamplingMeter:
    """The cost of sampling: seconds with at least one running call, calls, rollouts, generated
    tokens, prompt tokens, and the price of both if the policy has one. paid: what servers counted, for groups that
    failed too. rollout_seconds: summed over running rollouts, which gives their average number."""

    busy_seconds: float = 0.0
    calls: int = 0
    rollouts: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    cost: float = 0.0
    paid: Usage = NO_USAGE
    rollout_seconds: float = 0.0
    _active: int = 0
    _since: float = field(default=0.0, repr=False)

    def enter(self) -> None:
        """A call begins."""
        if self._active == 0:
            self._since = time.perf_counter()
        self._active += 1
        self.calls += 1

    def leave(self) -> int:
        """A call has come back; how many are still running."""
        self._active -= 1
        if self._active == 0:
            self.busy_seconds += time.perf_counter() - self._since
        return self._active

    def reset(self) -> None:
        """No call is running now."""
        while self._active:
            self.leave()

    def count(self, group: Sequence[Rollout]) -> None:
        """Add a group that came back."""
        self.rollouts += len(group)
        self.tokens += sum(rollout.tokens for rollout in group)
        self.prompt_tokens += prompt_tokens(group)
        for rollout in group:
            if rollout.usage is not None:
                self.cost += rollout.usage.cost
                self.paid += rollout.usage

    def lose(self, paid: Usage | None) -> None:
        """Add what a server counted for a group that failed."""
        if paid is not None:
            self.paid += paid

    def busy(self) -> float:
        """Seconds busy so far, including the running call."""
        return self.busy_seconds + (time.perf_counter() - self._since if self._active else 0.0)


class SyncFailed(Exception):
    """The sampling policy does not have the weights that it was given. The message has both figures."""


class Learner(Protocol):
    """Receives a search's groups as they are committed.

    learns: whether it has jobs that take turns with sampling, which must then be made of calls
    """

    learns: bool

    def attach(self, sampler: Sampler) -> None:
        """The queue in which training takes its turns with sampling."""
        ...

    def learn(self, groups: Sequence[ScoredGroup]) -> None:
        """Committed groups, in order."""
        ...

    async def restore(self) -> None:
        """Return to the state on the run's record."""
        ...

    async def close(self) -> None:
        """The search has ended, and nothing more is sampled."""
        ...


class FrozenLearner:
    """Learns nothing."""

    learns = False

    def attach(self, sampler: Sampler) -> None: ...
    def learn(self, groups: Sequence[ScoredGroup]) -> None: ...
    async def restore(self) -> None: ...
    async def close(self) -> None: ...
