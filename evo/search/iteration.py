"""One iteration of one problem: selection -> prompt -> rollouts -> chain -> scores -> group.

`propose` and the population's `add` run in the search's strict order; what lies between overlaps freely.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from evo.prompts.contract import PromptFormat
from evo.search.status import LaneStatus
from islands.population.population import Population
from islands.types import ProblemRecord, Selection
from problems.contract import Problem, Score
from problems.identity import identity
from problems.scoring import Scorer
from problems.types import Prompt, Rollout, ScoredAnswer, ScoredGroup, ScoredRollout

STREAMS_PER_PROBLEM = 1 << 32
"""Each problem owns a block of random streams, so its rollouts do not depend on which other problems are searched."""


@dataclass
class Lane:
    """One problem under search: what it is, where its candidates live, and how far it has come.

    styles: how the problem is put to each of the search's operators
    built: iterations proposed so far; the next one has this index
    stopped: "" while it takes iterations, else why it takes no more
    solved_sequence, solved_at: the group that reached the target, in the run's order; iterations spent until then
    scoring: answers being scored, by identity, until their group is committed
    """

    problem: Problem
    record: ProblemRecord
    population: Population
    styles: Sequence[PromptFormat]
    iterations: int
    built: int = 0
    committed: int = 0
    stopped: str = ""
    solved_sequence: int | None = None
    solved_at: int | None = None
    scoring: dict[bytes, asyncio.Future[tuple[Score, float]]] = field(default_factory=dict)

    @property
    def solved(self) -> bool:
        return self.solved_sequence is not None

    @property
    def open(self) -> bool:
        return not self.stopped and self.built < self.iterations

    def describe(self, shown: LaneStatus) -> None:
        """Write what a display needs to know."""
        best = self.population.best
        shown.done, shown.candidates, shown.stopped = self.committed, self.population.size, self.stopped
        shown.best = best[1] if best is not None else None
        shown.solved_at = self.solved_at


@dataclass(frozen=True)
class Proposal:
    """What the policy is to be asked, and where the question came from."""

    lane: Lane
    sequence: int
    iteration: int
    island: int
    selection: Selection
    prompt: Prompt
    operator: int = 0

    @property
    def style(self) -> PromptFormat:
        return self.lane.styles[self.operator]


def propose(lane: Lane, sequence: int, seed: int, operator: int = 0) -> Proposal:
    """Choose a parent on the island whose turn it is and ask the operator. Draws from (seed, problem, iteration)
    alone."""
    iteration = lane.built
    lane.built += 1
    island = iteration % lane.population.config.islands
    rng = np.random.default_rng([seed, lane.record.index, iteration])
    selection = lane.population.select(island, rng)
    stream = lane.record.index * STREAMS_PER_PROBLEM + iteration
    prompt = lane.styles[operator].build(selection, stream, rng)
    return Proposal(lane, sequence, iteration, island, selection, prompt, operator)


async def judge(proposal: Proposal, rollouts: list[Rollout], scorer: Scorer) -> tuple[ScoredRollout, ...]:
    """Parse and score a group's rollouts. An answer seen before, stored or in flight, is not scored again."""
    lane = proposal.lane
    chains = [proposal.style.parse(rollout, proposal.selection) for rollout in rollouts]
    answer_lists = await asyncio.gather(
        *(asyncio.gather(*(score_once(lane, text, scorer) for text in chain.answers)) for chain in chains)
    )
    return tuple(
        ScoredRollout(rollout, tuple(answers), chain.error)
        for rollout, chain, answers in zip(rollouts, chains, answer_lists, strict=True)
    )


async def score_once(lane: Lane, text: str, scorer: Scorer) -> ScoredAnswer:
    """The answer's Score: from the store, from the scoring under way, or from the scorer."""
    text = lane.problem.canonical(text)
    key = identity(text, lane.problem.answer_format)
    stored = lane.population.known(key)
    if stored is not None:
        return ScoredAnswer(text, key, lane.population.score_of(stored), 0.0, stored)
    under_way = lane.scoring.get(key)
    if under_way is not None:
        score, _ = await asyncio.shield(under_way)
        return ScoredAnswer(text, key, score)
    future: asyncio.Future[tuple[Score, float]] = asyncio.get_running_loop().create_future()
    lane.scoring[key] = future
    try:
        ((score, seconds),) = await scorer.score(lane.problem, [text])
    except BaseException as error:
        lane.scoring.pop(key, None)
        if isinstance(error, Exception):
            future.set_exception(error)
            future.exception()
        else:
            future.cancel()
        raise
    future.set_result((score, seconds))
    return ScoredAnswer(text, key, score, seconds)


async def score_group(
    proposal: Proposal,
    sampled: asyncio.Future[tuple[list[Rollout], str, float]],
    scorer: Scorer,
    *,
    answers: int,
    seed: int,
    temperature: float,
) -> ScoredGroup:
    """Wait for the rollouts, score them, and put the whole group on record."""
    rollouts, version, sampling_seconds = await sampled
    started = time.perf_counter()
    scored = await judge(proposal, rollouts, scorer)
    shown = proposal.style.shown(proposal.selection)
    return ScoredGroup(
        problem=proposal.lane.record.id,
        sequence=proposal.sequence,
        iteration=proposal.iteration,
        island=proposal.island,
        parent=shown.parent.id if shown.parent is not None else None,
        inspirations=tuple(dict.fromkeys(c.id for c in (*shown.best, *shown.inspirations))),
        prompt=proposal.prompt,
        policy_version=version,
        answers=answers,
        seed=seed,
        temperature=temperature,
        rollouts=scored,
        sampling_seconds=sampling_seconds,
        scoring_seconds=time.perf_counter() - started,
        operator=proposal.operator,
    )


def settle(lane: Lane, group: ScoredGroup) -> None:
    """Forget the scorings of a committed group: the store answers for them now."""
    for answer in group.all_answers():
        lane.scoring.pop(answer.identity, None)
