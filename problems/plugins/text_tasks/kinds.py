"""The text tasks by the kind of their addresses, and where the data is that was published for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from problems.plugins.text_tasks.eureqa.generator import LEVELS as EUREQA_LEVELS
from problems.plugins.text_tasks.eureqa.generator import draw_riddle
from problems.plugins.text_tasks.eureqa.problem import EureqaProblem
from problems.plugins.text_tasks.eureqa.selection import mix
from problems.plugins.text_tasks.musique.generator import LEVELS as MUSIQUE_LEVELS
from problems.plugins.text_tasks.musique.generator import draw_question
from problems.plugins.text_tasks.musique.problem import MusiqueProblem
from problems.plugins.text_tasks.musique.selection import OPTIONS, select
from problems.plugins.text_tasks.problem import TextProblem
from problems.plugins.text_tasks.sets import Kind, Published, describe_kind, problem_set
from problems.plugins.text_tasks.toolrl.generator import LEVELS as TOOLRL_LEVELS
from problems.plugins.text_tasks.toolrl.generator import draw_dialogue
from problems.plugins.text_tasks.toolrl.problem import ToolProblem
from problems.problem_sets import ProblemSets, describe_set

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


def _sets(kind: Kind) -> ProblemSets:
    def load(rest: str, limit: int | None, sandbox: object) -> Sequence[TextProblem]:
        return problem_set(kind, rest, limit)

    return ProblemSets(load, lambda: [describe_set(*row) for row in describe_kind(kind)])


MUSIQUE_SETS, EUREQA_SETS, TOOLRL_SETS = map(_sets, (MUSIQUE, EUREQA, TOOLRL))
"""What the entry points of "evo.problems" name."""
