"""Rollouts of one prompt made into scored rollouts, without a population: for training and for evaluation."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from evo.prompts.contract import PromptFormat
from islands.types import Selection
from problems.contract import Problem, Score
from problems.identity import identity
from problems.scoring import Scorer
from problems.types import Rollout, ScoredAnswer, ScoredRollout

NOTHING_SHOWN = Selection(None, (), ())
"""The selection behind a prompt that shows the task alone."""


async def grade(
    problem: Problem,
    style: PromptFormat,
    rollouts: Sequence[Rollout],
    scorer: Scorer,
    selection: Selection = NOTHING_SHOWN,
) -> tuple[ScoredRollout, ...]:
    """Parse and score. Answers of one identity are scored once."""
    chains = [style.parse(rollout, selection) for rollout in rollouts]
    texts = [[problem.canonical(answer) for answer in chain.answers] for chain in chains]
    keys = [[identity(text, problem.answer_format) for text in row] for row in texts]
    distinct = {key: text for row in zip(keys, texts, strict=True) for key, text in zip(*row, strict=True)}
    known: dict[bytes, Score] = {}
    seconds: dict[bytes, float] = {}
    for key, (score, spent) in zip(distinct, await scorer.score(problem, list(distinct.values())), strict=True):
        known[key], seconds[key] = score, spent
    return tuple(
        ScoredRollout(
            rollout,
            tuple(
                ScoredAnswer(t, k, known[k], seconds.pop(k, 0.0)) for t, k in zip(texts_here, keys_here, strict=True)
            ),
            chain.error,
        )
        for rollout, chain, texts_here, keys_here in zip(rollouts, chains, texts, keys, strict=True)
    )


async def grade_all(
    jobs: Sequence[tuple[Problem, PromptFormat, Sequence[Rollout], Selection]], scorer: Scorer
) -> list[tuple[ScoredRollout, ...]]:
    """`grade` for several prompts at once, which keeps the scorer's workers busy."""
    return list(await asyncio.gather(*(grade(p, s, r, scorer, selection) for p, s, r, selection in jobs)))
