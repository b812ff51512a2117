"""The configuration of an evaluation: how often a policy is sampled, and with which seeds."""

from __future__ import annotations

from pydantic import Field

from evo.config.run import RunConfig
from evo.config.sampling import SamplingConfig


class EvaluateConfig(SamplingConfig):
    """The settings of `evo evaluate`."""

    answers_total: int = Field(30, ge=1, le=100_000, description="Answers per problem.")
    seeds: int = Field(1, ge=1, le=1000, description="How many seeds, from --seed on.")
    against: str | None = Field(None, description="Compare problem by problem with a file that -o wrote.")

    def run_config(self) -> RunConfig:
        """The same as a run's configuration; settings left open stay open."""
        return RunConfig.model_validate(self.model_dump(include=set(SamplingConfig.model_fields), exclude_unset=True))
