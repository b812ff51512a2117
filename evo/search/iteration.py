"""One iteration of one problem: selection -> prompt -> rollouts -> chain -> scores -> group.

`choose` and the population's `add` run in the search's strict order; everything between them overlaps freely.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from evo.prompts.contract import PromptFormat
from evo.search.problem_run import ProblemRun
from evo.search.sampler import Sampled
from evo.search.score import score_rollouts
from islands.types import NOTHING_SHOWN, Candidate, Selection
from problems.types import Prompt, ScoredGroup, ScoredRollout

STREAMS_PER_PROBLEM = 1 << 32
"""Each problem owns a block of random streams, so its rollouts do not depend on which other problems are searched."""


@dataclass(frozen=True)
class Choice:
    """The contents of a prompt, and its problem. rng: the remaining random numbers, for the prompt itself"""

    problem_run: ProblemRun
    sequence: int
    iteration: int
    island: int
    selection: Selection
    stream: int
    rng: np.random.Generator
    operator: int = 0

    @property
    def prompt_format(self) -> PromptFormat:
        return self.problem_run.prompt_formats[self.operator]

    def ask(self) -> Proposal:
        """The prompt, to be built once."""
        return Proposal(self, self.selection, self.prompt_format.build(self.selection, self.stream, self.rng))


@dataclass(frozen=True)
class Proposal:
    """A prompt, with the choice that it shows."""

    choice: Choice
    selection: Selection
    prompt: Prompt

    def by(self, operator: int) -> Proposal:
        """The same proposal, put to another operator."""
        return self._rebuilt(replace(self.choice, operator=operator), self.selection)

    def shorter(self) -> Proposal | None:
        """A proposal that shows less: fewer inspirations, then no feedback; None if nothing can be left out."""
        selection, shown = self.selection, self.choice.prompt_format.select_shown(self.selection)
        parent = shown.parent
        if shown.best or shown.inspirations:
            best, inspirations = len(selection.best) // 2, len(selection.inspirations) // 2
            fewer = replace(selection, best=selection.best[:best], inspirations=selection.inspirations[:inspirations])
        elif parent is not None and parent.feedback:
            fewer = replace(selection, parent=replace(parent, feedback=""))
        else:
            return None
        return self._rebuilt(self.choice, fewer)

    def _rebuilt(self, choice: Choice, selection: Selection) -> Proposal:
        prompt = choice.prompt_format.build(selection, choice.stream, choice.rng)
        return Proposal(choice, selection, prompt)


def choose(
    problem_run: ProblemRun, sequence: int, seed: int, operator: int, fresh: Callable[[Candidate | None], float]
) -> Choice:
    """Choose a parent on the island whose turn it is, or none with a chance that may depend on that parent. Random
    numbers depend only on (seed, problem, iteration)."""
    iteration = problem_run.take()
    island = iteration % problem_run.population.config.islands
    rng = np.random.default_rng([seed, problem_run.record.index, iteration])
    selection = problem_run.population.select(island, rng)
    chance = fresh(selection.parent)
    if chance and rng.random() < chance:
        selection = NOTHING_SHOWN
    stream = problem_run.record.index * STREAMS_PER_PROBLEM + iteration
    return Choice(problem_run, sequence, iteration, island, selection, stream, rng, operator)


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
    choice = proposal.choice
    scored = await score_rollouts(choice.prompt_format, rollouts, choice.problem_run.scores, proposal.selection)
    scoring_seconds = time.perf_counter() - started
    return make_group(
        proposal,
        scored,
        version,
        answers=answers,
        seed=seed,
        temperature=temperature,
        sampling_seconds=sampling_seconds,
        scoring_seconds=scoring_seconds,
    )


def make_group(
    proposal: Proposal,
    rollouts: tuple[ScoredRollout, ...],
    version: str,
    *,
    answers: int,
    seed: int,
    temperature: float,
    sampling_seconds: float,
    scoring_seconds: float,
) -> ScoredGroup:
    """The scored rollouts of a proposal with everything that is stored. version: of the policy"""
    choice = proposal.choice
    shown = choice.prompt_format.select_shown(proposal.selection)
    return ScoredGroup(
        problem=choice.problem_run.record.id,
        sequence=choice.sequence,
        iteration=choice.iteration,
        island=choice.island,
        parent=shown.parent.id if shown.parent is not None else None,
        inspirations=tuple(dict.fromkeys(c.id for c in (*shown.best, *shown.inspirations))),
        prompt=proposal.prompt,
        policy_version=version,
        answers=answers,
        seed=seed,
        temperature=temperature,
        rollouts=rollouts,
        sampling_seconds=sampling_seconds,
        scoring_seconds=scoring_seconds,
        operator=choice.operator,
    )
