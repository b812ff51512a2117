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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from evo.config.run import PromptConfig
from evo.config.train import TrainRun
from evo.errors import BadInput
from evo.prompts.contract import PromptFormat
from evo.prompts.registry import open_format
from evo.training.stored import TOO_LONG, LearningSource, StoredRun, StoredTraining, wanted_problems
from islands.groups import Child, children
from islands.history import CandidateReader
from islands.types import Candidate, ProblemRecord, Selection
from problems.contract import Problem
from vpo.training import TrainStats
from vpo.training.examples import Example, ExampleGroup

LEVELS = 10
"""Parts of the way from zero to the target, by which parents are balanced."""
OTHERS = 8
"""Other parents of a moment at most, as in a search (pareto_pool)."""
FEW = 1000
LEAST = 1e-9
"""The least gain that counts."""
CACHE_BYTES = 64 << 20
TRIES = 50
"""Draws at most for each lesson of a step."""
UNWRITABLE = "not expressible in the policy's format"


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
class Improvements(LearningSource):
    """All lessons of a training run. answers: different ones of each run; by_level: places of lessons by the parent's
    level"""

    lessons: list[ImprovementLesson]
    answers: list[int]
    by_level: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        levels = sorted({lesson.level for lesson in self.lessons})
        self.by_level = [[i for i, lesson in enumerate(self.lessons) if lesson.level == level] for level in levels]
        self._readers = [CandidateReader(source.store, CACHE_BYTES) for source in self.runs]

    def __len__(self) -> int:
        return len(self.lessons)

    def draw(self, rng: np.random.Generator) -> ImprovementLesson:
        """Draw a lesson. All levels of parents have the same chance, but a level of fewer than FEW parents has less, so
        that its lessons are not memorised. Within a level every parent has the same chance."""
        shares = np.minimum([len(level) for level in self.by_level], FEW, dtype=np.float64)
        level = self.by_level[int(rng.choice(len(shares), p=shares / shares.sum()))]
        return self.lessons[level[int(rng.integers(len(level)))]]

    def read(self, lesson: ImprovementLesson, chosen: Sequence[int]) -> tuple[Selection, list[Candidate]]:
        """The selection of the prompt, and the chosen children."""
        beside = len(lesson.inspirations)
        parent, *others = self._readers[lesson.run].fetch((lesson.parent, *lesson.inspirations, *chosen))
        return Selection(parent, tuple(others[:beside]), ()), others[beside:]


def find_improvements(run: TrainRun, sources: list[StoredRun]) -> Improvements:
    """The lessons of the problems that `run` learns from. Raises BadInput if there is none."""
    lessons: list[ImprovementLesson] = []
    answers = []
    for place, source in enumerate(sources):
        digest, wanted, count = hashlib.blake2b(digest_size=16), wanted_problems(run, source), 0
        for record in source.problems.values():
            if wanted is not None and record.id not in wanted:
                continue
            rows = list(children(source.store, record.id, upto=source.upto))
            count += len(rows)
            for lesson in _lessons(place, record, rows):
                lessons.append(lesson)
                source.chosen += len(lesson.children)
                digest.update(repr((record.id, lesson.parent, lesson.children)).encode())
        source.digest = digest.hexdigest()
        answers.append(count)
    if not lessons:
        names = ", ".join(source.name for source in sources)
        raise BadInput(f"no answer of {names} improves on a parent that it was shown; search longer")
    return Improvements(sources, list(dict.fromkeys((one.run, one.problem) for one in lessons)), lessons, answers)


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


@dataclass(kw_only=True, eq=False)
class ImitationTraining(StoredTraining[list[ExampleGroup]]):
    """Runs a TrainRun of the method `improve`. problems: of the lessons, by the run's index and the problem's id"""

    stored: Improvements
    problems: Mapping[tuple[int, int], Problem]

    def __post_init__(self) -> None:
        super().__post_init__()
        prompt = PromptConfig(style="evo")

        @lru_cache(maxsize=4096)
        def opened(problem: tuple[int, int], answers: int) -> PromptFormat:
            return open_format(self.problems[problem], self.policy.prompt_format, prompt, answers)

        self._format = opened
        self._left_out = Counter[str]()
        self._end = self.policy.tokenizer.eos_token_id

    @property
    def source(self) -> str:
        pairs = sum(source.chosen for source in self.stored.runs)
        return f"{pairs:,} improvements of {len(self.stored):,} parents in {self.stored.run_names}"

    def notes(self) -> list[str]:
        """Paragraphs on the lessons, and on those that were left out."""
        lines = [
            f"- {source.name}: {answers:,} different answers, {source.chosen:,} of them better than a parent "
            "of their moment, or dominated by nothing when they were found"
            for source, answers in zip(self.stored.runs, self.stored.answers, strict=True)
        ]
        return ["## Traces", "\n".join(lines), f"Left out of the lessons drawn: {self.reasons}."]

    def _next_answers(self) -> int:
        return 0

    def _read(self) -> list[ExampleGroup]:
        return self._examples(np.random.default_rng([self.run.seed, 3, self.status.step]))

    async def _learn(self, batch: list[ExampleGroup]) -> TrainStats:
        return self.trainer.step_on_examples(batch)

    def _account(self, batch: list[ExampleGroup], stats: TrainStats) -> dict[str, float]:
        self._leave_out(self._left_out)
        self._left_out.clear()
        self.status.groups += len(batch)
        return {}

    def check_teaches(self) -> None:
        """Raise BadInput if the policy's language cannot express the lessons."""
        self._examples(np.random.default_rng([self.run.seed, 4]))
        self._left_out.clear()

    def _examples(self, rng: np.random.Generator) -> list[ExampleGroup]:
        count = self.run.prompts
        examples: list[ExampleGroup] = []
        for _ in range(count * TRIES):
            if len(examples) == count:
                return examples
            if (example := self._example(rng)) is not None:
                examples.append(example)
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in self._left_out.most_common())
        raise BadInput(
            f"{self.policy.version} can be taught only {len(examples)} of {count * TRIES} lessons drawn: {reasons}"
        )

    def _example(self, rng: np.random.Generator) -> ExampleGroup | None:
        """A lesson drawn and written: one rollout with some of its children, or one for each of them (`children`).
        None, and counted, if the policy's format or context cannot hold it."""
        run, lesson = self.run, self.stored.draw(rng)
        apart = run.children > 1
        ids = [lesson.children[int(i)] for i in rng.permutation(len(lesson.children))]
        selection, drawn = self.stored.read(lesson, ids[: run.children if apart else run.chain])
        key = lesson.run, lesson.problem
        writable = [child for child in drawn if self._format(key, 1).write([child.text], selection) is not None]
        self._left_out[UNWRITABLE] += len(drawn) - len(writable)
        if not writable:
            return None
        prompt_format = self._format(key, 1 if apart else len(writable))
        chains = [[child.text] for child in writable] if apart else [[child.text for child in writable]]
        texts = [text for chain in chains if (text := prompt_format.write(chain, selection)) is not None]
        if len(texts) < len(chains):
            return None
        prompt, rows = self.policy.encode(prompt_format.build(selection, 0)), tuple(map(self._row, texts))
        if len(prompt) + max(len(row.token_ids) for row in rows) > self.policy.context:
            self._left_out[TOO_LONG] += 1
            return None
        return ExampleGroup(prompt, rows, 1.0)

    def _row(self, text: str) -> Example:
        ids = np.array([*self.policy.tokenizer(text, add_special_tokens=False).input_ids, self._end], dtype=np.int32)
        return Example(ids, None, np.ones(len(ids), np.float32))
