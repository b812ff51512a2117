"""Training on the policy's current answers: each step samples prompts, scores the rollouts, and updates the weights.

    question -> prompt -> policy -> score -> trainer.step -> policy.version

The policy that samples and the policy that learns are one model in one process, so every step is on-policy; the
importance ratio still uses the behaviour log-probabilities.

A step asks problems in a shuffled order, some of them with a parent: a policy that is trained as a mutation operator
must learn from prompts with parents too. Parents come from the last step (`Curriculum`), or from archives that grow
while their problems are repeated (`ArchiveCurriculum`).
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from evo.config.train import TrainRun
from evo.errors import BadInput
from evo.prompts.contract import PromptFormat
from evo.search.score import AnswerScores, score_rollouts
from evo.training.loop import GroupSource, TrainingBatch, TrainingStatus
from islands.comparisons import runs_named
from islands.groups import CandidateReader, children
from islands.store import Store
from islands.types import NOTHING_SHOWN, Candidate, CandidateSummary, Selection
from problems.address import name_few
from problems.contract import Problem
from problems.identity import kept
from problems.objectives import Reward
from problems.scoring import Scorer
from problems.types import ScoredGroup
from vpo.metrics import pareto_mask
from vpo.policies.contract import LocalPolicy
from vpo.training import TrainStats
from vpo.training.examples import Goal

_PER_VECTOR = 3
_FRONT = 8
"""The members of a front from which parents are drawn, as a search's pareto_pool."""


@dataclass(frozen=True)
class TrainingPrompt:
    """One prompt of a step: which problem, and what the prompt shows.

    hidden_parent: of a prompt that shows nothing, the parent that it could have shown: what its answers have in common
        with that one is chance
    """

    problem: int
    selection: Selection
    hidden_parent: Candidate | None = None


@dataclass
class Curriculum:
    """Draws the prompts of a step from (seed, step) and the answers of the last step: a prompt with a parent repeats
    a problem of the last step and shows one of its valid answers.

    problems: how many there are; parents: share of prompts with a parent
    asked: prompts without a parent so far, the position in the endless shuffled order
    pool: of the last step, problem -> its valid answers
    """

    problems: int
    parents: float
    seed: int
    asked: int = 0
    pool: dict[int, list[Candidate]] = field(default_factory=dict)

    def draw(self, step: int, count: int) -> list[TrainingPrompt]:
        rng = np.random.default_rng([self.seed, 1, step, 0])
        waiting = [problem for problem, found in self.pool.items() if found]
        made = []
        for _ in range(count):
            if waiting and rng.random() < self.parents:
                problem = waiting.pop(int(rng.integers(len(waiting))))
                parents = self.pool[problem]
                parent = parents[int(rng.integers(len(parents)))]
                made.append(TrainingPrompt(problem, Selection(parent, (), ())))
            else:
                made.append(TrainingPrompt(self._next(), NOTHING_SHOWN))
        return made

    def _next(self) -> int:
        """The next problem of a shuffled round; each round has another order."""
        epoch, place = divmod(self.asked, self.problems)
        self.asked += 1
        return int(np.random.default_rng([self.seed, 2, epoch]).permutation(self.problems)[place])

    def vectors(self, problem: int) -> list[tuple[float, ...]]:
        """The distinct reward vectors of a problem's archive."""
        return sorted({candidate.rewards for candidate in self.pool.get(problem, [])})

    def learn(self, prompts: Sequence[TrainingPrompt], groups: Sequence[ScoredGroup]) -> None:
        """Keep the answers of a step as parents for the next."""
        self.pool = {}
        for prompt, group in zip(prompts, groups, strict=True):
            self.pool.setdefault(prompt.problem, []).extend(_valid(group))

    def state(self) -> dict[str, Any]:
        """Plain values that `restore` takes back."""
        return {
            "asked": self.asked,
            "pool": {
                str(p): [[c.text, list(c.rewards), c.fitness, dict(c.features), c.feedback] for c in found]
                for p, found in self.pool.items()
            },
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.asked = state["asked"]
        self.pool = {
            int(p): [_candidate(text, tuple(rewards), *others) for text, rewards, *others in found]
            for p, found in state["pool"].items()
        }


@dataclass
class ArchiveCurriculum(Curriculum):
    """Asks some problems again and again, as a search does: a prompt with a parent shows an answer that was found for
    its problem in any step before, and what is answered can be a parent in turn.

    Half of the parents are of the front, as a search draws them; the others are drawn over all reward vectors alike, so
    that parents of every level are seen. A problem that is solved or has had its visits makes place for the
    next of the shuffled order.

    targets: per problem the fitness that solves it, None for none
    under_way: problems that are asked at a time; most_visits: prompts of each
    visits: current problem -> the prompts it has had
    pool: problem -> its archive, at most _PER_VECTOR newest answers of a reward vector
    stored: what a problem's archive begins with; None = nothing
    """

    targets: Sequence[float | None] = ()
    under_way: int = 32
    most_visits: int = 16
    visits: dict[int, int] = field(default_factory=dict)
    stored: Callable[[int, np.random.Generator], list[Candidate]] | None = None

    def draw(self, step: int, count: int) -> list[TrainingPrompt]:
        rng = np.random.default_rng([self.seed, 1, step, 0])
        while len(self.visits) < min(max(self.under_way, count), self.problems):
            problem = self._next()
            self.visits.setdefault(problem, 0)
            if self.stored is not None and problem not in self.pool:
                moment = np.random.default_rng([self.seed, 5, self.asked, 0])
                self.pool[problem] = self.stored(problem, moment)
        waiting = list(self.visits)
        turns = [waiting[i] for _ in range(-(-count // len(waiting))) for i in rng.permutation(len(waiting))]
        return [self._draw_prompt(problem, rng) for problem in turns[:count]]

    def _draw_prompt(self, problem: int, rng: np.random.Generator) -> TrainingPrompt:
        found = self.pool.get(problem, [])
        if not found:
            return TrainingPrompt(problem, NOTHING_SHOWN)
        shown = rng.random() < self.parents
        parent = self._draw_parent(found, rng)
        if shown:
            return TrainingPrompt(problem, Selection(parent, (), ()))
        return TrainingPrompt(problem, NOTHING_SHOWN, parent)

    def _draw_parent(self, found: Sequence[Candidate], rng: np.random.Generator) -> Candidate:
        vectors = sorted({c.rewards for c in found if any(c.rewards)} or {c.rewards for c in found})
        place = int(rng.integers(len(vectors)))
        if rng.random() < 0.5:
            best = front(np.array(vectors), [sum(vector) for vector in vectors])
            place = best[int(rng.integers(len(best)))]
        alike = [c for c in found if c.rewards == vectors[place]]
        return alike[int(rng.integers(len(alike)))]

    def learn(self, prompts: Sequence[TrainingPrompt], groups: Sequence[ScoredGroup]) -> None:
        """Add the answers of a step to the archives."""
        for prompt, group in zip(prompts, groups, strict=True):
            problem = prompt.problem
            if problem not in self.visits:
                continue
            self.visits[problem] += 1
            found = {c.text: c for c in self.pool.get(problem, [])}
            for candidate in _valid(group):
                found.pop(candidate.text, None)  # the newest come last
                found[candidate.text] = candidate
            self.pool[problem] = _newest(list(found.values()))
            target = self.targets[problem]
            solved = target is not None and any(c.fitness >= target for c in found.values())
            if solved or self.visits[problem] >= self.most_visits:
                del self.visits[problem], self.pool[problem]

    def state(self) -> dict[str, Any]:
        return {**super().state(), "asks": {str(problem): count for problem, count in self.visits.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self.visits = {int(problem): count for problem, count in state["asks"].items()}


def front(vectors: npt.NDArray[np.float64], fitness: Sequence[float]) -> list[int]:
    """Indices of the rows (N, d) that no other row dominates, the fittest of them. The rows are distinct."""
    mask = pareto_mask(vectors)
    return [int(i) for i in np.argsort(-np.asarray(fitness), kind="stable") if mask[i]][:_FRONT]


def _newest(found: Sequence[Candidate]) -> list[Candidate]:
    """The last _PER_VECTOR of every reward vector, in order."""
    counts = Counter[tuple[float, ...]]()
    newest = []
    for candidate in reversed(found):
        counts[candidate.rewards] += 1
        if counts[candidate.rewards] <= _PER_VECTOR:
            newest.append(candidate)
    return newest[::-1]


def _valid(group: ScoredGroup) -> list[Candidate]:
    """The distinct answers of a group that could be scored."""
    distinct = {a.identity: a for a in group.all_answers() if a.score.error is None}
    scored = [(answer.text, answer.score) for answer in distinct.values()]
    return [_candidate(text, s.rewards, s.fitness, s.features, s.feedback) for text, s in scored]


def _candidate(text: str, rewards: tuple[float, ...], fitness: float, features: Any, feedback: str) -> Candidate:
    return Candidate(0, text, rewards, Reward(fitness), features, feedback, None, 0, 0, None)


_MOST = 48
"""Candidates of an archive: the front's fittest, then others of as many reward vectors."""
_CACHE_BYTES = 8 << 20


class StoredArchives:
    """The archives of a run's problems, each as it was after a random share of the run's stored answers.

    problems: that are learned from; the run has to hold all of them. Raises BadInput if not
    """

    def __init__(self, store: Store, run: str, problems: Sequence[Problem]) -> None:
        self._store, self._problems = store, problems
        self._reader = CandidateReader(store, _CACHE_BYTES)
        self._ended: dict[int, list[tuple[tuple[float, ...], float]]] = {}
        self._ids = {record.address: record.id for one in runs_named(store, run) for record in store.problems(one.id)}
        lost = [problem.name for problem in problems if problem.name not in self._ids]
        if lost:
            raise BadInput(f"run {run} has not searched {lost[0]}; train on problems of the run")

    def __call__(self, problem: int, rng: np.random.Generator) -> list[Candidate]:
        """The archive of the problem with this index at a random moment, without solutions."""
        target = self._problems[problem].target
        rows = [row for row in self._valid(problem) if target is None or row.fitness < target]
        if not rows:
            return []
        rows = rows[: int(rng.integers(1, len(rows) + 1))]
        newest = list({row.rewards: row for row in rows}.values())
        best = front(np.array([row.rewards for row in newest]), [row.fitness for row in newest])
        others = [i for i in range(len(newest)) if i not in best]
        rest = rng.permutation(len(others))[: _MOST - len(best)]
        return self._reader.fetch(sorted(newest[i].id for i in (*best, *(others[int(j)] for j in rest))))

    def ended(self, problem: int) -> list[tuple[tuple[float, ...], float]]:
        """The distinct (rewards, fitness) at the end of the run, for the problem with this index."""
        if problem not in self._ended:
            last = {row.rewards: (row.rewards, row.fitness) for row in self._valid(problem)}
            self._ended[problem] = list(last.values())
        return self._ended[problem]

    def _valid(self, problem: int) -> list[CandidateSummary]:
        rows = children(self._store, self._ids[self._problems[problem].name])
        return [row for row in rows if not row.failed]


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


_MOST_CUT = 0.1
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
        if stats.metrics["cut"] > _MOST_CUT and not self._warned:
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
