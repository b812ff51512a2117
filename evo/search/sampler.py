"""Puts the prompts of many iterations together into calls that suit a policy.

A policy with `batch` = B is called with exactly B prompts at a time, in the order of submission, so that one seed gives
one sequence of batches whatever the timing; `flush` lets the last, shorter one go. With `batch` = 0 calls may overlap:
every prompt is passed on at once. A policy whose model is in this process gives each prompt back as soon as it is
answered, before its call returns.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from problems.types import Prompt, Rollout, prompt_tokens
from vpo.policies.contract import LocalPolicy, Policy, PromptTooLong

Job = Callable[[], Awaitable[None]]
"""Something that has the policy to itself, such as a training step."""


class Sampled(NamedTuple):
    """A prompt's G rollouts, the version of the policy that wrote them, and its share of the call's seconds."""

    rollouts: list[Rollout]
    version: str
    seconds: float


@dataclass(eq=False)
class _Request:
    prompt: Prompt
    future: asyncio.Future[Sampled]


class Sampler:
    """Samples one policy, for one search or evaluation. All methods are called on its event loop.

    Calls and jobs take turns in the order in which they were made. A call of a policy with a batch keeps its turn until
    it is back; overlapping calls only wait for theirs.

    whole_calls: whether all prompts of a call are given back together, so that what is done after a group does not
        depend on the others' timing
    meter: what sampling has cost so far
    fault: of a job; every later prompt raises it
    """

    def __init__(self, policy: Policy, rollouts: int, answers: int, seed: int, batch: int | None = None):
        self.policy, self.rollouts, self.answers, self.seed = policy, rollouts, answers, seed
        self.batch = policy.batch if batch is None else batch
        self._local = policy if isinstance(policy, LocalPolicy) else None  # looked up once: a protocol's check is slow
        self.whole_calls = False
        self.meter = SamplingMeter()
        self._calls: set[_Call] = set()  # that are running
        self._busy_since = 0.0
        self.fault: Exception | None = None
        self._filling: list[_Request] = []  # the next call, until it is full or flushed
        self._waiting: set[_Request] = set()  # that no call has begun with
        self._open: set[asyncio.Future[Sampled]] = set()  # of every prompt that is not back
        self._turn = asyncio.Lock()  # first come, first served
        self._idle = asyncio.Event()  # no call is running
        self._idle.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._jobs: set[asyncio.Task[None]] = set()

    @property
    def drawing(self) -> int:
        """Tokens drawn for prompts that are not back, by a model in this process."""
        return sum(max(0, call.drawn - call.returned) for call in self._calls)

    @property
    def busy_seconds(self) -> float:
        """Seconds with at least one running call, up to now."""
        return self.meter.busy_seconds + (time.perf_counter() - self._busy_since if self._calls else 0.0)

    @property
    def may_take_long(self) -> bool:
        """Whether a server, or a model of this process, answers."""
        return self.policy.traits.remote or self._local is not None

    def submit(self, prompt: Prompt) -> asyncio.Future[Sampled]:
        """Hand in a prompt; the future resolves when its call is back, or raises the policy's error."""
        request = _Request(prompt, asyncio.get_running_loop().create_future())
        self._open.add(request.future)
        request.future.add_done_callback(self._open.discard)
        self._waiting.add(request)
        self._filling.append(request)
        if len(self._filling) >= self.batch:
            self.flush()
        return request.future

    def holds(self, future: asyncio.Future[Sampled]) -> bool:
        """Whether this prompt still waits for its call to fill up."""
        return any(request.future is future for request in self._filling)

    def flush(self) -> None:
        """Call the policy with the prompts that wait, however few."""
        if self._filling:
            _spawn(self._call_in_turn(self._filling), self._tasks)
            self._filling = []

    def between(self, job: Job) -> None:
        """Run `job` after the calls that are queued now and before those that come later; with a policy that takes
        overlapping calls, when the running ones have come back. Its error is raised by every later prompt."""
        _spawn(self._do(job), self._jobs)

    async def drain(self) -> None:
        """Wait for the queued jobs; raises the error of any."""
        while self._jobs:
            await asyncio.wait(self._jobs)
        if self.fault is not None:
            raise self.fault

    def abandon(self) -> None:
        """Cancel every prompt that no call has begun with; running calls continue, and so do jobs: committed groups are
        still learned from."""
        waiting, self._waiting, self._filling = self._waiting, set(), []
        for request in waiting:
            request.future.cancel()

    async def close(self) -> None:
        """Stop; every prompt that is not back is cancelled."""
        await cancel_all([*self._tasks, *self._jobs])
        for future in list(self._open):
            future.cancel()

    async def _do(self, job: Job) -> None:
        """Run a job while no call is running. After a fault nothing more is learned."""
        async with self._turn:
            await self._idle.wait()
            try:
                if self.fault is None:
                    await job()
            except Exception as error:
                self.fault = error

    async def _call_in_turn(self, requests: list[_Request]) -> None:
        async with self._turn:
            if self._waiting.isdisjoint(requests):
                return  # abandoned
            self._waiting.difference_update(requests)
            self._idle.clear()
            if self.batch:
                await self._call(requests)
        if not self.batch:
            await self._call(requests)

    async def _call(self, requests: list[_Request]) -> None:
        version, started = self.policy.version, time.perf_counter()
        if not self._calls:
            self._busy_since = started
        call = _Call(requests, version, self, set(range(len(requests))), started)
        self._calls.add(call)
        try:
            groups = await self._sample(requests, call)
        except PromptTooLong as error:
            if len(requests) == 1:
                self._fail(requests, error)
            else:  # the others of the call are not at fault
                for request in requests:
                    await self._call([request])
            return
        except BaseException as error:
            self._fail(requests, error)
            if not isinstance(error, Exception):
                raise
            return
        finally:
            self._calls.discard(call)
            if not self._calls:
                self.meter.busy_seconds += time.perf_counter() - self._busy_since
                self._idle.set()
        self.meter.longest = max(self.meter.longest, time.perf_counter() - started)
        call.give_back(dict(enumerate(groups)))

    async def _sample(self, requests: Sequence[_Request], call: _Call) -> list[list[Rollout]]:
        if self.fault is not None:
            raise self.fault
        prompts = [request.prompt for request in requests]
        rollouts, answers, seed = self.rollouts, self.answers, self.seed
        if self._local is not None:
            groups = await self._local.sample(prompts, rollouts=rollouts, answers=answers, seed=seed, watch=call)
        else:
            groups = await self.policy.sample(prompts, rollouts=rollouts, answers=answers, seed=seed)
        if len(groups) != len(requests) or any(len(group) != self.rollouts for group in groups):
            raise RuntimeError(
                f"policy {self.policy.version} broke its contract: {len(requests)} prompts x {self.rollouts} rollouts "
                f"requested, {[len(group) for group in groups]} came back"
            )
        return groups

    def _fail(self, requests: Sequence[_Request], error: BaseException) -> None:
        for request in requests:
            if not request.future.done():
                request.future.set_exception(error)
                request.future.exception()  # several wait on one failure: only the first need look at it


@dataclass(eq=False)
class _Call:
    """A running call: its prompts are given back as they are answered, each with the seconds since the one
    before, so that the seconds of all are those of the call.

    version: of the policy; left: numbers of the prompts that are not back; since: when the last one came back
    drawn: tokens so far; returned: those of the prompts that are back
    """

    requests: Sequence[_Request]
    version: str
    sampler: Sampler
    left: set[int]
    since: float
    drawn: int = 0
    returned: int = 0

    def on_tokens(self, tokens: int) -> None:
        self.drawn = tokens

    def on_group(self, prompt: int, rollouts: list[Rollout]) -> None:
        if not self.sampler.whole_calls:
            self.give_back({prompt: rollouts})

    def give_back(self, groups: Mapping[int, list[Rollout]]) -> None:
        """Those of them that are not back yet. groups: rollouts by the number of their prompt"""
        now, meter = time.perf_counter(), self.sampler.meter
        answered = [prompt for prompt in groups if prompt in self.left]
        for prompt in answered:
            group, future = groups[prompt], self.requests[prompt].future
            self.left.remove(prompt)
            tokens = sum(rollout.tokens for rollout in group)
            self.returned += tokens
            meter.rollouts += len(group)
            meter.tokens += tokens
            meter.prompt_tokens += prompt_tokens(group)
            meter.cost += sum(rollout.usage.cost for rollout in group if rollout.usage is not None)
            if not future.done():
                future.set_result(Sampled(group, self.version, (now - self.since) / len(answered)))
        if answered:
            self.since = now


async def cancel_all(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel these tasks, and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _spawn(work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)


@dataclass
class SamplingMeter:
    """The cost of sampling: seconds with at least one call, of those that are back; rollouts, generated tokens, prompt
    tokens, and the price of both if the policy has one. longest: seconds of the longest call"""

    busy_seconds: float = 0.0
    rollouts: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    cost: float = 0.0
    longest: float = 0.0
