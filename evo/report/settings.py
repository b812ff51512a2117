"""The arms' settings, first those in which they differ, and the runs with seeds and states."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from evo.comparison.load import Comparison
from evo.report.cells import NONE, Column, Table, TableCell, number, word
from islands.db.address import hide_password
from islands.types import RunRecord

LISTED = 6
UNRECORDED = "not recorded"
PER_RUN = ("seed",)


def settings_tables(comparison: Comparison) -> tuple[Table | None, Table]:
    """The settings in which arms differ (None for a single arm), and those that they share."""
    flat = {arm.name: flattened(arm.runs[0].config) for arm in comparison.arms}
    keys = [key for key in dict.fromkeys(key for config in flat.values() for key in config) if key not in PER_RUN]
    differing = [
        key for key in keys if len({json.dumps(config.get(key), sort_keys=True) for config in flat.values()}) > 1
    ]
    first = next(iter(flat.values()))
    shared = Table(
        "shared-settings",
        "Settings of every arm" if len(flat) > 1 else "Settings",
        (Column("setting", number=False), Column("value", number=False)),
        tuple((word(key), TableCell(_said(first[key]))) for key in keys if key not in differing),
    )
    if len(flat) < 2:
        return None, shared
    apart = Table(
        "settings",
        "What the arms differ in",
        (Column("setting", number=False), *(Column(name, number=False) for name in flat)),
        tuple((word(key), *(TableCell(_said(config.get(key))) for config in flat.values())) for key in differing),
    )
    return apart, shared


def runs_table(comparison: Comparison) -> Table:
    rows = tuple(
        (
            word(run.name),
            word(run.arm or NONE),
            number(run.seed, ".0f"),
            word(run.status),
            word(run.reason),
            word(run.commit),
        )
        for run in comparison.runs
    )
    columns = (
        Column("run", number=False),
        Column("arm", number=False),
        Column("seed"),
        Column("status", number=False),
        Column("reason", number=False),
        Column("commit", number=False),
    )
    return Table("runs", "Runs", columns, rows)


def commands(comparison: Comparison) -> list[str]:
    """The command lines that made the runs, each once and without a password."""
    return list(dict.fromkeys(hide_password(run.command) for run in comparison.runs))


def flattened(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Sections as dotted keys: population.islands."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat |= flattened(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _said(value: Any) -> str:
    if isinstance(value, list):
        text = ", ".join(str(item) for item in value[:LISTED])
        return f"{text}, … ({len(value)} in all)" if len(value) > LISTED else text
    return "default" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def machines_table(comparison: Comparison) -> Table:
    """Where and when the runs were searched, as they themselves kept it: one row for each machine and software."""
    by_machine: dict[str, tuple[Mapping[str, Any], list[RunRecord]]] = {}
    for run in comparison.runs:
        for machine in run.summary.get("machines") or [{"commit": run.commit}]:
            by_machine.setdefault(json.dumps(machine, sort_keys=True), (machine, []))[1].append(run)
    rows = []
    for machine, runs in by_machine.values():
        hardware = [str(machine[key]) for key in ("cpu",) if machine.get(key)]
        hardware += [f"{machine['cores']} cores"] if machine.get("cores") else []
        hardware += [f"{machine['memory_gib']:g} GiB"] if machine.get("memory_gib") else []
        versions = machine.get("versions") or {}
        rows.append(
            (
                number(len(runs), ".0f"),
                word(f"{_date(min(run.created for run in runs))} to {_date(max(run.updated for run in runs))}"),
                word(", ".join(hardware) or UNRECORDED),
                word(", ".join(machine.get("gpus") or ()) or ("none" if hardware else UNRECORDED)),
                word(str(machine.get("system") or UNRECORDED)),
                word(", ".join(f"{name} {version}" for name, version in versions.items()) or UNRECORDED),
                word(str(machine.get("commit") or UNRECORDED)),
            )
        )
    columns = (
        Column("runs"),
        Column("dates (UTC)", "when the first run began, and the last was written to", number=False),
        Column("machine", "processor, cores available to the search, memory", number=False),
        Column("GPU", "used by the process; a policy on a server has another", number=False),
        Column("system", number=False),
        Column("versions", "of evo, Python and the libraries that a policy ran on", number=False),
        Column("commit", "of the source; + if it had changes", number=False),
    )
    return Table("machines", "Where and when the runs were searched", columns, tuple(rows))


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
