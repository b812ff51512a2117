"""From a stored run to a search that is ready to continue after its last committed group.

A scorer, or its data, may have changed in between: that is refused, or accepted on record. Scores of two scorers in one
population are not comparable: an answer that only the new scorer rates highly would look like progress of the search.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evo.config.parse import parse
from evo.config.run import RunConfig, check_trackers, tracker_name
from evo.errors import BadInput
from evo.runs.preflight import ASK_TELL, check_price
from evo.runs.start import SEED_SEQUENCE, UNCHANGED, Changes, OpenRun, check_seeds
from evo.search.resources import Resources, resolve_iterations, to_stored
from evo.search.status import ended_periods, seconds_until
from islands.comparisons import runs_named
from islands.runs import run_progress, run_totals
from islands.store import Store
from islands.types import ProblemRecord, RunRecord
from problems.address import name_few
from problems.contract import Problem
from vpo.policies.address import parse_addresses


@dataclass(frozen=True)
class Resumption:
    """runs: those of the given name, a run or a comparison; changes: of settings, and how to treat an edited scorer."""

    name: str
    runs: list[RunRecord]
    changes: Changes

    @property
    def is_comparison(self) -> bool:
        return self.runs[0].comparison == self.name

    def is_done(self) -> bool:
        """Whether every run is done, and nothing is to change. A run whose answers came from a caller never is: to
        continue it takes more than iterations."""
        done = all(run.status == "done" and run.config["policy"] != ASK_TELL for run in self.runs)
        return done and self.changes == UNCHANGED

    def configs(self) -> dict[str, RunConfig]:
        """The configurations of a comparison's unfinished runs, by name."""
        return {run.name: config_of(run, self.changes) for run in self.runs if run.status != "done" or self.changes}


def plan_resume(name: str, db: str, changed: Mapping[str, Any], *, accept_change: bool = False) -> Resumption:
    """Plan a resume of a run, or of all runs of a comparison, before any policy is loaded. Raises UnknownRun, and
    BadInput for a budget already spent or a setting that cannot change."""
    with Store.open(db, must_exist=True) as store:  # open it for writing: a resume upgrades an older schema
        runs = runs_named(store, name)
        if changed.keys() & {"rollouts", "answers"}:
            raise BadInput(f"{name} keeps its rollouts and answers")
        if "policy" in changed and runs[0].comparison == name:
            raise BadInput(f"the arms of {name} keep their policies, by which they are compared; leave out --policy")
        check_price(changed.get("max_cost"), [changed.get("policy") or run.config["policy"] for run in runs])
        for run in runs:
            check_budgets(store, run, changed)
    if changed.get("report_to") and not runs[0].config.get("tracked_as"):
        changed = {**changed, "tracked_as": tracker_name(name)}
    check_trackers(config_of(runs[0], Changes(changed)).report_to)
    return Resumption(name, runs, Changes(dict(changed), accept_change))


def config_of(run: RunRecord, changes: Changes = UNCHANGED) -> RunConfig:
    """The configuration of a stored run, changed if it continues so. Raises BadInput if it has set other settings than
    those of this version, whose defaults may be others too."""
    # a setting of another version that was never set changes nothing, nor does a label of a run
    stored = {key: value for key, value in run.config.items()
              if key in RunConfig.model_fields or (value is not None and key not in ("note", "tags"))}  # fmt: skip
    if unknown := stored.keys() - RunConfig.model_fields.keys():
        settings = name_few(sorted(unknown), 3)
        raise BadInput(f"run {run.name} has settings of another version of evo, which must continue it: {settings}")
    return parse(RunConfig, {**stored, **changes.settings}, f"run {run.name}")


async def resume_run(
    name: str,
    *,
    db: str,
    changes: Changes = UNCHANGED,
    shared: Resources | None = None,
    take_over: bool = False,
) -> OpenRun:
    """A stored run, ready to continue, or to begin if it was only planned. Raises BadInput and leaves the run
    unchanged.

    changes: as plan_resume accepted them
    shared: resources of other searches too, which the caller closes
    take_over: take the run from a writer that seems alive but is known to be lost
    """
    own = Resources()
    opened = OpenRun(own, shared or own)
    try:
        # 1) read the run, and its settings
        store = opened.store = Store.open(db, must_exist=True)
        run = opened.run = store.run(name)
        before, config = config_of(run), config_of(run, changes)
        if config.policy != before.policy:
            config = with_other_options(config, before, run_progress(store, run.id).next_sequence)
        if config.policy == ASK_TELL and shared is None:
            raise BadInput(f"run {name} gets its answers from a Python program: evo.Search.resume({name!r})")
        # 2) resolve the problems, load the policies
        opened.load(config)
        opened.config = config = resolve_iterations(config, opened.problems)  # an older evo did not store them
        if store.problems(run.id):
            opened.load_policies()
        # 3) become its writer; check that its problems and their scorers are unchanged
        store.lease(run.id, take_over)
        records = store.problems(run.id)
        if records:
            check_unchanged(run, opened.problems, records)
        await check_scorers(opened, records, changes.accept_change)
        if records:
            await restore_problems(opened, db)
        else:  # planned, or killed between its creation and its seeds
            seeds = await opened.score_seeds(opened.problems, db)
            check_seeds(opened.config, opened.problems, seeds)
            opened.load_policies()
            opened.add_problems(seeds, await opened.fingerprints())
        # 4) record that it continues
        if config != before:
            store.set_config(run.id, to_stored(config, config.problems))
        # a killed process left a period of work without an end; the time after it does not count
        closed = {"active": ended_periods(run.summary)} if run.summary else {}
        store.finish_run(run.id, "running", summary={**run.summary, **closed})
        # 5) restore the state of the search
        opened.build(run_progress(store, run.id).next_sequence)
        opened.status.carry(run.summary, run_totals(store, run.id))
        await opened.search.learner.restore()
        opened.core.recall()
        return opened
    except BaseException:
        await opened.close()
        raise


async def restore_problems(opened: OpenRun, db: str) -> None:
    """Restore each problem from its record. A problem that a scorer's fault stopped continues; its seed is scored
    first."""
    store, progress = opened.store, run_progress(opened.store, opened.run.id)
    opened.problem_runs = []
    for problem, record in zip(opened.problems, store.problems(opened.run.id), strict=True):
        opened.open_problem(problem, record)
        problem_run, stored = opened.problem_runs[-1], progress.problems[record.id]
        problem_run.built, problem_run.committed = stored.next_iteration, stored.groups
        problem_run.missing = deque(stored.missing)
        problem_run.solved_sequence, problem_run.solved_at = record.solved_sequence, stored.solved_at
        if record.status != "failed":
            continue
        store.set_problem_status(record.id, "solved" if problem_run.solved else "active")
        problem_run.population.advance(SEED_SEQUENCE)
        if problem_run.population.size == 0 and stored.groups == 0:
            (seeds,) = await opened.score_seeds([problem], db)
            with store.begin() as transaction:
                opened.insert_seeds(problem_run, seeds, transaction)


def check_budgets(store: Store, run: RunRecord, changed: Mapping[str, Any]) -> None:
    """Raise BadInput if a budget of `changed` is below what the run has spent, because its results would not fit."""
    progress, total = run_progress(store, run.id), run_totals(store, run.id)
    upcoming = (problem.next_iteration for problem in progress.problems.values())
    a_group = int(run.config.get("rollouts", 1)) * int(run.config.get("answers", 1))
    spent = {
        "iterations": (max(upcoming, default=0), "iterations per problem"),
        "max_answers": (progress.groups * a_group, "answers"),
        "max_total_tokens": (total.tokens, "tokens"),
        "max_cost": (total.cost, "in cost"),
        "max_seconds": (seconds_until(ended_periods(run.summary), float("inf")), "seconds"),
    }
    for key, (amount, unit) in spent.items():
        budget = changed.get(key)
        if budget is not None and budget < amount:
            flag = "--" + key.replace("_", "-")
            raise BadInput(
                f"run {run.name} has already spent {_number(amount)} {unit}; {flag} {_number(budget)} is less"
            )


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def check_unchanged(run: RunRecord, problems: Sequence[Problem], records: Sequence[ProblemRecord]) -> None:
    """Raise BadInput if the stored addresses now name other problems than the run searched. The problems take over what
    the run began with."""
    now, then = [problem.name for problem in problems], [record.address for record in records]
    if now != then:
        changed = next(
            (f"{b} is now {a}" for a, b in zip(now, then, strict=False) if a != b), f"{len(then)} became {len(now)}"
        )
        raise BadInput(f"run {run.name}: its problems have changed ({changed}); start a new run")
    for problem, record in zip(problems, records, strict=True):
        problem.restore(record.metrics)
        if tuple(problem.objectives) != tuple(record.objectives):
            raise BadInput(
                f"run {run.name}: {problem.name} now has the objectives {', '.join(problem.objectives)}, "
                f"it was searched with {', '.join(record.objectives)}; declare them as `objectives` or start a new run"
            )


def with_other_options(config: RunConfig, before: RunConfig, sequence: int) -> RunConfig:
    """The configuration of a run that continues with other options of its policies; it records the change. Raises
    BadInput if it names other models, whose groups would count as those of the former ones.

    sequence: of the first group that the changed policies may write
    """
    if config.train is not None:
        raise BadInput("a run that trains its policy keeps it: leave out --policy")
    former, now = ([address.plain for address in parse_addresses(each.policy)] for each in (before, config))
    if former != now:
        raise BadInput(
            f"the run keeps its models, {', '.join(former)}: only their options can change. Start a new run with "
            f"--policy {config.policy} and --start FILE with its best answer, as from evo best"
        )
    change = {"before": before.policy, "after": config.policy, "sequence": sequence, "created": time.time()}
    return config.model_copy(update={"policy_changes": [*before.policy_changes, change]})


async def check_scorers(opened: OpenRun, own: Sequence[ProblemRecord], accept: bool) -> None:
    """Compare each problem's scorer with the fingerprint in `own`, the run's records, and store the new one; of a run
    that has not begun with those that another run of its comparison began with. Raises BadInput, before anything is
    written, if a scorer has changed and that is not accepted."""
    store, run = opened.store, opened.run
    name, records = run.name, own
    if not own and run.comparison is not None:
        begun = ((other.name, found) for other in store.runs(run.comparison) if (found := store.problems(other.id)))
        name, records = next(begun, (name, own))
        if any(record.address.startswith("score:") for record in records):
            return  # a function may keep values of its own, which change as it scores
    if not records:
        return
    now = zip(records, await opened.fingerprints(), strict=True)
    changed = [(record, new) for record, new in now if record.fingerprint != new]
    if changed and not accept:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise BadInput(
            f"run {name}: the scorer of {changed[0][0].address}{more} has changed since the search. A new run from its "
            f"answers scores them again: evo run ... --start {name}. --accept-change keeps the old scores"
        )
    if own and changed:
        with store.begin() as transaction:
            for record, new in changed:
                store.record_scorer_change(record.id, record.fingerprint, new, transaction)
