"""The description of a scoring function given in Python; a scorer file declares the same itself."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class ScorerSettings(BaseModel):
    """Kept with the run, so that a resume needs only the function."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    statement: str | None = Field(None, description="The task in English, as a prompt shows it.")
    seed_answer: str | list[str] | None = Field(None, description="The answer that the search starts from.")
    target: float | None = Field(None, description="The fitness at which the problem counts as solved.")
    answer_format: Literal["text", "python"] = Field("text", description="How an answer is written.")
    objectives: list[str] | None = Field(None, description="The names of the scores; default: those of the seed.")
    directions: dict[str, Literal["max", "min"]] | None = Field(
        None, description="min for an objective that is better when lower."
    )
    weights: dict[str, float] | list[float] | None = Field(
        None, description="The objectives' weights in the fitness; default: the plain mean."
    )
    timeout: float | None = Field(None, gt=0, description="Seconds per answer; default 30.")
    readable: list[str] | None = Field(None, description="Files and folders that the function reads.")
    batched: bool = Field(False, description="The function takes a list of answers and gives a list of scores.")
    isolated: bool = Field(True, description="Run in the sandbox; off: trusted.")
    resources: dict[str, float] = Field(
        default_factory=dict, description="What scoring an answer takes, as in {gpus: 1}; see scoring_resources."
    )
