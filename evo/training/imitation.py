"""Training by examples: the better children that searches have stored, as the answers to their parents.

    lesson -> prompt and chain in the policy's own form -> token ids -> trainer.teach

Maximum likelihood on the chain's tokens (`improve`), or the preference for them over a chain of worse children of the
same parent (`dpo`); lessons are balanced over the levels of their parents, so that the many weak
ones of a search's beginning do not drown the few late ones (evo.training.improvement).
Everything drawn comes from (seed, step).
"""

from __future__ import annotations

import time
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
from evo.training.loop import Evaluate, SteppedTraining
from evo.training.offline import TOO_LONG
from problems.contract import Problem
from vpo.policies.contract import LocalPolicy
from vpo.training.config import DPO
from vpo.training.examples import Example, ExampleGroup
from vpo.training.trainer import PolicyTrainer

TRIES = 50
"""Lessons drawn for each one that a step needs, at most."""
PROMPT = PromptConfig(style="evo")


class ImitationTraining(SteppedTraining):
    """Runs a TrainRun of the methods `improve` and `dpo`.

    improvements: closed with the loop
    problems: of the lessons, by the run's place and the problem's id
    """

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
        super().__init__(run, run.steps, policy, trainer, log=log, evaluate=evaluate)
        self.improvements = improvements

        @lru_cache(maxsize=4096)
        def opened(problem: tuple[int, int], answers: int) -> PromptFormat:
            return open_format(problems[problem], policy.prompt_format, PROMPT, answers)

        self.writer = Writer(opened)
        self._end = np.array([policy.tokenizer.eos_token_id], dtype=np.int32)

    @property
    def source(self) -> str:
        runs = ", ".join(source.name for source in self.improvements.runs)
        return f"{self.improvements.pairs:,} improvements of {len(self.improvements):,} parents in {runs}"

    @property
    def example(self) -> str:
        return self.improvements.example

    def notes(self) -> list[str]:
        """What was learned from, and what was not."""
        lines = [
            f"- {source.name}: {source.answers:,} different answers, {source.pairs:,} of them better than a parent "
            "of their moment, or dominated by nothing when they were found"
            for source in self.improvements.runs
        ]
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.status.left_out.items() if count)
        return ["## Traces", "\n".join(lines), f"Left out of the lessons drawn: {reasons or 'none'}."]

    def close(self) -> None:
        self.improvements.close()

    def _next_answers(self) -> int:
        return 0

    async def _step(self) -> None:
        run, status = self.run_config, self.status
        started = time.perf_counter()
        rng = np.random.default_rng([run.seed, 3, status.step])
        examples = self._examples(rng)
        before = time.perf_counter()
        stats = self.trainer.teach(examples)
        if stats.policy_version:
            self.policy.version = stats.policy_version
        ended = time.perf_counter()
        status.step += 1
        status.seconds += ended - started
        status.reading_seconds += before - started
        status.training_seconds += ended - before
        status.groups += len(examples)
        status.tokens += int(stats.metrics["tokens"])
        for reason, count in self.writer.left_out.items():
            status.left_out[reason] = status.left_out.get(reason, 0) + count
        self.writer.left_out.clear()
        status.metrics = dict(stats.metrics)
        self._write("step", status.metrics)

    def _examples(self, rng: np.random.Generator) -> list[ExampleGroup]:
        run = self.run_config
        found: list[ExampleGroup] = []
        for _ in range(run.prompts * TRIES):
            if len(found) == run.prompts:
                return found
            example = self._example(rng)
            if example is not None:
                found.append(example)
        raise BadInput(
            f"{self.policy.version} can be taught only {len(found)} of {run.prompts * TRIES} lessons drawn: "
            + ", ".join(f"{count:,} {reason}" for reason, count in self.writer.left_out.most_common())
        )

    def _example(self, rng: np.random.Generator) -> ExampleGroup | None:
        lesson, most = self.improvements.draw(rng), self.run_config.chain
        texts: tuple[str, ...]
        if self.run_config.method == DPO:
            pair = self.writer.write_pair(lesson, self.improvements, most, rng)
            if pair is None:
                return None
            style, selection, texts = pair
        else:
            written = self.writer.write(lesson, self.improvements, most, rng)
            if written is None:
                return None
            style, selection, texts = written[0], written[1], (written[2],)
        prompt = self.policy.encode(style.build(selection, 0))
        rows = [self._tokens(text) for text in texts]
        if len(prompt) + max(map(len, rows)) > self.policy.context:
            self.writer.left_out[TOO_LONG] += 1
            return None
        return ExampleGroup(prompt, tuple(Example(row, None, np.ones(len(row), np.float32)) for row in rows), 1.0)

    def _tokens(self, text: str) -> npt.NDArray[np.int32]:
        ids = self.policy.tokenizer(text, add_special_tokens=False).input_ids
        return np.concatenate([np.asarray(ids, dtype=np.int32), self._end])

    def check_teaches(self) -> None:
        """BadInput where the policy's language can say no lesson."""
        self._examples(np.random.default_rng([self.run_config.seed, 4]))
        self.writer.left_out.clear()


def problems_of(improvements: Improvements, resolve: Callable[[Sequence[str]], list[Problem]]) -> dict[Any, Problem]:
    """The problems of the lessons, found again by their addresses. Raises BadInput, BadAddress."""
    records = improvements.records()
    by_name = {problem.name: problem for problem in resolve(sorted({one.address for one in records.values()}))}
    lost = sorted({one.name for one in records.values()} - by_name.keys())
    if lost:
        raise BadInput(f"{lost[0]} cannot be found again, so its answers can teach nothing")
    return {key: by_name[record.name] for key, record in records.items()}
