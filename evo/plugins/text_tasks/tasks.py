"""The families `musique:`, `eureqa:` and `toolrl:`, and the data that was published for each."""

from __future__ import annotations

from collections.abc import Mapping

from evo.plugins.text_tasks.eureqa.generator import LEVELS as EUREQA_LEVELS
from evo.plugins.text_tasks.eureqa.generator import draw_riddle
from evo.plugins.text_tasks.eureqa.problem import EureqaProblem, mix
from evo.plugins.text_tasks.family import Published, TextFamily
from evo.plugins.text_tasks.musique.generator import LEVELS as MUSIQUE_LEVELS
from evo.plugins.text_tasks.musique.generator import draw_question
from evo.plugins.text_tasks.musique.problem import MusiqueProblem
from evo.plugins.text_tasks.musique.selection import OPTIONS, select
from evo.plugins.text_tasks.toolrl.generator import LEVELS as TOOLRL_LEVELS
from evo.plugins.text_tasks.toolrl.generator import draw_dialogue
from evo.plugins.text_tasks.toolrl.problem import ToolProblem

MUSIQUE = TextFamily(
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
EUREQA = TextFamily(
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
        instead="get its questions_hard_5 on a machine that reaches the hub, and name the file eureqa:FILE; "
        "eureqa:synthetic needs nothing",
    ),
)
TOOLRL = TextFamily(
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
TASKS: Mapping[str, TextFamily] = {task.name: task for task in (MUSIQUE, EUREQA, TOOLRL)}
