"""Training on the policy's current answers: each step samples prompts, scores the rollouts, and updates the weights.

    question -> prompt -> policy -> score -> trainer.step -> policy.version

The policy that samples and the policy that learns are one model in one process, so every step is on-policy; the
importance ratio still uses the behaviour log-probabilities.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from evo.config.train import TrainRun
from evo.prompts.contract import PromptFormat
from evo.search.score import AnswerScores, score_rollouts
from evo.training.curriculum import ArchiveCurriculum, Curriculum, StoredArchives, TrainingPrompt
from evo.training.loop import GroupSource, TrainingBatch, TrainingStatus
from islands.types import Candidate
from problems.address import name_few
from problems.contract import Problem
from problems.identity import kept
from problems.scoring import Scorer
from problems.types import ScoredGroup
from vpo.policies.contract import LocalPolicy
from vpo.training import TrainStats
from vpo.training.examples import Goal


def parent_usage(questions: Sequence[TrainingPrompt], groups: Sequence[ScoredGroup]) -> dict[str, float]:
    """Figures of a step, as shares of the answers asked for; nothing of a kind of prompt that the step had none of.

    refined, copied: fitter than the parent shown; its text again
    kept: how much of the parent the answers begin and end with, a mean over those that were written
    refined_chance, kept_chance: the same for the parent that a prompt could have shown
    """
    pairs = list(zip(questions, groups, strict=True))
    shown = _shares((q.selection.parent, group) for q, group in pairs)
    chance = _shares((q.hidden_parent, group) for q, group in pairs)
    return shown | {f"{name}_chance": share for name, share in chance.items() if name != "copied"}


def _shares(pairs: Iterable[tuple[Candidate | None, ScoredGroup]]) -> dict[str, float]:
    asked = refined = copied = 0
    shares: list[float] = []
    for parent, group in pairs:
        if parent is None:
            continue
        asked += group.answers * len(group.rollouts)
        for answer in group.all_answers():
            refined += answer.score.fitness > parent.fitness
            copied += answer.text == parent.text
            shares.append(sum(kept(parent.text, answer.text)))
    if not asked:
        return {}
    return {"refined": refined / asked, "copied": copied / asked, "kept": sum(shares) / max(len(shares), 1)}


MOST_CUT = 0.1
"""The share of replies that the token limit may cut without a warning."""


class OnPolicy(GroupSource):
    """The policy's current answers. archives: the first contents of the curriculum's archives"""

    def __init__(
        self, run: TrainRun, policy: LocalPolicy, scorer: Scorer, problems: Sequence[Problem],
        styles: Sequence[PromptFormat], archives: StoredArchives | None,
    ) -> None:  # fmt: skip
        """styles: each problem's prompt format"""
        self.run, self.policy, self.scorer = run, policy, scorer
        self.problems, self.styles, self.archives = problems, styles, archives
        self.steps, self.example, self.words = run.steps, run.problems[0], name_few(run.problems, 4, separator=" ")
        self.curriculum = Curriculum(len(problems), run.shown_share, run.seed)
        if run.parents_from != "step":
            self.curriculum = ArchiveCurriculum(
                len(problems),
                run.shown_share,
                run.seed,
                targets=[problem.target for problem in problems],
                level=run.parent_level,
                under_way=run.under_way,
                most_visits=run.visits,
                stored=archives,
            )
        self._questions: list[TrainingPrompt] = []
        self._warned = False

    def answers(self, step: int) -> int:
        return self.run.prompts * self.run.rollouts * self.run.chain

    async def next(self, status: TrainingStatus) -> TrainingBatch:
        run, step = self.run, status.step
        self._questions = questions = self.curriculum.draw(step, run.prompts)
        started = time.perf_counter()
        streams = range(step * run.prompts, (step + 1) * run.prompts)
        prompts = [
            self.styles[q.problem].build(q.selection, stream) for q, stream in zip(questions, streams, strict=True)
        ]
        version, temperature = self.policy.version, self.policy.temperature
        rollouts = await self.policy.sample(prompts, rollouts=run.rollouts, answers=run.chain, seed=run.seed)
        sampled = time.perf_counter()
        scorings = []
        for q, some in zip(questions, rollouts, strict=True):
            scores = AnswerScores(self.problems[q.problem], self.scorer)
            scorings.append(score_rollouts(self.styles[q.problem], some, scores, q.selection))
        graded = await asyncio.gather(*scorings)  # at once, which keeps the scorer's workers busy
        status.sampling_seconds += sampled - started
        status.scoring_seconds += time.perf_counter() - sampled
        return TrainingBatch(
            [
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
                    top_p=self.policy.top_p,
                )
                for question, prompt, scored in zip(questions, prompts, graded, strict=True)
            ]
        )

    def learned(self, batch: TrainingBatch, stats: TrainStats, status: TrainingStatus) -> dict[str, float]:
        self.curriculum.learn(self._questions, batch.groups)
        if stats.metrics["cut"] > MOST_CUT and not self._warned:
            self._warned = True
            text = f"step {status.step + 1}: the token limit cut {stats.metrics['cut']:.0%} of the replies"
            remedy = "Raise --max-new-tokens. If `length` rises at every step, lower --lr too"
            warnings.warn(f"{text}. {remedy}", stacklevel=2)
        return parent_usage(self._questions, batch.groups)

    def find_goal(self, group: ScoredGroup) -> Goal | None:
        """The goal of a group's answers, None unless solving is rewarded."""
        if self.run.reward != "solve":
            return None
        target = self.problems[group.problem].target
        ended = self.archives.ended(group.problem) if self.archives is not None else []
        if target is None:
            target = float(np.nextafter(max((fitness for _, fitness in ended), default=-np.inf), np.inf))
        return Goal(target, [rewards for rewards, _ in ended], self.curriculum.vectors(group.problem))

    def state(self) -> dict[str, Any]:
        return self.curriculum.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        self.curriculum.restore(state)
