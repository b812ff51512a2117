"""The search loop: a sliding window of prompt groups over many problems and islands.

Up to `window` groups are in flight. Sampling, parsing and scoring of different groups overlap as they like, but the
population sees one strict order: group h is committed, then group h + window is proposed, then group h + 1 is
committed. Each proposal therefore depends on exactly the groups up to `window` before it, whatever the timing, and one
seed gives one run. A resumed run replays the stored groups to the same point and goes on alike. `--lag` gives that
order up (evo/search/order.py): groups are then committed as they come back, and numbered as they are committed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evo.config.run import RunConfig
from evo.errors import SearchFailed
from evo.search.budget import budget_spent
from evo.search.continuous_batching import sampler_for
from evo.search.fresh_share import FreshShare
from evo.search.in_flight import InFlight, Submissions
from evo.search.iteration import choose
from evo.search.learner import Learner, SyncFailed
from evo.search.operator_selection import Operators
from evo.search.order import WAITING_SECONDS, order_of
from evo.search.problem_run import ProblemRun
from evo.search.reflection import Reflector
from evo.search.sampler import Sampler
from evo.search.status import SUMMARY_SECONDS, SearchStatus
from evo.search.stop import FINISHED, SOLVED, Stop
from evo.search.turns import CountedTurns, Turns
from evo.search.window import Window
from islands.db.reflections import write_reflection
from islands.db.store import Store
from islands.db.transaction import Transaction
from islands.errors import DatabaseUnavailable, RunBusy
from problems.contract import ScorerFault
from problems.scoring import Scorer
from problems.types import ScoredGroup
from vpo.policies.contract import PolicyUnavailable, PromptTooLong
from vpo.training.contract import TrainingDiverged

GROUPS_PER_TRANSACTION = 32
"""Groups that are ready together share a transaction, up to this many; a group is never split."""


class Search:
    """Takes problems to the end of their iterations or of a budget. Built by evo.runs.launch; used once.

    turns: whose proposal is next; a resume sets it behind the last group that is committed
    write_metrics: puts the metrics so far on record, with the groups they are of
    on_commit: called with every committed group
    """

    def __init__(
        self,
        store: Store,
        config: RunConfig,
        problem_runs: Sequence[ProblemRun],
        operators: Operators,
        learner: Learner,
        scorer: Scorer,
        status: SearchStatus,
        window: Window,
        reflector: Reflector,
    ) -> None:
        self.store, self.config, self.problem_runs = store, config, list(problem_runs)
        self.operators, self.learner, self.scorer = operators, learner, scorer
        self.status, self.window = status, window
        self.reflector, self._submissions = reflector, Submissions(reflector, config.seed)
        self.turns: Turns = CountedTurns(self.problem_runs, lag=window.lag)
        self.write_metrics: Callable[[Mapping[str, Any], Transaction], None] = self._write_to_run
        self.fresh_share = FreshShare()
        self.on_commit: Callable[[ScoredGroup], None] | None = None
        self.stopped: Stop | None = None
        self.paused = False
        self.samplers: list[Sampler] = []
        self._flying = order_of(window)
        for one in self.problem_runs:
            one.spread = window.spread or None
        self._summarised = 0.0
        self._shown = {one.record.id: shown for one, shown in zip(self.problem_runs, status.problem_runs, strict=True)}

    def stop(self, stop: Stop) -> None:
        """Propose nothing more; what is in flight is finished and committed."""
        self.stopped = self.stopped or stop

    def interrupt(self, stop: Stop) -> None:
        """Stop, and let go of the prompts that the policy has not begun with: they would be sampled for nobody."""
        self.stop(stop)
        for sampler in self.samplers:
            sampler.abandon()
        for flying in self._flying:
            flying.submitted.cancel()  # of those that no sampler has yet
        self.resume()

    def pause(self) -> None:
        """Ask the policy nothing until `resume`. The search that goes on then is the one that was paused: no proposal
        is made any earlier or later in its order."""
        self.paused = True
        self.status.active.pause()
        for sampler in self.samplers:
            sampler.pause()

    def resume(self) -> None:
        self.paused = False
        self.status.active.resume()
        for sampler in self.samplers:
            sampler.resume()

    async def run(self) -> Stop:
        """Run to the end; returns why it ended. Raises SearchFailed on a dead policy or database."""
        window = self.window
        alone = len(self.operators) == 1 and not self.learner.learns and self.reflector.policy is None
        self.samplers = [
            sampler_for(one.policy, one.rollouts, one.answers, self.config.seed, window.batch, alone, not window.lag)
            for one in self.operators.all
        ] + self.reflector.open()
        if self.paused:
            self.pause()
        try:
            self.learner.attach(self.samplers[0])
            self._replay()
            with self.store.begin() as transaction:
                self._write_summary(transaction)
            while self._fill_window():
                await self._flying.push(self.samplers, self._report_waiting)
                while not await self._flying.wait(WAITING_SECONDS):
                    self._report_waiting()
                due = self._flying.due()
                if due is not None and due.group.cancelled():
                    break  # let go by an interrupt, as is everything behind it
                if due is not None:
                    self._commit_ready()
            for sampler in self.samplers:
                await sampler.drain()
            await self.learner.close()
        except (TrainingDiverged, SyncFailed) as error:
            raise SearchFailed(f"training beside the search: {error}") from error
        except PolicyUnavailable as error:
            raise SearchFailed(f"the policy {self.config.policy} cannot answer: {error}") from error
        except (DatabaseUnavailable, RunBusy) as error:
            raise SearchFailed(f"the database cannot be written any more: {error}") from error
        finally:
            for flying in self._flying:
                flying.group.cancel()
            await asyncio.gather(*(flying.group for flying in self._flying), return_exceptions=True)
            for sampler in self.samplers:
                await sampler.close()
            self.status.active.pause()
        return self.stopped or FINISHED

    def _replay(self) -> None:
        """Bring the population to where it was, proposing again the groups that were in flight when the run ended; with
        a lag nobody knows what those knew of, and they are proposed as any other."""
        committed = sequence = None if self.window.lag else self.turns.upcoming
        while committed is not None and sequence is not None and sequence < committed + self.window.groups:
            self._advance(sequence - self.window.groups)
            if not self._propose():
                break
            sequence = self.turns.upcoming
        self._advance(None)
        for one in self.problem_runs:
            one.describe(self._shown[one.record.id])

    def _advance(self, upto: int | None) -> None:
        self.operators.selection.advance(upto)
        self.fresh_share.advance(upto)
        for one in self.problem_runs:
            one.population.advance(upto)
            # a problem that stops when solved must look unsolved to proposals made before it was
            solved = one.solved_sequence is not None and (upto is None or one.solved_sequence <= upto)
            if solved and self.config.until_solved:
                one.stop = SOLVED

    def _fill_window(self) -> bool:
        """Propose what there is room for; whether anything is in flight."""
        while self._flying.has_room(self.turns) and self._propose():
            pass
        return len(self._flying) > 0

    def _propose(self) -> bool:
        """Propose the next group; False where there is nothing to propose."""
        if self.stopped is None:
            self.stopped = budget_spent(self.config, self.status, self.turns.proposed)
        problem_run = self.turns.whose()
        if self.stopped is not None or problem_run is None:
            return False
        seed = self.config.seed
        number = self.operators.selection.choose(seed, problem_run.record.index, problem_run.upcoming)
        operator = self.operators[number]
        fresh = operator.prompt.fresh
        share = self.fresh_share.of(problem_run.record.id, number) if fresh == "auto" else fresh
        choice = choose(problem_run, self.turns.take(), seed, number, share)
        self._flying.add(self._submissions.submit(choice, operator, self.samplers[number]))
        return True

    def _commit_ready(self) -> None:
        """Commit the groups whose turn it is and that are back, together, each followed by the proposal it makes room
        for. Nothing is proposed to the policy, reported or learned from before the transaction is through."""
        committed: list[tuple[ProblemRun, ScoredGroup]] = []
        left: list[InFlight] = []
        started = time.perf_counter()
        with self.store.begin() as transaction:
            while len(committed) < GROUPS_PER_TRANSACTION and (flying := self._flying.due()) is not None:
                if flying.group.cancelled():
                    break
                fault = flying.group.exception()
                if fault is not None and committed:
                    break  # what is ahead of the fault is kept
                self._flying.drop(flying)
                left.append(flying)
                if flying.sampled is not None:
                    self.samplers[flying.choice.operator].leaving(flying.sampled)
                problem_run = flying.choice.problem_run
                if isinstance(fault, ScorerFault | PromptTooLong):
                    problem_run.fail(str(fault), self.store, transaction)
                    problem_run.describe(self._shown[problem_run.record.id])
                elif fault is not None:
                    raise fault
                elif not problem_run.failed:  # after a fault of its scorer nothing of a problem counts
                    group = self.turns.land(problem_run, flying.group.result())
                    self._store(problem_run, group, transaction)
                    committed.append((problem_run, group))
                self._fill_window()
            if time.monotonic() - self._summarised >= SUMMARY_SECONDS:
                self._summarised = time.monotonic()
                self._write_summary(transaction)
        for number, sampler in enumerate(self.samplers):
            sampler.left([one.sampled for one in left if one.choice.operator == number and one.sampled is not None])
        self.status.commit_seconds += time.perf_counter() - started
        for problem_run, group in committed:
            problem_run.release(group)
            self._report(problem_run, group)
        if committed:
            self.learner.learn([group for _, group in committed])

    def _store(self, problem_run: ProblemRun, group: ScoredGroup, transaction: Transaction) -> None:
        placements = problem_run.population.add(group, transaction)
        self.fresh_share.count(group, [not placement.new for placement in placements])
        write_reflection(self.store, problem_run.record.run_id, group, transaction)
        self.status.migrations += bool(problem_run.population.migrate_if_due(transaction))
        problem_run.committed += 1
        self.status.count(group)
        best, target = problem_run.population.best, problem_run.problem.target
        if best is not None and target is not None and not problem_run.solved and best[1] >= target:
            problem_run.solve(group.sequence, group.iteration + 1, self.config.until_solved)
            self.store.set_problem_status(
                problem_run.record.id, "solved", solved_sequence=group.sequence, tx=transaction
            )
        self.operators.credit(group)  # before the proposal that may know of it
        seen = self._flying.sees(group.sequence)
        self.operators.selection.advance(seen)
        self.fresh_share.advance(seen)

    def _report_waiting(self) -> None:
        """While the oldest group in flight keeps the others waiting, say on record how many are there already."""
        self._time_sampling()
        self._summarised = 0.0  # what is committed next takes this back
        ahead = sum(flying.is_sampled for flying in self._flying)
        with self.store.begin() as transaction:
            self._write_summary(transaction, in_flight=len(self._flying), sampled_ahead=ahead)

    def _write_summary(self, transaction: Transaction, **more: int) -> None:
        """Put the run's metrics on record with the groups they are of."""
        if self.problem_runs:
            self.write_metrics(self.status.metrics(self.scorer.queued) | more, transaction)

    def _write_to_run(self, metrics: Mapping[str, Any], transaction: Transaction) -> None:
        self.store.set_summary(self.problem_runs[0].record.run_id, metrics, transaction)

    def _time_sampling(self) -> None:
        self.status.sampling_seconds = sum(sampler.meter.busy() for sampler in self.samplers)

    def _report(self, problem_run: ProblemRun, group: ScoredGroup) -> None:
        self._time_sampling()
        problem_run.describe(self._shown[problem_run.record.id])
        if self.on_commit is not None:
            self.on_commit(group)
