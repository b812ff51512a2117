"""What a vllm: policy and its engine's process send each other of a call."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from problems.types import Prompt


@dataclass(frozen=True)
class Group:
    """Rollouts of one prompt: a seed for each."""

    prompt: Prompt
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class EngineCall:
    """What one `sample` asks for: groups, drawn at one temperature, ended by any of the stop tokens.

    limit: most tokens of a rollout; context: of a prompt and its rollout
    """

    groups: tuple[Group, ...]
    limit: int
    context: int
    temperature: float
    top_p: float
    stops: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Row:
    """A finished rollout: its text, token_ids (T,) int32, logprobs (T,) float32 in nats, whether it drew a stop
    token."""

    text: str
    token_ids: npt.NDArray[np.int32]
    logprobs: npt.NDArray[np.float32]
    stopped: bool


@dataclass(frozen=True, eq=False)
class DrawnRollout:
    """What a call came to. prompts: (P,) int32, the token ids of each group's; rows: group by group."""

    prompts: list[npt.NDArray[np.int32]]
    rows: list[Row]
