"""The family of a text task: sets by address: a file, the hub, or a generator.

KIND:FILE  KIND:FILE/12           rows of a file, counted from 0
KIND:hf  KIND:hf-train            the published data, if the hub can be reached
KIND:synthetic                    our generator's test set; KIND:synthetic-train for training
KIND:synthetic-LEVEL              the same at a level, and KIND:synthetic-LEVEL-train
KIND:PLACE?NAME=NUMBER            with an option of the kind
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evo.plugins.text_tasks.problem import TextProblem, first_field, without_thoughts
from problems.address import did_you_mean, files_beside, parse_place, user_path
from problems.contract import BadAddress
from problems.family import AnswerReader, ProblemFamily, ProblemSet, Sandboxes
from problems.rows import read_hub, read_rows

Row = Mapping[str, Any]
SIZES = {"test": 100, "train": 1000}
"""Problems of a generated set."""
OWN = ("our generator", "Apache-2.0")
FROM_FILE = ("the file's", "see the file's source")


@dataclass(frozen=True)
class Published:
    """The published data of a task.

    instead: what to do if it is not available from the hub, as the end of a sentence
    data_set: on the hub; None if it is published only elsewhere
    splits: the text after the kind, as in KIND:hf -> its splits on the hub
    part: (that name, the rows of each split) -> its rows
    """

    source: str
    licence: str
    instead: str
    splits: Mapping[str, tuple[str, ...]]
    data_set: str | None = None
    part: Callable[[str, Sequence[Sequence[Row]]], Sequence[Row]] = lambda name, splits: splits[0]

    def rows(self, name: str) -> Sequence[Row]:
        """Raises BadAddress, one line with the remedy, if the data is not available."""
        if self.data_set is None:
            raise BadAddress(f"{self.source} is not on the hub; {self.instead}")
        return self.part(name, [read_hub(self.data_set, split, self.instead) for split in self.splits[name]])


@dataclass(frozen=True)
class TextFamily(ProblemFamily):
    """One text task.

    levels: name -> description; "" is the whole distribution
    draw: (random numbers, level, split) -> a row of the task's schema
    make: called with (name, row, place of the row, source, licence); BadAddress for a row that is not of the schema
    select: (rows, options) -> the rows that the options keep, changed by them
    """

    name: str
    levels: Mapping[str, str]
    draw: Callable[[random.Random, str, str], Row]
    make: type[TextProblem]
    published: Published
    options: tuple[str, ...] = ()
    select: Callable[[Sequence[Row], Mapping[str, int]], Sequence[Row]] = lambda rows, options: rows
    reads_files: bool = True

    @property
    def example(self) -> str:  # type: ignore[override]
        return f"{self.name}:synthetic/0"

    def resolve(self, rest: str, limit: int | None, sandbox: Sandboxes) -> list[TextProblem]:
        return problem_set(self, rest, limit)

    def sets(self) -> list[ProblemSet]:
        """Each generated set."""
        described = []
        for level, text in self.levels.items():
            for split, size in SIZES.items():
                name = f"{self.name}:synthetic{f'-{level}' if level else ''}{'-train' if split == 'train' else ''}"
                learn = ", to learn from" if split == "train" else ""
                described.append(ProblemSet(name, text + learn, size, self.make.objectives, *OWN))
        return described

    def readers(self) -> list[AnswerReader]:
        def read(text: str) -> object:
            return first_field(text, "answer", any_case=True), without_thoughts(text)

        return [
            AnswerReader(
                "fields of the text tasks", read, ("<think>a</think><citations>P1</citations><answer>John</answer>",)
            )
        ]


def problem_set(family: TextFamily, rest: str, limit: int | None = None) -> list[TextProblem]:
    """The problems that KIND:`rest` names, the first `limit` of them. Raises BadAddress."""
    address = parse_place(family.name, rest, dict.fromkeys(family.options, _whole_number))
    place, index = address.path, int(address.index) if address.index else None
    path = user_path(place)
    rows: Sequence[Row]
    if path.is_file():
        place, rows, terms = str(path.resolve()), read_rows(path), FROM_FILE
    elif place in family.published.splits:
        rows, terms = family.published.rows(place), (family.published.source, family.published.licence)
    elif place in set_names(family):
        wanted = None if limit is None or address.options else limit
        rows, terms = _drawn(family, place, index if not address.options else None, wanted), OWN
    else:
        known = [f"{family.name}:{name}" for name in set_names(family)]
        beside = [f"{family.name}:{file}" for file in files_beside(place)]
        hint = did_you_mean(f"{family.name}:{rest}", [*known, *beside]) or f"; there are {', '.join(known)}"
        raise BadAddress(f"{family.name}:{rest}: there is no such file or set{hint}, or name a file")
    rows = family.select(rows, address.options) if address.options else rows
    options = "&".join(f"{name}={value}" for name, value in address.options.items())
    stem = f"{family.name}:{place}" + (f"?{options}" if options else "")
    if index is not None:
        if index >= len(rows):
            raise BadAddress(f"{family.name}:{rest} names no problem; {stem}/0 to {stem}/{len(rows) - 1} do")
        return [_made(family, stem, index, rows[index], terms)]
    return [_made(family, stem, i, row, terms) for i, row in enumerate(rows[:limit])]


def set_names(family: TextFamily) -> list[str]:
    """Its generated sets."""
    stems = ["synthetic" + (f"-{level}" if level else "") for level in family.levels]
    return [name for stem in stems for name in (stem, f"{stem}-train")]


def _drawn(family: TextFamily, place: str, index: int | None, limit: int | None) -> list[Row]:
    """The first `limit` rows of a generated set, or as many as an index needs (the others before it left empty)."""
    split = "train" if place.endswith("-train") else "test"
    level = place.removesuffix("-train").removeprefix("synthetic").removeprefix("-")
    if index is not None:
        row = [_draw(family, level, split, index)] if index < SIZES[split] else []
        return [*([{}] * min(index, SIZES[split])), *row]
    return [_draw(family, level, split, i) for i in range(SIZES[split] if limit is None else min(limit, SIZES[split]))]


def _draw(family: TextFamily, level: str, split: str, index: int) -> Row:
    return family.draw(random.Random(f"{family.name} {level} {split} {index}"), level, split)


def _made(family: TextFamily, stem: str, index: int, row: Row, terms: tuple[str, str]) -> TextProblem:
    return family.make(f"{stem}/{index}", row, f"{stem}, row {index}", *terms)


def _whole_number(value: str) -> int:
    if not (value.isascii() and value.isdecimal() and len(value) < 10):
        raise ValueError("must be a whole number from 0")
    return int(value)
