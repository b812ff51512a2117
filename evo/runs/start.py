"""From a configuration to a stored run whose search is ready to start.

All faults of the input are found here, before a new run exists in the database.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evo.config.run import RunConfig
from evo.errors import BadInput, UnusableScorer
from evo.prompts.registry import TunedFormat, open_format
from evo.provenance import source_commit
from evo.runs.preflight import ASK_TELL, check_new_run, check_price
from evo.search.core import SearchCore
from evo.search.loop import Learner, SearchLoop
from evo.search.problem_run import ProblemRun
from evo.search.resources import (
    Operator,
    Resources,
    planned_iterations,
    population_config,
    resolve_iterations,
    resolve_policy,
    resolve_settings,
    to_stored,
    workers,
)
from evo.search.score import AnswerScores
from evo.search.status import SearchStatus
from evo.search.stop import Stop
from islands.errors import DatabaseUnavailable, UnknownRun
from islands.population.population import Population
from islands.runs import archived_texts
from islands.store import Store, Transaction
from islands.types import ProblemRecord, RunRecord
from problems.address import shorten_names
from problems.contract import Problem, ScorerFault
from problems.custom.scorer_problem import ScorerProblem
from problems.identity import identity
from problems.scoring import Scorer
from problems.types import ScoredAnswer
from vpo.advantage import METHODS
from vpo.policies.address import parse_addresses

SEED_SEQUENCE = -1
"""The sequence of a seed, before the run's first group."""
_TRAINING_ROLLOUTS = 4
"""Rollouts of a search that trains, unless the user names a number."""
MEANINGFUL = 8
"""Iterations per problem; fewer say little about a policy or a problem."""


@dataclass(frozen=True)
class Changes:
    """The changes of a resume: settings by name, mainly budgets, and whether the scorer may have changed."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    accept_change: bool = False

    def __bool__(self) -> bool:
        return bool(self.settings)


UNCHANGED = Changes()
Seeds = list[ScoredAnswer] | ScorerFault
"""The scored seed answers of a problem, or the fault of its scorer."""


@dataclass(eq=False)
class OpenRun:
    """A run with everything that its search holds open: `start_run` opens a new one, `resume_run` a stored one. Its
    fields are set from the first to the last, as it opens.

    resources: those of this search only, which `close` releases with the store
    shared: those that it shares with other searches; the same as `resources` if it shares none
    """

    resources: Resources
    shared: Resources
    config: RunConfig = field(init=False)
    problems: Sequence[Problem] = field(init=False)
    operators: Sequence[Operator] = field(init=False)
    scorer: Scorer = field(init=False)
    store: Store = field(init=False)
    run: RunRecord = field(init=False)
    problem_runs: list[ProblemRun] = field(init=False)
    core: SearchCore = field(init=False)
    search: SearchLoop = field(init=False)

    @property
    def status(self) -> SearchStatus:
        return self.core.status

    def load(self, config: RunConfig) -> None:
        """The problems and the scorer."""
        self.config, self.problems = config, self.shared.problems(config)
        self.scorer = self.shared.scorer = self.shared.scorer or Scorer(workers(config, self.problems))

    def load_policies(self) -> None:
        """The policies that search. Raises BadInput if one cannot be prompted with these problems or trained on them. A
        policy that learns is never shared."""
        resources = self.resources if self.config.train else self.shared
        self.operators = open_operators(self.config, self.problems, resources)

    async def score_seeds(self, problems: Sequence[Problem], db: str) -> list[Seeds]:
        """Those that the search of each problem starts from: the seed, the problem's further seeds, then those of
        `start`. db: of the runs that `start` names"""

        sources = [read_start(source, problems, db) for source in self.config.start]

        async def score(problem: Problem, place: int) -> Seeds:
            further, start = problem.further_seeds(), [text for source in sources for text in source[place]]
            texts = list(dict.fromkeys(problem.canonical(text) for text in (problem.seed_answer(), *further, *start)))
            try:
                scored = await self.scorer.score(problem, texts)
            except ScorerFault as fault:
                return fault
            return [
                ScoredAnswer(text, identity(text, problem.answer_format), score, seconds)
                for text, (score, seconds) in zip(texts, scored, strict=True)
            ]

        return await asyncio.gather(*map(score, problems, range(len(problems))))

    async def fingerprints(self) -> list[str]:
        """Of the scorers, as they are now."""
        return await asyncio.to_thread(lambda: [problem.fingerprint() for problem in self.problems])

    def add_problems(self, seeds: Sequence[Seeds], fingerprints: Sequence[str]) -> None:
        """Store all problems with their seed answers in one transaction, so that a run has either all of its problems
        or none. A scorer that fails on its seed stops only that problem."""
        names = shorten_names([problem.name for problem in self.problems])
        self.problem_runs = []
        with self.store.begin() as transaction:
            for index, problem in enumerate(self.problems):
                record = self.store.add_problem(
                    self.run.id, index, problem.name, names[index], problem.objectives, problem.target,
                    problem.answer_format, transaction, fingerprints[index],
                )  # fmt: skip
                self.open_problem(problem, record)
                self.insert_seeds(self.problem_runs[-1], seeds[index], transaction)

    def open_problem(self, problem: Problem, record: ProblemRecord) -> None:
        """A stored problem with its population, which is empty until it is advanced."""
        population = Population(self.store, record, population_config(self.config, problem))
        formats = [open_format(problem, one.policy.prompt_format, one.prompt, one.answers) for one in self.operators]
        iterations = planned_iterations(vars(self.config), len(self.problems))[record.index]
        tuned = formats[0] if isinstance(formats[0], TunedFormat) else None
        if tuned is not None:
            tuned.rollouts = self.operators[0].rollouts
        scores = AnswerScores(problem, self.scorer, population)
        self.problem_runs.append(ProblemRun(problem, record, population, formats, iterations, scores, tuned))

    def insert_seeds(self, problem_run: ProblemRun, seeds: Seeds, transaction: Transaction) -> None:
        """Store a problem's seeds, or the failure of its scorer on them."""
        if isinstance(seeds, ScorerFault):
            problem_run.fail(str(seeds), self.store, transaction)
            return
        score = seeds[0].score if seeds else None
        self.store.set_metrics(problem_run.record.id, problem_run.problem, score, transaction)
        for seed in seeds:
            problem_run.population.seed(seed, transaction)
        target = problem_run.problem.target
        if target is not None and any(seed.score.error is None and seed.score.fitness >= target for seed in seeds):
            problem_run.solve(SEED_SEQUENCE, 0, self.config.until_solved, self.store, transaction)

    def build(self, upcoming: int = 0) -> None:
        """Put the search together. upcoming: the sequence of its first group"""
        self.core = SearchCore(self.store, self.run, self.config, self.problem_runs, self.operators, upcoming)
        learner = Learner()
        if self.config.train is not None:
            from evo.training.colocated import open_colocated

            learner = open_colocated(self.core, self.run, self.scorer)
        self.search = SearchLoop(self.core, learner, self.scorer)

    def interrupt(self, stop: Stop) -> None:
        self.search.interrupt(stop)

    async def close(self) -> None:
        await self.resources.close()
        if "store" in vars(self):
            self.store.close()


async def start_run(
    config: RunConfig,
    *,
    db: str,
    name: str | None,
    command: str,
    resources: Resources | None = None,
) -> OpenRun:
    """A new run, its seed answers scored and stored. Before anything is written, raises BadInput, or UnusableScorer if
    no problem can score its seed answer.

    resources: those that check_new_run has opened, if it has accepted this configuration; the run owns them from now on
    """
    checked, resources = resources is not None, resources or Resources()
    opened = OpenRun(resources, resources)
    try:
        # 1) resolve the problems, and the settings that they decide
        if not checked:
            check_new_run(config, resources, db, name)
        opened.load(resolve_run(config, resources.problems(config)))
        # 2) score the seeds, and only then load the policies: a server may charge for the first question
        seeds = await opened.score_seeds(opened.problems, db)
        faults = [fault for fault in seeds if isinstance(fault, ScorerFault)]
        if len(faults) == len(seeds):
            raise UnusableScorer(str(faults[0]))
        check_seeds(opened.config, opened.problems, seeds)
        opened.load_policies()
        if config.policy != ASK_TELL:
            iterations = min(planned_iterations(vars(opened.config), len(opened.problems)))
            if iterations < MEANINGFUL:
                advice = f"use at least {MEANINGFUL}, and 50 to compare two"
                warnings.warn(f"--iterations {iterations} is too few to judge a policy; {advice}", stacklevel=2)
        fingerprints = await opened.fingerprints()
        # 3) create the run, become its writer, and store the problems: in one step, so Ctrl-C comes before it or after
        opened.store = Store.open(db)
        stored = to_stored(opened.config, [problem.name for problem in opened.problems])
        seed, commit = opened.config.seed, source_commit()
        opened.run = opened.store.create_run(name, stored, command=command, seed=seed, commit=commit)
        opened.store.lease(opened.run.id)
        opened.add_problems(seeds, fingerprints)
        opened.build()
        return opened
    except BaseException:
        await opened.close()
        raise


def check_seeds(config: RunConfig, problems: Sequence[Problem], seeds: Sequence[Seeds]) -> None:
    """Raise BadInput if a scorer fails all answers that a search by a model would start from. Often the scorer itself
    is wrong, and whatever the model wrote would be paid for."""
    kinds = set() if config.policy == ASK_TELL else {address.kind for address in parse_addresses(config.policy)}
    if config.start_anyway or kinds <= {"scripted"}:
        return
    for problem, scored in zip(problems, seeds, strict=True):
        own = isinstance(problem, ScorerProblem) and problem.seed_answer().strip()
        if own and isinstance(scored, list) and (errors := [one.score.error for one in scored]) and all(errors):
            raise BadInput(
                f"{problem.name}: the seed answer fails: {errors[0]}. Mend the scorer or the seed before a model "
                "searches, or search anyway: --start-anyway"
            )


def resolve_run(config: RunConfig, problems: Sequence[Problem]) -> RunConfig:
    """The configuration with the settings that its problems decide, and with several rollouts for a method that
    compares those of an iteration, with a warning."""
    config = resolve_settings(resolve_policy(config, problems), problems)
    if config.train is not None and config.train.method in METHODS and "rollouts" not in config.model_fields_set:
        text = f"{config.train.method} compares the rollouts of an iteration: using --rollouts {_TRAINING_ROLLOUTS}"
        warnings.warn(text, stacklevel=2)
        config = config.model_copy(update={"rollouts": _TRAINING_ROLLOUTS})
    config = resolve_iterations(config, problems)
    check_price(config.max_cost, [config.policy])
    return config


def open_operators(config: RunConfig, problems: Sequence[Problem], resources: Resources) -> list[Operator]:
    """The policies that search. Raises BadInput if one cannot be prompted with these problems or trained on them."""
    operators = resources.operators(config, problems)
    if config.train is not None:
        from evo.training.colocated import check_trainable  # slow to import: training

        check_trainable(config, config.train, [operator.policy for operator in operators])
    return operators


def read_start(source: str, problems: Sequence[Problem], db: str) -> list[list[str]]:
    """For each problem, a file of `start`, or what the archives of a stored run hold for the problem of the same name,
    or for the run's only problem. Raises BadInput."""
    try:
        return [[Path(source).read_text(encoding="utf-8")]] * len(problems)
    except FileNotFoundError:
        pass
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"--start {source}: cannot be read: {error}") from None
    try:
        with Store.open(db, read_only=True) as store:
            records = store.problems(store.run(source).id)
            texts = [
                archived_texts(store, [one.id for one in records if one.address == problem.name or len(records) == 1])
                for problem in problems
            ]
    except (DatabaseUnavailable, UnknownRun) as error:
        raise BadInput(f"--start {source}: there is no such file, and {error}") from error
    if not any(texts):
        raise BadInput(f"--start {source}: it holds no answers to these problems; it searched {records[0].address}")
    return texts
