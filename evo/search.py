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
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evo.batching import Batcher
from evo.config import RunConfig
from evo.errors import SearchFailed
from evo.iteration import Lane, Proposal, propose, score_group, settle
from evo.status import SearchStatus
from islands.records import RunRecord
from islands.store import Store
from problems.contract import ScorerFault
from problems.records import Rollout, ScoredGroup
from problems.scoring import Scorer
from vpo.policies.contract import Policy, PolicyUnavailable, PromptTooLong
from vpo.training import Trainer

HEARTBEAT_SECONDS = 5.0


@dataclass
class InFlight:
    """A proposed group: its prompt at the policy, its scoring behind that."""

    proposal: Proposal
    sampled: asyncio.Future[tuple[list[Rollout], str, float]]
    group: asyncio.Task[ScoredGroup]


class Search:
    """Runs lanes to the end of their iterations or of a budget. Built by evo.launch; used once."""

    def __init__(
        self,
        *,
        store: Store,
        run: RunRecord,
        lanes: Sequence[Lane],
        policy: Policy,
        trainer: Trainer,
        scorer: Scorer,
        config: RunConfig,
        status: SearchStatus,
        next_sequence: int = 0,
        window: int,
        batch: int,
        on_commit: Callable[[ScoredGroup], None] | None = None,
    ):
        self.store, self.run_record, self.lanes = store, run, list(lanes)
        self.policy, self.trainer, self.scorer = policy, trainer, scorer
        self.config, self.status, self.window, self.batch = config, status, window, batch
        self.on_commit = on_commit
        self.next_sequence = next_sequence
        self.stop_reason = ""
        self._cursor = 0
        self._flying: deque[InFlight] = deque()
        self._last_heartbeat = 0.0
        self.lane_of = {lane.record.id: lane for lane in self.lanes}

    def stop(self, reason: str) -> None:
        """Propose nothing more; what is in flight is finished and committed."""
        if not self.stop_reason:
            self.stop_reason = self.status.stopping = reason

    async def run(self) -> str:
        """Run to the end; returns why it ended ("" for all iterations done). Raises SearchFailed on a dead policy."""
        self.batcher = Batcher(self.policy, self.config.rollouts, self.config.answers, self.config.seed, self.batch)
        try:
            self._replay()
            while self._fly():
                head = self._flying[0]
                if self.batcher.holds(head.sampled):
                    self.batcher.flush()  # nothing ahead of it can fill the batch any more
                await self._land(head)
                self._flying.popleft()
        except PolicyUnavailable as error:
            raise SearchFailed(f"the policy {self.config.policy} cannot answer: {error}") from error
        finally:
            for flying in self._flying:
                flying.group.cancel()
            await asyncio.gather(*(flying.group for flying in self._flying), return_exceptions=True)
            await self.batcher.close()
        return self.stop_reason

    def _replay(self) -> None:
        """Bring the population to where it was, proposing again the groups that were in flight when the run ended."""
        committed = self.next_sequence
        for sequence in range(committed, committed + self.window):
            self._advance(sequence - self.window)
            if not self._propose():
                break
        self._advance(None)

    def _advance(self, upto: int | None) -> None:
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
        proposal = propose(lane, self.next_sequence, self.config.seed)
        self.next_sequence += 1
        sampled = self.batcher.submit(proposal.prompt)
        group = asyncio.create_task(
            score_group(
                proposal,
                sampled,
                self.scorer,
                answers=self.config.answers,
                seed=self.config.seed,
                temperature=self.policy.temperature,
            )
        )
        self._flying.append(InFlight(proposal, sampled, group))
        return True

    def _next_lane(self) -> Lane | None:
        """The open lane with the fewest proposals, the earliest of those: rounds over the problems, also after a resume."""
        return min((lane for lane in self.lanes if lane.open), key=lambda lane: lane.built, default=None)

    def _spent(self) -> bool:
        config, status = self.config, self.status
        asked = sum(lane.built for lane in self.lanes) * config.rollouts * config.answers
        if config.max_answers and asked + config.rollouts * config.answers > config.max_answers:
            self.stop(f"budget of {config.max_answers:,} answers")
        elif config.max_tokens and status.tokens >= config.max_tokens:
            self.stop(f"budget of {config.max_tokens:,} tokens")
        elif config.max_seconds and status.elapsed >= config.max_seconds:
            self.stop(f"budget of {config.max_seconds:g} seconds")
        return bool(self.stop_reason)

    async def _land(self, flying: InFlight) -> None:
        """Wait for one group and commit it, or stop its lane where the scorer is at fault."""
        lane = flying.proposal.lane
        try:
            group = await flying.group
        except (ScorerFault, PromptTooLong) as fault:
            self._fail(lane, str(fault))
            return
        if lane.stopped.startswith("failed"):
            return  # an earlier group found the scorer at fault: nothing after it counts
        self._commit(lane, group)

    def _commit(self, lane: Lane, group: ScoredGroup) -> None:
        started = time.perf_counter()
        with self.store.begin() as transaction:
            lane.population.add(group, transaction)
            self.status.migrations += lane.population.migrate_if_due(transaction)
            best = lane.population.best
            target = lane.problem.target
            if best is not None and target is not None and not lane.solved and best.fitness >= target:
                lane.solved_sequence = group.sequence
                self.store.set_problem_status(
                    lane.record.id, "solved", solved_sequence=group.sequence, tx=transaction
                )
        settle(lane, group)
        lane.committed += 1
        self.status.commit_seconds += time.perf_counter() - started
        self._report(lane, group)
        self.trainer.step([group])
        if lane.solved and self.config.until_solved and not lane.stopped:
            lane.stopped = "solved"
        if time.monotonic() - self._last_heartbeat > HEARTBEAT_SECONDS:
            self._last_heartbeat = time.monotonic()
            self.store.heartbeat(self.run_record.id)

    def _report(self, lane: Lane, group: ScoredGroup) -> None:
        self.status.count(group)
        self.status.sampling_seconds = self.batcher.meter.busy()
        shown = self.status.lanes[self.lanes.index(lane)]
        shown.done = lane.committed
        shown.candidates = lane.population.size
        best = lane.population.best
        shown.best = best.fitness if best is not None else None
        if lane.solved and shown.solved_at is None:
            shown.solved_at = group.iteration + 1
        shown.stopped = lane.stopped
        if self.on_commit is not None:
            self.on_commit(group)

    def _fail(self, lane: Lane, message: str) -> None:
        if lane.stopped.startswith("failed"):
            return
        lane.stopped = f"failed: {message}"
        self.status.lanes[self.lanes.index(lane)].stopped = lane.stopped
        self.store.set_problem_status(lane.record.id, "failed", message=message)
