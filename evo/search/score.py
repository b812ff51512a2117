"""Rollouts made into scored rollouts: by a search, in training and in evaluation alike."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from evo.prompts.contract import PromptFormat
from islands.types import NOTHING_SHOWN, Selection
from problems.contract import Problem, Score
from problems.identity import identity
from problems.scoring import Scorer
from problems.types import Rollout, ScoredAnswer, ScoredRollout, Unanswered
from vpo.chain import Chain

if TYPE_CHECKING:
    from islands.population.population import Population  # slow to import: the database's library

_REPLIES = {
    Unanswered.FAILED: "no reply: {}",
    Unanswered.CUT: "cut at the token limit: {}",
    Unanswered.EMPTY: "empty reply",
    Unanswered.REASONING: "only reasoning, no answer",
    Unanswered.FILTERED: "ended by a content filter",
    Unanswered.CALL: "a tool call, no answer",
    Unanswered.REFUSED: "a refusal",
}
"""How the record of a reply says why it holds no answer."""
_NO_ANSWER = Chain((), "no answer in it")


class AnswerScores:
    """Scores the answers to one problem, those of one identity once.

    population: has the scores that are stored already; None if nothing is
    """

    def __init__(self, problem: Problem, scorer: Scorer, population: Population | None = None) -> None:
        self.problem, self.scorer, self.population = problem, scorer, population
        self._known: dict[bytes, asyncio.Future[tuple[Score, float]]] = {}

    async def score(self, text: str, elsewhere: Score | None = None) -> ScoredAnswer:
        """The answer with its score: stored, scored elsewhere or by this search, or from the scorer. Raises
        ScorerFault, also for a score that does not fit the problem."""
        text = self.problem.canonical(text)
        key = identity(text, self.problem.answer_format)
        if self.population is not None and (id := self.population.known(key)) is not None:
            return ScoredAnswer(text, key, self.population.candidate(id).score, 0.0, id)
        if elsewhere is not None:
            return ScoredAnswer(text, key, elsewhere.check(self.problem))
        known = self._known.get(key)
        if known is not None:
            score, _ = await asyncio.shield(known)
            return ScoredAnswer(text, key, score)
        future: asyncio.Future[tuple[Score, float]] = asyncio.get_running_loop().create_future()
        self._known[key] = future
        try:
            ((score, seconds),) = await self.scorer.score(self.problem, [text])
        except BaseException as error:
            self._known.pop(key, None)
            if isinstance(error, Exception):
                future.set_exception(error)
                future.exception()  # several may wait on it, or none
            else:
                future.cancel()
            raise
        future.set_result((score, seconds))
        return ScoredAnswer(text, key, score, seconds)

    def release(self, key: bytes) -> None:
        """Forget an answer: the store answers for it now."""
        self._known.pop(key, None)


async def score_rollouts(
    prompt_format: PromptFormat, rollouts: Sequence[Rollout], scores: AnswerScores, selection: Selection = NOTHING_SHOWN
) -> tuple[ScoredRollout, ...]:
    """Parse and score the rollouts of one prompt. Raises ScorerFault once all their scoring has ended."""
    # what a server withheld is no answer; what a filter ended may hold some
    chains = [
        prompt_format.parse(rollout, selection) if rollout.withheld in (None, Unanswered.FILTERED) else _NO_ANSWER
        for rollout in rollouts
    ]
    texts = [text for chain in chains for text in chain.answers]
    if len(texts) == 1:
        answers = [await scores.score(texts[0])]  # a task of its own would cost more than the rest of this function
    else:
        results = await asyncio.gather(*map(scores.score, texts), return_exceptions=True)
        answers = list[ScoredAnswer]()
        for result in results:
            if isinstance(result, BaseException):
                raise result
            answers.append(result)
    scored = iter(answers)
    scored_rollouts = []
    for rollout, chain in zip(rollouts, chains, strict=True):
        own, kept = tuple(next(scored) for _ in chain.answers), dict[tuple[float, ...], ScoredAnswer]()
        made = ScoredRollout(rollout, own, chain.error)
        if (lacking := made.unanswered) is not None:
            reason = rollout.fault or chain.error or "what is there of the answer fails"
            made = replace(made, format_error=_REPLIES[lacking].format(reason))
        if scores.problem.distinct_rewards:  # VPO's rule for its text tasks: equal rewards count once
            for answer in own:
                kept.setdefault(answer.score.rewards, answer)
            if len(kept) < len(own):
                made = ScoredRollout(rollout, tuple(kept.values()), chain.error or "repeated another's rewards")
        scored_rollouts.append(made)
    return tuple(scored_rollouts)
