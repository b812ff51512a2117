"""Training by examples: pairs of a parent and a better child from stored searches, whichever operator found them.

    children of a problem, in order -> those that improve -> by parent -> by the parent's level
    lesson -> prompt and chain in the policy's form -> token ids -> trainer.step_on_examples

A child improves if it is fitter than the parent in its prompt, or if no earlier answer of the search was at least as
good in every objective: it is then on the front from which parents are drawn. In hindsight the other parents of that
moment could have led to such a child too: the fittest of the front that are less fit. The answers are written in the
form of the learning policy, so that any policy or operator can teach another.

`improve` maximises the likelihood of the better children. Lessons are balanced over the levels of their parents, so
that the many weak parents of a search's beginning do not outweigh the few late ones. Draws come from (seed, step).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from evo.config.run import PromptConfig
from evo.config.train import TrainRun
from evo.errors import BadInput
from evo.prompts.contract import PromptFormat
from evo.prompts.registry import open_format
from evo.training.loop import Evaluate, StoredTraining
from evo.training.offline import TOO_LONG
from evo.training.traces import LearningSource, StoredRun, open_stored, resolve_wanted
from islands.queries.candidates import CandidateReader
from islands.queries.children import Child, children
from islands.types import Candidate, ProblemRecord, Selection
from problems.contract import Problem
from vpo.policies.contract import LocalPolicy
from vpo.training import TrainStats
from vpo.training.examples import Example, ExampleGroup
from vpo.training.trainer import PolicyTrainer

LEVELS = 10
"""Parts of the way from zero to the target, by which parents are balanced."""
OTHERS = 8
"""Other parents of a moment at most, as in a search (pareto_pool)."""
FEW = 1000
LEAST = 1e-9
"""The least gain that counts."""
CACHE_BYTES = 64 << 20
UNWRITABLE = "that the policy's language cannot say"


@dataclass(frozen=True)
class ImprovementLesson:
    """A parent and the children that improve it, by id.

    run: its source's place
    level: which of LEVELS parts of the way from zero to the target (or to the best that was found) the parent stood in
    """

    run: int
    problem: int
    parent: int
    inspirations: tuple[int, ...]
    children: tuple[int, ...]
    level: int


@dataclass
class LessonSource(StoredRun):
    """A run that lessons come from. answers: how many different ones; pairs: how many are better than a parent"""

    answers: int = 0
    pairs: int = 0

    def __post_init__(self) -> None:
        self.reader = CandidateReader(self.store, CACHE_BYTES)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "pairs": self.pairs}


@dataclass
class Improvements(LearningSource):
    """All lessons of a training run. by_level: their indices, by the parent's level"""

    runs: list[LessonSource]
    lessons: list[ImprovementLesson]
    by_level: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        levels: dict[int, list[int]] = {}
        for i, lesson in enumerate(self.lessons):
            levels.setdefault(lesson.level, []).append(i)
        self.by_level = [levels[level] for level in sorted(levels)]

    def __len__(self) -> int:
        return len(self.lessons)

    @property
    def pairs(self) -> int:
        return sum(source.pairs for source in self.runs)

    def records(self) -> dict[tuple[int, int], ProblemRecord]:
        return {(one.run, one.problem): self.runs[one.run].problems[one.problem] for one in self.lessons}

    def draw(self, rng: np.random.Generator) -> ImprovementLesson:
        """Draw a lesson. All levels of parents have the same chance, but a level of fewer than FEW parents has less, so
        that its lessons are not memorised. Within a level every parent has the same chance."""
        shares = np.minimum([len(level) for level in self.by_level], FEW, dtype=np.float64)
        level = self.by_level[int(rng.choice(len(shares), p=shares / shares.sum()))]
        return self.lessons[level[int(rng.integers(len(level)))]]

    def read(self, lesson: ImprovementLesson, chosen: Sequence[int]) -> tuple[Selection, list[Candidate]]:
        """The selection of the prompt, and the chosen children."""
        source, wanted = self.runs[lesson.run], (lesson.parent, *lesson.inspirations, *chosen)
        parent, *others = source.reader.fetch(wanted)
        beside = others[: len(lesson.inspirations)]
        return Selection(parent, tuple(beside), ()), others[len(lesson.inspirations) :]


def _by_level(lessons: Sequence[ImprovementLesson], wanted: Callable[[ImprovementLesson], bool]) -> list[list[int]]:
    levels: dict[int, list[int]] = {}
    for i, lesson in enumerate(lessons):
        if wanted(lesson):
            levels.setdefault(lesson.level, []).append(i)
    return [levels[level] for level in sorted(levels)]


def open_improvements(run: TrainRun, began: Sequence[Mapping[str, Any]] | None = None) -> Improvements:
    """The lessons of the runs that `run` names; read-only. Arguments and errors as of open_traces."""

    def find(sources: list[LessonSource]) -> Improvements:
        wanted = {id(source): resolve_wanted(run.trace_problems, source.problems) for source in sources}
        return find_improvements(sources, lambda source, record: record.id in wanted[id(source)])

    return open_stored(run, began, LessonSource, lambda name, records: records, find)


def find_improvements(
    sources: Sequence[LessonSource], wanted: Callable[[LessonSource, ProblemRecord], bool]
) -> Improvements:
    """The lessons of the wanted problems of all sources. Raises BadInput if there is none."""
    lessons: list[ImprovementLesson] = []
    for place, source in enumerate(sources):
        digest = hashlib.blake2b(digest_size=16)
        for record in source.problems.values():
            if not wanted(source, record):
                continue
            rows = list(children(source.store, record.id, upto=source.upto))
            source.answers += len(rows)
            for lesson in _lessons(place, record, rows):
                lessons.append(lesson)
                source.pairs += len(lesson.children)
                digest.update(repr((record.id, lesson.parent, lesson.children)).encode())
        source.digest = digest.hexdigest()
    if not lessons:
        names = ", ".join(source.name for source in sources)
        raise BadInput(f"no answer of {names} improves on a parent that it was shown; search longer")
    return Improvements(list(sources), lessons)


def _lessons(place: int, record: ProblemRecord, rows: Sequence[Child]) -> list[ImprovementLesson]:
    by_id = {row.id: row for row in rows}
    better: dict[int, dict[int, None]] = {}
    beside: dict[int, tuple[int, ...]] = {}
    front: list[Child] = []
    for row in rows:
        if row.failed:
            continue
        parent = by_id.get(row.parent) if row.parent is not None else None
        new = not any(_covers(other, row) for other in front)
        if parent is not None and not parent.failed and (new or row.fitness > parent.fitness + LEAST):
            better.setdefault(parent.id, {})[row.id] = None
            beside.setdefault(parent.id, row.inspirations)
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
            place, record.id, shown, beside.get(shown, ()), tuple(found), tenth_of(by_id[shown].fitness, target)
        )
        for shown, found in better.items()
    ]


def tenth_of(fitness: float, target: float) -> int:
    """The part of the way to the target, of LEVELS parts, from 0; 0 if the target is not positive."""
    if target <= 0:
        return 0
    return min(max(int(LEVELS * fitness / target + LEAST), 0), LEVELS - 1)


def _covers(one: Child, other: Child) -> bool:
    """Whether the first is at least as good as the second in every objective."""
    return all(a >= b - LEAST for a, b in zip(one.rewards, other.rewards, strict=True))


class Writer:
    """Writes lessons as prompts and rollouts of the learning policy.

    formats: the prompt format of a problem for this many answers
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
        apart: bool = False,
    ) -> tuple[PromptFormat, Selection, list[str]] | None:
        """(format, selection of the prompt, rollouts) of a lesson: one rollout with at most `most` of its children.
        apart: one rollout for each of them instead. None if the format can write none of the children."""
        selection, writable = self._writable(lesson, improvements, lesson.children, most, rng)
        chains = [[child] for child in writable] if apart else [writable]
        if not writable:
            return None
        prompt_format = self._formats((lesson.run, lesson.problem), len(chains[0]))
        texts = [prompt_format.write([child.text for child in chain], selection) for chain in chains]
        written = [text for text in texts if text is not None]
        return (prompt_format, selection, written) if len(written) == len(texts) else None

    def _writable(
        self,
        lesson: ImprovementLesson,
        improvements: Improvements,
        children: Sequence[int],
        most: int,
        rng: np.random.Generator,
    ) -> tuple[Selection, list[Candidate]]:
        """The selection of the prompt, and at most `most` random children that the format can write."""
        ids = [children[int(i)] for i in rng.permutation(len(children))[:most]]
        selection, drawn = improvements.read(lesson, ids)
        of_one = self._formats((lesson.run, lesson.problem), 1)
        writable = [child for child in drawn if of_one.write([child.text], selection) is not None]
        self.left_out[UNWRITABLE] += len(drawn) - len(writable)
        return selection, writable


TRIES = 50
"""Draws at most for each lesson of a step."""


class ImitationTraining(StoredTraining[list[ExampleGroup]]):
    """Runs a TrainRun of the method `improve`. problems: of the lessons, by the run's index and the problem's id"""

    def __init__(
        self,
        run: TrainRun,
        improvements: Improvements,
        problems: Mapping[tuple[int, int], Problem],
        policy: LocalPolicy,
        trainer: PolicyTrainer,
        *,
        log: Callable[[dict[str, Any]], None],
        evaluate: Evaluate | None = None,
    ):
        super().__init__(run, improvements, run.steps, policy, trainer, log=log, evaluate=evaluate)
        self.improvements = improvements
        prompt = PromptConfig(style="evo")

        @lru_cache(maxsize=4096)
        def opened(problem: tuple[int, int], answers: int) -> PromptFormat:
            return open_format(problems[problem], policy.prompt_format, prompt, answers)

        self.writer = Writer(opened)
        self._end = policy.tokenizer.eos_token_id

    @property
    def source(self) -> str:
        found = self.improvements
        return f"{found.pairs:,} improvements of {len(found):,} parents in {found.run_names}"

    def notes(self) -> list[str]:
        """Paragraphs on the lessons, and on those that were left out."""
        lines = [
            f"- {source.name}: {source.answers:,} different answers, {source.pairs:,} of them better than a parent "
            "of their moment, or dominated by nothing when they were found"
            for source in self.improvements.runs
        ]
        return ["## Traces", "\n".join(lines), f"Left out of the lessons drawn: {self.reasons}."]

    def _next_answers(self) -> int:
        return 0

    def _read(self) -> list[ExampleGroup]:
        return self._examples(np.random.default_rng([self.run_config.seed, 3, self.status.step]))

    async def _learn(self, batch: list[ExampleGroup]) -> TrainStats:
        return self.trainer.step_on_examples(batch)

    def _account(self, batch: list[ExampleGroup], stats: TrainStats) -> dict[str, float]:
        self._leave_out(self.writer.left_out)
        self.writer.left_out.clear()
        self.status.groups += len(batch)
        return {}

    def _examples(self, rng: np.random.Generator) -> list[ExampleGroup]:
        count = self.run_config.prompts
        examples: list[ExampleGroup] = []
        for _ in range(count * TRIES):
            if len(examples) == count:
                return examples
            example = self._example(rng)
            if example is not None:
                examples.append(example)
        raise BadInput(
            f"{self.policy.version} can be taught only {len(examples)} of {count * TRIES} lessons drawn: "
            + ", ".join(f"{count:,} {reason}" for reason, count in self.writer.left_out.most_common())
        )

    def _example(self, rng: np.random.Generator) -> ExampleGroup | None:
        run, lesson = self.run_config, self.improvements.draw(rng)
        most, apart = (run.children, True) if run.children > 1 else (run.chain, False)
        written = self.writer.write(lesson, self.improvements, most, rng, apart=apart)
        if written is None:
            return None
        prompt_format, selection, texts = written
        prompt = self.policy.encode(prompt_format.build(selection, 0))
        rows = [self._row(text) for text in texts]
        if len(prompt) + max(len(row.token_ids) for row in rows) > self.policy.context:
            self.writer.left_out[TOO_LONG] += 1
            return None
        return ExampleGroup(prompt, tuple(rows), 1.0)

    def _row(self, text: str) -> Example:
        ids = np.array([*self.policy.tokenizer(text, add_special_tokens=False).input_ids, self._end], dtype=np.int32)
        return Example(ids, None, np.ones(len(ids), np.float32))

    def check_teaches(self) -> None:
        """Raise BadInput if the policy's language cannot express the lessons."""
        self._examples(np.random.default_rng([self.run_config.seed, 4]))
        self.writer.left_out.clear()
