"""The training loop: prompts, rollouts, scores, one optimiser step; again.

    question -> prompt -> policy -> grade -> trainer.step -> policy.version

The policy that samples and the policy that learns are one model in one process, so every step is on-policy; the
behaviour log-probabilities are in the ratio all the same. Everything drawn comes from (seed, step): a run that is
stopped and resumed from a checkpoint goes on as if it had not been.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evo.config.train import TrainRun
from evo.prompts.contract import PromptFormat
from evo.search.score import score_all
from evo.training.curriculum import ArchiveCurriculum, Curriculum, Question
from evo.training.loop import Evaluate, SteppedTraining
from evo.training.parent_usage import ParentUsageWatch, parent_usage
from evo.training.stored_archives import StoredArchives
from islands.types import Candidate
from problems.contract import Problem, Score
from problems.identity import identity
from problems.scoring import Scorer
from problems.types import ScoredAnswer, ScoredGroup
from vpo.policies.contract import LocalPolicy
from vpo.training.examples import Goal
from vpo.training.trainer import PolicyTrainer

if TYPE_CHECKING:
    from accelerate import Accelerator

BEGUN = 6
"""Sets the draws of which answers are begun apart from those of the curriculum."""


class TrainingLoop(SteppedTraining):
    """Runs a TrainRun to its end or to a budget on what the policy answers now.

    styles: how each of the problems is put to the policy
    accelerator: accelerate.Accelerator where several processes train together; each asks its share of the prompts
    stored: what the archives begin with; closed with the loop
    """

    def __init__(
        self,
        run: TrainRun,
        problems: Sequence[Problem],
        styles: Sequence[PromptFormat],
        policy: LocalPolicy,
        trainer: PolicyTrainer,
        scorer: Scorer,
        *,
        log: Callable[[dict[str, Any]], None],
        evaluate: Evaluate | None = None,
        accelerator: Accelerator | None = None,
        stored: StoredArchives | None = None,
    ):
        super().__init__(run, run.steps, policy, trainer, log=log, evaluate=evaluate)
        self.problems, self.styles, self.scorer = problems, styles, scorer
        self.rank: int = accelerator.process_index if accelerator else 0
        self.processes: int = accelerator.num_processes if accelerator else 1
        placed = (len(problems), run.shown_share, run.seed, self.rank, self.processes)
        self.curriculum = Curriculum(*placed)
        if run.parents_from != "step":
            targets = [problem.target for problem in problems]
            self.curriculum = ArchiveCurriculum(
                *placed,
                targets=targets,
                level=run.parent_level,
                under_way=run.under_way,
                visits=run.visits,
                stored=stored,
            )
        self._stored = stored
        self._shown: dict[int, list[ScoredAnswer]] = {}
        self._watch = ParentUsageWatch()
        self._held: dict[int, list[tuple[float, ...]]] = {}
        if run.reward == "solve":
            trainer.goals = self._goal
        if run.reward == "gain":
            trainer.shown = self._answers_shown
        if run.method == "archive_vpo":
            trainer.archive = lambda group: self._held.get(group.sequence) or None

    @property
    def source(self) -> str:
        return " ".join(self.run_config.problems)

    @property
    def example(self) -> str:
        return self.run_config.problems[0]

    def close(self) -> None:
        if self._stored is not None:
            self._stored.close()

    def _next_answers(self) -> int:
        run = self.run_config
        return run.prompts * run.rollouts * run.chain

    async def _step(self) -> None:
        run, status = self.run_config, self.status
        started = time.perf_counter()
        share = len(range(self.rank, run.prompts, self.processes))
        questions = self.curriculum.questions(status.step, share)
        groups, sampled, scored = await self._groups(questions)
        before = time.perf_counter()
        self._shown = {
            group.sequence: [self._answer_of(question.problem, question.selection.parent)]
            for question, group in zip(questions, groups, strict=True)
            if question.selection.parent is not None
        }
        self._held = {
            group.sequence: self.curriculum.vectors(question.problem)
            for question, group in zip(questions, groups, strict=True)
        }
        stats = self.trainer.step(groups)
        if stats.policy_version:
            if self.trainer.sharded:
                await self.policy.between(lambda: self.trainer.copy_weights(self.policy.model))
            self.policy.version = stats.policy_version
        self.curriculum.learn(questions, groups)
        ended = time.perf_counter()
        status.step += 1
        status.seconds += ended - started
        status.sampling_seconds += sampled
        status.scoring_seconds += scored
        status.training_seconds += ended - before
        status.answers += self._next_answers()
        status.tokens += int(stats.metrics["tokens"])
        usage = parent_usage(questions, groups)
        status.metrics = {**stats.metrics, **usage}
        self._write("step", status.metrics)
        at_chance = self._watch.add(usage)
        if run.stop_at_chance and at_chance is not None:
            self.stop(at_chance)

    async def _groups(self, questions: Sequence[Question]) -> tuple[list[ScoredGroup], float, float]:
        run, step = self.run_config, self.status.step
        started = time.perf_counter()
        streams = [step * run.prompts + i * self.processes + self.rank for i in range(len(questions))]
        prompts = [
            self.styles[q.problem].build(q.selection, stream, np.random.default_rng([run.seed, BEGUN, stream]))
            for q, stream in zip(questions, streams, strict=True)
        ]
        version, temperature = self.policy.version, self.policy.temperature
        rollouts = await self.policy.sample(prompts, rollouts=run.rollouts, answers=run.chain, seed=run.seed)
        sampled = time.perf_counter()
        jobs = [
            (self.problems[q.problem], self.styles[q.problem], some, q.selection)
            for q, some in zip(questions, rollouts, strict=True)
        ]
        graded = await score_all(jobs, self.scorer)
        groups = [
            ScoredGroup(
                problem=question.problem,
                sequence=prompt.stream,
                iteration=step,
                island=0,
                parent=None,
                inspirations=(),
                prompt=prompt,
                policy_version=version,
                answers=run.chain,
                seed=run.seed,
                temperature=temperature,
                rollouts=scored,
            )
            for question, prompt, scored in zip(questions, prompts, graded, strict=True)
        ]
        return groups, sampled - started, time.perf_counter() - sampled

    def _answer_of(self, problem: int, parent: Candidate) -> ScoredAnswer:
        key = identity(parent.text, self.problems[problem].answer_format)
        return ScoredAnswer(parent.text, key, Score(parent.rewards, parent.fitness))

    def _answers_shown(self, group: ScoredGroup) -> list[ScoredAnswer]:
        return self._shown.get(group.sequence, [])

    def _goal(self, group: ScoredGroup) -> Goal:
        target = self.problems[group.problem].target
        ended = self._stored.ended(group.problem) if self._stored is not None else []
        if target is None:
            target = float(np.nextafter(max((fitness for _, fitness in ended), default=-np.inf), np.inf))
        return Goal(target, [rewards for rewards, _ in ended], self._held[group.sequence])

    def state(self) -> dict[str, Any]:
        return {**super().state(), "curriculum": self.curriculum.state(), "watch": self._watch.state()}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.curriculum.restore(state["curriculum"])
        if "watch" in state:  # checkpoints made before there was one have none
            self._watch.restore(state["watch"])
