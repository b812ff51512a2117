"""An evaluation as a file: written whole, read back with care, and compared problem by problem."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evo.errors import BadInput
from evo.stats import Difference, verdict
from evo.whole_file import write_whole
from problems.contract import Problem


def check_writable(output: str) -> None:
    """BadInput if -o names a file that cannot be written: found out before the work, not after it."""
    path = Path(output)
    if path.is_dir() or not path.parent.is_dir():
        raise BadInput(f"-o {output}: {'is a directory' if path.is_dir() else f'there is no directory {path.parent}'}")
    if not os.access(path.parent, os.W_OK):
        raise BadInput(f"-o {output}: the directory {path.parent} cannot be written to")


def write_evaluation(path: Path, record: Mapping[str, Any]) -> None:
    """Write the record; a file under its final name is always complete."""
    write_whole(path, json.dumps(record, indent=1) + "\n")


def read_record(path: str, said: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The file of `evo evaluate -o`, and its rows, one per problem. BadInput if it is not such a file; said: the
    file's name in messages."""
    try:
        record: Any = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{said}: {error.strerror or error}") from error
    except ValueError as error:
        raise BadInput(f"{said}: not JSON; name a file that evo evaluate -o wrote") from error
    rows = record.get("per_problem") if isinstance(record, dict) else None
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and isinstance(row.get("problem"), str) for row in rows
    ):
        raise BadInput(f"{said}: has no results; name a file that evo evaluate -o wrote")
    return record, rows


def read_evaluation(path: str, problems: Sequence[Problem], total: int) -> dict[str, Any]:
    """The file of `evo evaluate -o` on the same problems at equal numbers of answers; BadInput if it is not that."""
    record, rows = read_record(path, f"--against {path}")
    theirs = {row["problem"]: row for row in rows}
    left_out = record.get("faults")
    left_out = left_out if isinstance(left_out, dict) else {}
    ours = {problem.name: problem for problem in problems}
    for name in ours:
        if name not in theirs and name not in left_out:
            raise BadInput(f"--against {path}: has no {name}; compare on the same problems")
    for name, row in theirs.items():
        if name not in ours:
            raise BadInput(f"--against {path}: has {name}, which is not among these; compare on the same problems")
        then, now = (row.get("objectives"), row.get("target")), (list(ours[name].objectives), ours[name].target)
        if then != now:
            raise BadInput(f"--against {path}: its {name} had other objectives or another target; evaluate it again")
    if record.get("answers_total") != total:
        raise BadInput(
            f"--against {path}: {record.get('answers_total')} answers a problem there, {total} here; "
            "compare at equal numbers (--answers-total)"
        )
    return dict(record)


def verdicts(differences: Mapping[str, Difference], first: str, second: str) -> list[str]:
    """One line per metric: the difference with its interval, or that none is shown, with the p of its test."""
    return [
        f"{name}: {verdict(first, second, difference, digits=3)}"
        for name, difference in differences.items()
        if not name.startswith("mean[")
    ]


def name_beside(policy: str, rival: Mapping[str, Any], path: str) -> str:
    """The name of the file's policy in a comparison with `policy`."""
    name = str(rival.get("policy", path))
    return f"{name} ({Path(path).name})" if name == policy else name


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
