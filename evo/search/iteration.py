"""One iteration of one problem: selection -> prompt -> rollouts -> chain -> scores -> group.

`propose` and the population's `add` run in the search's strict order; what lies between overlaps freely.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import numpy as np

from evo.prompts.contract import PromptFormat
from evo.search.problem_run import ProblemRun
from evo.search.sampler import Sampled
from evo.search.score import NOTHING_SHOWN, score_rollouts
from islands.types import Selection
from problems.types import Prompt, ScoredGroup

STREAMS_PER_PROBLEM = 1 << 32
"""Each problem owns a block of random streams, so its rollouts do not depend on which other problems are searched."""


@dataclass(frozen=True)
class Proposal:
    """What the policy is to be asked, and where the question came from."""

    problem_run: ProblemRun
    sequence: int
    iteration: int
    island: int
    selection: Selection
    prompt: Prompt
    operator: int = 0

    @property
    def style(self) -> PromptFormat:
        return self.problem_run.styles[self.operator]


def propose(problem_run: ProblemRun, sequence: int, seed: int, operator: int = 0, fresh: float = 0.0) -> Proposal:
    """Choose a parent on the island whose turn it is, or none with chance `fresh`, and ask the operator. Draws from
    (seed, problem, iteration) alone."""
    iteration = problem_run.built
    problem_run.built += 1
    island = iteration % problem_run.population.config.islands
    rng = np.random.default_rng([seed, problem_run.record.index, iteration])
    selection = problem_run.population.select(island, rng)
    if fresh and rng.random() < fresh:
        selection = NOTHING_SHOWN
    stream = problem_run.record.index * STREAMS_PER_PROBLEM + iteration
    prompt = problem_run.styles[operator].build(selection, stream, rng)
    return Proposal(problem_run, sequence, iteration, island, selection, prompt, operator)


async def score_group(
    proposal: Proposal,
    sampled: asyncio.Future[Sampled],
    *,
    answers: int,
    seed: int,
    temperature: float,
) -> ScoredGroup:
    """Wait for the rollouts, score them, and put the whole group on record."""
    rollouts, version, sampling_seconds = await sampled
    started = time.perf_counter()
    scored = await score_rollouts(proposal.style, rollouts, proposal.problem_run.scores, proposal.selection)
    shown = proposal.style.select_shown(proposal.selection)
    return ScoredGroup(
        problem=proposal.problem_run.record.id,
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
