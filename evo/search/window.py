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
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator

from evo.search.iteration import Iteration, score_group
from evo.search.operators import Operators
from evo.search.sampler import Sampler
from evo.search.schedule import WindowSize
from problems.types import NO_USAGE, ScoredGroup, Usage
from vpo.policies.address import parse_address
from vpo.policies.contract import PolicyUnavailable, PromptTooLong, Waits


class Window(ABC):
    """The iterations of a search that are in flight, and the samplers of its operators. Used on one event loop.

    Of several operators one that does not respond is left alone for a while, and another answers its prompt. A prompt
    that does not fit its model is made shorter.
    """

    def __init__(self, size: WindowSize, operators: Operators, seed: int) -> None:
        self.size, self.operators, self.seed = size, operators, seed
        self.samplers: list[Sampler] = []

    @abstractmethod
    def __iter__(self) -> Iterator[Iteration]: ...

    @abstractmethod
    def has_room(self, upcoming: int) -> bool:
        """Whether the next proposal, of this sequence, may be made."""

    @abstractmethod
    def ready(self) -> Iteration | None:
        """The iteration that leaves next, if it is back."""

    @abstractmethod
    async def wait(self, seconds: float) -> bool:
        """Begin the calls that will not fill up further, and wait until an iteration may be ready, or there may be
        room; False if that took longer."""

    @abstractmethod
    def _add(self, iteration: Iteration) -> None: ...

    @abstractmethod
    def _remove(self, iteration: Iteration) -> None: ...

    def set_aside(self, longest: float) -> None:
        """Let the others leave before one whose reply has taken more seconds than this, if any paid one waits."""
        return

    def open(self) -> None:
        """Begin to sample, on the search's event loop."""
        self.samplers = [
            Sampler(
                operator.policy, operator.rollouts, operator.answers, self.seed,
                self.size.batch if operator.policy.batch else 0,
            )
            for operator in self.operators.all
        ]  # fmt: skip

    def submit(self, iteration: Iteration) -> None:
        """Hand the prompt to its policy's sampler, and score the rollouts when they are back."""
        iteration.sampled = self.samplers[iteration.operator].submit(iteration.prompt)
        iteration.group = asyncio.create_task(self._complete(iteration))
        iteration.problem_run.uncommitted.add(iteration.number)
        self._add(iteration)

    def pop(self, iteration: Iteration) -> None:
        """Remove an iteration that leaves."""
        iteration.problem_run.uncommitted.discard(iteration.number)
        self._remove(iteration)

    async def _complete(self, iteration: Iteration) -> ScoredGroup:
        failed: dict[int, PolicyUnavailable] = {}
        while True:
            number = iteration.operator
            operator = self.operators[number]
            try:
                group = await score_group(
                    iteration, answers=operator.answers, seed=self.seed, temperature=operator.policy.temperature
                )
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

    def pause(self) -> None:
        for sampler in self.samplers:
            sampler.pause()

    def resume(self) -> None:
        for sampler in self.samplers:
            sampler.resume()

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


class StrictWindow(Window):
    """Sequence h leaves, then h + window is proposed, then h + 1 leaves."""

    def __init__(self, size: WindowSize, operators: Operators, seed: int) -> None:
        super().__init__(size, operators, seed)
        self._flying: deque[Iteration] = deque()
        self._late: list[Iteration] = []
        self._since = 0.0  # when the oldest became the oldest

    def __iter__(self) -> Iterator[Iteration]:
        return iter([*self._late, *self._flying])

    def has_room(self, upcoming: int) -> bool:
        """The next sequence is less than a window behind the oldest in flight."""
        if len(self._late) + len(self._flying) >= self.size.groups:
            return False
        return not self._flying or upcoming < self._flying[0].sequence + self.size.groups

    def _add(self, iteration: Iteration) -> None:
        if not self._flying:
            self._since = time.monotonic()
        self._flying.append(iteration)

    def _remove(self, iteration: Iteration) -> None:
        if iteration.late:
            self._late.remove(iteration)
            return
        assert self._flying.popleft() is iteration
        self._since = time.monotonic()

    def _leaving(self) -> list[Iteration]:
        return [*self._late, *([self._flying[0]] if self._flying else [])]

    def ready(self) -> Iteration | None:
        return next((iteration for iteration in self._leaving() if iteration.group.done()), None)

    async def wait(self, seconds: float) -> bool:
        if self._flying and (sampler := self.samplers[self._flying[0].operator]).holds(self._flying[0].sampled):
            sampler.flush()
        groups = [iteration.group for iteration in self._leaving()]
        return bool((await asyncio.wait(groups, timeout=seconds, return_when=asyncio.FIRST_COMPLETED))[0])

    def set_aside(self, longest: float) -> None:
        if len(self._flying) < 2 or time.monotonic() - self._since < longest:
            return
        if not self._flying[0].group.done() and any(iteration.is_paid for iteration in self._flying):
            late = self._flying.popleft()
            late.late = True
            self._late.append(late)
            self._since = time.monotonic()


class LooseWindow(Window):
    """Iterations leave as they come back. At most `size.groups` are being sampled, and `size.async_window` more wait
    for anything else. ProblemRun.has_turn limits how far a problem runs ahead of its oldest iteration in flight."""

    def __init__(self, size: WindowSize, operators: Operators, seed: int) -> None:
        super().__init__(size, operators, seed)
        self._flying: dict[Iteration, None] = {}
        self._back: deque[Iteration] = deque()
        self._changed = asyncio.Event()

    def __iter__(self) -> Iterator[Iteration]:
        return iter(list(self._flying))

    def has_room(self, upcoming: int) -> bool:
        if len(self._flying) >= self.size.groups + self.size.async_window:
            return False
        return sum(not iteration.is_sampled for iteration in self._flying) < self.size.groups

    def _add(self, iteration: Iteration) -> None:
        self._flying[iteration] = None
        iteration.sampled.add_done_callback(lambda _: self._changed.set())
        iteration.group.add_done_callback(lambda _: self._comes_back(iteration))

    def _comes_back(self, iteration: Iteration) -> None:
        self._back.append(iteration)
        self._changed.set()

    def _remove(self, iteration: Iteration) -> None:
        self._back.remove(iteration)
        del self._flying[iteration]

    def ready(self) -> Iteration | None:
        while self._back and self._back[0].group.cancelled():
            self.pop(self._back[0])  # dropped by an interrupt; iterations that the policy began are still to come
        return self._back[0] if self._back else None

    async def wait(self, seconds: float) -> bool:
        asked = [iteration for iteration in self._flying if not iteration.is_sampled]
        if all(self.samplers[iteration.operator].holds(iteration.sampled) for iteration in asked):
            for sampler in self.samplers:  # no call has begun, so none would come back
                sampler.flush()
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return False
        self._changed.clear()
        return True


def open_window(size: WindowSize, operators: Operators, seed: int) -> Window:
    """The window of a search: loose with an asynchronous window, else strict."""
    return (LooseWindow if size.async_window else StrictWindow)(size, operators, seed)
