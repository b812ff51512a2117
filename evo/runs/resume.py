"""From a stored run, or one shard of it, to a search that is ready to continue after its last committed group.

A shard is the part of a run's problems that one machine searches. `relaunch` has stored its problems and seeds before.
It writes the same groups, with the same sequences, as a search of the whole run.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from evo.config.parse import parse
from evo.config.run import PolicyChange, RunConfig, complete_run
from evo.errors import BadInput
from evo.runs.launch import ASK_TELL, Launched, assemble, open_core
from evo.runs.problem_runs import add_problems, open_operators, recall_groups, reopen_problems, score_all_seeds
from evo.runs.scorer_change import UNCHANGED, Changes, OnScorerChange, check_scorers
from evo.search.active_time import ended_periods, seconds_until
from evo.search.defaults import iterations_for, population_config, to_stored
from evo.search.resources import Resources
from evo.search.schedule import CountedSchedule, Shard, ShardSchedule, couples_its_problems
from islands.db.renumbering import renumber_operators
from islands.db.shards import read_shards, revoke_shards, take_shard
from islands.db.store import Store
from islands.db.totals import Totals, problem_totals, run_totals
from islands.db.transaction import Transaction
from islands.openevolve import POLICY as IMPORTED
from islands.queries.progress import RunProgress, group_count, last_sequences, run_progress
from islands.types import ProblemRecord, RunRecord
from problems.contract import Problem
from vpo.policies.address import parse_addresses

UNITS = {
    "iterations": "iterations per problem",
    "max_answers": "answers",
    "max_total_tokens": "tokens",
    "max_cost": "in cost",
    "max_seconds": "seconds",
}


async def relaunch(
    name: str,
    *,
    db: str,
    changes: Changes = UNCHANGED,
    shared: Resources | None = None,
    take_over: bool = False,
    sharded: bool = False,
) -> Launched:
    """A stored run, ready to continue, or to begin if it was only planned. Raises BadInput and leaves the run
    unchanged.

    shared: resources of other searches too, which the caller closes; a policy that learns is never shared
    take_over: take the run from a writer that seems alive but is known to be lost
    sharded: only store problems and settings; the run's shards continue after this call
    """
    own = Resources()
    parts = shared or own
    store = Store.open(db, must_exist=True)
    try:
        # 1) read the run, and what it has spent
        run = store.run(name)
        progress = run_progress(store, run.id)
        check_budgets(run, progress, run_totals(store, run.id), changes.settings)
        before = parse(RunConfig, complete_run(run.config), f"run {name}")
        config = parse(RunConfig, {**complete_run(run.config), **changes.settings}, f"run {name}")
        replaced = changes_policy(before, dict(changes.settings))
        if replaced:
            config = with_other_policies(config, before, progress.next_sequence)
        if config.policy == IMPORTED:
            raise BadInput(f"run {name} was imported; name the policy that continues it: evo resume {name} --policy P")
        if config.policy == ASK_TELL and shared is None:
            raise BadInput(f"run {name} gets its answers from a Python program: evo.Search.resume({name!r})")
        # 2) resolve the problems, load the policies
        problems = parts.problems(config)
        of_policies = own if config.train else parts
        operators = open_operators(config, problems, of_policies)
        scorer = parts.scorer_for(config, problems)
        # 3) become its writer; check that its problems and their scorers are unchanged
        store.lease(run.id, take_over)
        if not sharded:
            check_whole(store, run)
        records = store.problems(run.id)
        if records:
            check_unchanged(run, problems, records)
            await check_scorers(store, run, config, problems, records, scorer, changes.on_scorer_change)
            records, progress = store.problems(run.id), run_progress(store, run.id)
            stored = list(zip(problems, records, strict=True))
            problem_runs = await reopen_problems(store, stored, progress, config, operators, scorer)
        else:  # planned, or killed between its creation and its seeds
            seeds = await score_all_seeds(config, problems, scorer)
            problem_runs = await add_problems(store, run, config, problems, seeds, operators, scorer)
        # 4) record that it continues
        if changes.settings:
            with store.begin() as transaction:
                if replaced:
                    renumber(store, run.id, before, config, transaction)
                store.set_config(run.id, to_stored(config, config.problems), transaction)
        # a killed process left a period of work without an end; the time after it does not count
        closed = {"active": ended_periods(run.summary, run.created)} if run.summary else {}
        store.finish_run(run.id, "running", summary={**run.summary, **closed})
        # 5) restore the state of the search
        schedule = CountedSchedule(problem_runs, progress.next_sequence, config.lag)
        core = open_core(store, run, config, problem_runs, operators, schedule)
        core.status.carry(run.summary, run.created, run_totals(store, run.id))
        launched = assemble(core, run, scorer, own, shared=parts)
        await launched.search.learner.restore()
        recall_groups(core, run.id)
        return launched
    except BaseException:
        await own.close()
        store.close()
        raise


async def relaunch_shard(
    name: str, number: int, *, db: str, node: str = "", shared: Resources | None = None
) -> Launched:
    """Shard `number` of a stored run, taken from its earlier process. node: the name of this machine, for displays

    Raises BadInput if the run cannot be divided, or was searched in another order than that of shards.
    """
    own = Resources()
    parts = shared or own
    store = Store.open(db, must_exist=True)
    try:
        run = store.run(name)
        shards = read_shards(store, run.id)
        config = parse(RunConfig, complete_run(run.config), f"run {name}")
        check_divisible(config, f"run {name}")
        problems = parts.problems(config)
        operators = open_operators(config, problems, parts)
        scorer = parts.scorer_for(config, problems)
        take_shard(store, run.id, number, node)
        records = store.problems(run.id)
        check_unchanged(run, problems, records)
        shard = Shard(number, shards[number].count, tuple(iterations_for(config, problem) for problem in problems))
        mine = [pair for pair in zip(problems, records, strict=True) if shard.owns(pair[1].index)]
        await check_scorers(
            store, run, config, [p for p, _ in mine], [r for _, r in mine], scorer, OnScorerChange.REFUSE
        )
        progress = run_progress(store, run.id)
        _check_places(store, run, shard)
        problem_runs = await reopen_problems(store, mine, progress, config, operators, scorer)
        breadths = [population_config(config, problem).islands for problem in problems]
        schedule = ShardSchedule(problem_runs, shard, config.lag)
        core = open_core(store, run, config, problem_runs, operators, schedule, shard=shard, breadths=breadths)
        summary = dict(shards[number].summary)
        if summary:  # a killed process left a period of work without an end
            summary["active"] = ended_periods(summary, run.created)
        core.status.carry(summary, run.created, problem_totals(store, [record.id for _, record in mine], summary))
        launched = assemble(core, run, scorer, own, shared=parts, shard=shard, node=node)
        recall_groups(core, run.id)
        return launched
    except BaseException:
        await own.close()
        store.close()
        raise


def check_budgets(run: RunRecord, progress: RunProgress, spent_so_far: Totals, changed: Mapping[str, Any]) -> None:
    """Raise BadInput if a budget of `changed` is below what the run has spent, because its results would not fit."""
    periods = ended_periods(run.summary, run.created)
    a_group = int(run.config.get("rollouts", 1)) * int(run.config.get("answers", 1))
    spent = {
        "iterations": max((problem.next_iteration for problem in progress.problems.values()), default=0),
        "max_answers": progress.groups * a_group,
        "max_total_tokens": spent_so_far.tokens,
        "max_cost": spent_so_far.cost,
        "max_seconds": seconds_until(periods, float("inf")),
    }
    for key, unit in UNITS.items():
        budget = changed.get(key)
        if budget is not None and budget < spent[key]:
            flag = "--" + key.replace("_", "-")
            raise BadInput(
                f"run {run.name} has already spent {_number(spent[key])} {unit}; {flag} {_number(budget)} is less"
            )


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def check_divisible(config: RunConfig, run: str) -> None:
    """Raise BadInput if a run cannot be searched in shards."""
    reason = couples_its_problems(config)
    if reason is not None:
        raise BadInput(f"{run} cannot be divided between machines: {reason}")


def check_whole(store: Store, run: RunRecord) -> None:
    """Take a run's shards from the processes that write to them. Raises BadInput if some shards are ahead of others,
    because only shards can then continue in the run's order."""
    if not read_shards(store, run.id):
        return
    revoke_shards(store, run.id)
    groups, last = group_count(store, run.id)
    if groups != last + 1:
        raise BadInput(
            f"run {run.name} is searched in shards, some of which are ahead of others; continue it by "
            f"evo resume {run.name} --ray local"
        )


def check_unchanged(run: RunRecord, problems: Sequence[Problem], records: Sequence[ProblemRecord]) -> None:
    """Raise BadInput if the stored addresses now name other problems than the run searched."""
    now, then = [problem.name for problem in problems], [record.address for record in records]
    if now != then:
        changed = next(
            (f"{b} is now {a}" for a, b in zip(now, then, strict=False) if a != b), f"{len(then)} became {len(now)}"
        )
        raise BadInput(f"run {run.name}: its problems have changed ({changed}); start a new run")
    for problem, record in zip(problems, records, strict=True):
        if tuple(problem.objectives) != tuple(record.objectives):
            raise BadInput(
                f"run {run.name}: {problem.name} now has the objectives {', '.join(problem.objectives)}, "
                f"it was searched with {', '.join(record.objectives)}; declare them as `objectives` or start a new run"
            )


def _check_places(store: Store, run: RunRecord, shard: Shard) -> None:
    """Raise BadInput if stored groups are not at their places in the run's order, as after a scorer's fault, when the
    other problems took the turns of the stopped one."""
    for index, iteration, sequence in last_sequences(store, run.id):
        if shard.place(index, iteration) != sequence:
            raise BadInput(
                f"run {run.name} was searched in another order than shards keep; continue it on one machine, by "
                f"evo resume {run.name} without --ray"
            )


def changes_policy(config: RunConfig, settings: dict[str, Any]) -> bool:
    """Whether these settings of a resume replace the policy of a run."""
    policy = settings.get("policy")
    return policy is not None and policy != config.policy and config.policy != IMPORTED


def with_other_policies(config: RunConfig, before: RunConfig, sequence: int) -> RunConfig:
    """The configuration of a run that continues with other policies; it records the change.

    sequence: of the first group that the new policies may write
    """
    if config.train is not None:
        raise BadInput("a run that trains its policy keeps it: leave out --policy")
    places = _places(before, config)
    known = [*map(str, parse_addresses(before.policy)), *before.dropped_policies]
    dropped = sorted((place, known[number]) for number, place in enumerate(places) if place >= _count(config))
    change = PolicyChange(before=before.policy, after=config.policy, sequence=sequence, created=time.time())
    return config.model_copy(
        update={
            "policy_changes": [*before.policy_changes, change],
            "dropped_policies": [address for _, address in dropped],
        }
    )


def renumber(store: Store, run_id: int, before: RunConfig, now: RunConfig, transaction: Transaction) -> None:
    """Give the stored groups the operators' new numbers."""
    moved = {old: new for old, new in enumerate(_places(before, now)) if old != new}
    renumber_operators(run_id, moved, transaction)


def _count(config: RunConfig) -> int:
    return len(parse_addresses(config.policy))


def _places(before: RunConfig, now: RunConfig) -> list[int]:
    """The new number of each policy, by its old number; dropped policies included."""
    old, new = parse_addresses(before.policy), parse_addresses(now.policy)
    places: dict[int, int] = {}
    for exact in (True, False):  # exact matches first, then the same model with other options
        for number, address in enumerate(old):
            free = [place for place in range(len(new)) if place not in places.values()]
            match = next(
                (place for place in free if (address == new[place] if exact else address.plain == new[place].plain)),
                None,
            )
            if number not in places and match is not None:
                places[number] = match
    following = len(new)
    found = []
    for number in range(len(old) + len(before.dropped_policies)):
        if number not in places:
            places[number] = following
            following += 1
        found.append(places[number])
    return found
