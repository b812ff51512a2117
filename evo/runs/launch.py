"""From a configuration to a search that is ready to go.

Everything that can be wrong with the input is found here, before a new run exists in the database.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evo.config.run import RunConfig
from evo.runs.learner import open_learner
from evo.runs.planned import create_run, resolve_run
from evo.runs.preflight import check_new_run
from evo.runs.problem_runs import add_problems, check_together
from evo.search.loop import Search
from evo.search.machine import describe_machine
from evo.search.operator_selection import Operator, Operators, operator_selection
from evo.search.problem_run import ProblemRun
from evo.search.reflection import Reflector
from evo.search.resources import Shared
from evo.search.status import ProblemStatus, SearchStatus
from evo.search.turns import Shard
from evo.search.window import in_flight
from islands.db.reflections import read_reflections
from islands.db.shards import write_shard
from islands.db.store import Store
from islands.types import RunRecord
from problems.scoring import Scorer
from vpo.policies.contract import Policy


@dataclass
class Launched:
    """A search with all it holds open; `close` gives back what is its own.

    own: what no other search uses
    parts: what it uses with others, where it does
    shard: of the run's problems, where other machines search the others; node: where this is then
    """

    search: Search
    store: Store
    run: RunRecord
    policy: Policy
    scorer: Scorer
    config: RunConfig
    status: SearchStatus
    problem_runs: list[ProblemRun]
    own: Shared
    shard: Shard | None = None
    parts: Shared | None = None
    node: str = ""

    def finish(self, outcome: str, reason: str, summary: dict[str, Any]) -> None:
        """Record how the run ended, and which problems have had all their iterations."""
        with self.store.begin() as transaction:
            for one in self.problem_runs:
                if not one.solved and one.stop is None and one.committed >= one.iterations:
                    self.store.set_problem_status(one.record.id, "done", tx=transaction)
            if self.shard is not None:
                number = self.shard.number
                write_shard(self.run.id, number, transaction, summary=summary, status=outcome, reason=reason)
            else:
                self.store.finish_run(self.run.id, outcome, reason, summary=summary, tx=transaction)

    async def close(self) -> None:
        await self.own.close()
        self.store.close()


async def launch(
    config: RunConfig, *, db: str, name: str | None, command: str, parts: Shared | None = None
) -> Launched:
    """A new run, its seed answers scored and stored. Raises BadInput before anything is written.

    parts: what check_new_run has opened already; from here on they are the run's own
    """
    parts = parts or Shared()
    store: Store | None = None
    try:
        # 1) resolve the problems, and the settings that they decide
        check_new_run(config, parts, db, name)
        problems = parts.problems(config)
        config = resolve_run(config, problems)
        # 2) load the policies
        operators = parts.operators(config, problems)
        check_together(config, problems, operators)
        reflecting = parts.reflecting(config, problems)
        # 3) create the run and become its writer
        store = Store.open(db)
        run = create_run(store, config, problems, name, command)
        store.lease(run.id)
        # 4) score the seeds and store the problems
        scorer = parts.scorer_for(config, problems)
        problem_runs = await add_problems(store, run, config, problems, operators, scorer)
        # 5) put the search together
        return assemble(store, run, problem_runs, parts, operators, scorer, config, reflecting)
    except BaseException:
        await parts.close()
        if store is not None:
            store.close()
        raise


def assemble(
    store: Store,
    run: RunRecord,
    problem_runs: list[ProblemRun],
    own: Shared,
    operators: Sequence[Operator],
    scorer: Scorer,
    config: RunConfig,
    reflecting: Policy | None = None,
    *,
    shard: Shard | None = None,
    breadths: Sequence[int] | None = None,
) -> Launched:
    """The search of these problems, with the learner that the configuration asks for. reflecting: on its parents

    shard, breadths: where these are a part of the run's problems: which, and the islands of all of them
    """
    shown = [ProblemStatus(one.problem.name, one.problem.target, one.iterations) for one in problem_runs]
    status = SearchStatus(run.name, config.policy, shown, machines=[describe_machine()])
    for one, its in zip(problem_runs, shown, strict=True):
        one.describe(its)
    policy = operators[0].policy
    search = Search(
        store,
        config,
        problem_runs,
        Operators(operators, operator_selection(config, len(operators))),
        open_learner(store, run, config, problem_runs, operators, scorer, status),
        scorer,
        status,
        in_flight(config, policy, problem_runs, breadths),
        Reflector(reflecting, config, read_reflections(store, [one.record.id for one in problem_runs])),
    )
    return Launched(search, store, run, policy, scorer, config, status, problem_runs, own, shard)
