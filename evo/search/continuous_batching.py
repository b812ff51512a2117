"""Prompts of a search handed to a policy that samples in rounds: a batch that is refilled while it decodes.

The engine begins the next round by itself, without waiting for the event loop, and yet one seed gives one sequence of
batches whatever the timing. Time is therefore counted in rounds. A group that ended in round n may have its score and
its place in the population `LAG` rounds later; the proposals that this made room for join round n + 1 + LAG and no
earlier, and the engine waits before that round only if they are not there yet. Scoring and storing thus have LAG
rounds of time while the engine continues.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from evo.search.batching import Batcher
from evo.search.sampler import Job, Sampled, Sampler, SamplingMeter
from problems.types import Prompt, Rollout
from vpo.policies.contract import Policy, Streaming

LAG = 2
"""Rounds that scoring and storing may take before the engine waits for them."""


@dataclass(eq=False)
class _Asked:
    """number: in order of submission; cause: the round whose end made room for it; ended: the round it ended in"""

    number: int
    prompt: Prompt
    future: asyncio.Future[Sampled]
    cause: int
    ended: int | None = None
    seconds: float = 0.0


class ContinuousBatcher:
    """A Sampler (evo.search.sampler) for one search.

    The first round begins with `flush`. `leaving` names the group that leaves before its replacement is submitted;
    `left` reports that this is done.
    """

    batch = 0

    def __init__(self, policy: Policy, rollouts: int, answers: int, seed: int, strict: bool = True) -> None:
        """strict: groups leave in the order in which they were submitted; else the engine waits for none of them.
        Raises ValueError if the policy cannot sample in rounds."""
        self._strict = strict
        self.policy, self.rollouts, self.answers, self.seed = policy, rollouts, answers, seed
        self.meter = SamplingMeter()
        self.fault: Exception | None = None
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._numbered: dict[asyncio.Future[Sampled], _Asked] = {}
        self._order: deque[_Asked] = deque()  # not landed
        self._waiting: deque[_Asked] = deque()  # not taken by the engine
        self._under_way: dict[int, _Asked] = {}
        self._count = 0
        self._cause = -1 - LAG  # what nothing had to end for may join round 0
        self._begun = self._paused = self._closed = False
        self._asleep = True
        stream = policy.stream(
            rollouts=rollouts, answers=answers, seed=seed, take=self._take, deliver=self._deliver
        ) if isinstance(policy, Streaming) else None  # fmt: skip
        if stream is None:
            raise ValueError(f"{policy.version} does not sample in rounds")
        self._stream = stream

    # -- by the search, on the event loop

    def submit(self, prompt: Prompt) -> asyncio.Future[Sampled]:
        """Hand in a prompt; the future resolves when its group has ended, or raises the policy's error."""
        item = _Asked(self._count, prompt, self._loop.create_future(), self._cause)
        self._count += 1
        with self._lock:
            self._numbered[item.future] = item
            self._order.append(item)
            self._waiting.append(item)
        if not self._strict:
            self._wake()
        return item.future

    def holds(self, future: asyncio.Future[Sampled]) -> bool:
        """Whether this prompt waits for the first round to begin."""
        return not self._begun

    def flush(self) -> None:
        self._begun = True
        self._wake()

    def leaving(self, future: asyncio.Future[Sampled]) -> None:
        """This group leaves the window: the next submitted one takes its place."""
        ended = self._numbered[future].ended
        if ended is not None and self._strict:
            self._cause = max(self._cause, ended)

    def left(self, futures: Sequence[asyncio.Future[Sampled]]) -> None:
        """These groups, the oldest, have left the window, and what takes their place has been submitted."""
        with self._lock:
            for future in futures:
                self._order.remove(self._numbered.pop(future))
        self._wake()

    def between(self, job: Job) -> None:
        raise RuntimeError("a policy that learns is sampled in batches")

    async def drain(self) -> None:
        """Nothing is queued here but prompts."""

    def pause(self) -> None:
        """Begin no round until `resume`. Which prompts share which round stays the same."""
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._wake()

    def abandon(self) -> None:
        """Cancel every prompt that the engine has not taken; those in flight continue."""
        with self._lock:
            items, self._waiting = list(self._waiting), deque()
        for item in items:
            item.future.cancel()

    def give_up(self) -> None:
        """Nothing: an engine ends its rounds."""

    async def close(self) -> None:
        """End at the next step; cancel every prompt that is not back."""
        self.abandon()
        with self._lock:
            self._closed = True
            items, self._under_way = list(self._under_way.values()), {}
            self.meter.reset()
        self._stream.close()
        for item in items:
            item.future.cancel()

    def _wake(self) -> None:
        with self._lock:
            if not self._asleep or not self._begun or self._paused or self._closed:
                return
            self._asleep = False
        self._stream.wake()

    # -- by the engine, in its thread

    def _take(self, number: int) -> list[tuple[int, Prompt]] | None:
        upto = number - 1 - LAG
        with self._lock:
            oldest = self._order[0] if self._order else None
            late = oldest is not None and oldest.ended is not None and oldest.ended <= upto
            if not self._strict:
                late = not self._waiting and not self._under_way
            if self._closed or self._paused or oldest is None or late:
                self._asleep = True
                return None
            due = []
            while self._waiting and self._waiting[0].cause <= upto:
                item = self._waiting.popleft()
                self._under_way[item.number] = item
                due.append((item.number, item.prompt))
            if self._under_way:
                self.meter.enter()
            return due

    def _deliver(self, number: int, outcomes: list[tuple[int, list[Rollout] | Exception]]) -> None:
        version = self.policy.version
        with self._lock:
            if self._closed:
                return
            share = self.meter.end_round(len(self._under_way), self.rollouts)
            for item in self._under_way.values():
                item.seconds += share
            back = [(self._under_way.pop(which), outcome) for which, outcome in outcomes]
            for item, outcome in back:
                item.ended = number
                if not isinstance(outcome, Exception):
                    self.meter.count(outcome)
        if back:
            self._loop.call_soon_threadsafe(_resolve, back, version)


def _resolve(back: Sequence[tuple[_Asked, list[Rollout] | Exception]], version: str) -> None:
    for item, outcome in back:
        if item.future.done():
            continue
        if isinstance(outcome, Exception):
            item.future.set_exception(outcome)
            item.future.exception()  # several may fail alike: only the first need be looked at
        else:
            item.future.set_result(Sampled(outcome, version, item.seconds))


def sampler_for(
    policy: Policy, rollouts: int, answers: int, seed: int, batch: int, alone: bool, strict: bool = True
) -> Sampler:
    """The sampler that suits the policy: rounds if they are faster and nothing else affects their order, else calls.

    batch: prompts per call
    alone: no other policy proposes and none learns; this batcher then decides the order of groups
    strict: see ContinuousBatcher
    """
    if alone and isinstance(policy, Streaming) and policy.streams:
        return ContinuousBatcher(policy, rollouts, answers, seed, strict)
    return Batcher(policy, rollouts, answers, seed, batch if policy.batch else 0)
