"""`--ray ADDRESS[?OPTION=VALUE&...]`: the cluster that does the work, and the resources of a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pydantic import BaseModel, ConfigDict, Field, field_validator

from evo.config.parse import parse
from evo.errors import BadInput
from problems.address import split_options
from problems.scoring import CPUS, GPUS

LOCAL, AUTO = "local", "auto"


class ClusterOptions(BaseModel):
    """The options after the question mark."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cpus: float = Field(1.0, ge=0.0, description="CPUs of a task, which is one run.")
    gpus: float = Field(0.0, ge=0.0, description="GPUs of a task, if its policy runs in it.")
    resources: dict[str, float] = Field(
        default_factory=dict, description="Resources of a task, as Ray names them: NAME:1,NAME:2."
    )
    scorers: int = Field(0, ge=0, description="Scoring processes on the nodes; 0 scores in the task.")
    scorer_cpus: float = Field(
        1.0, ge=0.0, description="CPUs of a scoring process; default: as the scorers declare, or 1."
    )
    scorer_gpus: float = Field(
        0.0, ge=0.0, description="GPUs of a scoring process; default: as the scorers declare, or 0."
    )
    scorer_resources: dict[str, float] = Field(
        default_factory=dict, description="Resources of a scoring process; default: as the scorers declare."
    )

    @field_validator("resources", "scorer_resources", mode="before")
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

    def for_scorers(self, taken: Mapping[str, float]) -> ClusterAddress:
        """With scoring processes that have the scorers' resources (problems.scoring), except where the address
        sets them."""
        own = {name: amount for name, amount in taken.items() if name not in (CPUS, GPUS)}
        said = {"scorer_cpus": taken.get(CPUS), "scorer_gpus": taken.get(GPUS), "scorer_resources": own or None}
        given = self.options.model_fields_set
        update = {key: value for key, value in said.items() if value is not None and key not in given}
        return replace(self, options=self.options.model_copy(update=update))


def parse_cluster(text: str) -> ClusterAddress:
    """Raises BadInput, one line."""
    where, options = split_options(text)
    if where not in (LOCAL, AUTO) and ":" not in where:
        raise BadInput(f"--ray {text}: expected local, auto, or HOST:PORT of a Ray cluster")
    return ClusterAddress(
        where, parse(ClusterOptions, {name: value for name, value in options if value}, f"--ray {where}")
    )
