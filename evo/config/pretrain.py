"""The configuration of a pretraining."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from evo.errors import BadInput
from vpo.embedded.pretrain_config import PretrainConfig, languages, make_config


class PretrainSettings(BaseModel):
    """The settings of `evo pretrain`; by default those of the embedded policy."""

    model_config = ConfigDict(extra="forbid")

    language: str = Field("maze", description="The token language that the policy writes.")
    start: str | None = Field(None, description="The embedded policy to start from.  [default: none]")
    steps: int | None = Field(None, ge=1, description="Optimiser steps.  [default: what made the shipped policy]")
    seconds: float | None = Field(None, gt=0, description="Stop after this many seconds instead of by steps.")
    seed: int = Field(0, ge=0, description="The seed of every random choice.")
    width: int | None = Field(None, ge=8, description="The model's width.")
    layers: int | None = Field(None, ge=1, description="The model's layers.")
    heads: int | None = Field(None, ge=1, description="Attention heads.")
    lr: float | None = Field(None, gt=0, description="The peak learning rate.")
    large_share: float | None = Field(
        None, ge=0, le=1, description="The share of lessons on 13x13 boards.  [default: .5 in maze-edit]"
    )
    precision: Literal["auto", "fp32", "bf16"] = Field("auto", description="The number format of products.")
    threads: int = Field(1, ge=1, description="CPU threads.")

    def config(self) -> PretrainConfig:
        """The configuration for pretraining. Raises BadInput, in one line, for settings that do not fit together."""
        if self.language not in languages():
            raise BadInput(f"there is no language {self.language!r}; there are {', '.join(languages())}")
        try:
            return make_config(**self.model_dump(exclude_none=True))
        except ValueError as error:
            raise BadInput(str(error)) from error
