"""One iteration of one problem: a parent is chosen, shown in a prompt, answered by a group of rollouts, and scored.

`draft` and the population's `add` run in the search's order; everything between them overlaps freely.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evo.prompts.contract import PromptFormat
from evo.search.operators import Operator
from evo.search.problem_run import ProblemRun
from evo.search.sampler import Sampled
from evo.search.score import score_rollouts
from islands.types import NOTHING_SHOWN, Candidate, Selection
from problems.types import Prompt, ScoredGroup, ScoredRollout

_STREAMS_PER_PROBLEM = 1 << 32
"""Each problem owns a block of random streams, so its rollouts do not depend on which other problems are searched."""


@dataclass(eq=False)
class Iteration:
    """An iteration in flight. It gets its prompt as it is drafted, and the last three fields as it is sampled.

    sequence: its place in the run's order; number: its place among the iterations of its problem
    island: where its answers will live; selection: what its prompt may show
    parent: the population's choice, also where the prompt shows only the task; None if it has none to choose
    stream: of the policy's random numbers; rng: the remaining random numbers, for the prompt
    operator: which policy answers
    sampled: gives the rollouts; group: gives the scored group
    """

    problem_run: ProblemRun
    sequence: int
    number: int
    island: int
    selection: Selection
    parent: Candidate | None
    stream: int
    rng: np.random.Generator
    operator: int
    prompt: Prompt = field(init=False)
    sampled: asyncio.Future[Sampled] = field(init=False)
    group: asyncio.Task[ScoredGroup] = field(init=False)

    def __post_init__(self) -> None:
        self.prompt = self._build()

    @property
    def prompt_format(self) -> PromptFormat:
        return self.problem_run.prompt_formats[self.operator]

    @property
    def shown(self) -> Selection:
        return self.prompt_format.select_shown(self.selection)

    @property
    def is_sampled(self) -> bool:
        """Whether its rollouts, or the policy's error, are back."""
        return self.sampled.done()

    def put_to(self, operator: int) -> None:
        """Let another operator answer it."""
        self.operator = operator
        self.prompt = self._build()

    def shorten(self) -> bool:
        """Show less: fewer inspirations, then no feedback; False if nothing can be left out."""
        selection, shown = self.selection, self.shown
        if shown.best or shown.inspirations:
            best, inspirations = len(selection.best) // 2, len(selection.inspirations) // 2
            fewer = replace(selection, best=selection.best[:best], inspirations=selection.inspirations[:inspirations])
        elif shown.parent is not None and shown.parent.feedback:
            fewer = replace(selection, parent=replace(shown.parent, feedback=""))
        else:
            return False
        self.selection = fewer
        self.prompt = self._build()
        return True

    def _build(self) -> Prompt:
        return self.prompt_format.build(self.selection, self.stream, self.rng)

    def to_group(
        self, rollouts: Sequence[ScoredRollout], version: str, *, answers: int, seed: int, temperature: float,
        top_p: float, sampling_seconds: float, scoring_seconds: float,
    ) -> ScoredGroup:  # fmt: skip
        """Its scored rollouts with everything that is stored. version: of the policy"""
        shown = self.shown
        return ScoredGroup(
            problem=self.problem_run.record.id,
            sequence=self.sequence,
            iteration=self.number,
            island=self.island,
            parent=shown.parent.id if shown.parent is not None else None,
            inspirations=tuple(dict.fromkeys(c.id for c in (*shown.best, *shown.inspirations))),
            prompt=self.prompt,
            policy_version=version,
            answers=answers,
            seed=seed,
            temperature=temperature,
            rollouts=tuple(rollouts),
            sampling_seconds=sampling_seconds,
            scoring_seconds=scoring_seconds,
            operator=self.operator,
            top_p=top_p,
        )


def draft(
    problem_run: ProblemRun, sequence: int, seed: int, operator: int, fresh: Callable[[Candidate | None], float]
) -> Iteration:
    """The next iteration of a problem: a parent on the island whose turn it is, or none with a chance that may depend
    on that parent. Random numbers depend only on (seed, problem, iteration)."""
    number = problem_run.take()
    island = number % problem_run.population.config.islands
    rng = np.random.default_rng([seed, problem_run.record.index, number])
    selection = problem_run.population.select(island, rng)
    parent = selection.parent
    chance = fresh(parent)
    if chance and rng.random() < chance:
        selection = NOTHING_SHOWN
    stream = problem_run.record.index * _STREAMS_PER_PROBLEM + number
    return Iteration(problem_run, sequence, number, island, selection, parent, stream, rng, operator)


async def score_group(iteration: Iteration, operator: Operator, seed: int) -> ScoredGroup:
    """Wait for the rollouts of an iteration, parse and score them. Raises ScorerFault, and the policy's error."""
    rollouts, version, sampling_seconds = await iteration.sampled
    started = time.perf_counter()
    scores = iteration.problem_run.scores
    scored = await score_rollouts(iteration.prompt_format, rollouts, scores, iteration.selection)
    return iteration.to_group(
        scored, version, answers=operator.answers, seed=seed, temperature=operator.policy.temperature,
        top_p=operator.policy.top_p, sampling_seconds=sampling_seconds, scoring_seconds=time.perf_counter() - started,
    )  # fmt: skip
