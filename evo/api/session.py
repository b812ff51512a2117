"""The engine of `evo.Search`: prompts, results, and a search's core, used only on its event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from evo.runs.finish import outcome_of, record_end, summarize
from evo.runs.preflight import ASK_TELL
from evo.runs.start import OpenRun
from evo.search.iteration import Iteration
from evo.search.problem_run import ProblemRun
from evo.search.resources import Resources
from evo.search.stop import FINISHED, INTERRUPTED, StopReason
from islands.errors import DatabaseUnavailable, RunBusy
from islands.types import Candidate, Placement
from problems.contract import Problem, ScorerFault
from problems.contract import Score as ProblemScore
from problems.types import Prompt, Rollout, ScoredGroup, ScoredRollout
from vpo.policies.contract import Policy, PolicyTraits

T = TypeVar("T")
GivenScore = float | Mapping[str, float] | ProblemScore
"""An answer's score from the caller: the fitness, values by the names of the objectives, or a problems.Score."""
NOTHING = np.empty(0, np.int32)


@dataclass(frozen=True)
class SearchPrompt:
    """A prompt of `Search.ask`, to be answered by `Search.tell`.

    problem: the problem's name; iteration: its place among the problem's iterations; island: where answers will live
    text, system: the request and the system message, as a language model would get them
    parent: the answer to improve, with its text, fitness, rewards and feedback; None if the prompt shows none
    inspirations: other good answers that the prompt shows
    """

    problem: str
    iteration: int
    island: int
    text: str
    system: str
    parent: Candidate | None
    inspirations: tuple[Candidate, ...]
    source: Iteration = field(repr=False, compare=False)
    asked_at: float = field(default_factory=time.perf_counter, repr=False, compare=False)

    def read(self, reply: str) -> list[str]:
        """The answers in a model's reply to `text`, out of their tags or code fences; [] if it holds none."""
        return list(self.source.prompt_format.parse(_rollout(reply), self.source.selection).answers)


@dataclass(frozen=True)
class TellResult:
    """The places that the answers to one prompt won.

    fitness: the best of these answers; None if there is none
    improved: whether one of them is the best of its problem so far
    scores: of each answer: fitness, rewards by objective, feedback, and the error of an answer at fault
    candidates: the id of each answer in the run; new: whether the run did not have it before
    """

    fitness: float | None
    improved: bool
    scores: tuple[ProblemScore, ...]
    candidates: tuple[int, ...]
    new: tuple[bool, ...]


class ExternalPolicy(Policy):
    """The place of a policy in a search whose answers come from the caller: it has a prompt format, and no answers."""

    version, prompt_format = ASK_TELL, "chat"
    temperature = 0.0
    traits = PolicyTraits(prefill=True)

    async def sample(self, prompts: Sequence[Prompt], *, rollouts: int, answers: int, seed: int) -> list[list[Rollout]]:
        raise RuntimeError("the answers of this search come from its caller: evo.Search")


class Session:
    """A launched search on its event loop, which only this thread touches."""

    def __init__(self, prepare: Callable[[], Coroutine[Any, Any, OpenRun]], resources: Resources) -> None:
        self._resources = resources
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="evo-search", daemon=True)
        self._thread.start()
        self._open: set[Iteration] = set()  # asked and not told yet
        self._stale: set[ProblemRun] = set()  # ahead of the database, whose last transaction failed
        try:
            self.launched = self.run(self._prepared(prepare))
        except BaseException:
            self._end_loop()
            raise

    async def _prepared(self, prepare: Callable[[], Coroutine[Any, Any, OpenRun]]) -> OpenRun:
        launched = await prepare()
        launched.core.replay(lambda: False)
        return launched

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The work's result, from any thread but the loop's."""
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("the search is closed; evo.Search.resume(name) continues a stored one")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def on_loop(self, work: Callable[[], T]) -> T:
        async def call() -> T:
            return work()

        return self.run(call())

    def is_done(self) -> bool:
        core = self.launched.core
        return core.stopped is not None or not any(problem_run.open for problem_run in core.problem_runs)

    def ask(self, count: int) -> list[SearchPrompt]:
        self._reopen()
        prompts: list[SearchPrompt] = []
        while len(prompts) < count and (iteration := self.launched.core.ask()) is not None:
            shown, prompt = iteration.shown, iteration.prompt
            others = {
                candidate.id: candidate for candidate in (*shown.best, *shown.inspirations) if candidate != shown.parent
            }
            self._open.add(iteration)
            prompts.append(
                SearchPrompt(
                    iteration.problem_run.name,
                    iteration.number,
                    iteration.island,
                    prompt.user,
                    prompt.system,
                    shown.parent,
                    tuple(others.values()),
                    iteration,
                )
            )
        return prompts

    async def tell(
        self,
        prompts: Sequence[SearchPrompt],
        answers: Sequence[Sequence[str]],
        scores: Sequence[Sequence[GivenScore] | None],
        operator: str,
    ) -> list[TellResult]:
        iterations = [prompt.source for prompt in prompts]
        if len(set(iterations)) != len(iterations) or not self._open.issuperset(iterations):
            raise ValueError("a prompt is not of this search, or it has an answer already")
        self._open.difference_update(iterations)
        try:
            self._reopen()
            work = map(self._score, prompts, answers, scores, [operator] * len(prompts))
            groups = await asyncio.gather(*work, return_exceptions=True)
            return self._store(iterations, groups)
        except (ValueError, TypeError, DatabaseUnavailable, RunBusy):
            self._open.update(iterations)  # nothing is stored: they may be told again
            raise

    async def _score(
        self, prompt: SearchPrompt, answers: Sequence[str], scores: Sequence[GivenScore] | None, operator: str
    ) -> ScoredGroup:
        sampled_at = time.perf_counter()
        problem_run = prompt.source.problem_run
        rollouts = [_rollout(answer) for answer in answers]
        if scores is None:
            scored = await asyncio.gather(*map(problem_run.scores.score, answers))
        else:
            problem = problem_run.problem
            scored = [
                problem_run.scores.take(answer, score_of(problem, score))
                for answer, score in zip(answers, scores, strict=True)
            ]
        return prompt.source.to_group(
            [ScoredRollout(rollout, (answer,)) for rollout, answer in zip(rollouts, scored, strict=True)],
            operator,
            answers=1,
            seed=self.launched.config.seed,
            temperature=0.0,
            sampling_seconds=sampled_at - prompt.asked_at,
            scoring_seconds=time.perf_counter() - sampled_at,
        )

    def _store(
        self, iterations: Sequence[Iteration], groups: Sequence[ScoredGroup | BaseException]
    ) -> list[TellResult]:
        """All of them in one transaction; a problem whose scorer failed takes no more. Raises the first fault."""
        core = self.launched.core
        faults = [fault for fault in groups if isinstance(fault, BaseException)]
        other = next((fault for fault in faults if not isinstance(fault, ScorerFault)), None)
        if other is not None:
            raise other
        results, stored = [], []
        problem_runs = {iteration.problem_run for iteration in iterations}
        undo = core.remember(problem_runs)
        with core.store.begin() as transaction:
            transaction.on_end(lambda: None, undo)
            transaction.on_end(lambda: None, lambda: self._stale.update(problem_runs))
            for iteration, group in zip(iterations, groups, strict=True):
                problem_run = iteration.problem_run
                if isinstance(group, BaseException):
                    problem_run.fail(str(group), core.store, transaction)
                else:
                    group, placements = core.tell(problem_run, group, transaction)
                    stored.append((problem_run, group))
                    results.append(_result(group, placements))
            core.write_metrics_if_due(transaction, self.launched.search.scorer.queued)
        for problem_run, group in stored:
            core.release(problem_run, group)
        if faults:
            raise faults[0]
        return results

    def _reopen(self) -> None:
        """Bring the populations back to what is stored. Raises DatabaseUnavailable."""
        for problem_run in list(self._stale):
            problem_run.reopen(self.launched.core.store)
            self._stale.remove(problem_run)

    def close(self) -> None:
        if self._loop.is_closed():
            return
        try:
            self.run(self._finish())
        finally:
            self._end_loop()

    async def _finish(self) -> None:
        launched = self.launched
        stop = launched.core.stopped or (FINISHED if self.is_done() and not self._open else INTERRUPTED)
        outcome, why = outcome_of(launched, stop, None)
        if stop.reason is StopReason.FINISHED and outcome == "done":
            why = ""
        launched.status.active.pause()
        record_end(launched, outcome, why, summarize(launched, outcome, why, stop.reason))
        await launched.close()
        await self._resources.close()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def score_of(problem: Problem, given_score: GivenScore) -> ProblemScore:
    """A score from the caller as a problems.Score. Raises ValueError if the problem cannot derive a fitness."""
    if isinstance(given_score, ProblemScore):
        return given_score
    if isinstance(given_score, Mapping):
        values = {str(name): float(value) for name, value in given_score.items()}
        known = problem.score_of_metrics(values)
        if known is not None:
            return known
        if missing := [name for name in problem.objectives if name not in values]:
            raise ValueError(f"{problem.name}: a score without {', '.join(missing)}")
        rewards = tuple(values[name] for name in problem.objectives)
        return ProblemScore(rewards, values.get("fitness", sum(rewards) / len(rewards)))
    if len(problem.objectives) != 1:
        raise ValueError(
            f"{problem.name} has the objectives {', '.join(problem.objectives)}: give a mapping or a problems.Score"
        )
    return ProblemScore((float(given_score),), float(given_score))


def external_resources() -> Resources:
    return Resources(open_policy=lambda config, problems: ExternalPolicy())


def _rollout(text: str) -> Rollout:
    return Rollout(text, NOTHING, NOTHING.astype(np.float32), NOTHING)


def _result(group: ScoredGroup, placements: Sequence[Placement]) -> TellResult:
    scores = tuple(answer.score for answer in group.all_answers())
    valid = [score.fitness for score in scores if score.error is None]
    return TellResult(
        max(valid, default=None),
        any(placement.improved for placement in placements),
        scores,
        tuple(placement.candidate for placement in placements),
        tuple(placement.new for placement in placements),
    )
