"""Plan a resume of a run, or of all runs of a comparison. It is checked before any policy is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evo.comparison.plan import seed_batches
from evo.comparison.workers import SeedBatch
from evo.config.parse import parse
from evo.config.run import RunConfig, complete_run
from evo.errors import BadInput
from evo.runs.preflight import check_price
from evo.runs.resume import check_budgets
from evo.runs.start import ASK_TELL, UNCHANGED, Changes, OnScorerChange
from islands.comparisons import runs_named
from islands.openevolve import POLICY as IMPORTED
from islands.runs import run_progress, run_totals
from islands.store import Store
from islands.types import RunRecord


@dataclass(frozen=True)
class Resumption:
    """runs: those of the given name; changes: of settings, and how to treat an edited scorer."""

    name: str
    runs: list[RunRecord]
    changes: Changes

    @property
    def is_comparison(self) -> bool:
        return self.runs[0].comparison == self.name

    def is_done(self) -> bool:
        """Whether every run is done, and nothing is to change. A run whose answers came from elsewhere never is: to
        continue it takes more than iterations."""
        done = all(run.status == "done" and run.config["policy"] not in (IMPORTED, ASK_TELL) for run in self.runs)
        return done and self.changes == UNCHANGED

    def configs(self) -> dict[str, RunConfig]:
        """The configurations of a comparison's unfinished runs, by name."""
        unfinished = [run for run in self.runs if run.status != "done" or self.changes]
        return {
            run.name: parse(RunConfig, {**complete_run(run.config), **self.changes.settings}, f"run {run.name}")
            for run in unfinished
        }

    def batches(self, configs: Mapping[str, RunConfig]) -> list[SeedBatch]:
        """The unfinished runs in the order in which they are searched."""
        seeds = {run.name: run.seed for run in self.runs}
        return list(seed_batches([(name, seeds[name], config) for name, config in configs.items()]))


def plan_resume(
    name: str, db: str, changed: Mapping[str, Any], *, rescore: bool = False, accept_change: bool = False
) -> Resumption:
    """Plan a resume. Raises UnknownRun, and BadInput for a budget already spent or a setting that cannot change."""
    if rescore and accept_change:
        raise BadInput("--rescore and --accept-change exclude each other")
    on_change = OnScorerChange.RESCORE if rescore else OnScorerChange.ACCEPT if accept_change else OnScorerChange.REFUSE
    with Store.open(db, must_exist=True) as store:  # open it for writing: a resume upgrades an older schema
        runs = runs_named(store, name)
        if changed.keys() & {"rollouts", "answers"}:
            raise BadInput(f"{name} keeps its rollouts and answers")
        if "policy" in changed and runs[0].comparison == name:
            raise BadInput(f"the arms of {name} keep their policies, by which they are compared; leave out --policy")
        check_price(changed.get("max_cost"), [changed.get("policy") or run.config["policy"] for run in runs])
        for run in runs:
            check_budgets(run, run_progress(store, run.id), run_totals(store, run.id), changed)
    return Resumption(name, runs, Changes(dict(changed), on_change))
