"""The search loop: a sliding window of prompt groups over many problems and islands.

Up to `window` groups are in flight. Sampling, parsing and scoring of different groups overlap as they like, but the
population sees one strict order: group h is committed, then group h + window is proposed, then group h + 1 is
committed. Each proposal therefore depends on exactly the groups up to `window` before it, whatever the timing, and one
seed gives one run. A resumed run replays the stored groups to the same point and goes on alike.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from evo.config.run import RunConfig
from evo.errors import SearchFailed
from evo.search.batching import Batcher
from evo.search.continuous_batching import RoundBatcher, batcher_for
from evo.search.iteration import Lane, Proposal, propose, score_group, settle
from evo.search.operator_selection import Chooser, Front, Operator
from evo.search.status import SUMMARY_SECONDS, SearchStatus
from evo.training.colocated import Learner, SyncFailed
from islands.db.store import Store
from islands.db.transaction import Transaction
from islands.errors import DatabaseUnavailable, RunBusy
from problems.contract import ScorerFault
from problems.scoring import Scorer
from problems.types import Rollout, ScoredGroup
from vpo.policies.contract import PolicyUnavailable, PromptTooLong
from vpo.training.contract import TrainingDiverged

WAITING_SECONDS = 5.0
"""How long nothing may be committed before a search says how many groups are sampled and wait for the oldest."""
GROUPS_PER_TRANSACTION = 32
"""Groups that are ready together share a transaction, up to this many; a group is never split."""


@dataclass
class InFlight:
    """A proposed group: its prompt at the policy, its scoring behind that."""

    proposal: Proposal
    sampled: asyncio.Future[tuple[list[Rollout], str, float]]
    group: asyncio.Task[ScoredGroup]


class Search:
    """Runs lanes to the end of their iterations or of a budget. Built by evo.runs.launch; used once."""

    def __init__(
        self,
        *,
        store: Store,
        lanes: Sequence[Lane],
        operators: Sequence[Operator],
        chooser: Chooser,
        learner: Learner,
        scorer: Scorer,
        config: RunConfig,
        status: SearchStatus,
        next_sequence: int = 0,
        window: int,
        batch: int,
        on_commit: Callable[[ScoredGroup], None] | None = None,
    ):
        self.store, self.lanes = store, list(lanes)
        self.operators, self.chooser = list(operators), chooser
        self.learner, self.scorer = learner, scorer
        self.config, self.status, self.window, self.batch = config, status, window, batch
        self.on_commit = on_commit
        self.next_sequence = next_sequence
        self.stop_reason = ""
        self.paused = False
        self.batchers: list[Batcher | RoundBatcher] = []
        self.fronts = {lane.record.id: Front() for lane in self.lanes} if len(self.operators) > 1 else {}
        self._flying: deque[InFlight] = deque()
        self._summarised = 0.0
        self._index = {lane.record.id: i for i, lane in enumerate(self.lanes)}

    def stop(self, reason: str) -> None:
        """Propose nothing more; what is in flight is finished and committed."""
        if not self.stop_reason:
            self.stop_reason = self.status.stopping = reason

    def interrupt(self, reason: str) -> None:
        """Stop, and let go of the prompts that the policy has not begun with: they would be sampled for nobody."""
        self.stop(reason)
        for batcher in self.batchers:
            batcher.abandon()
        self.resume()

    def pause(self) -> None:
        """Ask the policy nothing until `resume`. The search that goes on then is the one that was paused: no proposal
        is made any earlier or later in its order."""
        self.paused = True
        self.status.active.pause()
        for batcher in self.batchers:
            batcher.pause()

    def resume(self) -> None:
        self.paused = False
        self.status.active.resume()
        for batcher in self.batchers:
            batcher.resume()

    async def run(self) -> str:
        """Run to the end; returns why it ended ("" for all iterations done). Raises SearchFailed on a dead policy."""
        alone = len(self.operators) == 1 and self.config.train is None
        self.batchers = [
            batcher_for(one.policy, one.rollouts, one.answers, self.config.seed, self.batch, alone)
            for one in self.operators
        ]
        if self.paused:
            self.pause()
        try:
            if self.config.train is not None:
                assert isinstance(self.batchers[0], Batcher)
                self.learner.attach(self.batchers[0])
            self._replay()
            with self.store.begin() as transaction:
                self._tell(transaction)
            while self._fly():
                head = self._flying[0]
                batcher = self.batchers[head.proposal.operator]
                if batcher.holds(head.sampled):
                    batcher.flush()  # nothing ahead of it can fill the batch any more
                while not (await asyncio.wait([head.group], timeout=WAITING_SECONDS))[0]:
                    self._tell_waiting()
                if head.group.cancelled():
                    break  # let go by an interrupt, as is everything behind it
                self._land_ready()
            for batcher in self.batchers:
                await batcher.drain()
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
            for batcher in self.batchers:
                await batcher.close()
            self.status.active.pause()
        return self.stop_reason

    def _replay(self) -> None:
        """Bring the population to where it was, proposing again the groups that were in flight when the run ended."""
        committed = self.next_sequence
        for sequence in range(committed, committed + self.window):
            self._advance(sequence - self.window)
            if not self._propose():
                break
        self._advance(None)
        for lane, shown in zip(self.lanes, self.status.lanes, strict=True):
            lane.describe(shown)

    def recall(self, groups: Iterable[ScoredGroup]) -> None:
        """Learn again what the committed groups say of the operators; nothing is read where there is but one."""
        if self.fronts:
            for group in groups:
                moved = self.fronts[group.problem].moved_by(group)
                self.chooser.credit(group.sequence, group.operator, float(moved))

    def _advance(self, upto: int | None) -> None:
        self.chooser.advance(upto)
        for lane in self.lanes:
            lane.population.advance(upto)
            # a lane that stops when solved must look unsolved to proposals made before it was
            solved = lane.solved_sequence is not None and (upto is None or lane.solved_sequence <= upto)
            lane.stopped = "solved" if solved and self.config.until_solved else lane.stopped

    def _fly(self) -> bool:
        """Fill the window; whether anything is in flight."""
        while len(self._flying) < self.window and self._propose():
            pass
        return bool(self._flying)

    def _propose(self) -> bool:
        """Propose the next group in round-robin order over the problems; False where there is nothing to propose."""
        if self.stop_reason or self._spent():
            return False
        lane = self._next_lane()
        if lane is None:
            return False
        number = self.chooser.choose(self.config.seed, lane.record.index, lane.built)
        operator = self.operators[number]
        proposal = propose(lane, self.next_sequence, self.config.seed, number)
        self.next_sequence += 1
        sampled = self.batchers[number].submit(proposal.prompt)
        group = asyncio.create_task(
            score_group(
                proposal,
                sampled,
                self.scorer,
                answers=operator.answers,
                seed=self.config.seed,
                temperature=operator.policy.temperature,
            )
        )
        self._flying.append(InFlight(proposal, sampled, group))
        return True

    def _next_lane(self) -> Lane | None:
        """The open lane with the fewest proposals, the first of those: rounds over the problems, after a resume too."""
        return min((lane for lane in self.lanes if lane.open), key=lambda lane: lane.built, default=None)

    def _spent(self) -> bool:
        config, status = self.config, self.status
        asked = sum(lane.built for lane in self.lanes) * config.rollouts * config.answers
        if config.max_answers and asked + config.rollouts * config.answers > config.max_answers:
            self.stop(f"budget of {config.max_answers:,} answers")
        elif config.max_tokens and status.tokens >= config.max_tokens:
            self.stop(f"budget of {config.max_tokens:,} tokens")
        elif config.max_cost and status.cost >= config.max_cost:
            self.stop(f"budget of {config.max_cost:g} of cost")
        elif config.max_seconds and status.elapsed >= config.max_seconds:
            self.stop(f"budget of {config.max_seconds:g} seconds")
        return bool(self.stop_reason)

    def _land_ready(self) -> None:
        """Commit the groups at the head of the window that are ready, together, each followed by the proposal it makes
        room for. Nothing is proposed to the policy, reported or learned from before the transaction is through."""
        landed: list[tuple[Lane, ScoredGroup]] = []
        left: list[InFlight] = []
        started = time.perf_counter()
        with self.store.begin() as transaction:
            while self._flying and self._flying[0].group.done() and len(landed) < GROUPS_PER_TRANSACTION:
                if self._flying[0].group.cancelled():
                    break
                fault = self._flying[0].group.exception()
                if fault is not None and landed:
                    break  # what is ahead of the fault is kept
                flying = self._flying.popleft()
                left.append(flying)
                self.batchers[flying.proposal.operator].landing(flying.sampled)
                lane = flying.proposal.lane
                if isinstance(fault, ScorerFault | PromptTooLong):
                    self._fail(lane, str(fault), transaction)
                elif fault is not None:
                    raise fault
                elif not lane.stopped.startswith("failed"):  # after a fault of its scorer nothing of a lane counts
                    group = flying.group.result()
                    self._store(lane, group, transaction)
                    self._credit(flying.proposal.operator, group)
                    landed.append((lane, group))
                self._fly()
            self._summarise(transaction)
        for number, batcher in enumerate(self.batchers):
            batcher.landed([flying.sampled for flying in left if flying.proposal.operator == number])
        self.status.commit_seconds += time.perf_counter() - started
        for lane, group in landed:
            settle(lane, group)
            self._report(lane, group)
        if landed:
            self.learner.learn([group for _, group in landed])

    def _store(self, lane: Lane, group: ScoredGroup, transaction: Transaction) -> None:
        lane.population.add(group, transaction)
        self.status.migrations += bool(lane.population.migrate_if_due(transaction))
        lane.committed += 1
        self.status.count(group)
        best, target = lane.population.best, lane.problem.target
        if best is not None and target is not None and not lane.solved and best[1] >= target:
            lane.solved_sequence, lane.solved_at = group.sequence, group.iteration + 1
            self.store.set_problem_status(lane.record.id, "solved", solved_sequence=group.sequence, tx=transaction)
            if self.config.until_solved:
                lane.stopped = "solved"

    def _credit(self, operator: int, group: ScoredGroup) -> None:
        """Tell the chooser what a group was worth, before the proposal that may know of it."""
        if self.fronts:
            self.chooser.credit(group.sequence, operator, float(self.fronts[group.problem].moved_by(group)))
            self.chooser.advance(group.sequence)

    def _summarise(self, transaction: Transaction) -> None:
        """Now and then, put the figures on record with the groups they are of."""
        now = time.monotonic()
        if now - self._summarised >= SUMMARY_SECONDS and self.lanes:
            self._summarised = now
            self._tell(transaction)

    def _tell_waiting(self) -> None:
        """While the oldest group in flight keeps the others waiting, say on record how many are there already."""
        self._time_sampling()
        self._summarised = 0.0  # what lands next takes this back
        ahead = sum(flying.sampled.done() for flying in self._flying)
        with self.store.begin() as transaction:
            self._tell(transaction, in_flight=len(self._flying), sampled_ahead=ahead)

    def _tell(self, transaction: Transaction, **more: int) -> None:
        figures = self.status.figures(self.scorer.queued) | more
        self.store.set_summary(self.lanes[0].record.run_id, figures, transaction)

    def _time_sampling(self) -> None:
        self.status.sampling_seconds = sum(batcher.meter.busy() for batcher in self.batchers)

    def _report(self, lane: Lane, group: ScoredGroup) -> None:
        self._time_sampling()
        lane.describe(self.status.lanes[self._index[lane.record.id]])
        if self.on_commit is not None:
            self.on_commit(group)

    def _fail(self, lane: Lane, message: str, transaction: Transaction) -> None:
        if lane.stopped.startswith("failed"):
            return
        lane.stopped = f"failed: {message}"
        lane.describe(self.status.lanes[self._index[lane.record.id]])
        self.store.set_problem_status(lane.record.id, "failed", message=message, tx=transaction)
