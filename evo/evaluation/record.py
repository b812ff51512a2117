"""One evaluation from its settings to its record, which the command line and Python print and write alike, and the file
of that record: written whole, read back with care, compared problem by problem."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from evo.config.run import EvaluateConfig
from evo.errors import BadInput
from evo.evaluation.evaluate import OnProgress, check_evaluation, open_formats, sample_seeds
from evo.evaluation.metrics import Evaluation, compare_problems
from evo.provenance import source_commit
from evo.search.resources import (
    check_one_policy,
    open_policy,
    resolve_address,
    resolve_problems,
    resolve_settings,
    workers,
)
from evo.stats.differences import verdict
from evo.whole_file import write_whole
from problems.address import name_few
from problems.contract import Problem
from problems.scoring import Scorer
from vpo.policies.address import parse_address
from vpo.policies.registry import check_policy

Report = Callable[[str, int, int], None]
"""Called with the policy and problems in words, and how many problems are done, of how many."""


async def run_evaluation(
    settings: EvaluateConfig,
    output: str | None,
    command: str,
    report: Report | None = None,
) -> dict[str, Any]:
    """Check the input, load the policy, ask it, score, aggregate; write the record if `output` names a file.

    Returns the record, with the metrics of each problem as `per_problem`. Raises as evo.evaluation.evaluate does, for
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
        progress: OnProgress | None = None
        if report is not None:
            progress = partial(report, f"{config.policy} on {name_few(settings.problems, 3)}")
            progress(0, len(problems) * settings.seeds)
        evaluation = await sample_seeds(
            policy, problems, answers=config.answers, total=total, seeds=seeds, scorer=scorer, on_progress=progress
        )
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
