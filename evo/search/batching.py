"""Collects prompts of many groups into calls that suit a policy.

A policy with `batch` = B is called with exactly B prompts at a time, in the order of submission, so that one seed gives
one sequence of batches whatever the timing; `flush` lets the last, shorter one go. A policy with `batch` = 0 does its
own continuous batching: every prompt is passed on at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from evo.search.sampler import Job, Sampled, SamplingMeter
from problems.types import Prompt
from vpo.policies.contract import GivenUp, Policy, PolicyUnavailable, PromptTooLong


@dataclass
class _Waiting:
    prompt: Prompt
    future: asyncio.Future[Sampled]


class Batcher:
    """A Sampler (evo.search.sampler) that puts single prompts together into calls."""

    def __init__(self, policy: Policy, rollouts: int, answers: int, seed: int, batch: int | None = None):
        self.policy, self.rollouts, self.answers, self.seed = policy, rollouts, answers, seed
        self.batch = policy.batch if batch is None else batch
        self.meter = SamplingMeter()
        self._going = asyncio.Event()
        self._going.set()
        self._waiting: list[_Waiting] = []
        self._held: list[_Waiting] = []
        self._full: asyncio.Queue[list[_Waiting] | Job] = asyncio.Queue()
        self.fault: Exception | None = None
        self._jobs = 0
        self._open, self._idle = asyncio.Event(), asyncio.Event()  # no job is due; no call is running
        self._open.set()
        self._idle.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._worker: asyncio.Task[None] | None = None
        self._outstanding: set[asyncio.Future[Sampled]] = set()
        self._running: list[_Waiting] = []

    def submit(self, prompt: Prompt) -> asyncio.Future[Sampled]:
        """Hand in a prompt; the future resolves when its call is back, or raises the policy's error."""
        item = _Waiting(prompt, asyncio.get_running_loop().create_future())
        self._outstanding.add(item.future)
        item.future.add_done_callback(self._outstanding.discard)
        if self.batch == 0:
            self._spawn([item])
        else:
            self._waiting.append(item)
            if len(self._waiting) == self.batch:
                self.flush()
        return item.future

    def holds(self, future: asyncio.Future[Sampled]) -> bool:
        """Whether this prompt still waits for its batch to fill."""
        return any(item.future is future for item in self._waiting)

    def flush(self) -> None:
        """Call the policy with the prompts that wait, however few."""
        if not self._waiting:
            return
        self._full.put_nowait(self._waiting)
        self._waiting = []
        self._start()

    def leaving(self, future: asyncio.Future[Sampled]) -> None:
        """Nothing: calls do not depend on the search's window."""

    def left(self, futures: Sequence[asyncio.Future[Sampled]]) -> None:
        """Nothing: calls do not depend on the search's window."""

    def _start(self) -> None:
        if self._worker is None:
            self._worker = asyncio.create_task(self._serve())

    def between(self, job: Job) -> None:
        """Run `job` after the calls that are queued now and before those that come later; with a policy that takes
        overlapping calls, when the running ones have come back. Its error is raised by every later prompt."""
        self._jobs += 1
        self._full.put_nowait(job)
        self._start()

    async def drain(self) -> None:
        """Wait for the queued jobs; raises the error of any."""
        while self._jobs:
            await asyncio.sleep(0.005)
        if self.fault is not None:
            raise self.fault

    def pause(self) -> None:
        """Begin no call until `resume`; running calls continue. Prompts and their batches stay the same."""
        self._going.clear()

    def resume(self) -> None:
        self._going.set()

    def abandon(self) -> None:
        """Cancel every prompt that no call has taken yet; running calls continue."""
        items = self._held + self._waiting
        self._held, self._waiting = [], []
        jobs = []
        while not self._full.empty():
            queued = self._full.get_nowait()
            if isinstance(queued, list):
                items += queued
            else:
                jobs.append(queued)
        for job in jobs:  # jobs stay: committed groups are still learned from
            self._full.put_nowait(job)
        for item in items:
            item.future.cancel()

    def give_up(self) -> None:
        """Wait no longer for the calls that are running, if the policy can leave them."""
        for item in list(self._running):
            self.policy.give_up(item.prompt)

    def _spawn(self, items: list[_Waiting]) -> None:
        task = asyncio.create_task(self._begin(items))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self) -> None:
        while True:
            queued = await self._full.get()
            if not isinstance(queued, list):
                await self._do(queued)
                continue
            self._held = queued
            await self._going.wait()
            items, self._held = self._held, []
            if items:
                await self._call(items)

    async def _do(self, job: Job) -> None:
        """Run a job while no call is running. After a fault nothing more is learned."""
        self._open.clear()
        try:
            await self._idle.wait()
            if self.fault is None:
                await job()
        except Exception as error:
            self.fault = error
        finally:
            self._open.set()
            self._jobs -= 1

    async def _begin(self, items: list[_Waiting]) -> None:
        if not self._going.is_set():
            self._held += items
            await self._going.wait()
            self._held = [item for item in self._held if item not in items]
        await self._open.wait()
        if not items[0].future.cancelled():
            await self._call(items)

    async def _call(self, items: list[_Waiting]) -> None:
        version, started = self.policy.version, time.perf_counter()
        self.meter.enter()
        self._idle.clear()
        rows = len(items) * self.rollouts
        self._running += items
        try:
            if self.fault is not None:
                raise self.fault
            groups = await self.policy.sample(
                [item.prompt for item in items], rollouts=self.rollouts, answers=self.answers, seed=self.seed
            )
            if len(groups) != len(items) or any(len(group) != self.rollouts for group in groups):
                raise RuntimeError(
                    f"policy {version} broke its contract: {len(items)} prompts x {self.rollouts} rollouts requested, "
                    f"{[len(group) for group in groups]} came back"
                )
        except BaseException as error:
            if isinstance(error, PromptTooLong) and len(items) > 1:
                for item in items:  # the others of the call are not at fault
                    await self._call([item])
                return
            if isinstance(error, PolicyUnavailable | PromptTooLong):
                self.meter.lose(error.paid)
            for item in items:
                if isinstance(error, GivenUp):
                    item.future.cancel()
                elif not item.future.done():
                    item.future.set_exception(error)
                    item.future.exception()  # several wait on one failure: only the first need look at it
            if not isinstance(error, Exception):
                raise
            return
        finally:
            self._running = [item for item in self._running if item not in items]
            self.meter.rollout_seconds += (time.perf_counter() - started) * rows
            if not self.meter.leave():
                self._idle.set()
        seconds = time.perf_counter() - started
        for item, group in zip(items, groups, strict=True):
            self.meter.count(group)
            if not item.future.done():
                item.future.set_result(Sampled(group, version, seconds / len(items)))

    async def close(self) -> None:
        """Stop serving; cancel what waits."""
        self.abandon()
        tasks = [*self._tasks, *([self._worker] if self._worker else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for future in list(self._outstanding):  # of calls that were cancelled before they began
            future.cancel()
        self._worker = None
