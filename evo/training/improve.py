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

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from evo.config.run import PromptConfig
from evo.config.train import TrainRun
from evo.errors import BadInput
from evo.prompts.contract import PromptFormat
from evo.prompts.registry import open_format
from evo.search.resources import problems_at
from evo.training.loop import TrainingBatch, TrainingStatus
from evo.training.stored import TOO_LONG, StoredRun, StoredSource
from islands.groups import CandidateReader, children
from islands.types import CandidateSummary, ProblemRecord, Selection
from vpo.policies.contract import LocalPolicy
from vpo.policies.encoding import encode_answer
from vpo.training.config import Estimation
from vpo.training.examples import Example, ExampleGroup

_LEVELS = 10
"""Parts of the way from zero to the target, by which parents are balanced."""
_OTHERS = 8
"""Other parents of a moment at most, as in a search (pareto_pool)."""
_FEW = 1000
_LEAST = 1e-9
"""The least gain that counts."""
_CACHE_BYTES = 64 << 20
_TRIES = 50
"""Draws at most for each lesson of a step."""
_UNWRITABLE = "not expressible in the policy's format"


@dataclass(frozen=True)
class ImprovementLesson:
    """A parent and the children that improve it, by id.

    run: its source's place
    level: which of _LEVELS parts of the way from zero to the target (or to the best that was found) the parent stood in
    """

    run: int
    problem: int
    parent: int
    inspirations: tuple[int, ...]
    children: tuple[int, ...]
    level: int


class Improvements(StoredSource):
    """All lessons of stored runs, drawn at random.

    answers_of: the number of different answers of each run; by_level: places of lessons by the parent's level
    """

    def __init__(self, run: TrainRun, runs: Sequence[StoredRun]) -> None:
        """The lessons of the problems that `run` learns from. Raises BadInput if there is none."""
        self.lessons, self.answers_of = list[ImprovementLesson](), list[int]()
        for place, source in enumerate(runs):
            found, count = list[ImprovementLesson](), 0
            for record in source.problems.values():
                rows = list(children(source.store, record.id, upto=source.upto))
                count += len(rows)
                found += _lessons(place, record, rows)
            digested = [(lesson.problem, lesson.parent, lesson.children) for lesson in found]
            source.choose(digested, sum(len(lesson.children) for lesson in found))
            self.lessons += found
            self.answers_of.append(count)
        if not self.lessons:
            names = ", ".join(source.name for source in runs)
            raise BadInput(f"no answer of {names} improves on a parent that it was shown; search longer")
        super().__init__(run, runs, list(dict.fromkeys((lesson.run, lesson.problem) for lesson in self.lessons)))
        levels = sorted({lesson.level for lesson in self.lessons})
        self.by_level = [[i for i, lesson in enumerate(self.lessons) if lesson.level == level] for level in levels]
        self._readers = [CandidateReader(source.store, _CACHE_BYTES) for source in runs]
        pairs = sum(source.chosen for source in runs)
        self.words = f"{pairs:,} improvements of {len(self.lessons):,} parents in {self.run_names}"
        self.steps = run.steps

    def fit(self, policy: LocalPolicy) -> None:
        """Open each problem, by its address, in the policy's format. Raises BadInput, BadAddress."""
        by_name = {problem.name: problem for problem in problems_at(sorted(self.problem_names))}
        for lost in sorted(self.problem_names - by_name.keys()):
            raise BadInput(f"{lost} cannot be found again, so its answers can teach nothing")
        prompt, self.policy = PromptConfig(style="evo"), policy

        @lru_cache(maxsize=4096)
        def opened(problem: tuple[int, int], answers: int) -> PromptFormat:
            return open_format(by_name[self.records[problem].address], policy.prompt_format, prompt, answers)

        self._format = opened

    def check(self, estimation: Estimation) -> None:
        """Whether the policy's language can express the lessons."""
        self._examples(np.random.default_rng([self.run.seed, 4]))

    def draw(self, rng: np.random.Generator) -> ImprovementLesson:
        """Draw a lesson. All levels of parents have the same chance, but a level of few parents has less, so that
        its lessons are not memorised. Within a level every parent has the same chance."""
        shares = np.minimum([len(level) for level in self.by_level], _FEW, dtype=np.float64)
        level = self.by_level[int(rng.choice(len(shares), p=shares / shares.sum()))]
        return self.lessons[level[int(rng.integers(len(level)))]]

    def answers(self, step: int) -> int:
        return 0

    def read(self, step: int) -> TrainingBatch:
        return self._examples(np.random.default_rng([self.run.seed, 3, step]))

    def notes(self, status: TrainingStatus) -> list[str]:
        """Paragraphs on the lessons, and on those that were left out."""
        lines = [
            f"- {source.name}: {answers:,} different answers, {source.chosen:,} of them better than a parent "
            "of their moment, or dominated by nothing when they were found"
            for source, answers in zip(self.runs, self.answers_of, strict=True)
        ]
        return ["## Traces", "\n".join(lines), f"Left out of the lessons drawn: {status.reasons}."]

    def _examples(self, rng: np.random.Generator) -> TrainingBatch:
        count, tries = self.run.prompts, self.run.prompts * _TRIES
        batch = TrainingBatch(examples=(examples := list[ExampleGroup]()))
        for _ in range(tries):
            if len(examples) == count:
                return batch
            examples += self._example(rng, batch.left_out)
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in batch.left_out.most_common())
        raise BadInput(f"{self.policy.version} can be taught only {len(examples)} of {tries} lessons drawn: {reasons}")

    def _example(self, rng: np.random.Generator, left_out: Counter[str]) -> list[ExampleGroup]:
        """A lesson drawn and written: one rollout with some of its children, or one for each of them (`children`).
        None, and counted, if the policy's format or context cannot hold it."""
        run, lesson = self.run, self.draw(rng)
        apart = run.children > 1
        ids = [lesson.children[int(i)] for i in rng.permutation(len(lesson.children))]
        shown = (lesson.parent, *lesson.inspirations, *ids[: run.children if apart else run.chain])
        parent, *others = self._readers[lesson.run].fetch(shown)
        beside = len(lesson.inspirations)
        selection, drawn = Selection(parent, tuple(others[:beside]), ()), others[beside:]
        key = lesson.run, lesson.problem
        writable = [child for child in drawn if self._format(key, 1).write([child.text], selection) is not None]
        left_out[_UNWRITABLE] += len(drawn) - len(writable)
        if not writable:
            return []
        prompt_format = self._format(key, 1 if apart else len(writable))
        chains = [[child.text] for child in writable] if apart else [[child.text for child in writable]]
        texts = [text for chain in chains if (text := prompt_format.write(chain, selection)) is not None]
        if len(texts) < len(chains):
            return []
        prompt, rows = self.policy.encode(prompt_format.build(selection, 0)), tuple(map(self._row, texts))
        if len(prompt) + max(len(row.token_ids) for row in rows) > self.policy.context:
            left_out[TOO_LONG] += 1
            return []
        return [ExampleGroup(prompt, rows, 1.0)]

    def _row(self, text: str) -> Example:
        ids = encode_answer(self.policy.tokenizer, self.policy.stops, text)
        return Example(ids, None, np.ones(len(ids), np.float32))


def _lessons(place: int, record: ProblemRecord, rows: Sequence[CandidateSummary]) -> list[ImprovementLesson]:
    by_id = {row.id: row for row in rows}
    better: dict[int, dict[int, None]] = {}
    beside: dict[int, tuple[int, ...]] = {}
    front: list[CandidateSummary] = []
    for row in rows:
        if row.failed:
            continue
        parent = by_id.get(row.parent) if row.parent is not None else None
        new = not any(_covers(other, row) for other in front)
        if parent is not None and not parent.failed and (new or row.fitness > parent.fitness + _LEAST):
            better.setdefault(parent.id, {})[row.id] = None
            beside.setdefault(parent.id, row.inspirations)
        if not new:
            continue
        fittest = sorted(front, key=lambda other: (-other.fitness, other.id))[:_OTHERS]
        for other in fittest:
            if row.fitness > other.fitness + _LEAST:
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
    """The part of the way to the target, of _LEVELS parts, from 0; 0 if the target is not positive."""
    if target <= 0:
        return 0
    return min(max(int(_LEVELS * fitness / target + _LEAST), 0), _LEVELS - 1)


def _covers(one: CandidateSummary, other: CandidateSummary) -> bool:
    """Whether the first is at least as good as the second in every objective."""
    return all(a >= b - _LEAST for a, b in zip(one.rewards, other.rewards, strict=True))
