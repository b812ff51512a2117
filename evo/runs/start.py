"""From a configuration to a stored run whose search is ready to start.

All faults of the input are found here, before a new run exists in the database.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from evo.checks.record import warn_of_budget, warn_of_records
from evo.config.run import RunConfig
from evo.errors import BadInput, UnusableScorer
from evo.prompts.registry import open_format
from evo.provenance import describe_machine, source_commit
from evo.runs.preflight import ASK_TELL, check_new_run, check_price
from evo.search.core import SearchCore
from evo.search.defaults import (
    iterations_for,
    population_config,
    resolve_policy,
    resolve_rollouts,
    resolve_settings,
    to_stored,
)
from evo.search.loop import Learner, SearchLoop
from evo.search.operators import WINDOW, Operator, Operators
from evo.search.problem_run import ProblemRun
from evo.search.resources import Resources
from evo.search.schedule import Schedule, window_of
from evo.search.status import SearchStatus
from evo.search.stop import FINISHING, Stop
from islands.groups import read_groups
from islands.population.population import Population
from islands.runs import ProblemProgress, repeats_by_group
from islands.store import Store, Transaction
from islands.types import ProblemRecord, RunRecord
from problems.address import shorten_names
from problems.contract import Problem, ScorerFault
from problems.identity import identity
from problems.scoring import Scorer
from problems.types import ScoredAnswer

SEED_SEQUENCE = -1
"""The sequence of a seed, before the run's first group."""


class OnScorerChange(StrEnum):
    """How a resume treats a scorer that has changed."""

    REFUSE = "refuse"
    ACCEPT = "accept"
    RESCORE = "rescore"


@dataclass(frozen=True)
class Changes:
    """The changes of a resume: settings by name, mainly budgets, and how it treats a changed scorer."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    on_scorer_change: OnScorerChange = OnScorerChange.REFUSE

    def __bool__(self) -> bool:
        return bool(self.settings) or self.on_scorer_change is OnScorerChange.RESCORE


UNCHANGED = Changes()


class OpenRun:
    """A search with the resources that it holds open; `close` releases those that only it uses.

    resources: those of this search only
    shared: those that it shares with other searches; the same as `resources` if it shares none
    policy: the policy that searches, the first of several
    """

    def __init__(self, search: SearchLoop, run: RunRecord, resources: Resources, shared: Resources) -> None:
        self.search, self.run, self.resources, self.shared = search, run, resources, shared
        self.core = core = search.core
        self.store, self.config = core.store, core.config
        self.status, self.problem_runs = core.status, core.problem_runs
        self.policy = core.operators[0].policy

    def interrupt(self, stop: Stop) -> None:
        self.search.interrupt(stop)

    def stop(self) -> None:
        """Finish the iterations in flight, and end."""
        self.interrupt(FINISHING)

    async def close(self) -> None:
        await self.resources.close()
        self.store.close()


async def launch(
    config: RunConfig,
    *,
    db: str,
    name: str | None,
    command: str,
    resources: Resources | None = None,
    store: Store | None = None,
) -> OpenRun:
    """A new run, its seed answers scored and stored. Before anything is written, raises BadInput, or UnusableScorer if
    no problem can score its seed answer.

    resources: those that check_new_run has opened, if it has accepted this configuration; the run owns them from now on
    store: an open store, which is used instead of the database at `db`; the run owns it too
    """
    checked, resources = resources is not None, resources or Resources()
    try:
        # 1) resolve the problems, and the settings that they decide
        if not checked:
            check_new_run(config, resources, db if store is None else None, name)
        problems = resources.problems(config)
        config = resolve_run(config, problems)
        # 2) load the policies
        operators = open_operators(config, problems, resources)
        # 3) score the seeds
        scorer = resources.scorer_for(config, problems)
        seeds = await score_all_seeds(config, problems, scorer)
        faults = [fault for fault in seeds if isinstance(fault, ScorerFault)]
        if len(faults) == len(seeds):
            raise UnusableScorer(str(faults[0]))
        warn_of_records(problems)
        if config.policy != ASK_TELL:
            warn_of_budget(min(iterations_for(config, problem) for problem in problems))
        # 4) create the run, become its writer, and store the problems
        store = store or Store.open(db)
        run = create_run(store, config, problems, name, command)
        store.lease(run.id)
        problem_runs = await add_problems(store, run, config, problems, seeds, operators, scorer)
        # 5) put the search together
        return build_search(store, run, config, problem_runs, operators, scorer, resources, resources)
    except BaseException:
        await resources.close()
        if store is not None:
            store.close()
        raise


def build_search(
    store: Store, run: RunRecord, config: RunConfig, problem_runs: Sequence[ProblemRun], operators: Sequence[Operator],
    scorer: Scorer, resources: Resources, shared: Resources, upcoming: int = 0,
) -> OpenRun:  # fmt: skip
    """The search of these problems. upcoming: the sequence of its first group"""
    core = SearchCore(
        store,
        run.id,
        config,
        Operators(operators, config.mixing),
        SearchStatus(run=run.name, policy=config.policy, problem_runs=problem_runs, machines=[describe_machine()]),
        window_of(config, operators[0].policy, [one.population.config.islands for one in problem_runs]),
        Schedule(problem_runs, upcoming, config.lag),
    )
    if config.train is None:
        learner = Learner()
    else:
        from evo.training.colocated import open_colocated

        learner = open_colocated(core, run, scorer)
    return OpenRun(SearchLoop(core, learner, scorer), run, resources, shared)


def resolve_run(config: RunConfig, problems: Sequence[Problem]) -> RunConfig:
    """The configuration with the settings that its problems decide."""
    config = resolve_rollouts(resolve_settings(resolve_policy(config, problems), problems))
    check_price(config.max_cost, [config.policy])
    return config


def create_run(
    store: Store, config: RunConfig, problems: Sequence[Problem], name: str | None, command: str
) -> RunRecord:
    """Store a resolved run."""
    stored = to_stored(config, [problem.name for problem in problems])
    return store.create_run(name, stored, command=command, seed=config.seed, commit=source_commit())


def open_operators(config: RunConfig, problems: Sequence[Problem], resources: Resources) -> list[Operator]:
    """The policies that search. Raises BadInput if one cannot be prompted with these problems or trained on them."""
    operators = resources.operators(config, problems)
    for operator in operators:
        if operator.prompt.prefill and not operator.policy.traits.prefill:
            raise BadInput(f"policy {operator.address} cannot continue the beginning of an answer: leave out prefill")
        for problem in problems:
            open_format(problem, operator.policy.prompt_format, operator.prompt, operator.answers)
    if config.train is not None:
        from evo.training.colocated import check_trainable  # slow to import: evaluation and training

        check_trainable(config, problems, [operator.policy for operator in operators], resources.held_out(config))
    return operators


async def load_runs(configs: Iterable[RunConfig], resources: Resources) -> None:
    """Load the problems and policies of these runs, as a check. Raises BadInput."""
    for config in configs:
        open_operators(config, resources.problems(config), resources)
        await asyncio.sleep(0)


def open_problem_run(
    store: Store, record: ProblemRecord, config: RunConfig, problem: Problem, operators: Sequence[Operator],
    scorer: Scorer,
) -> ProblemRun:  # fmt: skip
    """A stored problem with its population, which is empty until it is advanced."""
    population = Population(store, record, population_config(config, problem), problem.answer_format)
    prompt_formats = [open_format(problem, one.policy.prompt_format, one.prompt, one.answers) for one in operators]
    return ProblemRun(problem, record, population, prompt_formats, iterations_for(config, problem), scorer)


async def add_problems(
    store: Store, run: RunRecord, config: RunConfig, problems: Sequence[Problem],
    seeds: Sequence[list[ScoredAnswer] | ScorerFault], operators: Sequence[Operator], scorer: Scorer,
) -> list[ProblemRun]:  # fmt: skip
    """Store all problems with their seed answers in one transaction, so that a run has either all of its problems or
    none. A scorer that fails on its seed stops only that problem."""
    names = shorten_names([problem.name for problem in problems])
    fingerprints = await asyncio.to_thread(lambda: [problem.fingerprint() for problem in problems])
    problem_runs = []
    with store.begin() as transaction:
        for index, (problem, scored, fingerprint) in enumerate(zip(problems, seeds, fingerprints, strict=True)):
            record = store.add_problem(
                run.id, index, problem.name, names[index], problem.objectives, problem.target, problem.answer_format,
                transaction, fingerprint,
            )  # fmt: skip
            problem_run = open_problem_run(store, record, config, problem, operators, scorer)
            problem_runs.append(problem_run)
            insert_seeds(problem_run, scored, store, config, transaction)
    return problem_runs


async def restore_problem_run(
    problem_run: ProblemRun, progress: ProblemProgress, store: Store, config: RunConfig, scorer: Scorer
) -> None:
    """Restore a problem from its record. A problem that a scorer's fault stopped continues; its seed is scored
    first."""
    problem_run.built, problem_run.committed = progress.next_iteration, progress.groups
    problem_run.missing = deque(progress.missing)
    problem_run.solved_sequence, problem_run.solved_at = problem_run.record.solved_sequence, progress.solved_at
    if problem_run.record.status != "failed":
        return
    store.set_problem_status(problem_run.record.id, "solved" if problem_run.solved else "active")
    problem_run.population.advance(SEED_SEQUENCE)
    if problem_run.population.size == 0 and progress.groups == 0:
        (seeds,) = await score_all_seeds(config, [problem_run.problem], scorer)
        with store.begin() as transaction:
            insert_seeds(problem_run, seeds, store, config, transaction)


def recall_groups(core: SearchCore, run_id: int) -> None:
    """Restore what a resumed search has learned about operators and repeats, from its stored groups. Groups are read
    only if its settings need them."""
    if any(operator.prompt.fresh == "auto" for operator in core.operators.all):
        core.fresh_share.recall(repeats_by_group(core.store, run_id, WINDOW + core.size.groups))
    if core.operators.learns:
        for _, group in read_groups(core.store, run_id):
            core.operators.credit(group)


async def score_all_seeds(
    config: RunConfig, problems: Sequence[Problem], scorer: Scorer
) -> list[list[ScoredAnswer] | ScorerFault]:
    """The scored seed answers of each problem, or the fault of its scorer: those that its search starts from, which
    are the seed, the problem's further seeds, then those of `start`."""
    start = [read_start(path) for path in config.start]

    async def score(problem: Problem) -> list[ScoredAnswer] | ScorerFault:
        further = problem.further_seeds()
        texts = list(dict.fromkeys(problem.canonical(text) for text in (problem.seed_answer(), *further, *start)))
        try:
            scored = await scorer.score(problem, texts)
        except ScorerFault as fault:
            return fault
        return [
            ScoredAnswer(text, identity(text, problem.answer_format), score, seconds)
            for text, (score, seconds) in zip(texts, scored, strict=True)
        ]

    return await asyncio.gather(*map(score, problems))


def read_start(path: str) -> str:
    """A file of `start`. Raises BadInput."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"--start {path}: cannot be read: {error}") from None


def insert_seeds(
    problem_run: ProblemRun,
    seeds: Sequence[ScoredAnswer] | ScorerFault,
    store: Store,
    config: RunConfig,
    transaction: Transaction,
) -> None:
    """Store a problem's seeds, or the failure of its scorer on them."""
    if isinstance(seeds, ScorerFault):
        problem_run.fail(str(seeds), store, transaction)
        return
    for seed in seeds:
        problem_run.population.seed(seed, transaction)
    target = problem_run.target
    if target is not None and any(seed.score.fitness >= target for seed in seeds):
        problem_run.solve(SEED_SEQUENCE, 0, config.until_solved)
        store.set_problem_status(problem_run.record.id, "solved", solved_sequence=SEED_SEQUENCE, tx=transaction)
