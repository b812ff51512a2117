"""One evaluation from its settings to its record, which the command line and Python print and write alike."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evo.config.evaluate import EvaluateConfig
from evo.config.run import RunConfig
from evo.evaluation.evaluate import Progress, check_request, evaluate, open_formats
from evo.evaluation.file import (
    check_writable,
    comparison_record,
    name_beside,
    read_evaluation,
    verdicts,
    write_evaluation,
)
from evo.evaluation.metrics import Evaluation, compare_problems
from evo.provenance import source_commit
from evo.search.defaults import resolve_address, resolve_settings, workers
from evo.search.resources import check_one_policy, open_policy, resolve_problems
from problems.contract import Problem
from problems.scoring import Scorer
from vpo.policies.address import OF_ITS_PROMPTS, parse_address
from vpo.policies.contract import Policy
from vpo.policies.registry import check_policy

Loading = Callable[[], AbstractContextManager[object]]
Showing = Callable[[RunConfig], AbstractContextManager[Progress]]


@dataclass(frozen=True)
class EvaluationRequest:
    """A plan, resolved and checked. rival: the evaluation to compare with"""

    settings: EvaluateConfig
    config: RunConfig
    problems: Sequence[Problem]
    output: str | None
    rival: dict[str, Any] | None


@dataclass(frozen=True)
class Evaluated:
    """record: everything but the problems one by one. against: lines of the comparison with the rival"""

    evaluation: Evaluation
    record: dict[str, Any]
    against: list[str]


def prepare_evaluation(settings: EvaluateConfig, output: str | None) -> EvaluationRequest:
    """Raises for invalid input, before a policy is loaded."""
    config = settings.run_config()
    if output:
        check_writable(output)
    check_one_policy(config.policy, "evo evaluate asks")
    address = parse_address(config.policy)
    check_policy(address)
    if unused := address.common.model_dump(include=set(OF_ITS_PROMPTS), exclude_none=True):
        warnings.warn(f"evo evaluate shows no parent: ?{' and ?'.join(unused)} change nothing here", stacklevel=2)
    problems = resolve_problems(config)
    config = resolve_address(resolve_settings(config, problems))
    rival = read_evaluation(settings.against, problems, settings.answers_total) if settings.against else None
    return EvaluationRequest(settings, config, problems, output, rival)


async def execute_evaluation(
    request: EvaluationRequest, command: str, *, loading: Loading = nullcontext, showing: Showing | None = None
) -> Evaluated:
    """Load the policy, ask it, score, aggregate; write the record if an output is named. Raises as
    evo.evaluation.evaluate does."""
    config, settings = request.config, request.settings
    check_request(request.problems, config.answers, settings.answers_total)
    with loading():
        policy = open_policy(config, request.problems)
    scorer = Scorer(workers(config, request.problems))
    try:
        # raises if they do not fit, before any output
        open_formats(request.problems, policy, config.answers)
        with showing(config) if showing is not None else nullcontext() as report:
            evaluation = await evaluate(
                policy,
                request.problems,
                answers=config.answers,
                total=settings.answers_total,
                seeds=range(config.seed, config.seed + settings.seeds),
                scorer=scorer,
                on_progress=report,
            )
        return _conclude(request, evaluation, policy, command)
    finally:
        await policy.close()
        scorer.close()


def _conclude(request: EvaluationRequest, evaluation: Evaluation, policy: Policy, command: str) -> Evaluated:
    config, rival, path = request.config, request.rival, request.settings.against
    named = {"policy": config.policy, "policy_version": policy.version, "set": list(request.settings.problems)}
    record = named | evaluation.record() | provenance(config, policy.temperature, command)
    lines: list[str] = []
    if path and rival is not None:
        differences = compare_problems(evaluation, rival["per_problem"])
        record["against"] = comparison_record(path, rival, differences)
        rival_policy = (
            f"{rival.get('policy')}, chains of {rival.get('answers')}, temperature {rival.get('temperature')}"
        )
        beside = name_beside(config.policy, rival, path)
        lines = [f"against {path}: {rival_policy}", *verdicts(differences, config.policy, beside)]
    if request.output:
        write_evaluation(Path(request.output), {**record, "per_problem": evaluation.problem_records()})
    return Evaluated(evaluation, record, lines)


def provenance(config: RunConfig, temperature: float, command: str) -> dict[str, Any]:
    """The command that repeats the measurement."""
    return {
        "temperature": temperature,
        "top_p": config.top_p,
        "max_new_tokens": config.max_new_tokens,
        "sandbox": config.sandbox,
        "commit": source_commit(),
        "command": command,
    }
