"""The configuration of `evo pick`: a choice of problems by their metrics in evaluations."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from evo.config.sampling import Count


class PickConfig(BaseModel):
    """The settings of `evo problems pick`."""

    model_config = ConfigDict(extra="forbid")

    evaluations: list[str] = Field(min_length=1, description="Files that evo evaluate -o wrote.")
    metric: str = Field("best@30", description="The metric of each problem, as evaluations call it.")
    at_most: float = Field(0.0, description="Pick problems whose metric is this or less in every evaluation.")
    limit: Count | None = Field(None, description="Use only the first K of them.")
