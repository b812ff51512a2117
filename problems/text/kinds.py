"""The text tasks by the kind of their addresses, and where the data is that was published for them."""

from __future__ import annotations

from collections.abc import Mapping

from problems.eureqa.generator import LEVELS as EUREQA_LEVELS
from problems.eureqa.generator import draw_riddle
from problems.eureqa.problem import EureqaProblem
from problems.eureqa.selection import mix
from problems.musique.generator import LEVELS as MUSIQUE_LEVELS
from problems.musique.generator import draw_question
from problems.musique.problem import MusiqueProblem
from problems.musique.selection import OPTIONS, select
from problems.text.sets import Kind, Published
from problems.toolrl.generator import LEVELS as TOOLRL_LEVELS
from problems.toolrl.generator import draw_dialogue
from problems.toolrl.problem import ToolProblem

MUSIQUE = Kind(
    name="musique",
    levels=MUSIQUE_LEVELS,
    draw=draw_question,
    make=MusiqueProblem,
    published=Published(
        "MuSiQue-Ans (dgslibisey/MuSiQue)",
        "CC BY 4.0",
        data_set="dgslibisey/MuSiQue",
        splits={"hf": ("validation",), "hf-train": ("train",)},
        instead="get musique_ans_v1.0_dev.jsonl of github.com/StonyBrookNLP/musique and name it musique:FILE.jsonl",
    ),
    options=OPTIONS,
    select=select,
)
EUREQA = Kind(
    name="eureqa",
    levels=EUREQA_LEVELS,
    draw=draw_riddle,
    make=EureqaProblem,
    published=Published(
        "EUREQA (vincentleebang/EUREQA)",
        "CC BY-NC 4.0",
        data_set="vincentleebang/EUREQA",
        splits={
            "hf": ("questions_hard_5",),
            "hf-train": ("questions_normal_5", "questions_hard_5"),
            "hf-normal": ("questions_normal_5",),
            "hf-hard": ("questions_hard_5",),
        },
        part=mix,
        instead="get its questions_hard_5 where the hub can be reached and name the file eureqa:FILE; "
        "eureqa:synthetic needs nothing",
    ),
)
TOOLRL = Kind(
    name="toolrl",
    levels=TOOLRL_LEVELS,
    draw=draw_dialogue,
    make=ToolProblem,
    published=Published(
        "qiancheng0/ToolRL, rlla_4k",
        "Apache-2.0",
        splits={"hf": ("test",), "hf-train": ("train",)},
        instead="it is published as files: get dataset/rlla_4k/test.parquet and train.parquet of "
        "github.com/qiancheng0/ToolRL and name them toolrl:FILE.parquet",
    ),
)
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (MUSIQUE, EUREQA, TOOLRL)}
