"""The search loop: policies answer the core's proposals, with a sliding window of prompt groups in flight.

Sampling, parsing and scoring of different groups overlap as they like, but the core (evo.search.core) sees one strict
order: group h is committed, then group h + window is proposed, then group h + 1 is committed. Each proposal therefore
depends on exactly the groups up to `window` before it, whatever the timing, and one seed gives one run. A resumed run
replays the stored groups to the same point and continues alike. `--lag` gives that order up
(evo/search/in_flight.py): groups are then committed as they come back, and numbered as they are committed.
"""

from __future__ import annotations

import asyncio
import math
import time
import warnings
from collections.abc import Callable, Sequence

from evo.errors import SearchFailed
from evo.search.batching import Batcher
from evo.search.core import SearchCore
from evo.search.in_flight import WAITING_SECONDS, InFlight, Submissions, order_of
from evo.search.problem_run import ProblemRun
from evo.search.sampler import Learner, Sampler, SyncFailed
from evo.search.stop import FINISHED, INTERRUPTED, Stop, StopReason
from islands.db.transaction import Transaction
from islands.errors import DatabaseUnavailable, RunBusy
from problems.contract import ScorerFault
from problems.scoring import Scorer
from problems.types import NO_USAGE, ScoredGroup, Usage
from vpo.policies.contract import PolicyUnavailable, PromptTooLong, Waits
from vpo.training import TrainingDiverged

LEAST_GRACE, MOST_GRACE, BUDGET_GRACE = 8.0, 60.0, 1.0
"""Seconds for which an interrupted search waits for replies: as long as the longest so far took, between the first two;
at the end of a budget of time at least the third."""
SLOW_SECONDS, SLOW_TIMES = 60.0, 3.0
"""A reply that takes longer than the first, and than the second times any before it, no longer holds others back."""
GROUPS_PER_TRANSACTION = 32
"""Groups that are ready together share a transaction, up to this many; a group is never split."""


class SearchLoop:
    """Takes the problems of a core to the end of their iterations or of a budget. Built by evo.runs.launch; used once.

    on_commit: called with every committed group
    """

    def __init__(self, core: SearchCore, learner: Learner, scorer: Scorer) -> None:
        self.core, self.learner, self.scorer = core, learner, scorer
        self._submissions = Submissions(core.operators, core.config.seed)
        self.on_commit: Callable[[ScoredGroup], None] | None = None
        self.paused = False
        self.samplers: list[Sampler] = []
        self._flying = order_of(core.window)
        self._ending: asyncio.Task[None] | None = None
        core.in_flight = lambda: [one.proposal for one in self._flying]

    def stop(self, stop: Stop) -> None:
        """Propose no more; groups in flight are finished and committed."""
        self.core.stop(stop)

    def interrupt(self, stop: Stop) -> None:
        """Stop, drop the prompts that the policy has not begun with, and wait for the others no longer than a reply
        takes."""
        self.stop(stop)
        if self._ending is None and self.samplers:
            self._ending = asyncio.create_task(self._give_up(stop))
        for sampler in self.samplers:
            sampler.abandon()
        self.resume()

    async def _give_up(self, stop: Stop) -> None:
        """Let the replies that a server is writing come back, but no retries and none that takes too long."""
        least, most = (BUDGET_GRACE, math.inf) if stop.reason is StopReason.BUDGET else (LEAST_GRACE, MOST_GRACE)
        began, reported = time.monotonic(), False
        while waits := self._waits():
            grace = min(most, max(least, *(one.longest for one in waits)))
            left = grace - (time.monotonic() - began)
            if left <= 0 or not any(one.replies for one in waits):
                break
            if not reported and left > 1 and stop.reason is StopReason.INTERRUPTED:
                reported = True
                what = " and ".join(str(one) for one in waits if str(one))
                warnings.warn(f"waiting for {what}, at most {left:.0f} s more", stacklevel=2)
            await asyncio.sleep(min(0.1, left))
        for sampler in self.samplers:
            sampler.give_up()

    def pause(self) -> None:
        """Ask the policy nothing until `resume`. No proposal is made earlier or later in the search's order for it."""
        self.paused = True
        self.core.status.active.pause()
        for sampler in self.samplers:
            sampler.pause()

    def resume(self) -> None:
        self.paused = False
        self.core.status.active.resume()
        for sampler in self.samplers:
            sampler.resume()

    async def run(self) -> Stop:
        """Run to the end; returns why it ended. Raises SearchFailed on a dead policy or database."""
        core = self.core
        self.samplers = self._submissions.samplers = self._open_samplers()
        if self.paused:
            self.pause()
        try:
            self.learner.attach(self.samplers[0])
            core.replay(self._propose)
            with core.store.begin() as transaction:
                core.write_metrics(transaction, self.scorer.queued)
            while self._fill_window():
                self._flying.push(self.samplers)
                await self._wait()
                ready = self._flying.ready()
                if ready is not None and ready.group.cancelled():
                    break  # dropped by an interrupt, as is everything behind it
                if ready is not None:
                    self._commit_ready()
            await self._salvage()
            for sampler in self.samplers:
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
            for flying in self._flying:
                flying.group.cancel()
            await asyncio.gather(*(flying.group for flying in self._flying), return_exceptions=True)
            if self._ending is not None:
                self._ending.cancel()
            for sampler in self.samplers:
                await sampler.close()
            self._count_losses()
            core.status.active.pause()
        return core.stopped or FINISHED

    def _open_samplers(self) -> list[Sampler]:
        config, window, operators = self.core.config, self.core.window, self.core.operators
        return [
            Batcher(
                operator.policy,
                operator.rollouts,
                operator.answers,
                config.seed,
                window.batch if operator.policy.batch else 0,
            )
            for operator in operators.all
        ]

    def _fill_window(self) -> bool:
        """Propose while there is room; whether anything is in flight."""
        while self._flying.has_room(self.core.schedule) and self._propose():
            pass
        return len(self._flying) > 0

    def _propose(self) -> bool:
        """Propose the next group; False if there is nothing to propose."""
        choice = self.core.ask()
        if choice is None:
            return False
        self._flying.add(self._submissions.submit(choice))
        return True

    async def _wait(self) -> None:
        """Until a group may leave."""
        while True:
            seconds, limit = WAITING_SECONDS, self.core.config.max_seconds
            if limit is not None and self.core.stopped is None:
                seconds = min(seconds, max(0.05, limit - self.core.status.elapsed))
            if await self._flying.wait(seconds):
                return
            if limit is not None and self.core.stopped is None and self.core.status.elapsed >= limit:
                self.interrupt(Stop(StopReason.BUDGET, f"budget of {limit:g} seconds"))
            waits = self._waits()
            if waits and len(waits) == len(self.core.operators):
                self._flying.set_aside(max(SLOW_SECONDS, *(SLOW_TIMES * one.longest for one in waits)))
            if seconds == WAITING_SECONDS:
                self._report_waiting()

    async def _salvage(self) -> None:
        """Commit what was paid for and waits for a group that will not come; its iteration is made again on resume."""
        operators = self.core.operators
        flying = [one for one in self._flying if operators[one.choice.operator].policy.traits.remote]
        if not flying or self.learner.learns:
            return
        if self._ending is None:
            self._ending = asyncio.create_task(self._give_up(INTERRUPTED))
        await asyncio.wait([one.group for one in flying], timeout=MOST_GRACE + WAITING_SECONDS)
        paid = [one for one in flying if one.is_paid and not one.choice.problem_run.failed]
        if paid:
            with self.core.store.begin() as transaction:
                committed = [self._store(one, transaction) for one in paid]
            self._release(committed)

    def _store(self, flying: InFlight, transaction: Transaction) -> tuple[ProblemRun, ScoredGroup]:
        problem_run, group = flying.choice.problem_run, flying.group.result()
        if flying.late:
            group = self.core.schedule.commit_late(group)
        group, _ = self.core.tell(problem_run, group, transaction)
        return problem_run, group

    def _release(self, committed: Sequence[tuple[ProblemRun, ScoredGroup]]) -> None:
        for problem_run, group in committed:
            self.core.release(problem_run, group)
            self._report(group)

    def _count_losses(self) -> None:
        """Add what servers counted and no committed group holds to the totals."""
        status = self.core.status
        paid = sum((sampler.meter.paid for sampler in self.samplers), NO_USAGE)
        held = status.held
        lost = Usage(
            paid.prompt_tokens - held.prompt_tokens,
            paid.completion_tokens - held.completion_tokens,
            max(0.0, paid.cost - held.cost),
        )
        if lost.completion_tokens > 0 or lost.prompt_tokens > 0:
            status.lose(lost)

    def _commit_ready(self) -> None:
        """Commit the groups whose turn it is and that are back, together, each followed by the proposal it makes room
        for. Nothing is proposed to the policy, reported or learned from before the transaction is committed."""
        core = self.core
        committed: list[tuple[ProblemRun, ScoredGroup]] = []
        left: list[InFlight] = []
        started = time.perf_counter()
        with core.store.begin() as transaction:
            while len(committed) < GROUPS_PER_TRANSACTION and (flying := self._flying.ready()) is not None:
                if flying.group.cancelled():
                    break
                fault = flying.group.exception()
                if fault is not None and committed:
                    break  # groups before the fault are kept
                self._flying.pop(flying)
                left.append(flying)
                self.samplers[flying.choice.operator].leaving(flying.sampled)
                problem_run = flying.choice.problem_run
                if isinstance(fault, PromptTooLong):
                    core.fail(problem_run, str(fault), transaction, StopReason.TOO_LONG)
                elif isinstance(fault, ScorerFault):
                    core.fail(problem_run, str(fault), transaction)
                elif fault is not None:
                    raise fault
                elif not problem_run.failed:  # after a fault of its scorer nothing of a problem counts
                    committed.append(self._store(flying, transaction))
                self._fill_window()
            core.write_metrics_if_due(transaction, self.scorer.queued)
        for number, sampler in enumerate(self.samplers):
            sampler.left([gone.sampled for gone in left if gone.choice.operator == number])
        core.status.commit_seconds += time.perf_counter() - started
        self._release(committed)
        if core.stopped is not None and core.stopped.reason is StopReason.UNANSWERED and self._ending is None:
            self.interrupt(core.stopped)
        if committed:
            self.learner.learn([group for _, group in committed])

    def _report_waiting(self) -> None:
        """While the oldest group in flight keeps the others waiting, put on record how many are sampled already."""
        self._time_sampling()
        ahead = sum(flying.sampled.done() for flying in self._flying)
        with self.core.store.begin() as transaction:
            self.core.write_metrics(transaction, self.scorer.queued, in_flight=len(self._flying), sampled_ahead=ahead)

    def _waits(self) -> list[Waits]:
        """What the policies on servers wait for."""
        waits = (operator.policy.waits() for operator in self.core.operators.all)
        return [one for one in waits if one is not None]

    def _time_sampling(self) -> None:
        self.core.status.policy_seconds = sum(sampler.meter.busy() for sampler in self.samplers)

    def _report(self, group: ScoredGroup) -> None:
        self._time_sampling()
        if self.on_commit is not None:
            self.on_commit(group)
