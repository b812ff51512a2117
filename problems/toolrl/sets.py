"""`toolrl:` sets: rows of rlla_4k in a Parquet or JSON Lines file, and those of our generator."""

from __future__ import annotations

from collections.abc import Sequence

from problems.contract import BadAddress
from problems.text.sets import Kind, Row
from problems.toolrl.generator import LEVELS, draw_dialogue
from problems.toolrl.problem import ToolProblem
from problems.toolrl.rewards import OBJECTIVES


def _hub(split: str) -> Sequence[Row]:
    raise BadAddress(
        "toolrl:hf: rlla_4k is published as files: get dataset/rlla_4k/"
        f"{split}.parquet of github.com/qiancheng0/ToolRL and name it toolrl:{split}.parquet"
    )


TOOLRL = Kind(
    name="toolrl",
    objectives=OBJECTIVES,
    levels=LEVELS,
    draw=draw_dialogue,
    make=ToolProblem,
    hub=_hub,
    published=("qiancheng0/ToolRL, rlla_4k", "Apache-2.0"),
)
