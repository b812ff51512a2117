"""The iterations in flight, sampled and scored, and the order in which they leave: strict or loose (`--lag`).

Strict: the oldest leaves first, and the proposal a window behind it takes its place. A proposal's view is then the same
    whatever the timing, and one seed gives one run.

Loose, with an asynchronous window of L: an iteration leaves when it is back. A slow rollout or a long evaluation delays
    the others only once those proposed after it are L ahead. A proposal's view depends on the timing, so the run is not
    reproducible from its seed.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from evo.search.iteration import Iteration, score_group
from evo.search.operators import Operators
from evo.search.problem_run import WindowSize
from evo.search.sampler import Sampled, Sampler, cancel_all
from problems.types import ScoredGroup
from vpo.policies.address import parse_address
from vpo.policies.contract import PolicyUnavailable, PromptTooLong


@dataclass(frozen=True)
class ReadyIteration:
    """An iteration that is back with its scored group."""

    iteration: Iteration
    group: ScoredGroup


@dataclass(frozen=True)
class FailedIteration:
    """An iteration whose policy, scorer or prompt failed."""

    iteration: Iteration
    fault: BaseException


@dataclass(frozen=True)
class LostIteration:
    """An iteration that was dropped, or is of no use behind one that was. answered: whether its answers are lost with
    it"""

    iteration: Iteration
    answered: bool


Leaving = ReadyIteration | FailedIteration | LostIteration


class Window:
    """The iterations of a search that are in flight, and the samplers of its operators. Used on one event loop.

    Of several operators one that does not respond is left alone for a while, and another answers its prompt. A prompt
    that does not fit its model is made shorter.

    in_row: whether a stop that drops an iteration drops those behind it too, so that a resume makes the same run; what
        servers charged for is kept
    """

    def __init__(self, size: WindowSize, operators: Operators, seed: int) -> None:
        self.size, self.operators, self.seed = size, operators, seed
        self.samplers: list[Sampler] = []
        self.in_row = not (size.async_window or any(each.policy.traits.remote for each in operators.all))
        self._flying: list[Iteration] = []
        self._gap = False  # an iteration was dropped

    def __iter__(self) -> Iterator[Iteration]:
        return iter(list(self._flying))

    def __len__(self) -> int:
        return len(self._flying)

    def open(self) -> None:
        """Begin to sample, on the search's event loop."""
        self.samplers = [
            Sampler(
                operator.policy, operator.rollouts, operator.answers, self.seed,
                self.size.batch if operator.policy.batch else 0,
            )
            for operator in self.operators.all
        ]  # fmt: skip

    def has_room(self, upcoming: int) -> bool:
        """Whether the next proposal, of this sequence, may be made. Strict: it is less than a window behind the oldest.
        Loose: `groups` may be sampled at once, and `async_window` more wait for anything else; ProblemRun.has_turn
        limits how far a problem runs ahead of its oldest."""
        if len(self) >= self.size.groups + self.size.async_window:
            return False
        if self.size.async_window:
            return sum(not iteration.is_sampled for iteration in self._flying) < self.size.groups
        return not self._flying or upcoming < self._flying[0].sequence + self.size.groups

    def submit(self, iteration: Iteration) -> None:
        """Hand the prompt to its policy's sampler, and score the rollouts when they are back."""
        iteration.sampled = self.samplers[iteration.operator].submit(iteration.prompt)
        iteration.group = asyncio.create_task(self._complete(iteration))
        iteration.problem_run.uncommitted.add(iteration.number)
        self._flying.append(iteration)

    def ready(self) -> Leaving | None:
        """What leaves next, if it is back or was dropped by an interrupt. It stays until `pop`."""
        iteration = next((iteration for iteration in self._leaving() if iteration.group.done()), None)
        if iteration is None:
            return None
        if iteration.group.cancelled():
            return LostIteration(iteration, answered=False)
        if (fault := iteration.group.exception()) is not None:
            return FailedIteration(iteration, fault)
        if self._gap:
            return LostIteration(iteration, answered=True)
        return ReadyIteration(iteration, iteration.group.result())

    def pop(self, leaving: Leaving) -> None:
        """Let it leave. Behind one that is lost go those that are of no use without it."""
        iteration = leaving.iteration
        iteration.problem_run.uncommitted.discard(iteration.number)
        self._flying.remove(iteration)
        if isinstance(leaving, LostIteration) and self.in_row:
            self._gap = True
            for behind in self:
                behind.group.cancel()

    async def wait(self, seconds: float) -> bool:
        """Begin the calls that will not fill up further, and wait until an iteration may be ready, or there may be
        room; False if that took longer."""
        waiting: list[asyncio.Future[ScoredGroup] | asyncio.Future[Sampled]] = [one.group for one in self._leaving()]
        asked = [iteration for iteration in self._flying if not iteration.is_sampled]
        if self.size.async_window:
            waiting += [iteration.sampled for iteration in asked]
            if all(map(self._is_held, asked)):  # else a call will come back and make room
                for sampler in self.samplers:
                    sampler.flush()
        elif self._is_held(self._flying[0]):
            self.samplers[self._flying[0].operator].flush()
        return bool((await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED))[0])

    def _is_held(self, iteration: Iteration) -> bool:
        return self.samplers[iteration.operator].holds(iteration.sampled)

    async def gather(self, queued: int, seconds: float) -> None:
        """Wait, no longer than that, until up to half of the iterations in flight may leave together. queued: answers
        that wait to be scored, so that no worker of the scorer is idle meanwhile"""
        first = self._flying[: min(queued + 1, (len(self) + 1) // 2)]
        if waiting := [one.group for one in first if one.is_sampled and not one.group.done()]:
            await asyncio.wait(waiting[-1:], timeout=seconds)

    def _leaving(self) -> list[Iteration]:
        """Those of which the first to be back leaves next."""
        return self._flying if self.size.async_window else self._flying[:1]

    async def _complete(self, iteration: Iteration) -> ScoredGroup:
        failed: dict[int, PolicyUnavailable] = {}
        while True:
            number = iteration.operator
            operator = self.operators[number]
            try:
                group = await score_group(iteration, operator, self.seed)
                self.operators.backoff.responded(number)
                return group
            except PromptTooLong:
                if operator.policy.batch or not iteration.shorten():
                    raise
            except PolicyUnavailable as error:
                failed[number] = error
                others = [other for other in range(len(self.operators)) if other not in failed]
                if not others:
                    raise next(iter(failed.values())) from None
                iteration.put_to(min(others, key=self.operators.backoff.is_resting))
                if (pause := self.operators.backoff.rest(number)) is not None:
                    address = parse_address(operator.address).plain
                    text = f"{address} is not responding ({error}). Continuing with the others; retrying in {pause:g} s"
                    warnings.warn(text, stacklevel=2)
            sampler = self.samplers[iteration.operator]
            iteration.sampled = sampler.submit(iteration.prompt)
            if sampler.holds(iteration.sampled):
                sampler.flush()  # no other prompt may come that fills its call

    def abandon(self) -> None:
        """Drop the prompts that no policy has begun with."""
        for sampler in self.samplers:
            sampler.abandon()

    def asked(self) -> list[Iteration]:
        """Those that servers and models of this process have not answered yet."""
        return [one for one in self if not one.is_sampled and self.samplers[one.operator].may_take_long]

    async def close(self) -> None:
        """End; what is not back is cancelled."""
        await cancel_all([iteration.group for iteration in self])
        for sampler in self.samplers:
            await sampler.close()

    @property
    def longest(self) -> float:
        """Seconds of the longest call so far."""
        return max(sampler.meter.longest for sampler in self.samplers)

    @property
    def drawing(self) -> int:
        """Tokens that models of this process have drawn for prompts that are not answered yet."""
        return sum(sampler.drawing for sampler in self.samplers)

    def busy_seconds(self) -> float:
        """Seconds that policies sampled, summed over them."""
        return sum(sampler.meter.busy() for sampler in self.samplers)
