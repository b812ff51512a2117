"""The inputs of a stage in addition to its settings, each with a fingerprint: scorers, weights, stored runs, files.

A stage that is done was made of them. The fingerprints are those by which a run knows its scorer and a policy its
version; of a stored run they change with its iterations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evo.config.train import run_and_address
from evo.search.resources import problems_at
from islands.comparisons import runs_named
from islands.errors import DatabaseUnavailable, NoRuns, UnknownRun
from islands.runs import group_count
from islands.store import Store
from problems.address import user_path
from problems.contract import BadAddress
from problems.fingerprint import files_fingerprint, files_named_by, fingerprint_of
from problems.registry import is_of_package
from vpo.policies.address import PolicyAddress, parse_addresses
from vpo.policies.checkpoint import find_base, fingerprint
from vpo.policies.command import find_command

GONE = ""
"""The fingerprint of an input that is not there."""


def read_inputs(kind: str, values: Mapping[str, Any], db: str) -> dict[str, str]:
    """Name -> fingerprint of all that a stage reads. Problem sets and policies of this package are left out: no user
    changes them.

    values: the stage's settings as plain values, with the results of earlier stages in them; db: of the runs
    """
    return dict(_inputs(kind, values, db))


def _inputs(kind: str, values: Mapping[str, Any], db: str) -> Iterator[tuple[str, str]]:
    for key, limit in (("problems", "limit"), ("evaluate", "evaluate_limit")):
        for address in values.get(key) or ():
            if not is_of_package(address):
                yield address, _of_problems(address, values.get(limit))
    policies = [values.get("policy"), *(arm["policy"] for arm in (values.get("arms") or {}).values())]
    for address in [one for named in policies if named for one in parse_addresses(named)]:
        if found := _of_policy(address):
            yield address.plain, found
    if kind == "evaluate" and values.get("against"):
        yield values["against"], _of_file(values["against"])
    runs = [values["run"]] if kind == "report" else [*(values.get("from_traces") or ())]
    if (parents := values.get("parents_from") or "").startswith("archive:"):
        runs.append(parents.removeprefix("archive:"))
    for start in values.get("start") or ():
        if Path(start).is_file():
            yield start, _of_file(start)
        else:
            runs.append(start)
    for run in runs:
        yield f"run {run}", _of_run(*run_and_address(run, values.get("db") or db))


def _of_problems(address: str, limit: int | None) -> str:
    try:
        return fingerprint_of(*(problem.fingerprint() for problem in problems_at([address], limit)))
    except (BadAddress, OSError):
        return GONE


def _of_policy(address: PolicyAddress) -> str:
    """Empty for a policy that no file of the user's makes, as one on a server or of the hub."""
    try:
        if address.kind == "command":
            words = [Path(word) for word in find_command(address)[1:]]
            files = [word for word in words if word.is_file()]
            used = set[Path]().union(*(files_named_by([file], file.parent) for file in files))
            return files_fingerprint(Path.cwd(), used) if files else ""
        if address.folder is None or address.kind == "embedded":
            return ""
        source, adapters = find_base(address) if address.has_weights else (str(address.folder), [])
        return "+".join(map(fingerprint, (source, *adapters)))
    except (BadAddress, OSError):
        return GONE


def _of_file(path: str) -> str:
    try:
        return fingerprint_of(user_path(path).read_bytes())
    except OSError:
        return GONE


def _of_run(name: str, db: str) -> str:
    try:
        with Store.open(db, read_only=True) as store:
            return fingerprint_of(*([run.created, *group_count(store, run.id)] for run in runs_named(store, name)))
    except (UnknownRun, NoRuns, DatabaseUnavailable):
        return GONE
