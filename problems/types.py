"""The nouns of one iteration, from prompt to scored group.

They live at the bottom of the import order because the population stores them and the trainer learns from them, and
those two never import each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from problems.contract import Score


@dataclass(frozen=True)
class Prompt:
    """A prompt to a policy.

    user: the request; in the `compact` dialects the token string itself
    system: the system message, "" for none
    stream: the random stream of its rollouts (the group's place in the run); two prompts with one stream and
        one seed sample alike, whatever else shares their batch
    shown: the complete answers in `user`, for policies that change them and read no text: the one to improve
        ("" if there is none), then the others
    """

    user: str
    system: str = ""
    stream: int = 0
    shown: tuple[str, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class Usage:
    """A server's token counts for a rollout, and its price. The first rollout of a prompt carries the prompt's tokens,
    if one request sampled several, and those of attempts without a usable reply.

    estimated: the server reported no usage; the counts are estimates from the length of the texts
    """

    prompt_tokens: int
    completion_tokens: int
    cost: float = 0.0
    estimated: bool = False

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cost + other.cost,
            self.estimated or other.estimated,
        )


NO_USAGE = Usage(0, 0)


@dataclass(frozen=True, eq=False)
class Rollout:
    """One sample of a policy.

    text: without special tokens
    token_ids: (T,) int32, the sampled tokens, including the end token if it was sampled; empty if the server does not
        return them, and then training cannot use the rollout
    logprobs: (T,) float32, nats, under the policy and temperature that sampled them; empty if there are none
    prompt_ids: (P,) int32, the tokens it was conditioned on; one array object shared by a group
    finish: "stop" if it ended by itself, "length" if the token limit cut it
    usage: as counted by a server; None if only the ids give the count
    withheld: why the server gave no answer although it replied; `text` is then what it gave, and is no answer unless
        a filter ended one
    fault: why no reply came, "" if one did
    """

    text: str
    token_ids: npt.NDArray[np.int32]
    logprobs: npt.NDArray[np.float32]
    prompt_ids: npt.NDArray[np.int32]
    finish: str = "stop"
    usage: Usage | None = None
    withheld: Unanswered | None = None
    fault: str = ""

    @property
    def tokens(self) -> int:
        """How many tokens it took."""
        return self.usage.completion_tokens if self.usage is not None else len(self.token_ids)


def prompt_tokens(rollouts: Sequence[Rollout]) -> int:
    """Prompt tokens of one group: as a server counted them, else those of the prompt that its rollouts share."""
    if any(rollout.usage is not None for rollout in rollouts):
        return sum(rollout.usage.prompt_tokens for rollout in rollouts if rollout.usage is not None)
    return len(rollouts[0].prompt_ids) if rollouts else 0


@dataclass(frozen=True)
class ScoredAnswer:
    """An answer with its outcome.

    identity: 16 bytes, equal for answers that count as the same (problems.identity)
    seconds: what scoring cost, measured by the parent; 0 for a repeat
    candidate: the stored candidate that holds the same answer already, None for a new one
    """

    text: str
    identity: bytes
    score: Score
    seconds: float = 0.0
    candidate: int | None = None


class Unanswered(StrEnum):
    """Why a reply holds no answer. FAILED: no reply came. CUT: the token limit ended it. REASONING: it holds a model's
    reasoning and nothing else. FILTERED: a content filter ended it. CALL: it calls a tool. REFUSED: the model refuses.
    """

    FAILED = "failed"
    CUT = "cut"
    EMPTY = "empty"
    REASONING = "only reasoning"
    FILTERED = "filtered"
    CALL = "a tool call"
    REFUSED = "a refusal"


@dataclass(frozen=True, eq=False)
class ScoredRollout:
    """A rollout, the answers its chain held (0 to m, duplicates dropped), and why any are missing."""

    rollout: Rollout
    answers: tuple[ScoredAnswer, ...]
    format_error: str | None = None

    @property
    def unanswered(self) -> Unanswered | None:
        """Why the reply holds no answer, if the model or its server is the reason; None for a reply in a wrong layout
        too. A reply that was cut holds none if what is there of it cannot be scored. A model that is loaded here is cut
        or writes a wrong layout."""
        if any(answer.score.error is None for answer in self.answers):
            return None
        if self.rollout.fault:
            return Unanswered.FAILED
        if self.rollout.withheld is not None:
            return self.rollout.withheld
        if self.rollout.finish == "length":
            return Unanswered.CUT
        if self.answers or self.rollout.usage is None:
            return None
        return None if self.rollout.text.strip() else Unanswered.EMPTY


@dataclass(frozen=True, eq=False)
class ScoredGroup:
    """G rollouts of one prompt, scored: one database transaction and one training example.

    problem: the database id of the problem in its run
    sequence: place in the run's order, from 0; commits happen in this order
    iteration: place among the groups of this problem, from 0
    parent, inspirations: candidate ids shown in the prompt
    answers: m, the answers per rollout
    seed: the run's sampling seed; with prompt.stream it reproduces the rollouts
    operator: the index of the sampled operator in the configuration
    top_p: the share of the mass that the tokens were drawn from; below 1 their log-probabilities are of that part alone
    """

    problem: int
    sequence: int
    iteration: int
    island: int
    parent: int | None
    inspirations: tuple[int, ...]
    prompt: Prompt
    policy_version: str
    answers: int
    seed: int
    temperature: float
    rollouts: tuple[ScoredRollout, ...]
    sampling_seconds: float = 0.0
    scoring_seconds: float = 0.0
    operator: int = 0
    top_p: float = 1.0

    def rewards(self, dimensions: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """Reward vectors (G, m, d) with zero rows for missing answers, and which rows are answers (G, m). Raises
        ValueError if an answer has another number of rewards."""
        g, m = len(self.rollouts), max(self.answers, max((len(r.answers) for r in self.rollouts), default=0))
        rewards = np.zeros((g, m, dimensions))
        valid = np.zeros((g, m), dtype=bool)
        for i, rollout in enumerate(self.rollouts):
            for j, answer in enumerate(rollout.answers):
                if len(answer.score.rewards) != dimensions:
                    raise ValueError(
                        f"an answer has {len(answer.score.rewards)} rewards where others have {dimensions}"
                    )
                rewards[i, j], valid[i, j] = answer.score.rewards, True
        return rewards, valid

    def all_answers(self) -> Sequence[ScoredAnswer]:
        """Every answer, rollout by rollout."""
        return [answer for rollout in self.rollouts for answer in rollout.answers]
