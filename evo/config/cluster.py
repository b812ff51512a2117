"""`--ray ADDRESS[?OPTION=VALUE&...]`: the cluster that does the work, and the resources of a task."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, field_validator

from evo.config.parse import parse
from evo.errors import BadInput
from problems.address import split_options

LOCAL, AUTO = "local", "auto"


class ClusterOptions(BaseModel):
    """The options after the question mark."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cpus: float = Field(1.0, ge=0.0, description="CPUs of a task, which is one run.")
    gpus: float = Field(0.0, ge=0.0, description="GPUs of a task, if its policy runs in it.")
    resources: dict[str, float] = Field(
        default_factory=dict, description="Resources of a task, as Ray names them: NAME:1,NAME:2."
    )

    @field_validator("resources", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        parts = [part.partition(":") for part in value.split(",") if part]
        return {name: amount or 1.0 for name, _, amount in parts}


@dataclass(frozen=True)
class ClusterAddress:
    """where: `local` for a Ray started by this process, `auto` for the cluster of this machine, else
    HOST:PORT or ray://HOST:PORT"""

    where: str
    options: ClusterOptions

    def __str__(self) -> str:
        return self.where


def parse_cluster(text: str) -> ClusterAddress:
    """Raises BadInput, one line."""
    where, options = split_options(text)
    if where not in (LOCAL, AUTO) and ":" not in where:
        raise BadInput(f"--ray {text}: expected local, auto, or HOST:PORT of a Ray cluster")
    return ClusterAddress(
        where, parse(ClusterOptions, {name: value for name, value in options if value}, f"--ray {where}")
    )
