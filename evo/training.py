"""The training loop: prompts, rollouts, scores, one optimiser step; again.

    question -> prompt -> policy -> grade -> trainer.step -> policy.version

The policy that samples and the policy that learns are one model in one process, so every step is on-policy; the
behaviour log-probabilities are in the ratio all the same. Everything drawn comes from (seed, step): a run that is
stopped and resumed from a checkpoint goes on as if it had not been.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from evo.curriculum import Curriculum, Question
from evo.grading import grade_all
from evo.prompt import PromptStyle
from evo.train_config import TrainRun
from problems.contract import Problem
from problems.records import ScoredGroup
from problems.scoring import Scorer
from vpo.policies.contract import Policy
from vpo.training.trainer import PolicyTrainer

Evaluate = Callable[[Policy], Awaitable[dict[str, float]]]


@dataclass
class TrainingStatus:
    """What a display, a log and a card show. Seconds are of training, evaluation and saving left out."""

    steps: int
    step: int = 0
    seconds: float = 0.0
    sampling_seconds: float = 0.0
    scoring_seconds: float = 0.0
    training_seconds: float = 0.0
    answers: int = 0
    tokens: int = 0
    figures: dict[str, float] = field(default_factory=dict)
    evaluation: dict[str, float] = field(default_factory=dict)
    stopping: str = ""


class TrainingLoop:
    """Runs a TrainRun to its end or to a budget.

    styles: how each of the problems is put to the policy
    log: called with one plain record a step, and one an evaluation
    evaluate: held-out figures of the policy as it is
    save: writes a checkpoint of the present state
    accelerator: accelerate.Accelerator where several processes train together; each asks its share of the prompts
    """

    def __init__(
        self,
        run: TrainRun,
        problems: Sequence[Problem],
        styles: Sequence[PromptStyle],
        policy: Any,
        trainer: PolicyTrainer,
        scorer: Scorer,
        *,
        log: Callable[[dict[str, Any]], None],
        evaluate: Evaluate | None = None,
        save: Callable[[], None] | None = None,
        accelerator: Any = None,
    ):
        self.run_config, self.problems, self.styles = run, problems, styles
        self.policy, self.trainer, self.scorer = policy, trainer, scorer
        self.log, self.evaluate, self.save = log, evaluate, save
        self.status = TrainingStatus(run.steps)
        self.rank: int = accelerator.process_index if accelerator else 0
        self.processes: int = accelerator.num_processes if accelerator else 1
        self.curriculum = Curriculum(len(problems), run.parents, run.seed, self.rank, self.processes)

    async def run(self) -> str:
        """Train to the end; returns why it ended early, "" where it did not."""
        run, status = self.run_config, self.status
        if status.step == 0:
            await self._evaluate()
        reason = self._spent()
        while status.step < run.steps and not reason:
            await self._step()
            reason = self._spent()
            ended = status.step == run.steps or bool(reason)
            if status.step % run.evaluate_every == 0 or (ended and not status.stopping):
                await self._evaluate()
            if self.save is not None and (ended or status.step % run.save_every == 0):
                self.save()
        return reason if status.step < run.steps else ""

    def stop(self, reason: str) -> None:
        """End after the step under way."""
        self.status.stopping = self.status.stopping or reason

    def _spent(self) -> str:
        """Why to stop here, "" to go on. Processes stop together, as soon as one of them has to."""
        reason = self._own_limit()
        if self.processes > 1 and self.trainer.summed(float(bool(reason))):
            return reason or "another process stopped"
        return reason

    def _own_limit(self) -> str:
        run, status = self.run_config, self.status
        if status.stopping:
            return status.stopping
        if run.max_seconds is not None and status.seconds >= run.max_seconds:
            return f"budget of {run.max_seconds:g} seconds"
        if run.max_answers is not None and status.answers + run.prompts * run.rollouts * run.chain > run.max_answers:
            return f"budget of {run.max_answers:,} answers"
        return ""

    async def _step(self) -> None:
        run, status = self.run_config, self.status
        started = time.perf_counter()
        share = len(range(self.rank, run.prompts, self.processes))
        questions = self.curriculum.questions(status.step, share)
        groups, sampled, scored = await self._groups(questions)
        before = time.perf_counter()
        stats = self.trainer.step(groups)
        if stats.policy_version:
            self.policy.version = stats.policy_version
        self.curriculum.learn(questions, groups)
        ended = time.perf_counter()
        status.step += 1
        status.seconds += ended - started
        status.sampling_seconds += sampled
        status.scoring_seconds += scored
        status.training_seconds += ended - before
        status.answers += run.prompts * run.rollouts * run.chain
        status.tokens += int(stats.figures["tokens"])
        status.figures = dict(stats.figures)
        self._write("step", status.figures)

    async def _groups(self, questions: Sequence[Question]) -> tuple[list[ScoredGroup], float, float]:
        run, step = self.run_config, self.status.step
        started = time.perf_counter()
        prompts = [
            self.styles[q.problem].build(q.selection, step * run.prompts + i * self.processes + self.rank)
            for i, q in enumerate(questions)
        ]
        version, temperature = self.policy.version, self.policy.temperature
        rollouts = await self.policy.sample(prompts, rollouts=run.rollouts, answers=run.chain, seed=run.seed)
        sampled = time.perf_counter()
        jobs = [
            (self.problems[q.problem], self.styles[q.problem], some, q.selection)
            for q, some in zip(questions, rollouts, strict=True)
        ]
        graded = await grade_all(jobs, self.scorer)
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

    async def _evaluate(self) -> None:
        if self.evaluate is not None:
            self.status.evaluation = await self.evaluate(self.policy)
            self._write("evaluation", self.status.evaluation)

    def _write(self, kind: str, figures: dict[str, float]) -> None:
        status = self.status
        self.log(
            {
                "kind": kind,
                "step": status.step,
                "seconds": round(status.seconds, 3),
                "answers": status.answers,
                "total_tokens": status.tokens,
                **{name: round(value, 6) for name, value in figures.items()},
            }
        )

    def state(self) -> dict[str, Any]:
        """The loop's position, plain values; the trainer and the weights keep their own."""
        kept = {name: value for name, value in vars(self.status).items() if name not in ("stopping", "steps")}
        return {"status": kept, "curriculum": self.curriculum.state()}

    def restore(self, state: dict[str, Any]) -> None:
        for name, value in state["status"].items():
            setattr(self.status, name, value)
        self.curriculum.restore(state["curriculum"])
