"""How a policy is asked, wherever one is: types whose bounds and descriptions every command shares."""

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
    """auto, or a share: one line for both, where pydantic's own names neither."""
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

    problems: list[str] = Field(default_factory=list, description="problem addresses")
    policy: str = Field(
        "embedded:base",
        description="embedded:NAME (mazes), a hub id or directory, vllm:ID, openai:MODEL@URL, or scripted:mutate (no "
        "model: changes text, numbers and programs at random)",
    )
    answers: Answers = Field(3, description="m, answers asked of each rollout")
    seed: int = Field(0, ge=0, description="decides every random choice")
    limit: Count | None = Field(None, description="only the first K problems of each set")
    temperature: Temperature | None = Field(
        None, description="of sampling; default 1, or what an OpenEvolve config says"
    )
    top_p: TopP = Field(1.0, description="nucleus sampling")
    max_new_tokens: Count | None = Field(None, description="per rollout; default by answer format and count")
    sandbox: Mode = Field("auto", description="isolation of code that models write")
    device: str | None = Field(None, description="cpu, cuda, cuda:1 (transformers)")
    dtype: Dtype | None = Field(None, description="of the weights (transformers)")
