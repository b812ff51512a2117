"""Which stored iterations a training run learns from."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field, field_validator

from islands.names import DEFAULT_DB

TRUNCATE = 2.0
"""The cap of the importance weights for training on traces, if the user sets none."""

_RUN_AT = re.compile(r"(?P<run>[^@]+)@(?P<address>[A-Za-z][A-Za-z0-9+]*://.*)")


class TraceSettings(BaseModel):
    """The place of the traces, and which of them to learn from. A group is taken whole or not at all."""

    model_config = ConfigDict(extra="forbid")

    from_traces: list[str] = Field(
        default_factory=list,
        description="Learn from the stored answers of these runs (RUN, a comparison's name, RUN@DATABASE; commas), "
        "instead of sampling.",
    )
    db: str = Field(DEFAULT_DB, description="The database of runs that name no other.")
    trace_problems: list[str] = Field(
        default_factory=list,
        description="Use only traces of these problems (a name, an address, a set or part of one).",
    )
    trace_versions: list[str] = Field(
        default_factory=list, description="Use only traces of policy versions that begin like this."
    )
    trace_after: str | None = Field(
        None, description="Use only traces stored at or after this ISO time, by default in UTC."
    )
    trace_before: str | None = Field(None, description="Use only traces stored before this ISO time.")
    trace_iterations: str | None = Field(
        None, description="Use only iterations A-B of each problem, from 0, both included; A- has no end."
    )
    trace_most_behind: int | None = Field(
        None,
        ge=0,
        description="Use no traces of versions more than this many training steps behind their run's newest.",
    )
    passes: int = Field(1, ge=1, description="Passes over the traces, each in another order.")

    @field_validator("from_traces", "trace_problems", "trace_versions")
    @classmethod
    def _parted(cls, given: list[str]) -> list[str]:
        """Repeated or parted by commas. An address of a database that holds a comma goes to --db."""
        return list(dict.fromkeys(part.strip() for item in given for part in item.split(",") if part.strip()))

    @field_validator("trace_after", "trace_before")
    @classmethod
    def _time(cls, given: str | None) -> str | None:
        if given is not None:
            try:
                timestamp(given)
            except ValueError:
                raise ValueError("is no ISO time, such as 2026-01-31 or 2026-01-31T18:30") from None
        return given

    @field_validator("trace_iterations")
    @classmethod
    def _span(cls, given: str | None) -> str | None:
        if given is not None:
            first, last = span(given)
            if last is not None and last < first:
                raise ValueError("ends before it begins")
        return given


def timestamp(time: str) -> float:
    """Seconds since 1970 of an ISO time, UTC if it names no zone. Raises ValueError."""
    parsed = datetime.fromisoformat(time)
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


def span(iterations: str) -> tuple[int, int | None]:
    """`A-B` or `A-`. Raises ValueError."""
    matched = re.fullmatch(r"(\d+)-(\d*)", iterations.strip())
    if matched is None:
        raise ValueError("is no span of iterations, such as 0-49 or 50-")
    return int(matched[1]), int(matched[2]) if matched[2] else None


def run_and_address(given: str, db: str) -> tuple[str, str]:
    """`RUN@DATABASE` in its two parts; the database is `db` if it names none."""
    matched = _RUN_AT.fullmatch(given)
    return (matched["run"], matched["address"]) if matched else (given, db)
