"""The families `musique:`, `eureqa:` and `toolrl:`: sets by address.

KIND:FILE  KIND:FILE/12     rows of a file, counted from 0
KIND:hf  KIND:hf-train      the published data, if the hub can be reached
KIND:synthetic              60 made-up rows of this package
KIND:PLACE?NAME=NUMBER      with an option of the kind
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from evo.plugins.text_tasks import musique
from evo.plugins.text_tasks.eureqa import EureqaProblem, mix
from evo.plugins.text_tasks.musique import MusiqueProblem
from evo.plugins.text_tasks.problem import TaskRow, TextProblem
from evo.plugins.text_tasks.toolrl import ToolProblem
from problems.address import did_you_mean, files_beside, parse_place, user_path, whole_number
from problems.contract import BadAddress
from problems.registry import ProblemFamily, ProblemSet, Sandboxes, chosen
from problems.rows import read_hub, read_rows

SYNTHETIC = "synthetic"
OWN = ("our generator", "Apache-2.0")
FROM_FILE = ("the file's", "see the file's source")


@cache
def _synthetic_rows(kind: str) -> Sequence[TaskRow]:
    return read_rows(Path(__file__).parent / "data" / f"{kind}.jsonl")


@dataclass(frozen=True)
class TextFamily(ProblemFamily):
    """One text task.

    text: what the made-up rows are
    make: called with (name, row, place of the row, source, licence); BadAddress for a row that is not of the schema
    source, licence: of the published data; instead: what to do if it cannot be loaded, as the end of a sentence
    splits: the text after the kind, as in KIND:hf -> its splits on the hub
    data_set: on the hub; "" if it is published only elsewhere
    part: (that name, the rows of each split) -> its rows
    select: (rows, options) -> the rows that the options keep, changed by them
    """

    name: str
    text: str
    make: type[TextProblem]
    source: str
    licence: str
    instead: str
    splits: Mapping[str, tuple[str, ...]]
    data_set: str = ""
    part: Callable[[str, Sequence[Sequence[TaskRow]]], Sequence[TaskRow]] = lambda name, splits: splits[0]
    options: tuple[str, ...] = ()
    select: Callable[[Sequence[TaskRow], Mapping[str, int]], Sequence[TaskRow]] = lambda rows, options: rows
    reads_files: bool = True

    @property
    def example(self) -> str:  # type: ignore[override]
        return f"{self.name}:{SYNTHETIC}/0"

    def resolve(self, rest: str, limit: int | None, sandbox: Sandboxes) -> list[TextProblem]:
        """The problems of the set or file `rest`, the first `limit` of them. Raises BadAddress."""
        address = parse_place(self.name, rest, dict.fromkeys(self.options, whole_number))
        place, path = address.path, user_path(address.path)
        rows: Sequence[TaskRow]
        if path.is_file():
            place, rows, terms = str(path.resolve()), read_rows(path), FROM_FILE
        elif place in self.splits and not self.data_set:
            raise BadAddress(f"{self.source} is not on the hub; {self.instead}")
        elif place in self.splits:
            splits = [read_hub(self.data_set, split, self.instead) for split in self.splits[place]]
            rows, terms = self.part(place, splits), (self.source, self.licence)
        elif place == SYNTHETIC:
            rows, terms = _synthetic_rows(self.name), OWN
        else:
            beside = [f"{self.name}:{file}" for file in files_beside(place)]
            hint = did_you_mean(f"{self.name}:{rest}", [f"{self.name}:{SYNTHETIC}", *beside])
            there = hint or f"; there is {self.name}:{SYNTHETIC}"
            raise BadAddress(f"{self.name}:{rest}: there is no such file or set{there}, or name a file")
        rows = self.select(rows, address.options) if address.options else rows
        options = "&".join(f"{name}={value}" for name, value in address.options.items())
        stem = f"{self.name}:{place}" + (f"?{options}" if options else "")
        places = chosen(stem, address.index or None, len(rows), limit)
        return [self.make(f"{stem}/{i}", rows[i], f"{stem}, row {i}", *terms) for i in places]

    def sets(self) -> list[ProblemSet]:
        size = len(_synthetic_rows(self.name))
        return [ProblemSet(f"{self.name}:{SYNTHETIC}", self.text, size, self.make.objectives, *OWN)]


MUSIQUE = TextFamily(
    name="musique",
    text="questions of 2 to 4 steps over 20 paragraphs of made-up facts",
    make=MusiqueProblem,
    source="MuSiQue-Ans (dgslibisey/MuSiQue)",
    licence="CC BY 4.0",
    data_set="dgslibisey/MuSiQue",
    splits={"hf": ("validation",), "hf-train": ("train",)},
    instead="get musique_ans_v1.0_dev.jsonl of github.com/StonyBrookNLP/musique and name it musique:FILE.jsonl",
    options=musique.MUSIQUE_OPTIONS,
    select=musique.select_rows,
)
EUREQA = TextFamily(
    name="eureqa",
    text="riddles over made-up facts, 12 of them irrelevant",
    make=EureqaProblem,
    source="EUREQA (vincentleebang/EUREQA)",
    licence="CC BY-NC 4.0",
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
)
TOOLRL = TextFamily(
    name="toolrl",
    text="dialogues answered by calls of typed tools: 0 to 5 calls, masked names, several turns",
    make=ToolProblem,
    source="qiancheng0/ToolRL, rlla_4k",
    licence="Apache-2.0",
    splits={"hf": ("test",), "hf-train": ("train",)},
    instead="it is published as files: get dataset/rlla_4k/test.parquet and train.parquet of "
    "github.com/qiancheng0/ToolRL and name them toolrl:FILE.parquet",
)
