"""Training by examples: the better children that searches have stored, as the answers to their parents.

    lesson -> prompt and chain in the policy's form -> token ids -> trainer.teach

`improve` maximises the likelihood of the chain's tokens, `dpo` the preference for them over a chain of worse children
of the same parent. Lessons are balanced over the levels of their parents, so that the many weak ones of a search's
beginning do not drown the few late ones (evo.training.improvement). Every draw comes from (seed, step).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from evo.config.run import PromptConfig
from evo.config.train import TrainRun
from evo.errors import BadInput
from evo.prompts.contract import PromptFormat
from evo.prompts.registry import open_format
from evo.training.improvement import Improvements, Writer
from evo.training.loop import Evaluate, StoredTraining
from evo.training.offline import TOO_LONG
from problems.contract import Problem
from vpo.policies.contract import LocalPolicy
from vpo.training import TrainStats
from vpo.training.config import DPO
from vpo.training.examples import Example, ExampleGroup
from vpo.training.trainer import PolicyTrainer

TRIES = 50
"""Lessons drawn for each one that a step needs, at most."""
PROMPT = PromptConfig(style="evo")


class ImitationTraining(StoredTraining[list[ExampleGroup]]):
    """Runs a TrainRun of the methods `improve` and `dpo`. problems: of the lessons, by the run's place and their id"""

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

        @lru_cache(maxsize=4096)
        def opened(problem: tuple[int, int], answers: int) -> PromptFormat:
            return open_format(problems[problem], policy.prompt_format, PROMPT, answers)

        self.writer = Writer(opened)
        self._end = np.array([policy.tokenizer.eos_token_id], dtype=np.int32)

    @property
    def source(self) -> str:
        found = self.improvements
        return f"{found.pairs:,} improvements of {len(found):,} parents in {found.run_names}"

    def notes(self) -> list[str]:
        """Which lessons there were, and which were left out."""
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
        return self.trainer.teach(batch)

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
        written = self.writer.write(lesson, self.improvements, run.chain, rng, contrasted=run.method == DPO)
        if written is None:
            return None
        prompt_format, selection, texts = written
        prompt = self.policy.encode(prompt_format.build(selection, 0))
        rows = [self._tokens(text) for text in texts]
        if len(prompt) + max(map(len, rows)) > self.policy.context:
            self.writer.left_out[TOO_LONG] += 1
            return None
        return ExampleGroup(prompt, tuple(Example(row, None, np.ones(len(row), np.float32)) for row in rows), 1.0)

    def _tokens(self, text: str) -> npt.NDArray[np.int32]:
        ids = self.policy.tokenizer(text, add_special_tokens=False).input_ids
        return np.concatenate([np.asarray(ids, dtype=np.int32), self._end])

    def check_teaches(self) -> None:
        """BadInput if the policy's language cannot express the lessons."""
        self._examples(np.random.default_rng([self.run_config.seed, 4]))
        self.writer.left_out.clear()


def problems_of(improvements: Improvements, resolve: Callable[[Sequence[str]], list[Problem]]) -> dict[Any, Problem]:
    """The problems of the lessons, found again by their addresses. Raises BadInput, BadAddress."""
    records = improvements.records()
    addresses = sorted({record.address for record in records.values()})
    by_name = {problem.name: problem for problem in resolve(addresses)}
    lost = sorted(improvements.problem_names - by_name.keys())
    if lost:
        raise BadInput(f"{lost[0]} cannot be found again, so its answers can teach nothing")
    return {key: by_name[record.name] for key, record in records.items()}
