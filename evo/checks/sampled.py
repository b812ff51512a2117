"""A model's answers: 50 answers of a policy, and the spread of their vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from evo.checks.finding import Finding, faulty
from evo.config.run import RunConfig
from evo.evaluation.evaluate import sample_answers
from evo.evaluation.metrics import ProblemAnswers
from evo.search.defaults import resolve_settings
from evo.search.resources import open_policy
from problems.contract import Problem
from problems.scoring import Scorer

ANSWERS = 50
SHARES = (0, 25, 50, 75, 100)


async def sample_policy(problem: Problem, config: RunConfig) -> ProblemAnswers:
    """ANSWERS answers, with no parent shown. Raises as evo.evaluation.evaluate does."""
    config = resolve_settings(config, [problem])
    policy = open_policy(config, [problem])
    scorer = Scorer()
    try:
        sampled = await sample_answers(
            policy, [problem], answers=config.answers, total=ANSWERS, seed=config.seed, scorer=scorer
        )
        return sampled.problems[0]
    finally:
        await policy.close()
        scorer.close()


def check_sampled(policy: str, answers: ProblemAnswers) -> Finding:
    """The distribution of the vectors: percentiles of each objective over valid answers."""
    valid = answers.valid
    rewards, count = answers.rewards[valid], int(valid.sum())
    distinct = len(np.unique(rewards, axis=0))
    solved = "" if answers.solved is None else f", {int(answers.solved.sum())} solved"
    summary = f"{policy}: {count} of {ANSWERS} answers achieve anything, in {distinct} distinct vectors{solved}"
    figures: dict[str, Any] = {"valid": count, "distinct": distinct, "answers": ANSWERS}
    if not count:
        return faulty("policy", f"{summary}: there is nothing to learn from yet", [])
    width = max(map(len, (*answers.objectives, "fitness")))
    lines = [f"{'':<{width}} " + " ".join(f"{f'{share}%':>9}" for share in SHARES)]
    columns = [*zip(answers.objectives, rewards.T, strict=True), ("fitness", answers.fitness[valid])]
    table: dict[str, list[float]] = {}
    for name, column in columns:
        table[name] = [float(value) for value in np.percentile(column, SHARES)]
        lines.append(f"{name:<{width}} " + " ".join(f"{value:9.4g}" for value in table[name]))
    if distinct == 1:
        return faulty("policy", f"{summary}: only one vector, so no advantage between answers", lines, **figures)
    return Finding("policy", "ok", summary, tuple(lines), {**figures, "percentiles": table})
