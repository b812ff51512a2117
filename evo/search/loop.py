"""The search loop: policies answer the core's proposals, with a sliding window of prompt groups in flight.

Sampling, parsing and scoring of different groups overlap as they like, but the core (evo.search.core) sees one strict
order: group h is committed, then group h + window is proposed, then group h + 1 is committed. Each proposal therefore
depends on exactly the groups up to `window` before it, whatever the timing, and one seed gives one run. A resumed run
replays the stored groups to the same point and continues alike. `--lag` gives that order up
(evo/search/in_flight.py): groups are then committed as they come back, and numbered as they are committed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from evo.errors import SearchFailed
from evo.search.continuous_batching import sampler_for
from evo.search.core import SearchCore
from evo.search.in_flight import WAITING_SECONDS, InFlight, Submissions, order_of
from evo.search.problem_run import ProblemRun
from evo.search.reflection import Reflector
from evo.search.sampler import Learner, Sampler, SyncFailed
from evo.search.stop import FINISHED, Stop
from islands.errors import DatabaseUnavailable, RunBusy
from problems.contract import ScorerFault
from problems.scoring import Scorer
from problems.types import ScoredGroup
from vpo.policies.contract import PolicyUnavailable, PromptTooLong
from vpo.training.contract import TrainingDiverged

GROUPS_PER_TRANSACTION = 32
"""Groups that are ready together share a transaction, up to this many; a group is never split."""


class SearchLoop:
    """Takes the problems of a core to the end of their iterations or of a budget. Built by evo.runs.launch; used once.

    on_commit: called with every committed group
    """

    def __init__(self, core: SearchCore, learner: Learner, scorer: Scorer, reflector: Reflector) -> None:
        self.core, self.learner, self.scorer = core, learner, scorer
        self.reflector, self._submissions = reflector, Submissions(reflector, core.config.seed)
        self.on_commit: Callable[[ScoredGroup], None] | None = None
        self.paused = False
        self.samplers: list[Sampler] = []
        self._flying = order_of(core.window)

    def stop(self, stop: Stop) -> None:
        """Propose no more; groups in flight are finished and committed."""
        self.core.stop(stop)

    def interrupt(self, stop: Stop) -> None:
        """Stop, and drop the prompts that the policy has not begun with."""
        self.stop(stop)
        for sampler in self.samplers:
            sampler.abandon()
        for flying in self._flying:
            flying.submitted.cancel()  # of those that no sampler has yet
        self.resume()

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
        self.samplers = self._open_samplers()
        if self.paused:
            self.pause()
        try:
            self.learner.attach(self.samplers[0])
            core.replay(self._propose)
            with core.store.begin() as transaction:
                core.write_metrics(transaction, self.scorer.queued)
            while self._fill_window():
                await self._flying.push(self.samplers, self._report_waiting)
                while not await self._flying.wait(WAITING_SECONDS):
                    self._report_waiting()
                ready = self._flying.ready()
                if ready is not None and ready.group.cancelled():
                    break  # dropped by an interrupt, as is everything behind it
                if ready is not None:
                    self._commit_ready()
            for sampler in self.samplers:
                await sampler.drain()
            await self.learner.close()
        except (TrainingDiverged, SyncFailed) as error:
            raise SearchFailed(f"training during the search: {error}") from error
        except PolicyUnavailable as error:
            raise SearchFailed(f"the policy {core.config.policy} cannot answer: {error}") from error
        except (DatabaseUnavailable, RunBusy) as error:
            raise SearchFailed(f"the database can no longer be written: {error}") from error
        finally:
            for flying in self._flying:
                flying.group.cancel()
            await asyncio.gather(*(flying.group for flying in self._flying), return_exceptions=True)
            for sampler in self.samplers:
                await sampler.close()
            core.status.active.pause()
        return core.stopped or FINISHED

    def _open_samplers(self) -> list[Sampler]:
        config, window, operators = self.core.config, self.core.window, self.core.operators
        alone = len(operators) == 1 and not self.learner.learns and self.reflector.policy is None
        strict = not window.async_window
        samplers = [
            sampler_for(operator.policy, operator.rollouts, operator.answers, config.seed, window.batch, alone, strict)
            for operator in operators.all
        ]
        return samplers + self.reflector.open()

    def _fill_window(self) -> bool:
        """Propose while there is room; whether anything is in flight."""
        while self._flying.has_room(self.core.scheduler) and self._propose():
            pass
        return len(self._flying) > 0

    def _propose(self) -> bool:
        """Propose the next group; False if there is nothing to propose."""
        choice = self.core.ask()
        if choice is None:
            return False
        operator = self.core.operators[choice.operator]
        self._flying.add(self._submissions.submit(choice, operator, self.samplers[choice.operator]))
        return True

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
                if flying.sampled is not None:
                    self.samplers[flying.choice.operator].leaving(flying.sampled)
                problem_run = flying.choice.problem_run
                if isinstance(fault, ScorerFault | PromptTooLong):
                    core.fail(problem_run, str(fault), transaction)
                elif fault is not None:
                    raise fault
                elif not problem_run.failed:  # after a fault of its scorer nothing of a problem counts
                    group, _ = core.tell(problem_run, flying.group.result(), transaction)
                    committed.append((problem_run, group))
                self._fill_window()
            core.write_metrics_if_due(transaction, self.scorer.queued)
        for number, sampler in enumerate(self.samplers):
            sampler.left([gone.sampled for gone in left if gone.choice.operator == number and gone.sampled is not None])
        core.status.commit_seconds += time.perf_counter() - started
        for problem_run, group in committed:
            core.release(problem_run, group)
            self._report(group)
        if committed:
            self.learner.learn([group for _, group in committed])

    def _report_waiting(self) -> None:
        """While the oldest group in flight keeps the others waiting, put on record how many are sampled already."""
        self._time_sampling()
        ahead = sum(flying.is_sampled for flying in self._flying)
        with self.core.store.begin() as transaction:
            self.core.write_metrics(transaction, self.scorer.queued, in_flight=len(self._flying), sampled_ahead=ahead)

    def _time_sampling(self) -> None:
        self.core.status.sampling_seconds = sum(sampler.meter.busy() for sampler in self.samplers)

    def _report(self, group: ScoredGroup) -> None:
        self._time_sampling()
        if self.on_commit is not None:
            self.on_commit(group)
