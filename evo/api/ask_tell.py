"""`evo.Search`: a search whose answers come from the caller. `ask` gives prompts, `tell` takes answers.

The search itself is the core that `evo.run` drives with policies (evo.search.core). It runs on an event loop in a
separate thread. Calls from any thread take turns there, so the caller needs no lock.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from evo.api.arguments import (
    RESUMED,
    SEARCHED,
    BatchScorer,
    Problems,
    Score,
    call_text,
    check_keywords,
    check_run_name,
    choose_scorer,
    database,
    reopen_function,
    settings_of_run,
    split_problems,
)
from evo.api.notebook import candidate_rows, data_frame, html_table
from evo.api.result import Answer, best_answers
from evo.api.run import configure
from evo.api.session import GivenScore, SearchPrompt, Session, TellResult, external_resources
from evo.config.scorer import ScorerSettings
from evo.errors import BadInput
from evo.runs.preflight import ASK_TELL, check_new_run
from evo.runs.resume import plan_resume, relaunch
from evo.runs.start import OpenRun, launch
from evo.search.resources import Resources
from islands.store import Store
from problems.contract import Problem
from problems.registry import given

if TYPE_CHECKING:
    from pandas import DataFrame

Answers = str | Sequence[str]
"""The answers to one prompt: one, or several."""
MOST_AHEAD = 100_000
"""Prompts that may be asked and not yet told."""


class Search:
    """A search that you drive: `ask` for prompts, answer them by any means, `tell` the answers.

    Problems, populations, scoring and storage are those of `evo.run`; the answers are yours, so there is no policy. The
    methods may be called from several threads. With the same calls in the same order, one seed gives one run.

    Args:
        address: what to search, as for `evo.run`.
        score: your scorer, as for `evo.run`.
        batch_scorer: your scorer of a batch, as for `evo.run`.
        iterations: prompts per problem, 100 by default.
        name: the run's name; with neither `name` nor `db` the search is kept in memory and ends with this object.
        db: the database, "sqlite:///evo.db" or EVO_DB by default if there is a `name`.
        config: a YAML file with the same settings, which arguments override.
        settings: seed, limit, answers (per prompt, 1), until_solved, max_answers, max_seconds, islands,
            strategy, fresh, sandbox, scoring_workers; population and prompt, as mappings; and what describes `score`.

    Raises:
        ValueError: an argument cannot be used, in one line, before anything is stored.
        TypeError: an unknown argument.
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
        address: Problems | None = None,
        *,
        score: Score | None = None,
        batch_scorer: BatchScorer | None = None,
        iterations: int | None = None,
        name: str | None = None,
        db: str | None = None,
        config: str | None = None,
        **settings: Any,
    ) -> None:
        check_keywords(type(self).__init__, settings, SEARCHED, ScorerSettings)
        if name is not None:
            check_run_name(name)
        given_settings: dict[str, Any] = dict(settings)
        scored_by = batch_scorer if score is None else score
        command = call_text("Search", address, score=scored_by, iterations=iterations, config=config, **settings)
        score = choose_scorer("Search", score, batch_scorer, given_settings)
        fixed = {"policy": ASK_TELL, "lag": MOST_AHEAD, "rollouts": 1}
        values = {"answers": 1, **given_settings, **fixed, "iterations": iterations}
        loaded, objects = configure("Search", address, score, config, values)
        stored = database(db) if db is not None or name is not None else None
        resources = external_resources()
        with given(objects):
            check_new_run(loaded, resources, stored, name)
            store = Store.in_memory() if stored is None else None
            self._start(
                lambda: launch(loaded, db=stored or "", name=name, command=command, resources=resources, store=store),
                resources,
            )

    @classmethod
    def resume(
        cls,
        name: str,
        *,
        db: str | None = None,
        score: Score | None = None,
        problems: Problem | Sequence[Problem] | None = None,
        rescore: bool = False,
        accept_change: bool = False,
        **budgets: Any,
    ) -> Search:
        """Continue a stored search after its last stored answers. Prompts without answers are asked again.

        Args:
            name: of the search.
            db: of the search.
            score: as for `evo.resume`.
            problems: as for `evo.resume`.
            rescore: as for `evo.resume`.
            accept_change: as for `evo.resume`.
            budgets: new totals: iterations (per problem), max_answers, max_seconds.

        Raises:
            ValueError: the run has a policy (`evo.resume` continues it), a budget is below what is spent, or the scorer
                was edited.
            UnknownRun, DatabaseUnavailable, RunBusy: there is no such run or database, or another process writes to it.
        """
        check_keywords(cls.resume, budgets, RESUMED)
        check_run_name(name)
        db = database(db)
        plan = plan_resume(name, db, settings_of_run(budgets), rescore=rescore, accept_change=accept_change)
        policy = plan.runs[0].config["policy"]
        if policy != ASK_TELL:
            raise BadInput(f"{name} is searched by {policy}: evo.resume({name!r}) continues it")
        objects = [*reopen_function(score, plan.runs[0], name), *split_problems(problems)[1]]
        search, resources = cls.__new__(cls), external_resources()
        with given(objects):
            search._start(lambda: relaunch(name, db=db, changes=plan.changes, shared=resources), resources)
        return search

    def _start(self, prepare: Callable[[], Coroutine[Any, Any, OpenRun]], resources: Resources) -> None:
        self._session = Session(prepare, resources)
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
        answers: Sequence[Answers],
        scores: Sequence[GivenScore | Sequence[GivenScore]] | None = None,
        *,
        operator: str = ASK_TELL,
    ) -> list[TellResult]:
        """Score answers, store them in one transaction, and let them compete for their places.

        Args:
            prompts: of this search, each told once, in any order.
            answers: for each prompt its answer, or a list of its answers.
            scores: of the same shape, if they are known; without them the problem's scorer scores.
            operator: a name for the author of the answers, for the record.

        Returns:
            The places that the answers to each prompt won.

        Raises:
            ValueError: shapes differ, or a prompt is not of this search or has answers already; then nothing is stored.
            ScorerFault: the scorer itself failed; its problem takes no more answers.
            DatabaseUnavailable, RunBusy: nothing of this call is stored.
            RuntimeError: the search is closed.
        """
        by_prompt = [[answer] if isinstance(answer, str) else list(answer) for answer in answers]
        if len(by_prompt) != len(prompts):
            raise ValueError(f"{len(prompts)} prompts and answers to {len(by_prompt)}")
        known: list[list[GivenScore] | None] = [None] * len(by_prompt)
        if scores is not None:
            known = [list(score) if isinstance(score, Sequence) else [score] for score in scores]
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
        best, count = self.best, len(self._session.launched.problem_runs)
        if count != 1:
            raise BadInput(f"the search has {count} problems; search.best has an answer of each")
        if not best:
            raise BadInput("the search has no valid answer yet; search.frame() shows why the others failed")
        return best[0]

    def frame(self) -> DataFrame:
        """All answers, one row each, with the columns of `RunResult.frame`. Raises ImportError without pandas."""
        launched = self._session.launched
        rows = self._session.on_loop(lambda: candidate_rows(launched.store, [launched.run]))
        return data_frame(rows, ("problem", "candidate", "fitness", "answer"))

    def __repr__(self) -> str:
        status = self._session.launched.status
        return f"Search({self.name}: {status.groups:,} prompts and {status.answers:,} answers told)"

    def _repr_html_(self) -> str:
        """A notebook's view: the line above, and one row per problem."""
        rows = [
            (
                problem.name,
                f"{problem.committed} of {problem.iterations}",
                "-" if problem.best is None else f"{problem.best:.6g}",
            )
            for problem in self._session.launched.status.problem_runs
        ]
        return html_table(repr(self), ("problem", "iterations", "best"), rows)

    def close(self) -> None:
        """Record how the search ended and release its database; `Search.resume` continues a stored one. Safe to call
        twice, and called when the object goes away."""
        self._close()

    def __enter__(self) -> Search:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
