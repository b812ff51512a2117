"""From a configuration, or from a stored run, to a Search that is ready to go.

Everything that can be wrong with the input is found here, before a new run exists in the database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evo.config.parse import parse
from evo.config.run import RunConfig, stored_run
from evo.errors import BadInput
from evo.prompts.contract import open_format
from evo.runs.budgets import check_budgets
from evo.runs.learner import check_trainable, learner_for
from evo.runs.scorer_change import UNCHANGED, Changes, check_scorers
from evo.search.active_time import ended_periods
from evo.search.defaults import in_flight, iterations_for, population_config, settled, source_commit, stored_form
from evo.search.iteration import Lane
from evo.search.loop import Search
from evo.search.operator_selection import Operator, chooser_of
from evo.search.resources import Shared
from evo.search.status import LaneStatus, SearchStatus
from islands.db.store import Store
from islands.db.transaction import Transaction
from islands.interop.importing import POLICY as IMPORTED
from islands.population.population import Population
from islands.queries.groups import read_groups
from islands.queries.progress import ProblemProgress, run_progress
from islands.types import ProblemRecord, RunRecord
from problems.contract import Problem, ScorerFault
from problems.identity import identity
from problems.scoring import Scorer
from problems.types import ScoredAnswer
from vpo.policies.contract import Policy

SEED_SEQUENCE = -1
"""A seed comes before the run's first group."""


@dataclass
class Launched:
    """A search with all it holds open; `close` gives back what is its own.

    own: what no other search uses
    """

    search: Search
    store: Store
    run: RunRecord
    policy: Policy
    scorer: Scorer
    config: RunConfig
    status: SearchStatus
    lanes: list[Lane]
    own: Shared

    def finish(self, outcome: str, reason: str, summary: dict[str, Any]) -> None:
        """Record how the run ended, and which problems have had all their iterations."""
        with self.store.begin() as transaction:
            for lane in self.lanes:
                if not lane.solved and not lane.stopped and lane.committed >= lane.iterations:
                    self.store.set_problem_status(lane.record.id, "done", tx=transaction)
            self.store.finish_run(self.run.id, outcome, reason, summary=summary, tx=transaction)

    async def close(self) -> None:
        await self.own.close()
        self.store.close()


async def launch(config: RunConfig, *, db: str, name: str | None, command: str) -> Launched:
    """A new run: its problems resolved, its policy loaded, its seed answers scored and stored."""
    if not config.problems:
        raise BadInput("no problem named; try `evo run maze:hard --limit 10`, or `evo problems` for what there is")
    parts = Shared()
    store: Store | None = None
    try:
        problems = parts.problems(config)
        config = settled(config, problems)
        operators = parts.operators(config, problems)
        check_together(config, problems, operators)
        store = Store.open(db)
        scorer = parts.scorer_for(config, problems)
        stored = stored_form(config, [problem.name for problem in problems])
        run = store.create_run(name, stored, command=command, seed=config.seed, commit=source_commit())
        store.lease(run.id)
        lanes = await enroll(store, run, config, problems, operators, scorer)
        return _assembled(store, run, lanes, parts, operators, scorer, config)
    except BaseException:
        await parts.close()
        if store is not None:
            store.close()
        raise


def check_together(config: RunConfig, problems: Sequence[Problem], operators: Sequence[Operator]) -> None:
    """BadInput where a policy cannot be asked for these problems, or not trained on them."""
    for operator in operators:
        if operator.prompt.prefill and not operator.policy.continues:
            raise BadInput(f"policy {operator.address} cannot go on from the beginning of an answer: leave out prefill")
        for problem in problems:
            open_format(problem, operator.policy.prompt_format, operator.prompt, operator.answers)
    check_trainable(config, operators)


async def relaunch(
    name: str,
    *,
    db: str,
    changes: Changes = UNCHANGED,
    shared: Shared | None = None,
) -> Launched:
    """A stored run, ready to go on after its last committed group, or to begin.
    What is `shared` with other searches is theirs to close; a policy that learns is shared with none."""
    own = Shared()
    parts = shared or own
    store = Store.open(db, must_exist=True)
    try:
        run = store.run(name)
        progress = run_progress(store, run.id)
        check_budgets(run, progress, changes.settings)
        config = parse(RunConfig, {**stored_run(run.config), **changes.settings}, f"run {name}")
        if config.policy == IMPORTED:
            raise BadInput(f"run {name} was imported; say who goes on with it: evo resume {name} --policy POLICY")
        problems = parts.problems(config)
        operators = (own if config.train else parts).operators(config, problems)
        check_together(config, problems, operators)
        scorer = parts.scorer_for(config, problems)
        store.lease(run.id)
        records = store.problems(run.id)
        if records:
            check_unchanged(run, problems, records)
            await check_scorers(store, run, config, problems, records, scorer, changes.on_scorer_change)
            records, progress = store.problems(run.id), run_progress(store, run.id)
            lanes = [
                make_lane(store, record, config, problem, operators)
                for problem, record in zip(problems, records, strict=True)
            ]
            for lane in lanes:
                await take_up(lane, progress.problems[lane.record.id], store, config, scorer)
        else:  # planned, or killed between its creation and its seeds
            lanes = await enroll(store, run, config, problems, operators, scorer)
        if changes.settings:
            store.set_config(run.id, stored_form(config, config.problems))
        # an earlier process that was killed left a period without an end, and what follows it is idle time
        closed = {"active": ended_periods(run.summary, run.created)} if run.summary else {}
        store.finish_run(run.id, "running", summary={**run.summary, **closed})
        launched = _assembled(store, run, lanes, own, operators, scorer, config)
        launched.search.next_sequence = progress.next_sequence
        launched.status.carry(run.summary, run.created, progress.groups, progress.answers, progress.tokens)
        await launched.search.learner.restore()
        launched.search.recall(group for _, group in read_groups(store, run.id))
        return launched
    except BaseException:
        await own.close()
        store.close()
        raise


def check_unchanged(run: RunRecord, problems: Sequence[Problem], records: Sequence[ProblemRecord]) -> None:
    """BadInput where what the stored addresses name today is not what the run searched."""
    now, then = [problem.name for problem in problems], [record.name for record in records]
    if now != then:
        changed = next(
            (f"{b} is now {a}" for a, b in zip(now, then, strict=False) if a != b), f"{len(then)} became {len(now)}"
        )
        raise BadInput(f"run {run.name}: its problems are not what they were ({changed}); start a new run")
    for problem, record in zip(problems, records, strict=True):
        if tuple(problem.objectives) != tuple(record.objectives):
            raise BadInput(
                f"run {run.name}: {problem.name} now has the objectives {', '.join(problem.objectives)}, "
                f"it was searched with {', '.join(record.objectives)}; declare them as `objectives` or start a new run"
            )


def _assembled(
    store: Store,
    run: RunRecord,
    lanes: list[Lane],
    own: Shared,
    operators: Sequence[Operator],
    scorer: Scorer,
    config: RunConfig,
) -> Launched:
    status = SearchStatus(
        run.name, config.policy, [LaneStatus(lane.problem.name, lane.problem.target, lane.iterations) for lane in lanes]
    )
    for lane, shown in zip(lanes, status.lanes, strict=True):
        lane.describe(shown)
    batch, window = in_flight(config, operators[0].policy, lanes)
    search = Search(
        store=store,
        lanes=lanes,
        operators=operators,
        chooser=chooser_of(config, len(operators)),
        learner=learner_for(store, run, config, lanes, operators, scorer, status),
        scorer=scorer,
        config=config,
        status=status,
        window=window,
        batch=batch,
    )
    return Launched(search, store, run, operators[0].policy, scorer, config, status, lanes, own)


def make_lane(
    store: Store, record: ProblemRecord, config: RunConfig, problem: Problem, operators: Sequence[Operator]
) -> Lane:
    population = Population(store, record, population_config(config, problem), problem.answer_format)
    styles = [open_format(problem, one.policy.prompt_format, one.prompt, one.answers) for one in operators]
    return Lane(problem, record, population, styles, iterations_for(config, problem))


async def enroll(
    store: Store,
    run: RunRecord,
    config: RunConfig,
    problems: Sequence[Problem],
    operators: Sequence[Operator],
    scorer: Scorer,
) -> list[Lane]:
    """Score the seed answers and store all problems with them in one transaction, so that a run has either all of its
    problems or none. A scorer that fails on its seed stops that problem alone."""
    seeds = await asyncio.gather(*(scored_seed(problem, scorer) for problem in problems))
    fingerprints = await asyncio.to_thread(lambda: [problem.fingerprint() for problem in problems])
    lanes = []
    with store.begin() as transaction:
        for index, (problem, seed, fingerprint) in enumerate(zip(problems, seeds, fingerprints, strict=True)):
            record = store.add_problem(
                run.id,
                index,
                problem.name,
                problem.name,
                problem.objectives,
                problem.target,
                problem.answer_format,
                transaction,
                fingerprint,
            )
            lane = make_lane(store, record, config, problem, operators)
            lanes.append(lane)
            plant(lane, seed, store, config, transaction)
    return lanes


async def take_up(lane: Lane, done: ProblemProgress, store: Store, config: RunConfig, scorer: Scorer) -> None:
    """Put a lane where its stored problem is. One that a scorer's fault stopped goes on, its seed first if need be."""
    lane.built, lane.committed = done.next_iteration, done.groups
    lane.solved_sequence, lane.solved_at = lane.record.solved_sequence, done.solved_at
    if lane.record.status != "failed":
        return
    store.set_problem_status(lane.record.id, "solved" if lane.solved else "active")
    lane.population.advance(SEED_SEQUENCE)
    if lane.population.size == 0 and done.groups == 0:
        seed = await scored_seed(lane.problem, scorer)
        with store.begin() as transaction:
            plant(lane, seed, store, config, transaction)


def plant(
    lane: Lane, seed: ScoredAnswer | ScorerFault, store: Store, config: RunConfig, transaction: Transaction
) -> None:
    """Store a lane's seed, or that its scorer failed on it."""
    if isinstance(seed, ScorerFault):
        lane.stopped = f"failed: {seed}"
        store.set_problem_status(lane.record.id, "failed", message=str(seed), tx=transaction)
        return
    lane.population.seed(seed, transaction)
    target = lane.problem.target
    if target is not None and seed.score.fitness >= target:
        lane.solved_sequence, lane.solved_at = SEED_SEQUENCE, 0
        lane.stopped = "solved" if config.until_solved else ""
        store.set_problem_status(lane.record.id, "solved", solved_sequence=SEED_SEQUENCE, tx=transaction)


async def scored_seed(problem: Problem, scorer: Scorer) -> ScoredAnswer | ScorerFault:
    text = problem.canonical(problem.seed_answer())
    try:
        ((score, seconds),) = await scorer.score(problem, [text])
    except ScorerFault as fault:
        return fault
    return ScoredAnswer(text, identity(text, problem.answer_format), score, seconds)
