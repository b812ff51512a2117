"""From scored groups to training examples: completion tokens, each with its behaviour log-probability and advantage."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from problems.types import ScoredAnswer, ScoredGroup, ScoredRollout
from vpo.advantage import METHODS, advantages, whitening
from vpo.chain import blocks, tags
from vpo.group_rewards import GroupRewards
from vpo.policies.prompt_formats import is_token_format
from vpo.scalarize import Bools, Floats, dirichlet_weights, reachable_goals
from vpo.training.config import Aggregation, Estimation

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class Goal:
    """The goal of an answer, if solving is rewarded.

    fitness: of an answer that solves the problem or, without a target, beats what the stored search ended with
    ended: reward vectors (N, d) that the stored search ended with; archive: (A, d), those of the prompt's archive
    """

    fitness: float
    ended: Sequence[Sequence[float]] = ()
    archive: Sequence[Sequence[float]] = ()


class Lineage(NamedTuple):
    """What an answer is worth with its descendants: as a number, and as vectors (L, d), of which the best under a
    weighting counts."""

    fitness: float
    rewards: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class SearchContext:
    """What the search held when it sampled a group.

    archive: reward vectors (A, d), over which archive_vpo takes the gain; None for none
    shown: the scored parents in the prompt. If gains are rewarded, a copy of one is worth nothing, a fixed scalar is
        the gain over the fittest of them, and the methods of vectors have their vectors
    goal: if solving is rewarded
    lineages: by identity of an answer, if it is credited with what its descendants reached
    lifts: (G,), the reward of each rollout's set, if a value of the archive is rewarded; nothing else counts then
    """

    archive: npt.ArrayLike | None = None
    shown: Sequence[ScoredAnswer] = ()
    goal: Goal | None = None
    lineages: Mapping[bytes, Lineage] = field(default_factory=dict)
    lifts: Sequence[float] | None = None


NO_CONTEXT = SearchContext()
Context = Callable[[ScoredGroup], SearchContext]


def without_context(group: ScoredGroup) -> SearchContext:
    """The context of groups whose search does not matter."""
    return NO_CONTEXT


@dataclass(frozen=True)
class Example:
    """One rollout: token_ids (T,) int, behaviour (T,) nats, None of what nothing sampled, advantages (T,)."""

    token_ids: npt.NDArray[np.int32]
    behaviour: npt.NDArray[np.float32] | None
    advantages: npt.NDArray[np.float32]


@dataclass(frozen=True)
class ExampleGroup:
    """Rollouts of one prompt (P,), sampled at one temperature."""

    prompt_ids: npt.NDArray[np.int32]
    examples: tuple[Example, ...]
    temperature: float

    @property
    def tokens(self) -> int:
        return sum(len(example.token_ids) for example in self.examples)


def group_rewards(group: ScoredGroup, estimation: Estimation, context: SearchContext = NO_CONTEXT) -> GroupRewards:
    """The group as the estimators take it. Methods of a fixed scalar see the answers' fitness as the one objective, so
    that the task's own deployment weighting counts; the others see the reward vectors."""
    if context.lifts is not None:
        return GroupRewards.of(np.reshape(context.lifts, (-1, 1, 1)))
    archive, goal = context.archive, context.goal
    gains = context.shown if estimation.reward == "gain" else ()
    answers = group.all_answers()
    if not answers:  # nothing can be read, so nothing is gained over whatever there was
        archive, gains = None, ()
    d = len(answers[0].score.rewards) if answers else 1
    rewards, valid = group.rewards(d)
    solved = np.zeros(valid.shape, dtype=bool)
    if goal is not None:
        for i, rollout in enumerate(group.rollouts):
            solved[i, : len(rollout.answers)] = [answer.score.fitness >= goal.fitness for answer in rollout.answers]
    known = {answer.identity for answer in gains}
    copied = np.zeros(valid.shape, dtype=bool)
    for i, rollout in enumerate(group.rollouts):
        copied[i, : len(rollout.answers)] = [answer.identity in known for answer in rollout.answers]
    if METHODS[estimation.method].scalar and goal is not None:
        return GroupRewards.of((solved & valid)[..., None], valid, pass_at=estimation.pass_at)
    if METHODS[estimation.method].scalar:
        rewards = np.zeros((*valid.shape, 1))
        for i, rollout in enumerate(group.rollouts):
            for j, answer in enumerate(rollout.answers):
                lineage = context.lineages.get(answer.identity)
                rewards[i, j, 0] = answer.score.fitness if lineage is None else lineage.fitness
        if gains:
            best = max(answer.score.fitness for answer in gains)
            rewards = np.maximum(rewards - best, 0.0) + estimation.shaping * rewards
        rewards[copied] = 0.0
        return GroupRewards.of(rewards, valid)
    rng = np.random.default_rng([estimation.seed, group.problem, group.sequence])
    weights = dirichlet_weights(estimation.weights, d, alpha=estimation.alpha, seed=rng, sampler=estimation.sampler)
    taste = rng.dirichlet(np.ones(d))
    rewards[copied] = 0.0
    if context.lineages:
        rewards, valid, solved = _with_descendants(group, rewards, valid, context.lineages)
    vectors = [answer.score.rewards for answer in gains] or None
    reach = None if goal is None else reachable_goals(weights, goal.ended, goal.archive)
    return GroupRewards.of(
        rewards,
        valid,
        weights=weights,
        taste=taste,
        archive=archive,
        shown=vectors,
        goals=reach,
        solved=solved,
        shaping=estimation.shaping,
        pass_at=estimation.pass_at,
    )


def _with_descendants(
    group: ScoredGroup, rewards: Floats, valid: Bools, lineages: Mapping[bytes, Lineage]
) -> tuple[Floats, Bools, Bools]:
    """(G, m, d), (G, m) -> (G, M, d), (G, M), (G, M): each rollout's set with the vectors of its answers' lineages,
    and none marked as solved."""
    sets = [
        [*own[held], *(v for a in rollout.answers if a.identity in lineages for v in lineages[a.identity].rewards)]
        for own, held, rollout in zip(rewards, valid, group.rollouts, strict=True)
    ]
    most = max(map(len, sets))
    larger, counted = np.zeros((len(sets), most, rewards.shape[2])), np.zeros((len(sets), most), dtype=bool)
    for i, vectors in enumerate(sets):
        counted[i, : len(vectors)] = True
        larger[i, : len(vectors)] = np.reshape(vectors, (len(vectors), rewards.shape[2]))
    return larger, counted, np.zeros_like(counted)


def group_advantages(group: ScoredGroup, estimation: Estimation, context: SearchContext = NO_CONTEXT) -> Floats:
    """One advantage per rollout (G,), or per answer (G, m) for the methods that credit answers."""
    return advantages(estimation.method, group_rewards(group, estimation, context), estimation.scale)


def example_group(
    group: ScoredGroup,
    estimation: Estimation,
    context: SearchContext = NO_CONTEXT,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    prompt_format: str = "chat",
) -> ExampleGroup | None:
    """The group's training example; None if it teaches nothing (no spread, nothing sampled). A method that matches a
    distribution learns from a group without spread too: to go back to the start there.

    tokenizer, prompt_format: of the policy that sampled; per-answer credit finds an answer's tokens with them
    """
    credit = group_advantages(group, estimation, context)
    if not np.any(credit) and not METHODS[estimation.method].balance:
        return None
    advantages = token_advantages(group, credit, tokenizer, prompt_format)
    examples = tuple(
        Example(one.rollout.token_ids, one.rollout.logprobs, advantage)
        for one, advantage in zip(group.rollouts, advantages, strict=True)
        if len(one.rollout.token_ids)
    )
    if not examples:
        return None
    return ExampleGroup(group.rollouts[0].rollout.prompt_ids, examples, group.temperature)


def example_groups(
    groups: Sequence[ScoredGroup],
    estimation: Estimation,
    context: Context,
    *,
    tokenizer: PreTrainedTokenizerBase | None,
    prompt_format: str,
    add_up: Callable[[float], float] = float,
) -> list[ExampleGroup]:
    """The examples of those groups that teach something. context: called for each. Others as `whiten`."""
    made = (
        example_group(group, estimation, context(group), tokenizer=tokenizer, prompt_format=prompt_format)
        for group in groups
    )
    examples = [example for example in made if example is not None]
    if not estimation.whitened:
        return examples
    return whiten(examples, sum(len(one.rollout.token_ids) for group in groups for one in group.rollouts), add_up)


def token_advantages(
    group: ScoredGroup, credit: Floats, tokenizer: PreTrainedTokenizerBase | None = None, prompt_format: str = "chat"
) -> list[npt.NDArray[np.float32]]:
    """The advantage of every token, (T,) for each rollout, from what group_advantages gave: (G,) or (G, m)."""
    tokens = []
    for rollout, advantage in zip(group.rollouts, credit, strict=True):
        if credit.ndim == 2:
            assert tokenizer is not None, "credit for each answer needs the tokenizer"
            owner = answer_of_tokens(rollout, tokenizer, prompt_format)
            # what belongs to no answer (a repeat, what cannot be read) is blamed like the least useful answer
            advantage = np.where(owner >= 0, advantage[owner], min(float(credit.min()), 0.0))
        tokens.append(np.broadcast_to(np.asarray(advantage, np.float32), rollout.rollout.token_ids.shape))
    return tokens


def whiten(
    groups: Sequence[ExampleGroup], tokens: float, add_up: Callable[[float], float] = float
) -> list[ExampleGroup]:
    """The batch's token advantages less their mean, over their sample deviation: the last step of official GDPO.

    tokens: of this process's part of the batch; those of groups that are left out as spreadless count, with advantage 0
    add_up: adds a number up over processes
    """
    rows = [example.advantages.astype(np.float64) for group in groups for example in group.examples]
    total, squares = add_up(sum(float(row.sum()) for row in rows)), add_up(sum(float(row @ row) for row in rows))
    count = add_up(tokens)
    if not squares:
        return list(groups)
    mean, divisor = whitening(count, total, squares)
    return [
        replace(
            group,
            examples=tuple(replace(one, advantages=(one.advantages - mean) / divisor) for one in group.examples),
        )
        for group in groups
    ]


def token_weights(groups: Sequence[ExampleGroup], aggregation: Aggregation, total: float) -> list[list[float]]:
    """What one token of each rollout weighs in the batch's mean, by group and rollout.

    token: 1 / total, every token alike (DAPO, and VPO's own setting). sequence: 1 / (T x total), every rollout alike,
    as GRPO was first written.
    total: tokens, or rollouts, of the whole optimiser step (batch_total), other processes' included
    """
    if aggregation == "token":
        return [[1.0 / total] * len(group.examples) for group in groups]
    return [[1.0 / (len(example.token_ids) * total) for example in group.examples] for group in groups]


def batch_total(groups: Sequence[ExampleGroup], aggregation: Aggregation) -> int:
    """What token_weights divides by: tokens or rollouts."""
    return sum(group.tokens if aggregation == "token" else len(group.examples) for group in groups)


_COMPACT_START = re.compile(r"(?:^|\s)>")  # with its space, which decodes as part of the token
_RESPONSE_END = re.compile(r"</\s*response[\s_#-]*\d+\s*>", re.IGNORECASE)
_END = re.compile(r"</\s*\w+[\s_#-]*\d*\s*>|^(?:`{3,}|~{3,})[ \t]*$", re.MULTILINE)


def answer_of_tokens(
    rollout: ScoredRollout, tokenizer: PreTrainedTokenizerBase, prompt_format: str = "chat"
) -> npt.NDArray[np.int64]:
    """(T,) for every token the place of its answer in rollout.answers, -1 where it belongs to none (a repeat, a part
    that could not be read).

    The text is cut where answers begin (a token language's `>`) or end (closing tags and fences); a section belongs to
    the first answer not yet placed that it contains. The end token goes with the last answer.
    """
    ids = rollout.rollout.token_ids
    owner = np.full(len(ids), -1, dtype=np.int64)
    if not rollout.answers:
        return owner
    text = rollout.rollout.text
    starts = _token_starts(ids, tokenizer)
    starts += max(0, len(text) - len(_decoded(ids, tokenizer)))  # what a prefill put before them
    compact = is_token_format(prompt_format)
    prompt = _decoded(rollout.rollout.prompt_ids, tokenizer) if compact else ""
    if compact:
        cuts = [match.start() for match in _COMPACT_START.finditer(text)]
    else:  # numbered responses hold tags of their own
        cuts = [match.end() for match in (*_RESPONSE_END.finditer(text),) or _END.finditer(text)]
    edges = sorted({0, *cuts, len(text)})
    place = 0
    for begin, end in zip(edges, edges[1:], strict=False):
        if place < len(rollout.answers) and _holds(text[begin:end], rollout.answers[place].text, prompt_format, prompt):
            owner[(starts >= begin) & (starts < end)] = place
            place += 1
    owner[starts >= len(text)] = place - 1
    return owner


def _holds(section: str, answer: str, prompt_format: str, prompt: str) -> bool:
    if is_token_format(prompt_format):
        from vpo.embedded.dialects import open_dialect

        return open_dialect(prompt_format).read(section, prompt)[:1] == [answer]
    whole, written = _bare(answer), _bare(section)
    if whole in written:
        return True
    # an answer is stored in its canonical form: moves as letters, a program inside the code around it
    if any(tags.moves(one.content) == answer for one in tags.read_tags(section, "route")):
        return True
    return any(part and part in whole for part in map(_bare, blocks.programs(section, 1)[0]))


def _bare(text: str) -> str:
    """Only letters and digits, of one case: routes have separators or not, and programs several layouts."""
    return "".join(character for character in text if character.isalnum()).casefold()


def _token_starts(ids: npt.NDArray[np.int32], tokenizer: PreTrainedTokenizerBase) -> npt.NDArray[np.int64]:
    """(T,) where in the decoded text each token begins."""
    return np.array([len(_decoded(ids[:i], tokenizer)) for i in range(len(ids))])


def _decoded(ids: npt.NDArray[np.int32], tokenizer: PreTrainedTokenizerBase) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))
