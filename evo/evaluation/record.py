"""One evaluation from its settings to its record, which the command line and Python print and write alike, and the file
of that record: written whole, read back with care, compared problem by problem."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evo.config.run import EvaluateConfig, RunConfig
from evo.errors import BadInput
from evo.evaluation.evaluate import Progress, check_request, evaluate, open_formats
from evo.evaluation.metrics import Evaluation, compare_problems
from evo.provenance import source_commit
from evo.search.defaults import resolve_address, resolve_settings, workers
from evo.search.resources import check_one_policy, open_policy, resolve_problems
from evo.stats import Difference, verdict
from evo.whole_file import write_whole
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
    record = {
        **{"policy": config.policy, "policy_version": policy.version, "set": list(request.settings.problems)},
        **evaluation.record(),
        **{"temperature": policy.temperature, "top_p": config.top_p, "max_new_tokens": config.max_new_tokens},
        **{"sandbox": config.sandbox, "commit": source_commit(), "command": command},
    }
    lines: list[str] = []
    if path and rival is not None:
        differences = compare_problems(evaluation, rival["per_problem"])
        record["against"] = comparison_record(path, rival, differences)
        name = str(rival.get("policy", path))
        sampled = f"chains of {rival.get('answers')}, temperature {rival.get('temperature')}"
        beside = f"{name} ({Path(path).name})" if name == config.policy else name
        lines = [f"against {path}: {name}, {sampled}", *verdicts(differences, config.policy, beside)]
    if request.output:
        whole = {**record, "per_problem": evaluation.problem_records()}
        write_whole(Path(request.output), json.dumps(whole, indent=1) + "\n")
    return Evaluated(evaluation, record, lines)


def check_writable(output: str) -> None:
    """BadInput if -o names a file that cannot be written: found out before the work, not after it."""
    path = Path(output)
    if path.is_dir() or not path.parent.is_dir():
        raise BadInput(f"-o {output}: {'is a directory' if path.is_dir() else f'there is no directory {path.parent}'}")
    if not os.access(path.parent, os.W_OK):
        raise BadInput(f"-o {output}: the directory {path.parent} cannot be written to")


def read_evaluation(path: str, problems: Sequence[Problem], total: int) -> dict[str, Any]:
    """The file of `evo evaluate -o` on the same problems at equal numbers of answers; BadInput if it is not that."""

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
    if (answers := record.get("answers_total")) != total:
        raise refused(f"{answers} answers a problem there, {total} here; compare at equal numbers (--answers-total)")
    return dict(record)


def verdicts(differences: Mapping[str, Difference], first: str, second: str) -> list[str]:
    """One line per metric: the difference with its interval, or that none is shown, with the p of its test."""
    return [
        f"{name}: {verdict(first, second, difference, digits=3)}"
        for name, difference in differences.items()
        if not name.startswith("mean[")
    ]


def comparison_record(path: str, rival: Mapping[str, Any], differences: Mapping[str, Difference]) -> dict[str, Any]:
    """The comparison as JSON takes it."""
    return {
        "file": path,
        "policy": rival.get("policy"),
        "policy_version": rival.get("policy_version"),
        "commit": rival.get("commit"),
        "differences": {
            name: {
                "mean": difference.interval.mean,
                "interval": [difference.interval.low, difference.interval.high] if difference.interval.known else None,
                "p": difference.p,
                "problems": difference.pairs,
                "shown": difference.shown,
            }
            for name, difference in differences.items()
        },
    }
