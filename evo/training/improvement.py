"""Pairs of a parent and a better child from stored searches, whoever found them: the lessons of `evo train improve`,
and, together with the worse children, of `evo train dpo`.

    children of a problem, in order -> those that improve -> by parent -> by the parent's level -> examples

A child improves where it is fitter than the parent that its prompt showed, or where nothing that the search had found
was at least as good in every objective: it is on the front that parents are drawn from. By hindsight the other parents
of that moment could have led to such a child too: the fittest of the front that are less fit. The answers are written
in the form of the policy that learns, so that one policy, or an operator that is no policy at all, can teach another.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evo.errors import BadInput
from evo.prompts.contract import PromptFormat
from evo.training.traces import LearningSource, StoredRun
from islands.queries.candidates import CandidateReader
from islands.queries.children import Child, children
from islands.types import Candidate, ProblemRecord, Selection

LEVELS = 10
"""Parts of the way from zero to the target, by which parents are balanced."""
OTHERS = 8
"""Parents of a moment, as a search draws them (pareto_pool)."""
FEW = 1000
LEAST = 1e-9
"""What a gain is at least."""
CACHE_BYTES = 64 << 20
UNWRITABLE = "that the policy's language cannot say"


@dataclass(frozen=True)
class ImprovementLesson:
    """A parent and the children that improve it, by id, and those of its own that are less fit than it.

    run: its source's place
    level: which of LEVELS parts of the way from zero to the target (or to the best that was found) the parent stood in
    """

    run: int
    problem: int
    parent: int
    inspirations: tuple[int, ...]
    children: tuple[int, ...]
    level: int
    worse: tuple[int, ...] = ()


@dataclass
class LessonSource(StoredRun):
    """A run that lessons come from. answers: different ones; pairs: of them better than a parent"""

    answers: int = 0
    pairs: int = 0

    def __post_init__(self) -> None:
        self.reader = CandidateReader(self.store, CACHE_BYTES)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "pairs": self.pairs}


@dataclass
class Improvements(LearningSource):
    """All lessons of a training run. by_level: their places, by the parent's level."""

    runs: list[LessonSource]
    lessons: list[ImprovementLesson]
    by_level: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        levels = sorted({lesson.level for lesson in self.lessons})
        self.by_level = [[i for i, one in enumerate(self.lessons) if one.level == level] for level in levels]

    def __len__(self) -> int:
        return len(self.lessons)

    @property
    def pairs(self) -> int:
        return sum(source.pairs for source in self.runs)

    def records(self) -> dict[tuple[int, int], ProblemRecord]:
        return {(one.run, one.problem): self.runs[one.run].problems[one.problem] for one in self.lessons}

    def draw(self, rng: np.random.Generator) -> ImprovementLesson:
        """A lesson: all levels of parents alike, so that the many do not drown the few, but one of fewer than FEW
        parents no oftener than it has them, so that these are not learned by heart; then every parent of it alike."""
        shares = np.minimum([len(level) for level in self.by_level], FEW, dtype=np.float64)
        level = self.by_level[int(rng.choice(len(shares), p=shares / shares.sum()))]
        return self.lessons[level[int(rng.integers(len(level)))]]

    def read(self, lesson: ImprovementLesson, chosen: Sequence[int]) -> tuple[Selection, list[Candidate]]:
        """What the prompt shows, and the chosen children."""
        wanted = (lesson.parent, *lesson.inspirations, *chosen)
        parent, *others = self.runs[lesson.run].reader.fetch(wanted)
        beside = others[: len(lesson.inspirations)]
        return Selection(parent, tuple(beside), ()), others[len(lesson.inspirations) :]


def find_improvements(
    sources: Sequence[LessonSource], wanted: Callable[[LessonSource, ProblemRecord], bool], *, contrasted: bool = False
) -> Improvements:
    """The lessons of the wanted problems of all sources. Raises BadInput if there is none.

    contrasted: only those of parents that have a worse child too
    """
    lessons: list[ImprovementLesson] = []
    for place, source in enumerate(sources):
        digest = hashlib.blake2b(digest_size=16)
        for record in source.problems.values():
            if not wanted(source, record):
                continue
            rows = list(children(source.store, record.id, upto=source.upto))
            source.answers += len(rows)
            for lesson in _lessons(place, record, rows):
                if contrasted and not lesson.worse:
                    continue
                lessons.append(lesson)
                source.pairs += len(lesson.children)
                digest.update(repr((record.id, lesson.parent, lesson.children)).encode())
        source.digest = digest.hexdigest()
    if not lessons:
        names = ", ".join(source.name for source in sources)
        worse = ", and none is worse" if contrasted else ""
        raise BadInput(f"no answer of {names} improves on a parent that it was shown{worse}; search longer")
    return Improvements(list(sources), lessons)


def _lessons(place: int, record: ProblemRecord, rows: Sequence[Child]) -> list[ImprovementLesson]:
    by_id = {row.id: row for row in rows}
    better: dict[int, dict[int, None]] = {}
    beside: dict[int, tuple[int, ...]] = {}
    worse: dict[int, list[int]] = {}
    front: list[Child] = []
    for row in rows:
        if row.failed:
            continue
        parent = by_id.get(row.parent) if row.parent is not None else None
        new = not any(_covers(other, row) for other in front)
        if parent is not None and not parent.failed and (new or row.fitness > parent.fitness + LEAST):
            better.setdefault(parent.id, {})[row.id] = None
            beside.setdefault(parent.id, row.inspirations)
        elif parent is not None and row.fitness < parent.fitness - LEAST:
            worse.setdefault(parent.id, []).append(row.id)
        if not new:
            continue
        fittest = sorted(front, key=lambda other: (-other.fitness, other.id))[:OTHERS]
        for other in fittest:
            if row.fitness > other.fitness + LEAST:
                better.setdefault(other.id, {})[row.id] = None
        front = [*(other for other in front if not _covers(row, other)), row]
    top = max((row.fitness for row in rows if not row.failed), default=0.0)
    target = record.target if record.target is not None else top
    return [
        ImprovementLesson(
            place,
            record.id,
            parent,
            beside.get(parent, ()),
            tuple(found),
            level_of(by_id[parent].fitness, target),
            tuple(id for id in worse.get(parent, ()) if id not in found),
        )
        for parent, found in better.items()
    ]


def level_of(fitness: float, target: float) -> int:
    """Which of LEVELS parts of the way to the target, from 0; 0 where the target is not positive."""
    if target <= 0:
        return 0
    return min(max(int(LEVELS * fitness / target + LEAST), 0), LEVELS - 1)


def _covers(one: Child, other: Child) -> bool:
    """Whether one is at least as good as the other in every objective."""
    return all(a >= b - LEAST for a, b in zip(one.rewards, other.rewards, strict=True))


class Writer:
    """Writes lessons as prompts and rollouts of the policy that learns.

    formats: the prompt format of a problem for so many answers
    left_out: children that a format cannot write, and why
    """

    def __init__(self, formats: Callable[[tuple[int, int], int], PromptFormat]) -> None:
        self._formats = formats
        self.left_out = Counter[str]()

    def write(
        self,
        lesson: ImprovementLesson,
        improvements: Improvements,
        most: int,
        rng: np.random.Generator,
        *,
        contrasted: bool = False,
    ) -> tuple[PromptFormat, Selection, list[str]] | None:
        """(format, what the prompt shows, rollouts) of a lesson: one rollout with at most `most` of its children, and,
        if `contrasted`, one with as many worse children. None if the format can write none of the children."""
        selection, better = self._writable(lesson, improvements, lesson.children, most, rng)
        chains = [better]
        if contrasted:
            chains.append(self._writable(lesson, improvements, lesson.worse, max(1, len(better)), rng)[1])
        count = min(map(len, chains))
        if not count:
            return None
        prompt_format = self._formats((lesson.run, lesson.problem), count)
        texts = [prompt_format.write(chain[:count], selection) for chain in chains]
        written = [text for text in texts if text is not None]
        return (prompt_format, selection, written) if len(written) == len(texts) else None

    def _writable(
        self,
        lesson: ImprovementLesson,
        improvements: Improvements,
        children: Sequence[int],
        most: int,
        rng: np.random.Generator,
    ) -> tuple[Selection, list[str]]:
        """What the prompt shows, and the texts of at most `most` random children, without those that the format cannot
        write."""
        ids = [children[int(i)] for i in rng.permutation(len(children))[:most]]
        selection, drawn = improvements.read(lesson, ids)
        of_one = self._formats((lesson.run, lesson.problem), 1)
        writable = [child.text for child in drawn if of_one.write([child.text], selection) is not None]
        self.left_out[UNWRITABLE] += len(drawn) - len(writable)
        return selection, writable
