"""`evo.Search`: a search whose answers come from the caller. `ask` gives prompts, `tell` takes answers.

The search itself is the core that `evo.run` drives with policies (evo.search.core). It runs on an event loop in a
separate thread. Calls from any thread take turns there, so the caller needs no lock.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from evo.api.arguments import (
    ProblemSources,
    ScoreFunction,
    call_text,
    check_run_name,
    database,
    reopen_function,
    resumed_settings,
    split_problems,
)
from evo.api.results import Answer, best_answers, candidate_rows, data_frame, only_answer
from evo.api.run import configure
from evo.errors import BadInput
from evo.runs.finish import end_run
from evo.runs.preflight import ASK_TELL, check_new_run
from evo.runs.resume import plan_resume, resume_run
from evo.runs.start import OpenRun, start_run
from evo.search.problem_run import Iteration
from evo.search.resources import Resources
from evo.search.stop import FINISHED, INTERRUPT
from islands.types import Candidate, Placement
from problems import temp_dirs
from problems.contract import Problem, Score, ScorerFault, clip, finite
from problems.objectives import score_values
from problems.registry import given
from problems.types import Prompt, Rollout, ScoredGroup, ScoredRollout
from problems.weights import weigh_score
from vpo.policies.contract import Policy

if TYPE_CHECKING:
    from pandas import DataFrame


_T = TypeVar("_T")
GivenScore = float | Mapping[str, float] | Score
"""An answer's score from the caller: the fitness, values by the names of the objectives, or a problems.Score."""
_NOTHING = np.empty(0, np.int32)


@dataclass(frozen=True)
class SearchPrompt:
    """A prompt of `Search.ask`, to be answered by `Search.tell`.

    problem: the problem's name; iteration: its place among the problem's iterations; island: where answers will live
    text, system: the request and the system message, as a language model would get them
    parent: the answer to improve, with its text, fitness, rewards and feedback; the seed answer at first. A share
        `fresh` of the texts does not show it; the record of their answers is without a parent
    inspirations: other good answers that the text shows
    """

    problem: str
    iteration: int
    island: int
    text: str
    system: str
    parent: Candidate
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
    scores: tuple[Score, ...]
    candidates: tuple[int, ...]
    new: tuple[bool, ...]


class ExternalPolicy(Policy):
    """The place of a policy in a search whose answers come from the caller: it has a prompt format, and no answers."""

    version, prompt_format = ASK_TELL, "chat"
    temperature = 0.0

    async def sample(self, prompts: Sequence[Prompt], *, rollouts: int, answers: int, seed: int) -> list[list[Rollout]]:
        raise RuntimeError("the answers of this search come from its caller: evo.Search")


class Session:
    """A launched search on its event loop, which only this thread touches. folder: removed with it"""

    def __init__(
        self, prepare: Callable[[], Coroutine[Any, Any, OpenRun]], resources: Resources, folder: str | None
    ) -> None:
        self._resources, self._folder = resources, folder
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="evo-search", daemon=True)
        self._thread.start()
        self._open: set[Iteration] = set()  # asked and not told yet
        self._lost: Exception | None = None  # why a transaction failed that the populations are ahead of
        try:
            self.launched = self.run(self._prepared(prepare))
        except BaseException:
            self._end_loop()
            raise

    async def _prepared(self, prepare: Callable[[], Coroutine[Any, Any, OpenRun]]) -> OpenRun:
        launched = await prepare()
        launched.core.replay(lambda: False)
        return launched

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
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

    def on_loop(self, work: Callable[[], _T]) -> _T:
        async def call() -> _T:
            return work()

        return self.run(call())

    def is_done(self) -> bool:
        core = self.launched.core
        return core.stopped is not None or not any(problem_run.open for problem_run in core.problem_runs)

    def ask(self, count: int) -> list[SearchPrompt]:
        self._check_stored()
        self.launched.core.store.check_place()
        prompts: list[SearchPrompt] = []
        while len(prompts) < count and (iteration := self.launched.core.ask()) is not None:
            shown, prompt = iteration.shown, iteration.prompt
            others = {
                candidate.id: candidate for candidate in (*shown.best, *shown.inspirations) if candidate != shown.parent
            }
            self._open.add(iteration)
            place = (iteration.problem_run.record.name, iteration.number, iteration.island)
            parent, inspirations = iteration.parent or iteration.problem_run.population.first, tuple(others.values())
            prompts.append(SearchPrompt(*place, prompt.user, prompt.system, parent, inspirations, iteration))
        return prompts

    async def tell(
        self,
        prompts: Sequence[SearchPrompt],
        answers: Sequence[Sequence[str]],
        scores: Sequence[Sequence[GivenScore] | None],
        operator: str,
    ) -> list[TellResult]:
        self._check_stored()
        iterations = [prompt.source for prompt in prompts]
        if len(set(iterations)) != len(iterations) or not self._open.issuperset(iterations):
            raise ValueError("a prompt is not of this search, or it has an answer already")
        self._open.difference_update(iterations)
        try:
            work = map(self._score, prompts, answers, scores, [operator] * len(prompts))
            groups = await asyncio.gather(*work, return_exceptions=True)
            return self._store(iterations, groups)
        except ScorerFault:
            raise  # it is stored
        except BaseException:
            self._open.update(iterations)  # nothing is stored: they may be told again
            raise

    async def _score(
        self, prompt: SearchPrompt, answers: Sequence[str], scores: Sequence[GivenScore] | None, operator: str
    ) -> ScoredGroup:
        sampled_at = time.perf_counter()
        problem_run = prompt.source.problem_run
        rollouts = [_rollout(answer) for answer in answers]
        known: list[Score | None] = [None] * len(answers)
        if scores is not None:
            known = [score_of(problem_run.problem, score) for score in scores]
        scored = await asyncio.gather(*map(problem_run.scores.score, answers, known))
        return prompt.source.to_group(
            [ScoredRollout(rollout, (answer,)) for rollout, answer in zip(rollouts, scored, strict=True)],
            operator,
            answers=1,
            seed=self.launched.config.seed,
            temperature=0.0,
            top_p=1.0,
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
        results, stored, began = [], [], False
        try:
            with core.store.begin() as transaction:
                began = True
                for iteration, group in zip(iterations, groups, strict=True):
                    problem_run = iteration.problem_run
                    if isinstance(group, BaseException):
                        problem_run.fail(str(group), core.store, transaction)
                    else:
                        group, placements = core.tell(problem_run, group, transaction)
                        stored.append((problem_run, group))
                        results.append(_result(group, placements))
                core.write_metrics(transaction, self.launched.search.scorer.queued)
        except Exception as error:
            self._lost = error if began else None
            raise
        for problem_run, group in stored:
            core.release(problem_run, group)
        if faults:
            raise faults[0]
        return results

    def _check_stored(self) -> None:
        if self._lost is not None:
            again = f"evo.Search.resume({self.launched.run.name!r}) continues it"
            raise RuntimeError(f"the search could not be stored ({self._lost}); {again}")

    def close(self) -> None:
        if self._loop.is_closed():
            return
        try:
            self.run(self._finish())
        finally:
            self._end_loop()

    async def _finish(self) -> None:
        launched = self.launched
        stop = launched.core.stopped or (FINISHED if self.is_done() and not self._open else INTERRUPT)
        launched.status.active.pause()
        if self._lost is None:
            end_run(launched, stop)
        await launched.close()
        await self._resources.close()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        if self._folder is not None:
            temp_dirs.release(self._folder)


def score_of(problem: Problem, given_score: GivenScore) -> Score:
    """A score from the caller as a problems.Score, under the weights of the search if it has any. Raises ValueError if
    the problem cannot derive a fitness."""
    if isinstance(given_score, Score):
        return weigh_score(problem, given_score)
    if isinstance(given_score, Mapping):
        values = {str(name): _number(value) for name, value in given_score.items()}
        known = problem.score_of_metrics(values)
        if known is not None:
            return known
        if missing := [name for name in problem.objectives if name not in values]:
            raise ValueError(f"{problem.name}: a score without {', '.join(missing)}")
        rewards, own = score_values(problem.objectives, problem.metrics, values)
        return weigh_score(problem, Score(rewards, values.get("fitness", sum(rewards) / len(rewards)), values=own))
    if len(problem.objectives) != 1:
        raise ValueError(
            f"{problem.name} has the objectives {', '.join(problem.objectives)}: give a mapping or a problems.Score"
        )
    return score_of(problem, {problem.objectives[0]: given_score})


def _by_answer(scores: Any) -> list[GivenScore]:
    """The scores of one prompt's answers: a list, an array or a column of them, or a single one."""
    if isinstance(scores, Mapping | str):
        return [scores]  # type: ignore[list-item]  # a text is refused as no number
    try:
        len(scores)
    except TypeError:  # a number, or an array without a dimension
        return [scores]
    return list(scores)


def _number(given: Any) -> float:
    if (value := finite(given)) is None:
        raise ValueError(f"a score is {clip(given)}; it must be a finite number")
    return value


def external_resources() -> Resources:
    return Resources(open_policy=lambda config, problems: ExternalPolicy())


def _rollout(text: str) -> Rollout:
    return Rollout(text, _NOTHING, _NOTHING.astype(np.float32), _NOTHING)


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


_Answers = str | Sequence[str]
"""The answers to one prompt: one, or several."""
_MOST_AHEAD = 100_000
"""Prompts that may be asked and not yet told."""
_NOT_REPORTED = "evo.Search reports to no tracker: leave out report_to, which is for evo.run"


class Search:
    """A search that you drive: `ask` for prompts, answer them by any means, `tell` the answers.

    Problems, populations, scoring and storage are those of `evo.run`; the answers are yours, so there is no policy. The
    methods may be called from several threads. With the same calls in the same order, one seed gives one run.

    Args:
        address: what to search, as for `evo.run`.
        score: your scorer, as for `evo.run`.
        name: the run's name; with neither `name` nor `db` a temporary file keeps the search while this object lives.
        db: the database, "sqlite:///evo.db" or EVO_DB by default if there is a `name`.
        config: a YAML file with the same settings, which arguments override.
        settings: iterations (prompts per problem, 100), seed, limit, answers (per prompt, 1), until_solved,
            max_answers, max_seconds, islands, strategy, fresh, sandbox, scoring_workers; population and prompt, as
            mappings; and what describes `score`.

    Raises:
        ValueError: an argument is unknown or cannot be used, in one line, before anything is stored.
        ScorerFault: the scorer fails on its seed answer.
        DatabaseUnavailable, RunExists: the database cannot be written, or has a run of this name.

    Example:
        search = evo.Search(score=lambda text: -abs(float(text) - 2**0.5), seed_answer="1", seed=1)
        while prompts := search.ask(8):
            search.tell(prompts, [str(float(p.parent.text) + random.gauss(0, 0.1)) for p in prompts])
        search.best_answer.text, search.frame()
    """

    def __init__(
        self,
        address: ProblemSources | None = None,
        *,
        score: ScoreFunction | None = None,
        name: str | None = None,
        db: str | None = None,
        config: str | None = None,
        **settings: Any,
    ) -> None:
        check_run_name(name, optional=True)
        fixed = {"policy": ASK_TELL, "lag": _MOST_AHEAD, "rollouts": 1}
        if clash := settings.keys() & {*fixed, "train"}:
            raise BadInput(f"evo.Search takes no {min(clash)}: its answers are yours")
        command = call_text("Search", address, score=score, config=config, **settings)
        values = {"answers": 1, **settings, **fixed}
        loaded, objects = configure("Search", address, score, config, values)
        if loaded.report_to:
            raise BadInput(_NOT_REPORTED)
        folder = temp_dirs.make("search") if db is None and name is None else None
        stored = database(db) if folder is None else f"sqlite:///{folder}/evo.db"
        resources = external_resources()
        try:
            with given(objects):
                check_new_run(loaded, resources, stored, name)
                self._start(
                    lambda: start_run(loaded, db=stored, name=name, command=command, resources=resources),
                    resources,
                    folder,
                )
        except BaseException:
            if folder is not None:
                temp_dirs.release(folder)
            raise

    @classmethod
    def resume(
        cls,
        name: str,
        *,
        db: str | None = None,
        score: ScoreFunction | None = None,
        problems: Problem | Sequence[Problem] | None = None,
        accept_change: bool = False,
        **budgets: Any,
    ) -> Search:
        """Continue a stored search after its last stored answers. Prompts without answers are asked again.

        Args:
            name: of the search.
            db: of the search.
            score: as for `evo.resume`.
            problems: as for `evo.resume`.
            accept_change: as for `evo.resume`.
            budgets: new totals: iterations (per problem), max_answers, max_seconds.

        Raises:
            ValueError: the run has a policy (`evo.resume` continues it), a budget is below what is spent, or the scorer
                was edited.
            UnknownRun, DatabaseUnavailable, RunBusy: there is no such run or database, or another process writes to it.
        """
        check_run_name(name)
        db = database(db)
        if "report_to" in budgets:
            raise BadInput(_NOT_REPORTED)
        plan = plan_resume(name, db, resumed_settings(budgets), accept_change=accept_change)
        policy = plan.runs[0].config["policy"]
        if policy != ASK_TELL:
            raise BadInput(f"{name} is searched by {policy}: evo.resume({name!r}) continues it")
        objects = [*reopen_function(score, plan.runs[0], name), *split_problems(problems)[1]]
        search, resources = cls.__new__(cls), external_resources()
        with given(objects):
            search._start(lambda: resume_run(name, db=db, changes=plan.changes, shared=resources), resources)
        return search

    def _start(
        self,
        prepare: Callable[[], Coroutine[Any, Any, OpenRun]],
        resources: Resources,
        folder: str | None = None,
    ) -> None:
        self._session = Session(prepare, resources, folder)
        self._close = weakref.finalize(self, self._session.close)

    @property
    def name(self) -> str:
        """The run's name in its database."""
        return self._session.launched.run.name

    @property
    def done(self) -> bool:
        """Whether `ask` gives nothing more: every iteration was asked, a budget is spent, or all is solved."""
        return self._session.on_loop(self._session.is_done)

    def ask(self, count: int = 1) -> list[SearchPrompt]:
        """The next prompts: problems take turns, and each prompt shows what its population selects now.

        Args:
            count: how many; fewer come back at the end of the search, and [] once it is over.

        Raises:
            ValueError: count is below 1. RuntimeError: the search is closed.
        """
        if count < 1:
            raise ValueError(f"count must be 1 or more, not {count}")
        return self._session.on_loop(lambda: self._session.ask(count))

    def tell(
        self,
        prompts: Sequence[SearchPrompt],
        answers: Sequence[_Answers],
        scores: Sequence[GivenScore | Sequence[GivenScore]] | None = None,
        *,
        operator: str = ASK_TELL,
    ) -> list[TellResult]:
        """Score answers, store them in one transaction, and let them compete for their places.

        Args:
            prompts: of this search, each told once, in any order.
            answers: for each prompt its answer, or a list of its answers.
            scores: of the same shape, as lists or arrays, if they are known; without them the problem's scorer scores.
            operator: a name for the author of the answers, for the record.

        Returns:
            The places that the answers to each prompt won.

        Raises:
            ValueError: shapes differ, or a prompt is not of this search or has answers already; then nothing is stored.
            ScorerFault: the scorer itself failed; its problem takes no more answers.
            DatabaseUnavailable, RunBusy: nothing of this call is stored; `Search.resume` continues the search.
            RuntimeError: the search is closed, or an earlier call could not be stored.
        """
        by_prompt = [[answer] if isinstance(answer, str) else list(answer) for answer in answers]
        if len(by_prompt) != len(prompts):
            raise ValueError(f"{len(prompts)} prompts and answers to {len(by_prompt)}")
        known: list[list[GivenScore] | None] = [None] * len(by_prompt)
        if scores is not None:
            known = [_by_answer(score) for score in scores]
            counts = [len(score or ()) for score in known]
            if counts != [len(each) for each in by_prompt]:
                raise ValueError(
                    f"scores for {counts} answers, and {[len(each) for each in by_prompt]} answers, by prompt"
                )
        return self._session.run(self._session.tell(list(prompts), by_prompt, known, operator))

    @property
    def best(self) -> list[Answer]:
        """The best valid answer of every problem that has one, in the problems' order."""
        launched = self._session.launched
        return self._session.on_loop(lambda: best_answers(launched.store, launched.run.id))

    @property
    def best_answer(self) -> Answer:
        """The best answer of a search of one problem. Raises ValueError for several problems, or no valid answer."""
        return only_answer(self.name, len(self._session.launched.problem_runs), self.best)

    def frame(self) -> DataFrame:
        """All answers, one row each, with the columns of `RunResult.frame`. Raises ImportError without pandas."""
        launched = self._session.launched
        rows = self._session.on_loop(lambda: candidate_rows(launched.store, [launched.run]))
        return data_frame(rows, ("problem", "candidate", "fitness", "answer"))

    def __repr__(self) -> str:
        status = self._session.launched.status
        return f"Search({self.name}: {status.groups:,} prompts and {status.answers:,} answers told)"

    def close(self) -> None:
        """Record how the search ended and release its database; `Search.resume` continues a stored one. Safe to call
        twice, and called when the object goes away."""
        self._close()

    def __enter__(self) -> Search:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
