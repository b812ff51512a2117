"""`--ray ADDRESS[?OPTION=VALUE&...]`: which cluster does the work, and what a task of it takes."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, Field, field_validator

from evo.config.parse import parse
from evo.errors import BadInput

LOCAL, AUTO = "local", "auto"


class ClusterOptions(BaseModel):
    """What may stand after the question mark."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cpus: float = Field(1.0, ge=0.0, description="of a task: one run of a comparison, or one shard of a run")
    gpus: float = Field(0.0, ge=0.0, description="of a task, where its policy runs in it")
    resources: dict[str, float] = Field(default_factory=dict, description="of a task, as Ray names them: NAME:1,NAME:2")
    shards: int | None = Field(None, ge=1, description="tasks that a run's problems are dealt to; default: as many fit")
    scorers: int = Field(0, ge=0, description="scoring processes on the nodes; 0 scores where the task is")
    scorer_cpus: float = Field(1.0, ge=0.0, description="of a scoring process")
    scorer_gpus: float = Field(0.0, ge=0.0, description="of a scoring process")
    scorer_resources: dict[str, float] = Field(default_factory=dict, description="of a scoring process")

    @field_validator("resources", "scorer_resources", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        parts = [part.partition(":") for part in value.split(",") if part]
        return {name: amount or 1.0 for name, _, amount in parts}


@dataclass(frozen=True)
class ClusterAddress:
    """where: `local` for a Ray of this process's own, `auto` for the one that this machine belongs to, else
    HOST:PORT or ray://HOST:PORT"""

    where: str
    options: ClusterOptions

    def __str__(self) -> str:
        return self.where


def parse_cluster(text: str) -> ClusterAddress:
    """Raises BadInput, one line."""
    where, _, query = text.partition("?")
    if where not in (LOCAL, AUTO) and ":" not in where:
        raise BadInput(f"--ray {text}: expected local, auto, or HOST:PORT of a Ray cluster")
    return ClusterAddress(where, parse(ClusterOptions, dict(parse_qsl(query)), f"--ray {where}"))
