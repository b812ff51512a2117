"""How good a policy is without search: answers to each problem without parents, equally many for every policy.

Each problem gets as many chains of m answers as make up the total; surplus answers of the last chain are cut, so
policies with different m are compared at equal numbers of answers. An answer that a
chain lacks, or repeats, counts as a zero vector of fitness 0: a policy does not gain by writing less.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import blake2b

import numpy as np

from evo.config.run import PromptConfig
from evo.errors import BadInput
from evo.evaluation.metrics import Evaluation, ProblemAnswers, SampledAnswers
from evo.prompts.contract import PromptFormat
from evo.prompts.registry import open_format
from evo.search.sampler import Sampler, cancel_all
from evo.search.score import AnswerScores, score_rollouts
from islands.types import NOTHING_SHOWN
from problems.contract import Problem, Score, ScorerFault
from problems.scoring import Scorer, error_kind
from problems.types import Rollout
from vpo.policies.contract import Policy, PromptTooLong

TASK_ALONE = PromptConfig(show_parent=False, diff=False)
ROWS_PER_BATCH = 4
"""Rollouts per call, as a multiple of the policy's preferred batch: no next prompt waits for them, unlike in a
search."""
OVERLAPPING = 32
"""Prompts in flight at once at a policy that does its own batching."""

OnProgress = Callable[[int, int], None]
"""(problems done, problems in all)"""


async def sample_seeds(
    policy: Policy, problems: Sequence[Problem], *, answers: int, total: int, seeds: Sequence[int], scorer: Scorer,
    on_progress: OnProgress | None = None,
) -> Evaluation:  # fmt: skip
    """The metrics of `sample_answers` over several seeds, one after another; arguments and errors as there.

    on_progress: counts problems times seeds
    """
    samples: list[SampledAnswers] = []

    def report(done: int, of: int) -> None:
        if on_progress is not None:
            on_progress(len(samples) * of + done, len(seeds) * of)

    for seed in seeds:
        budget = {"answers": answers, "total": total, "seed": seed}
        samples.append(await sample_answers(policy, problems, **budget, scorer=scorer, on_progress=report))
    return Evaluation(samples)


async def sample_answers(
    policy: Policy, problems: Sequence[Problem], *, answers: int, total: int, seed: int, scorer: Scorer,
    on_progress: OnProgress | None = None,
) -> SampledAnswers:  # fmt: skip
    """`total` answers to each problem in chains of `answers`, scored. The policy and the scorer stay open.

    One seed gives one result, and a problem's answers do not depend on the other problems. A fault of one problem's
    scorer, or a prompt too long for the model, takes that problem out (SampledAnswers.faults). Raises BadInput if
    policy and problems do not fit, ScorerFault or BadInput if no problem could be judged, and errors that concern all
    of them (PolicyUnavailable, SandboxUnavailable, SandboxFault).
    """
    check_evaluation(problems, answers, total)
    styles = open_formats(problems, policy, answers)
    chains = -(-total // answers)
    sampler = Sampler(policy, chains, answers, seed, prompts_a_call(policy, chains))
    sampled, started, scoring_before = SampledAnswers(seed, answers), time.perf_counter(), scorer.busy_seconds
    waits = contextlib.nullcontext() if sampler.batch else asyncio.Semaphore(OVERLAPPING)
    finished = 0

    async def judged(problem: Problem, style: PromptFormat) -> ProblemAnswers | ScorerFault | PromptTooLong:
        nonlocal finished
        name = blake2b(problem.name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        stream = int.from_bytes(name) >> 2  # 62 bits
        try:
            async with waits:
                rollouts = (await sampler.submit(style.build(NOTHING_SHOWN, stream)))[0]
            return await score_chains(problem, style, rollouts, answers, total, scorer, sampled)
        except (ScorerFault, PromptTooLong) as fault:
            return fault
        finally:
            finished += 1
            if on_progress is not None:
                on_progress(finished, len(problems))

    tasks = [asyncio.create_task(judged(*pair)) for pair in zip(problems, styles, strict=True)]
    try:
        await asyncio.sleep(0)  # every task has handed in its prompt: the last batch need not wait to be full
        sampler.flush()
        outcomes = await asyncio.gather(*tasks)
    finally:
        await cancel_all(tasks)
        await sampler.close()
    sampled.problems = [outcome for outcome in outcomes if isinstance(outcome, ProblemAnswers)]
    pairs = zip(problems, outcomes, strict=True)
    sampled.faults = {problem.name: str(fault) for problem, fault in pairs if isinstance(fault, Exception)}
    if not sampled.problems:
        for fault in outcomes:
            if isinstance(fault, ScorerFault):
                raise fault
        raise BadInput(f"{problems[0].name}: {sampled.faults[problems[0].name]}")
    meter, seconds = sampler.meter, time.perf_counter() - started
    sampled.costs = {name: vars(meter)[name] for name in ("rollouts", "tokens", "prompt_tokens", "cost")}
    scoring = scorer.busy_seconds - scoring_before
    sampled.costs |= {"seconds": seconds, "sampling_seconds": meter.busy_seconds, "scoring_seconds": scoring}
    return sampled


async def score_chains(
    problem: Problem, style: PromptFormat, rollouts: Sequence[Rollout], answers: int, total: int, scorer: Scorer,
    counts: SampledAnswers,
) -> ProblemAnswers:  # fmt: skip
    """Parse one problem's chains and score their answers, a repeated answer only once.

    Within a chain the first of equal answers counts, and answers are compared in canonical form.
    """
    rewards, fitness = np.zeros((total, len(problem.objectives))), np.zeros(total)
    written, failed = np.zeros(total, dtype=bool), np.zeros(total, dtype=bool)
    for number, rollout in enumerate(await score_rollouts(style, rollouts, AnswerScores(problem, scorer))):
        distinct: dict[bytes, Score] = {}
        for answer in rollout.answers:
            distinct.setdefault(answer.identity, answer.score)
        for place, score in enumerate(distinct.values(), number * answers):
            if place >= total:
                break
            rewards[place], fitness[place], written[place] = score.rewards, score.fitness, True
            if score.error is not None:
                failed[place] = True
                counts.answer_errors[error_kind(score.error)] += 1
        if len(distinct) < answers:
            counts.format_errors.update(format_kinds(rollout.format_error or "repeated an answer"))
    return ProblemAnswers(problem.name, tuple(problem.objectives), problem.target, rewards, fitness, written, failed)


def open_formats(problems: Sequence[Problem], policy: Policy, answers: int) -> list[PromptFormat]:
    """How an evaluation puts each problem to the policy, without a parent; BadInput if they do not fit."""
    return [open_format(problem, policy.prompt_format, TASK_ALONE, answers) for problem in problems]


def prompts_a_call(policy: Policy, chains: int) -> int:
    """How many problems go into one call of the policy; 0 for one that does its own batching."""
    return max(1, policy.batch * ROWS_PER_BATCH // chains) if policy.batch else 0


def format_kinds(error: str) -> list[str]:
    """The reasons in a Chain's error, as classes to count by."""
    reasons = (error.partition(" answers found: ")[2] or error).split("; ")
    return ["repeated an answer" if re.match(r"\d+ repeated", reason) else error_kind(reason) for reason in reasons]


def check_evaluation(problems: Sequence[Problem], answers: int, total: int) -> None:
    """BadInput for an evaluation that makes no sense."""
    if not problems:
        raise BadInput("no problem to evaluate on; try maze:test, or list problems with `evo problems`")
    if answers < 1 or total < 1:
        raise BadInput(f"{total} answers a problem in chains of {answers}: both must be 1 or more")
    (name, count), *_ = Counter(problem.name for problem in problems).most_common(1)
    if count > 1:
        raise BadInput(f"{name} is there {count} times; name each problem once")
