"""The iterations in flight, sampled and scored, and the order in which they leave: strict or loose (`--lag`).

Strict: the oldest leaves first, and the proposal a window behind it takes its place. A proposal's view is then the same
    whatever the timing, and one seed gives one run. A paid reply is not held back for long all the same: an iteration
    whose reply takes much longer than any before it is set aside. The others leave, and it leaves when it is back, as
    the newest.

Loose, with an asynchronous window of L: an iteration leaves when it is back. A slow rollout or a long evaluation delays
    the others only once those proposed after it are L ahead. A proposal's view depends on the timing, so the run is not
    reproducible from its seed.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Iterator

from evo.search.iteration import Iteration, score_group
from evo.search.operators import Operators
from evo.search.sampler import Sampled, Sampler
from evo.search.schedule import WindowSize
from problems.types import NO_USAGE, ScoredGroup, Usage
from vpo.policies.address import parse_address
from vpo.policies.contract import PolicyUnavailable, PromptTooLong, Waits


class Window:
    """The iterations of a search that are in flight, and the samplers of its operators. Used on one event loop.

    Of several operators one that does not respond is left alone for a while, and another answers its prompt. A prompt
    that does not fit its model is made shorter.
    """

    def __init__(self, size: WindowSize, operators: Operators, seed: int) -> None:
        self.size, self.operators, self.seed = size, operators, seed
        self.samplers: list[Sampler] = []
        self._flying: list[Iteration] = []
        self._since = 0.0  # when the oldest became the oldest

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
        return self._oldest is None or upcoming < self._oldest.sequence + self.size.groups

    def submit(self, iteration: Iteration) -> None:
        """Hand the prompt to its policy's sampler, and score the rollouts when they are back."""
        iteration.sampled = self.samplers[iteration.operator].submit(iteration.prompt)
        iteration.group = asyncio.create_task(self._complete(iteration))
        iteration.problem_run.uncommitted.add(iteration.number)
        if self._oldest is None:
            self._since = time.monotonic()
        self._flying.append(iteration)

    def ready(self) -> Iteration | None:
        """The iteration that leaves next, if it is back."""
        if self.size.async_window:
            for iteration in self:
                if iteration.group.cancelled():  # by an interrupt; those that the policy began are still to come
                    self.pop(iteration)
        return next((iteration for iteration in self._leaving() if iteration.group.done()), None)

    def pop(self, iteration: Iteration) -> None:
        """Remove an iteration that leaves."""
        iteration.problem_run.uncommitted.discard(iteration.number)
        self._flying.remove(iteration)
        if not iteration.late:
            self._since = time.monotonic()

    async def wait(self, seconds: float) -> bool:
        """Begin the calls that will not fill up further, and wait until an iteration may be ready, or there may be
        room; False if that took longer."""
        waiting: list[asyncio.Future[ScoredGroup] | asyncio.Future[Sampled]] = [one.group for one in self._leaving()]
        asked = [iteration for iteration in self._flying if not iteration.is_sampled]
        if self.size.async_window:
            waiting += [iteration.sampled for iteration in asked]
            if all(self._is_held(iteration) for iteration in asked):  # else a call will come back and make room
                for sampler in self.samplers:
                    sampler.flush()
        elif self._oldest is not None and self._is_held(self._oldest):
            self.samplers[self._oldest.operator].flush()
        return bool((await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED))[0])

    def set_aside(self, longest: float) -> None:
        """Let the others leave before the oldest if its reply has taken more seconds than this, and a paid one
        waits."""
        oldest = self._oldest
        if self.size.async_window or oldest is None or time.monotonic() - self._since < longest:
            return
        if not oldest.group.done() and any(one.is_paid for one in self._flying if not one.late):
            oldest.late = True
            self._since = time.monotonic()

    @property
    def _oldest(self) -> Iteration | None:
        return next((iteration for iteration in self._flying if not iteration.late), None)

    def _leaving(self) -> list[Iteration]:
        """Those of which the first to be back leaves next: all, or the oldest and those set aside before it."""
        if self.size.async_window:
            return self._flying
        oldest = self._oldest
        return [iteration for iteration in self._flying if iteration.late or iteration is oldest]

    def _is_held(self, iteration: Iteration) -> bool:
        return self.samplers[iteration.operator].holds(iteration.sampled)

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
                self._leave_alone(number, error)
            sampler = self.samplers[iteration.operator]
            iteration.sampled = sampler.submit(iteration.prompt)
            if sampler.holds(iteration.sampled):
                sampler.flush()  # no other prompt may come that fills its call

    def _leave_alone(self, number: int, error: PolicyUnavailable) -> None:
        pause = self.operators.backoff.rest(number)
        if pause is not None:
            address = parse_address(self.operators[number].address).plain
            text = f"{address} is not responding ({error}). Continuing with the others; retrying in {pause:g} s"
            warnings.warn(text, stacklevel=2)

    def abandon(self) -> None:
        """Drop the prompts that no policy has begun with."""
        for sampler in self.samplers:
            sampler.abandon()

    def give_up(self) -> None:
        """Wait no longer for the replies of servers."""
        for sampler in self.samplers:
            sampler.give_up()

    async def close(self) -> None:
        """End; what is not back is cancelled."""
        for iteration in self:
            iteration.group.cancel()
        await asyncio.gather(*(iteration.group for iteration in self), return_exceptions=True)
        for sampler in self.samplers:
            await sampler.close()

    def waits(self) -> list[Waits]:
        """What the policies on servers wait for."""
        waits = (operator.policy.waits() for operator in self.operators.all)
        return [one for one in waits if one is not None]

    def busy_seconds(self) -> float:
        """Seconds that policies sampled, summed over them."""
        return sum(sampler.meter.busy() for sampler in self.samplers)

    def paid(self) -> Usage:
        """What servers have counted, also for what failed."""
        return sum((sampler.meter.paid for sampler in self.samplers), NO_USAGE)
