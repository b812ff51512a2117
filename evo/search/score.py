"""Rollouts made into scored rollouts: by a search, in training and in evaluation alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from evo.prompts.contract import PromptFormat
from islands.types import NOTHING_SHOWN, Selection
from problems.contract import Problem, Score
from problems.identity import identity
from problems.scoring import Scorer
from problems.types import Rollout, ScoredAnswer, ScoredRollout, Unanswered
from vpo.chain import Chain

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

    stored: gives the ScoredAnswer of a text and its identity if it was scored before
    """

    def __init__(
        self,
        problem: Problem,
        scorer: Scorer,
        stored: Callable[[str, bytes], ScoredAnswer | None] = lambda text, key: None,
    ) -> None:
        self.problem, self.scorer = problem, scorer
        self._stored = stored
        self._known: dict[bytes, asyncio.Future[tuple[Score, float]]] = {}

    async def score(self, text: str) -> ScoredAnswer:
        """The answer with its score: stored, scored by this search, or from the scorer. Raises ScorerFault."""
        text = self.problem.canonical(text)
        key = identity(text, self.problem.answer_format)
        stored = self._stored(text, key)
        if stored is not None:
            return stored
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

    def take(self, text: str, score: Score) -> ScoredAnswer:
        """An answer that was scored elsewhere; the stored score wins if the run has the answer already. Raises
        ScorerFault for a score that does not fit the problem."""
        text = self.problem.canonical(text)
        key = identity(text, self.problem.answer_format)
        return self._stored(text, key) or ScoredAnswer(text, key, score.check(self.problem))

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
    distinct = scores.problem.distinct_rewards
    return tuple(
        _scored_rollout(rollout, [next(scored) for _ in chain.answers], chain.error, distinct)
        for rollout, chain in zip(rollouts, chains, strict=True)
    )


def _scored_rollout(
    rollout: Rollout, answers: Sequence[ScoredAnswer], error: str | None, distinct: bool
) -> ScoredRollout:
    """distinct: leave out answers whose rewards are those of one before them (VPO's rule for its text tasks)."""
    kept: dict[tuple[float, ...], ScoredAnswer] = {}
    scored = ScoredRollout(rollout, tuple(answers), error)
    if (lacking := scored.unanswered) is not None:
        reason = rollout.fault or error or "what is there of the answer fails"
        scored = replace(scored, format_error=_REPLIES[lacking].format(reason))
    for answer in answers:
        kept.setdefault(answer.score.rewards, answer)
    if not distinct or len(kept) == len(answers):
        return scored
    return ScoredRollout(rollout, tuple(kept.values()), error or "repeated another's rewards")
