"""How a policy samples: types and settings whose bounds and descriptions every command shares."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from problems.sandbox.contract import Mode

Rollouts = Annotated[int, Field(ge=1, le=1024)]
Answers = Annotated[int, Field(ge=1, le=32)]
Temperature = Annotated[float, Field(ge=0.0, le=5.0)]
TopP = Annotated[float, Field(gt=0.0, le=1.0)]
Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Dtype = Literal["float32", "bfloat16", "float16"]


def _fresh(given: Any) -> Any:
    """auto, or a share: one message for both, since pydantic's would name neither."""
    try:
        share = given if given == "auto" else float(given)
    except (TypeError, ValueError):
        share = -1.0
    if share != "auto" and not 0.0 <= share <= 1.0:
        raise ValueError("expected a share from 0 to 1, or auto")
    return share


Fresh = Annotated[float | Literal["auto"], BeforeValidator(_fresh)]


class SamplingConfig(BaseModel):
    """Which policy answers which problems, and how it samples."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    problems: list[str] = Field(default_factory=list, description="Problem addresses.")
    policy: str = Field(
        "embedded:base",
        description="The policy: embedded:NAME (mazes), a hub id or directory, vllm:ID, openai:MODEL@URL, or "
        "scripted:mutate (random edits, no model).",
    )
    answers: Answers = Field(3, description="Answers per rollout (m).")
    seed: int = Field(0, ge=0, description="The seed of every random choice.")
    limit: Count | None = Field(None, description="Use only the first K problems of each set.")
    temperature: Temperature | None = Field(
        None, description="The sampling temperature; default: an OpenEvolve config's, else the model's own, else 1."
    )
    top_p: TopP = Field(1.0, description="Sample from the smallest set of tokens with this much probability.")
    max_new_tokens: Count | None = Field(
        None, description="Tokens per rollout at most; default by answer format and count."
    )
    sandbox: Mode = Field("auto", description="How code that models write is isolated.")
    device: str | None = Field(None, description="The device of a transformers model: cpu, cuda, cuda:1.")
    dtype: Dtype | None = Field(None, description="The number format of a transformers model's weights.")
