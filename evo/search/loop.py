"""The search loop: policies answer the core's proposals, with a sliding window of iterations in flight.

Sampling, parsing and scoring of different iterations overlap as they like, but the core (evo.search.core) sees one
strict order: group h is committed, then group h + window is proposed, then group h + 1 is committed. Each proposal
therefore depends on exactly the groups up to `window` before it, whatever the timing, and one seed gives one run. A
resumed run replays the stored groups to the same point and continues alike. `--lag` gives that order up
(evo/search/window.py): groups are then committed as they come back, and numbered as they are committed.
"""

from __future__ import annotations

import asyncio
import math
import time
import warnings
from collections.abc import Callable, Sequence

from evo.errors import SearchFailed
from evo.search.core import SearchCore
from evo.search.iteration import Iteration
from evo.search.problem_run import ProblemRun
from evo.search.sampler import Sampler
from evo.search.stop import FINISHED, INTERRUPTED, Stop, StopReason
from evo.search.window import Window
from islands.errors import DatabaseUnavailable, RunBusy
from islands.store import Transaction
from problems.contract import ScorerFault
from problems.scoring import Scorer
from problems.types import ScoredGroup, Usage
from vpo.policies.contract import PolicyUnavailable, PromptTooLong
from vpo.training import TrainingDiverged

WAITING_SECONDS = 5.0
"""Seconds without a commit after which a search reports how many iterations are sampled and wait for the oldest."""
LEAST_GRACE, MOST_GRACE, BUDGET_GRACE = 8.0, 60.0, 1.0
"""Seconds for which an interrupted search waits for replies: as long as the longest so far took, between the first two;
at the end of a budget of time at least the third."""
SLOW_SECONDS, SLOW_TIMES = 60.0, 3.0
"""A reply that takes longer than the first, and than the second times any before it, no longer holds others back."""
GROUPS_PER_TRANSACTION = 32
"""Groups that are ready together share a transaction, up to this many; a group is never split."""


class SyncFailed(Exception):
    """The sampling policy does not have the weights that it was given. The message has both figures."""


class Learner:
    """Receives a search's groups as they are committed. This one learns nothing: subclass it.

    learns: whether it has jobs that take turns with sampling
    """

    learns = False

    def attach(self, sampler: Sampler) -> None:
        """The queue in which training takes its turns with sampling."""

    def learn(self, groups: Sequence[ScoredGroup]) -> None:
        """Committed groups, in order."""

    async def restore(self) -> None:
        """Return to the state on the run's record."""

    async def close(self) -> None:
        """The search has ended, and nothing more is sampled."""


class SearchLoop:
    """Takes the problems of a core to the end of their iterations or of a budget. Built by evo.runs.start; used once.

    on_commit: called with every committed group
    """

    def __init__(self, core: SearchCore, learner: Learner, scorer: Scorer) -> None:
        self.core, self.learner, self.scorer = core, learner, scorer
        self.window = Window(core.size, core.operators, core.config.seed)
        core.in_flight = lambda: self.window
        self.on_commit: Callable[[ScoredGroup], None] | None = None
        self._ending: asyncio.Task[None] | None = None

    async def run(self) -> Stop:
        """Run to the end; returns why it ended. Raises SearchFailed on a dead policy or database."""
        core, window = self.core, self.window
        window.open()
        try:
            self.learner.attach(window.samplers[0])
            core.replay(self._ask)
            with core.store.begin() as transaction:
                core.write_metrics(transaction, self.scorer.queued)
            while self._ask_while_there_is_room():
                await self._wait()  # while the window samples and scores
                ready = window.ready()
                if ready is not None and ready.group.cancelled():
                    break  # dropped by an interrupt, as is everything behind it
                if ready is not None:
                    self._tell_ready()
            await self._salvage()
            for sampler in window.samplers:
                await sampler.drain()
            await self.learner.close()
        except (TrainingDiverged, SyncFailed) as error:
            raise SearchFailed(f"training during the search: {error}") from error
        except PolicyUnavailable as error:
            await self._salvage()
            raise SearchFailed(f"the policy {core.config.policy} cannot answer: {error}") from error
        except (DatabaseUnavailable, RunBusy) as error:
            raise SearchFailed(f"the database can no longer be written: {error}") from error
        finally:
            if self._ending is not None:
                self._ending.cancel()
            await window.close()
            self._count_losses()
            core.status.active.pause()
        return core.stopped or FINISHED

    def _ask(self) -> bool:
        """Propose the next iteration and have it sampled; False if there is none."""
        iteration = self.core.ask()
        if iteration is not None:
            self.window.submit(iteration)
        return iteration is not None

    def _ask_while_there_is_room(self) -> bool:
        """Fill the window; whether anything is in flight."""
        while self.window.has_room(self.core.schedule.upcoming) and self._ask():
            pass
        return len(self.window) > 0

    def _tell_ready(self) -> None:
        """Commit the groups whose turn it is and that are back, together, each followed by the proposal it makes room
        for. Nothing is proposed to the policy, reported or learned from before the transaction is committed."""
        core, window = self.core, self.window
        committed: list[tuple[ProblemRun, ScoredGroup]] = []
        started = time.perf_counter()
        with core.store.begin() as transaction:
            while len(committed) < GROUPS_PER_TRANSACTION and (iteration := window.ready()) is not None:
                if iteration.group.cancelled():
                    break
                fault = iteration.group.exception()
                if fault is not None and committed:
                    break  # groups before the fault are kept
                window.pop(iteration)
                problem_run = iteration.problem_run
                if isinstance(fault, PromptTooLong | ScorerFault):
                    reason = StopReason.TOO_LONG if isinstance(fault, PromptTooLong) else StopReason.FAILED
                    problem_run.fail(str(fault), core.store, transaction, reason)
                elif fault is not None:
                    raise fault
                elif not problem_run.failed:  # after a fault of its scorer nothing of a problem counts
                    committed.append(self._tell(iteration, transaction))
                self._ask_while_there_is_room()
            core.write_metrics_if_due(transaction, self.scorer.queued)
        core.status.commit_seconds += time.perf_counter() - started
        self._release(committed)
        if core.stopped is not None and core.stopped.reason is StopReason.UNANSWERED and self._ending is None:
            self.interrupt(core.stopped)
        if committed:
            self.learner.learn([group for _, group in committed])

    def _tell(self, iteration: Iteration, transaction: Transaction) -> tuple[ProblemRun, ScoredGroup]:
        problem_run = iteration.problem_run
        group, _ = self.core.tell(problem_run, iteration.group.result(), transaction, late=iteration.late)
        return problem_run, group

    def _release(self, committed: Sequence[tuple[ProblemRun, ScoredGroup]]) -> None:
        self.core.status.policy_seconds = self.window.busy_seconds()
        for problem_run, group in committed:
            self.core.release(problem_run, group)
            if self.on_commit is not None:
                self.on_commit(group)

    async def _wait(self) -> None:
        """Until an iteration may leave."""
        core, limit = self.core, self.core.config.max_seconds
        while True:
            timed = limit is not None and core.stopped is None
            left = max(0.05, limit - core.status.elapsed) if limit is not None and timed else WAITING_SECONDS
            if await self.window.wait(min(left, WAITING_SECONDS)):
                return
            if limit is not None and timed and core.status.elapsed >= limit:
                self.interrupt(Stop(StopReason.BUDGET, f"budget of {limit:g} seconds"))
            waits = self.window.waits()
            if waits and len(waits) == len(core.operators):
                self.window.set_aside(max(SLOW_SECONDS, *(SLOW_TIMES * one.longest for one in waits)))
            if left >= WAITING_SECONDS:
                self._report_waiting()

    def _report_waiting(self) -> None:
        """While the oldest iteration in flight keeps the others waiting, put on record how many are sampled already."""
        core, flying = self.core, list(self.window)
        core.status.policy_seconds = self.window.busy_seconds()
        ahead = sum(iteration.is_sampled for iteration in flying)
        with core.store.begin() as transaction:
            core.write_metrics(transaction, self.scorer.queued, in_flight=len(flying), sampled_ahead=ahead)

    def stop(self, stop: Stop) -> None:
        """Propose no more; iterations in flight are finished and committed."""
        self.core.stop(stop)

    def interrupt(self, stop: Stop) -> None:
        """Stop, drop the prompts that the policy has not begun with, and wait for the others no longer than a reply
        takes."""
        self.stop(stop)
        if self._ending is None and self.window.samplers:
            self._ending = asyncio.create_task(self._give_up(stop))
        self.window.abandon()

    async def _give_up(self, stop: Stop) -> None:
        """Let the replies that a server is writing come back, but no retries and none that takes too long."""
        least, most = (BUDGET_GRACE, math.inf) if stop.reason is StopReason.BUDGET else (LEAST_GRACE, MOST_GRACE)
        began, reported = time.monotonic(), False
        while waits := self.window.waits():
            grace = min(most, max(least, *(one.longest for one in waits)))
            left = grace - (time.monotonic() - began)
            if left <= 0 or not any(one.replies for one in waits):
                break
            if not reported and left > 1 and stop.reason is StopReason.INTERRUPTED:
                reported = True
                what = " and ".join(str(one) for one in waits if str(one))
                warnings.warn(f"waiting for {what}, at most {left:.0f} s more", stacklevel=2)
            await asyncio.sleep(min(0.1, left))
        self.window.give_up()

    async def _salvage(self) -> None:
        """Commit what was paid for and waits for a group that will not come; its iteration is made again on resume."""
        flying = [one for one in self.window if self.core.operators[one.operator].policy.traits.remote]
        if not flying or self.learner.learns:
            return
        if self._ending is None:
            self._ending = asyncio.create_task(self._give_up(INTERRUPTED))
        await asyncio.wait([iteration.group for iteration in flying], timeout=MOST_GRACE + WAITING_SECONDS)
        paid = [iteration for iteration in flying if iteration.is_paid and not iteration.problem_run.failed]
        if paid:
            with self.core.store.begin() as transaction:
                committed = [self._tell(iteration, transaction) for iteration in paid]
            self._release(committed)

    def _count_losses(self) -> None:
        """Add what servers counted and no committed group holds to the totals."""
        status, paid = self.core.status, self.window.paid()
        lost = Usage(
            paid.prompt_tokens - status.held.prompt_tokens,
            paid.completion_tokens - status.held.completion_tokens,
            max(0.0, paid.cost - status.held.cost),
        )
        if lost.completion_tokens > 0 or lost.prompt_tokens > 0:
            status.lose(lost)
