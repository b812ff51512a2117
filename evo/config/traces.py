"""Which stored iterations a training run learns from."""

from __future__ import annotations

import re

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
    passes: int = Field(1, ge=1, description="Passes over the traces, each in another order.")

    @field_validator("from_traces", "trace_problems")
    @classmethod
    def _parted(cls, given: list[str]) -> list[str]:
        """Repeated or parted by commas. An address of a database that holds a comma goes to --db."""
        return list(dict.fromkeys(part.strip() for item in given for part in item.split(",") if part.strip()))


def run_and_address(given: str, db: str) -> tuple[str, str]:
    """`RUN@DATABASE` in its two parts; the database is `db` if it names none."""
    matched = _RUN_AT.fullmatch(given)
    return (matched["run"], matched["address"]) if matched else (given, db)
