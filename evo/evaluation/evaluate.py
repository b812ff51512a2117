"""How good a policy is without search: answers to each problem without parents, equally many for every policy.

Each problem gets as many chains of m answers as make up the total; surplus answers of the last chain are cut, so
policies with different m are compared at equal numbers of answers. An answer that a
chain lacks, or repeats, counts as a zero vector of fitness 0: a policy does not gain by writing less.

`run_evaluation` makes of the settings a record, which the command line and Python print and write alike. Its file is
written whole, read back with care, and compared problem by problem.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from evo.config.run import EvaluateConfig, PromptConfig
from evo.errors import BadInput
from evo.evaluation.metrics import Evaluation, ProblemAnswers, SampledAnswers, compare_problems
from evo.prompts.contract import PromptFormat
from evo.prompts.registry import open_format
from evo.provenance import source_commit
from evo.search.resources import (
    check_one_policy,
    open_policy,
    resolve_address,
    resolve_problems,
    resolve_settings,
    workers,
)
from evo.search.sampler import Sampler, cancel_all
from evo.search.score import AnswerScores, score_rollouts
from evo.stats.differences import verdict
from evo.whole_file import write_whole
from islands.types import NOTHING_SHOWN
from problems.address import name_few
from problems.contract import Problem, Score, ScorerFault
from problems.scoring import Scorer, error_kind
from problems.types import Rollout
from vpo.policies.address import parse_address
from vpo.policies.contract import Policy, PromptTooLong
from vpo.policies.registry import check_policy

TASK_ALONE = PromptConfig(show_parent=False, diff=False)
ROWS_PER_BATCH = 4
"""Rollouts per call, as a multiple of the policy's preferred batch: no next prompt waits for them, unlike in a
search."""
OVERLAPPING = 32
"""Prompts in flight at once at a policy that does its own batching."""


async def sample_seeds(
    policy: Policy, problems: Sequence[Problem], *, answers: int, total: int, seeds: Sequence[int], scorer: Scorer,
    on_done: Callable[[], None] = lambda: None,
) -> Evaluation:  # fmt: skip
    """The metrics of `sample_answers` over several seeds, one after another; arguments and errors as there."""
    samples = []
    for seed in seeds:
        budget = {"answers": answers, "total": total, "seed": seed}
        samples.append(await sample_answers(policy, problems, **budget, scorer=scorer, on_done=on_done))
    return Evaluation(samples)


async def sample_answers(
    policy: Policy, problems: Sequence[Problem], *, answers: int, total: int, seed: int, scorer: Scorer,
    on_done: Callable[[], None] = lambda: None,
) -> SampledAnswers:  # fmt: skip
    """`total` answers to each problem in chains of `answers`, scored. The policy and the scorer stay open.

    One seed gives one result, and a problem's answers do not depend on the other problems. A fault of one problem's
    scorer, or a prompt too long for the model, takes that problem out (SampledAnswers.faults). Raises BadInput if
    policy and problems do not fit, ScorerFault or BadInput if no problem could be judged, and errors that concern all
    of them (PolicyUnavailable, SandboxUnavailable, SandboxFault).

    on_done: called as each problem is done
    """
    check_evaluation(problems, answers, total)
    styles = open_formats(problems, policy, answers)
    chains = -(-total // answers)
    sampler = Sampler(policy, chains, answers, seed, prompts_a_call(policy, chains))
    sampled, started, scoring_before = SampledAnswers(seed, answers), time.perf_counter(), scorer.busy_seconds
    waits = contextlib.nullcontext() if sampler.batch else asyncio.Semaphore(OVERLAPPING)

    async def judged(problem: Problem, style: PromptFormat) -> ProblemAnswers | ScorerFault | PromptTooLong:
        name = blake2b(problem.name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        stream = int.from_bytes(name) >> 2  # 62 bits
        try:
            async with waits:
                rollouts = (await sampler.submit(style.build(NOTHING_SHOWN, stream)))[0]
            return await score_chains(problem, style, rollouts, answers, total, scorer, sampled)
        except (ScorerFault, PromptTooLong) as fault:
            return fault
        finally:
            on_done()

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
    (name, times), *_ = Counter(problem.name for problem in problems).most_common(1)
    if times > 1:
        raise BadInput(f"{name} is there {times} times; name each problem once")


async def run_evaluation(
    settings: EvaluateConfig,
    output: str | None,
    command: str,
    report: Callable[[str, int, int], None] = lambda *_: None,
) -> dict[str, Any]:
    """Check the input, load the policy, ask it, score, aggregate; write the record if `output` names a file. report:
    called with the policy and problems in words, and how many problems are done, of how many.

    Returns the record, with the metrics of each problem as `per_problem`. Raises as sample_seeds does, for
    invalid input before the policy is loaded.
    """
    config = settings.run_config()
    if output:
        check_output(output)
    check_one_policy(config.policy, "evo evaluate asks")
    address = parse_address(config.policy)
    check_policy(address)
    if address.common.fresh is not None:
        warnings.warn("evo evaluate shows no parent: ?fresh changes nothing here", stacklevel=2)
    problems = resolve_problems(config)
    config = resolve_address(resolve_settings(config, problems))
    path, total = settings.against, settings.answers_total
    rival = read_evaluation(path, problems, total, config.weights) if path else {}
    check_evaluation(problems, config.answers, total)
    policy = open_policy(config, problems)
    scorer = Scorer(workers(config, problems))
    try:
        open_formats(problems, policy, config.answers)  # raises if they do not fit, before any output
        seeds = range(config.seed, config.seed + settings.seeds)
        title, done = f"{config.policy} on {name_few(settings.problems, 3)}", count(1)
        report(title, 0, len(problems) * settings.seeds)
        evaluation = await sample_seeds(
            policy, problems, answers=config.answers, total=total, seeds=seeds, scorer=scorer,
            on_done=lambda: report(title, next(done), len(problems) * settings.seeds),
        )  # fmt: skip
    finally:
        await policy.close()
        scorer.close()
    record = {
        **{"policy": config.policy, "policy_version": policy.version, "set": list(settings.problems)},
        **({"weights": config.weights} if config.weights else {}),
        **evaluation.record(),
        **{"temperature": policy.temperature, "top_p": config.top_p, "max_new_tokens": config.max_new_tokens},
        **{"sandbox": config.sandbox, "commit": source_commit(), "command": command},
        **({"against": compare_with(path, rival, evaluation, config.policy)} if path else {}),
    }
    if output:
        write_whole(Path(output), json.dumps(record, indent=1) + "\n")
    return record


def check_output(output: str) -> None:
    """BadInput if -o names a file that cannot be written: found out before the work, not after it."""
    path = Path(output)
    if path.is_dir() or not path.parent.is_dir():
        raise BadInput(f"-o {output}: {'is a directory' if path.is_dir() else f'there is no directory {path.parent}'}")
    if not os.access(path.parent, os.W_OK):
        raise BadInput(f"-o {output}: the directory {path.parent} cannot be written to")


def read_evaluation(
    path: str, problems: Sequence[Problem], total: int, weights: Mapping[str, float] | str | None = None
) -> dict[str, Any]:
    """The file of `evo evaluate -o` on the same problems, under the same weights, at equal numbers of answers; BadInput
    if it is not that."""

    def refused(what: str) -> BadInput:
        return BadInput(f"--against {path}: {what}")

    try:
        record: Any = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise refused(error.strerror or str(error)) from error
    except ValueError as error:
        raise refused("not JSON; name a file that evo evaluate -o wrote") from error
    rows = record.get("per_problem") if isinstance(record, dict) else None
    if not isinstance(rows, list) or not all(isinstance(r, dict) and isinstance(r.get("problem"), str) for r in rows):
        raise refused("has no results; name a file that evo evaluate -o wrote")
    theirs, ours = {row["problem"]: row for row in rows}, {problem.name: problem for problem in problems}
    left_out = record.get("faults")
    known = {**theirs, **(left_out if isinstance(left_out, dict) else {})}
    for name in [name for name in ours if name not in known]:
        raise refused(f"has no {name}; compare on the same problems")
    for name, row in theirs.items():
        if name not in ours:
            raise refused(f"has {name}, which is not among these; compare on the same problems")
        if (row.get("objectives"), row.get("target")) != (list(ours[name].objectives), ours[name].target):
            raise refused(f"its {name} had other objectives or another target; evaluate it again")
    if (other := record.get("weights")) != weights:
        raise refused(f"its weights are {other or 'those of the problems'}; evaluate it again with the same --weights")
    if (answers := record.get("answers_total")) != total:
        raise refused(f"{answers} answers a problem there, {total} here; compare at equal numbers (--answers-total)")
    return dict(record)


def compare_with(path: str, rival: Mapping[str, Any], evaluation: Evaluation, policy: str) -> dict[str, Any]:
    """The paired comparison with the evaluation in a file, as JSON takes it. verdicts: a line on the file, and one for
    each metric: the difference with its interval, or that none is shown, with the p of its test."""
    differences = compare_problems(evaluation, rival["per_problem"])
    name = str(rival.get("policy", path))
    beside = f"{name} ({Path(path).name})" if name == policy else name
    return {
        "file": path,
        **{key: rival.get(key) for key in ("policy", "policy_version", "commit")},
        "differences": {
            metric: {
                "mean": difference.interval.mean,
                "interval": [difference.interval.low, difference.interval.high] if difference.interval.known else None,
                "p": difference.p,
                "problems": difference.pairs,
                "shown": difference.shown,
            }
            for metric, difference in differences.items()
        },
        "verdicts": [
            f"against {path}: {name}, chains of {rival.get('answers')}, temperature {rival.get('temperature')}",
            *(
                f"{metric}: {verdict(policy, beside, difference, digits=3)}"
                for metric, difference in differences.items()
                if not metric.startswith("mean[")
            ),
        ],
    }
