"""The search loop: policies answer the core's proposals, with a sliding window of iterations in flight.

Sampling, parsing and scoring of different iterations overlap as they like, but the core (evo.search.core) sees one
strict order: group h is committed, then group h + window is proposed, then group h + 1 is committed. Each proposal
therefore depends on exactly the groups up to `window` before it, whatever the timing, and one seed gives one run. A
resumed run replays the stored groups to the same point and continues alike. `--lag` gives that order up (`Window`):
groups are then committed as they come back, and numbered as they are committed.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evo.errors import SearchFailed, database_lost
from evo.search.core import Operators, SearchCore
from evo.search.problem_run import Iteration, ProblemRun, WindowSize, score_group
from evo.search.sampler import Sampled, Sampler, cancel_all
from evo.search.stop import FINISHED, INTERRUPT, Stop, StopReason
from islands.errors import DatabaseUnavailable, RunBusy
from problems.contract import ScorerFault
from problems.scoring import Scorer
from problems.types import ScoredGroup
from vpo.policies.address import parse_address
from vpo.policies.contract import PolicyUnavailable, PromptTooLong
from vpo.training import TrainingStopped

_WAITING_SECONDS = 5.0
"""Seconds without a commit after which a search reports how many iterations are sampled and wait for the oldest."""
_PLACE_SECONDS = 0.5
"""Seconds without a commit after which a search looks whether its database is still there, before more is asked."""
_LEAST_GRACE, _MOST_GRACE, _MODEL_GRACE, _UNKNOWN_GRACE = 1.0, 60.0, 5.0, 8.0
"""Seconds for which an interrupted search waits for the replies of its policies: as long as the longest call so far
took, between the first two, or the first and the third if no server answers; the fourth if none has come back yet."""
_GATHERING_SECONDS = 0.2
"""Seconds for which a group that is back waits at most for others to share its transaction, while answers wait for a
worker of the scorer: what is proposed meanwhile would only wait behind them."""
_GROUPS_PER_TRANSACTION = 32
"""Groups that are ready together share a transaction, up to this many; a group is never split."""


class SyncFailed(Exception):
    """The sampling policy does not have the weights that it was given. The message has both figures."""


class Learner:
    """Receives a search's groups as they are committed. This one learns nothing: subclass it."""

    def attach(self, sampler: Sampler) -> None:
        """The queue in which training takes its turns with sampling."""

    def learn(self, groups: Sequence[ScoredGroup]) -> None:
        """Committed groups, in order."""

    async def restore(self) -> None:
        """Return to the state on the run's record."""

    async def close(self) -> None:
        """The search has ended, and nothing more is sampled."""


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
    """The iterations of a search that are in flight, sampled and scored, the samplers of its operators, and the order
    in which iterations leave: strict or loose (`--lag`). Used on one event loop.

    Strict: the oldest leaves first, and the proposal a window behind it takes its place. A proposal's view is then the
        same whatever the timing, and one seed gives one run.
    Loose, with an asynchronous window of L: an iteration leaves when it is back. A slow rollout or a long evaluation
        delays the others only once those proposed after it are L ahead. A proposal's view depends on the timing, so the
        run is not reproducible from its seed.

    Of several operators one that does not respond is left alone for a while, and another answers its prompt. A prompt
    that does not fit its model is made shorter.

    flying: the iterations in flight, oldest first
    in_row: whether a stop that drops an iteration drops those behind it too, so that a resume makes the same run; what
        servers charged for is kept
    """

    def __init__(self, size: WindowSize, operators: Operators, seed: int) -> None:
        self.size, self.operators, self.seed = size, operators, seed
        self.samplers = [
            Sampler(one.policy, one.rollouts, one.answers, seed, size.batch if one.policy.batch else 0)
            for one in operators.all
        ]
        self.in_row = not (size.async_window or any(each.policy.traits.remote for each in operators.all))
        self.flying: list[Iteration] = []
        self._gap = False  # an iteration was dropped

    def has_room(self, upcoming: int) -> bool:
        """Whether the next proposal, of this sequence, may be made. Strict: it is less than a window behind the oldest.
        Loose: `groups` may be sampled at once, and `async_window` more wait for anything else; ProblemRun.has_turn
        limits how far a problem runs ahead of its oldest."""
        if len(self.flying) >= self.size.groups + self.size.async_window:
            return False
        if self.size.async_window:
            return sum(not iteration.sampled.done() for iteration in self.flying) < self.size.groups
        return not self.flying or upcoming < self.flying[0].sequence + self.size.groups

    def submit(self, iteration: Iteration) -> None:
        """Hand the prompt to its policy's sampler, and score the rollouts when they are back."""
        iteration.sampled = self.samplers[iteration.operator].submit(iteration.prompt)
        iteration.group = asyncio.create_task(self._complete(iteration))
        iteration.problem_run.uncommitted.add(iteration.number)
        self.flying.append(iteration)

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
        self.flying.remove(iteration)
        if isinstance(leaving, LostIteration) and self.in_row:
            self._gap = True
            for behind in self.flying:
                behind.group.cancel()

    async def wait(self, seconds: float) -> bool:
        """Begin the calls that will not fill up further, and wait until an iteration may be ready, or there may be
        room; False if that took longer."""
        waiting: list[asyncio.Future[ScoredGroup] | asyncio.Future[Sampled]] = [one.group for one in self._leaving()]
        asked = self.flying[:1]
        if self.size.async_window:
            asked = [iteration for iteration in self.flying if not iteration.sampled.done()]
            waiting += [iteration.sampled for iteration in asked]
        # else a call will come back and make room
        if all(self.samplers[iteration.operator].holds(iteration.sampled) for iteration in asked):
            for number in sorted({iteration.operator for iteration in asked}):
                self.samplers[number].flush()
        return bool((await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED))[0])

    async def gather(self, queued: int, seconds: float) -> None:
        """Wait, no longer than that, until up to half of the iterations in flight may leave together. queued: answers
        that wait to be scored, so that no worker of the scorer is idle meanwhile"""
        first = self.flying[: min(queued + 1, (len(self.flying) + 1) // 2)]
        if waiting := [one.group for one in first if one.sampled.done() and not one.group.done()]:
            await asyncio.wait(waiting[-1:], timeout=seconds)

    def _leaving(self) -> list[Iteration]:
        """Those of which the first to be back leaves next."""
        return self.flying if self.size.async_window else self.flying[:1]

    async def _complete(self, iteration: Iteration) -> ScoredGroup:
        failed: dict[int, PolicyUnavailable] = {}
        while True:
            number = iteration.operator
            operator = self.operators.all[number]
            try:
                group = await score_group(iteration, operator, self.seed)
                self.operators.resting.pop(number, None)
                return group
            except PromptTooLong:
                if operator.policy.batch or not iteration.shorten():
                    raise
            except PolicyUnavailable as error:
                failed[number] = error
                others = [other for other in range(len(self.operators.all)) if other not in failed]
                if not others:
                    raise next(iter(failed.values())) from None
                iteration.write_prompt(min(others, key=self.operators.is_resting))
                if (pause := self.operators.rest(number)) is not None:
                    address = parse_address(operator.address).plain
                    text = f"{address} is not responding ({error}). Continuing with the others; retrying in {pause:g} s"
                    warnings.warn(text, stacklevel=2)
            sampler = self.samplers[iteration.operator]
            iteration.sampled = sampler.submit(iteration.prompt)
            if sampler.holds(iteration.sampled):
                sampler.flush()  # no other prompt may come that fills its call

    def asked(self) -> list[Iteration]:
        """Those that servers and models of this process have not answered yet."""
        return [one for one in self.flying if not one.sampled.done() and self.samplers[one.operator].may_take_long]

    async def close(self) -> None:
        """End; what is not back is cancelled."""
        await cancel_all([iteration.group for iteration in self.flying])
        for sampler in self.samplers:
            await sampler.close()

    @property
    def drawing(self) -> int:
        """Tokens that models of this process have drawn for prompts that are not answered yet."""
        return sum(sampler.drawing for sampler in self.samplers)


class SearchLoop:
    """Takes the problems of a core to the end of their iterations or of a budget. Built by evo.runs.start; used once.

    on_commit: called with every committed group
    """

    def __init__(self, core: SearchCore, learner: Learner, scorer: Scorer) -> None:
        self.core, self.learner, self.scorer = core, learner, scorer
        self.window = Window(core.size, core.operators, core.config.seed)
        self.on_commit: Callable[[ScoredGroup], None] | None = None
        self._running = False
        self._ending: asyncio.Task[None] | None = None
        self._fault: PolicyUnavailable | None = None
        self._dropped = 0  # iterations of which a policy had answered, or a server was answering

    async def run(self) -> Stop:
        """Run to the end; returns why it ended. Raises SearchFailed on a dead policy or database."""
        core, window, self._running = self.core, self.window, True
        try:
            self.learner.attach(window.samplers[0])
            core.replay(self._ask)
            with core.store.begin() as transaction:
                core.write_metrics(transaction, self.scorer.queued)
            while self._ask_while_there_is_room():
                await self._wait()  # while the window samples and scores
                if window.ready() is not None:
                    await window.gather(self.scorer.queued, _GATHERING_SECONDS)
                    self._tell_ready()
            if self._fault is not None:
                raise SearchFailed(f"the policy {core.config.policy} cannot answer: {self._fault}") from self._fault
            for sampler in window.samplers:
                await sampler.drain()
            await self.learner.close()
        except (TrainingStopped, SyncFailed) as error:
            raise SearchFailed(f"training during the search: {error}") from error
        except (DatabaseUnavailable, RunBusy) as error:
            raise database_lost(error) from error
        finally:
            if self._ending is not None:
                self._ending.cancel()
            await window.close()
            core.status.active.pause()
            if self._dropped:
                dropped = self._dropped * core.config.rollouts * core.config.answers
                text = f"{dropped:,} answers in flight were dropped; evo resume makes them again"
                warnings.warn(text, stacklevel=2)
        return core.stopped or FINISHED

    def _ask(self) -> bool:
        """Propose the next iteration and have it sampled; False if there is none."""
        iteration = self.core.ask()
        if iteration is not None:
            self.window.submit(iteration)
        return iteration is not None

    def _ask_while_there_is_room(self) -> bool:
        """Fill the window; whether anything is in flight."""
        while self.window.has_room(self.core.upcoming) and self._ask():
            pass
        return bool(self.window.flying)

    def _tell_ready(self) -> None:
        """Commit the groups whose turn it is and that are back, together, each followed by the proposal it makes room
        for. Nothing is proposed to the policy, reported or learned from before the transaction is committed."""
        core, window = self.core, self.window
        committed: list[tuple[ProblemRun, ScoredGroup]] = []
        started = time.perf_counter()
        with core.store.begin() as transaction:
            while len(committed) < _GROUPS_PER_TRANSACTION and (leaving := window.ready()) is not None:
                if isinstance(leaving, FailedIteration) and committed:
                    break  # groups before the fault are kept
                window.pop(leaving)
                problem_run = leaving.iteration.problem_run
                match leaving:
                    case ReadyIteration(_, group) if not problem_run.failed:
                        group, _ = core.tell(problem_run, group, transaction)
                        committed.append((problem_run, group))
                    case ReadyIteration():
                        pass  # after a fault of its scorer nothing of a problem counts
                    case LostIteration(_, answered):
                        self._dropped += answered
                    case FailedIteration(_, PromptTooLong() as fault):
                        problem_run.fail(str(fault), core.store, transaction, StopReason.TOO_LONG)
                    case FailedIteration(_, ScorerFault() as fault):
                        problem_run.fail(str(fault), core.store, transaction)
                    case FailedIteration(_, PolicyUnavailable() as fault):
                        self._fault = self._fault or fault
                        self.interrupt(INTERRUPT)
                    case FailedIteration(_, fault):
                        raise fault
                self._ask_while_there_is_room()
            core.write_metrics(transaction, self.scorer.queued)
        core.status.commit_seconds += time.perf_counter() - started
        core.status.policy_seconds = sum(sampler.busy_seconds for sampler in window.samplers)
        for problem_run, group in committed:
            core.release(problem_run, group)
            if self.on_commit is not None:
                self.on_commit(group)
        if core.stopped is not None and core.stopped.reason is StopReason.UNANSWERED and self._ending is None:
            self.interrupt(core.stopped)
        if committed:
            self.learner.learn([group for _, group in committed])

    async def _wait(self) -> None:
        """Until an iteration may leave."""
        core, limit, waited = self.core, self.core.config.max_seconds, 0.0
        while True:
            timed = limit is not None and core.stopped is None
            left = max(0.05, limit - core.status.active.seconds) if limit is not None and timed else _PLACE_SECONDS
            seconds = min(left, _PLACE_SECONDS, _WAITING_SECONDS)
            if await self.window.wait(seconds):
                return
            core.store.check_place()
            if limit is not None and timed and core.status.active.seconds >= limit:
                self.interrupt(Stop(StopReason.BUDGET, f"budget of {limit:g} seconds", "seconds"))
            waited += seconds
            if waited >= _WAITING_SECONDS:
                waited = 0.0
                self._report_waiting()

    def _report_waiting(self) -> None:
        """While the oldest iteration in flight keeps the others waiting, put on record how many are sampled already."""
        core, flying = self.core, self.window.flying
        core.status.policy_seconds = sum(sampler.busy_seconds for sampler in self.window.samplers)
        ahead = sum(iteration.sampled.done() for iteration in flying)
        with core.store.begin() as transaction:
            core.status.drawing = self.window.drawing
            core.write_metrics(transaction, self.scorer.queued, in_flight=len(flying), sampled_ahead=ahead)
            core.status.drawing = 0

    def interrupt(self, stop: Stop) -> None:
        """Propose no more, drop the prompts that the policy has not begun with, and wait for its replies no longer than
        one takes. What is back by then is committed in order."""
        self.core.stop(stop)
        if self._ending is None and self._running:
            self._ending = asyncio.create_task(self._give_up())
        for sampler in self.window.samplers:
            sampler.abandon()

    async def _give_up(self) -> None:
        """Drop the iterations that servers, or models of this process, have not answered in time."""
        if not (waiting := len(self.window.asked())):
            return
        most = _MOST_GRACE if any(sampler.policy.traits.remote for sampler in self.window.samplers) else _MODEL_GRACE
        longest = max(sampler.meter.longest for sampler in self.window.samplers)
        grace = min(most, max(_LEAST_GRACE, longest or _UNKNOWN_GRACE))
        if grace > _LEAST_GRACE:
            written = f" ({drawing:,} tokens are written)" if (drawing := self.window.drawing) else ""
            iterations = f"{waiting} iteration{'s' * (waiting != 1)} in flight"
            warnings.warn(f"waiting for {iterations}{written}, at most {grace:.0f} s more", stacklevel=2)
        await asyncio.sleep(grace)
        for iteration in self.window.asked():
            self._dropped += iteration.group.cancel()
