"""How a population is kept and sampled. Defaults and names follow OpenEvolve if it has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

BASELINES = ("hill", "scs")
"""Strategies that decide everything that a prompt shows, without islands (islands.population.selection)."""
ISLANDS = 5
"""OpenEvolve's number of islands."""


class PopulationConfig(BaseModel):
    """Settings of the islands of one problem; a wrong key or number is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    islands: int = Field(
        0, ge=0, le=1000, description="Islands per problem; 0: one if pareto chooses parents, else five."
    )
    population_size: int | None = Field(
        1000, ge=1, description="Members of all islands together at most, each copy counted; none: no bound."
    )
    archive_size: int = Field(
        100,
        ge=1,
        le=2000,
        description="Members that exploitation draws from.",
    )
    feature_dimensions: tuple[str, ...] | None = Field(
        None,
        description="What spans the grid: complexity (characters), diversity (distance to reference answers), score "
        "(fitness), rewards (every objective), reward:NAME, or a feature the scorer gives; default: the features of "
        "the first valid answer if it has one to three of them, else complexity and diversity.",
    )
    feature_bins: int | dict[str, int] = Field(10, description="Bins per feature, or a mapping from feature to bins.")
    diversity_reference_size: int = Field(
        20, ge=1, le=200, description="How many of the first valid answers diversity is measured against."
    )
    strategy: Literal["auto", "openevolve", "weighted", "pareto", "hill", "scs"] = Field(
        "auto",
        description="How parents are chosen; auto: a new best answer at first (see climb), then as pareto for several "
        "objectives and as openevolve for one; two baselines without islands: hill shows only the best answer so far, "
        "scs random successful ones.",
    )
    climb: float = Field(
        1.0,
        ge=0,
        description="How long auto and pareto stay with an island's best, the fittest or under pareto that of a random "
        "weighting, before they spread out: it is the parent with chance climb / (climb + prompts it was the parent "
        "of); 0: no such turns.",
    )
    exploration_ratio: float = Field(0.2, ge=0, le=1, description="The share of uniform draws under openevolve.")
    exploitation_ratio: float = Field(
        0.7,
        ge=0,
        le=1,
        description="The share of draws from the archive under openevolve; the rest is in proportion to fitness.",
    )
    pareto_pool: int = Field(
        8,
        ge=1,
        description="How many answers of an island's front pareto draws from: those that serve all weightings of the "
        "objectives best as a set.",
    )
    num_top_programs: int = Field(3, ge=0, le=100, description="The best candidates that a prompt shows.")
    num_diverse_programs: int = Field(2, ge=0, le=100, description="Inspirations that a prompt shows.")
    elite_selection_ratio: float = Field(
        0.1, ge=0, le=1, description="The share of inspirations that are the island's fittest."
    )
    migration_interval: int = Field(50, ge=1, description="Generations of the busiest island between migrations.")
    migration_rate: float = Field(0.1, ge=0, le=1, description="The share of an island, the fittest, that may migrate.")

    @model_validator(mode="before")
    @classmethod
    def _without_islands(cls, values: Any) -> Any:
        """A baseline keeps one population, even if an OpenEvolve directory's config sets islands."""
        if isinstance(values, Mapping) and values.get("strategy") in BASELINES:
            return {"islands": 1, **values}
        return values

    @model_validator(mode="after")
    def _consistent(self) -> PopulationConfig:
        if self.exploration_ratio + self.exploitation_ratio > 1 + 1e-9:
            raise ValueError(
                f"exploration_ratio {self.exploration_ratio} and exploitation_ratio {self.exploitation_ratio} "
                "exceed 1 together"
            )
        if self.strategy in BASELINES and self.islands > 1:
            raise ValueError(f"strategy {self.strategy} has no islands: leave out islands, here {self.islands}")
        if self.population_size is not None and self.population_size < self.islands:
            raise ValueError(
                f"population_size {self.population_size} is less than one for each of {self.islands} islands"
            )
        if self.feature_dimensions is not None and not self.feature_dimensions:
            raise ValueError("feature_dimensions is empty; leave it out for the default, or name at least one feature")
        if self.feature_dimensions and len(set(self.feature_dimensions)) < len(self.feature_dimensions):
            raise ValueError(f"feature_dimensions names a feature twice: {', '.join(self.feature_dimensions)}")
        bins = self.feature_bins.values() if isinstance(self.feature_bins, dict) else [self.feature_bins]
        if any(not 1 <= b <= 10_000 for b in bins):
            raise ValueError("feature_bins must be between 1 and 10000")
        return self

    def resolve(self, objectives: int) -> PopulationConfig:
        """With the number of islands that suits this many objectives, if none was chosen: under pareto a search finds
        more with all members of a problem in one island (bench/results/front.md)."""
        if self.islands:
            return self
        front = self.strategy == "pareto" or (self.strategy == "auto" and objectives > 1)
        return self.model_copy(update={"islands": 1 if front else min(ISLANDS, self.population_size or ISLANDS)})

    def bins(self, dimensions: tuple[str, ...]) -> tuple[int, ...]:
        """Bins of each dimension. As in OpenEvolve, one number for all dimensions never gives fewer cells than
        archive_size, and a feature missing from a mapping gets 10."""
        if isinstance(self.feature_bins, dict):
            return tuple(self.feature_bins.get(name, 10) for name in dimensions)
        at_least = int(self.archive_size ** (1 / max(1, len(dimensions))) + 0.99)
        return (max(self.feature_bins, at_least),) * len(dimensions)
