"""The plan of a comparison: its arms, one budget of answers for all of them, and its runs.

In an iteration every arm gives the same number of answers, in chains of a length m: G rollouts of m answers, with
equal G m for all arms. Problems, prompts and seeds are the same. Islands are the same unless an arm has other settings
for them. The baselines (evo.config.compare) are arms like any other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from evo.config.compare import CLASSIC, CLASSIC_POLICY, ArmConfig, CompareConfig, arms_of
from evo.config.run import MOST_ROLLOUTS, PromptConfig, RunConfig, load_config
from evo.errors import BadInput
from evo.provenance import source_commit
from evo.search.resources import resolve_iterations, resolve_problems, resolve_settings, to_stored
from islands.comparisons import PlannedRun, plan, run_name
from islands.store import Store
from vpo.policies.address import parse_addresses
from vpo.policies.checkpoint import trained_answers

_OF_THE_RUN = (ArmConfig.model_fields.keys() & RunConfig.model_fields.keys()) - {"population", "train"}
_OF_ITS_PROMPTS = ArmConfig.model_fields.keys() & PromptConfig.model_fields.keys()
"""Settings of an arm that are of its runs by the same name."""


def planned_runs(config: CompareConfig) -> list[PlannedRun]:
    """A run for every seed and arm, sorted by seed, then arm: they are searched in this order. Raises BadInput."""
    arms = arms_of(config)
    lengths = {name: arm.answers or _trained_length(arm.policy) or config.search.answers for name, arm in arms.items()}
    total = config.answers_per_iteration or math.lcm(*lengths.values())
    for name, answers in lengths.items():
        if total % answers:
            raise BadInput(f"an iteration of {total} answers cannot be made of arm {name}'s chains of {answers}")
        if total // answers > MOST_ROLLOUTS:
            raise BadInput(
                f"an iteration of {total} answers is {total // answers} rollouts of arm {name}; {MOST_ROLLOUTS:,} at "
                "most"
            )
    if not config.search.problems:
        raise BadInput("no problem named; try `evo compare maze:hard --limit 20 --arm ...`")
    problems = resolve_problems(config.search)
    if any(arm.policy == CLASSIC_POLICY for arm in arms.values()):
        other = next((problem.name for problem in problems if problem.answer_format != "route"), None)
        if other is not None:
            raise BadInput(f"{CLASSIC} re-routes mazes, and {other} is not one: leave that arm out")
    addresses = [problem.name for problem in problems]
    runs = []
    for seed in range(config.search.seed, config.search.seed + config.seeds):
        for name, arm in arms.items():
            given = {key: getattr(arm, key) for key in _OF_THE_RUN if getattr(arm, key) is not None}
            prompt = {f"prompt.{key}": getattr(arm, key) for key in _OF_ITS_PROMPTS if getattr(arm, key) is not None}
            if arm.population is not None:
                layers = (config.search.population, arm.population)
                given["population"] = {k: v for one in layers for k, v in one.model_dump(exclude_unset=True).items()}
            given |= {"answers": lengths[name], "rollouts": total // lengths[name], "seed": seed}
            if arm.train is not None:
                own = {"method": arm.train} if isinstance(arm.train, str) else arm.train
                given["train"] = {**config.training, **own}
            run = load_config(None, {**config.search.model_dump(exclude_unset=True), **given, **prompt})
            run = resolve_iterations(resolve_settings(run, problems), problems)
            runs.append(PlannedRun(name, seed, to_stored(run, addresses)))
    return runs


def _trained_length(policies: str) -> int | None:
    """The chain length that an arm's policies were trained with, if it is the same for all."""
    lengths = {trained_answers(address) for address in parse_addresses(policies)} - {None}
    return lengths.pop() if len(lengths) == 1 else None


def start_comparison(
    db: str, name: str | None, runs: Sequence[PlannedRun], command: str
) -> tuple[str, list[list[str]]]:
    """Store the plan. Returns the comparison's name and its runs in seed batches. Raises RunExists."""
    with Store.open(db) as store:
        fresh = plan(store, name, runs, command=command, commit=source_commit())
    return fresh, seed_batches([(run_name(fresh, run.arm, run.seed), run.seed) for run in runs])


def seed_batches(runs: Sequence[tuple[str, int]]) -> list[list[str]]:
    """(name, seed) of runs -> the names of each seed, in the order of first appearance."""
    by_seed: dict[int, list[str]] = {}
    for name, seed in runs:
        by_seed.setdefault(seed, []).append(name)
    return list(by_seed.values())
