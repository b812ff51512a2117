"""How many prompt groups of a search are in flight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evo.config.run import RunConfig
from evo.search.defaults import DEFAULT_ITERATIONS
from evo.search.problem_run import ProblemRun
from islands.population.config import ISLANDS
from vpo.policies.contract import Policy

REFILLS = 4
"""How often over the groups in flight fill the engine. The oldest holds the others back while its longest rollout goes
on; lengths spread as a model's are cost 38% with the engine filled once, 19% twice, 10% three times, 5% four times
(bench/results/scale.md)."""
OUTDATED = 5
"""Groups in flight for each island or problem, at most: each is proposed knowing of none of the others."""
GENERATIONS = 4
"""Parts that a run has at least, each knowing of those before it."""


@dataclass(frozen=True)
class Window:
    """groups: in flight at most, with a lag being sampled at most; batch: prompts a policy call

    lag: groups that may be in flight beyond these; spread: how far a problem may run ahead of its oldest in flight
    """

    groups: int
    batch: int
    lag: int = 0
    spread: int = 0


def in_flight(
    config: RunConfig, policy: Policy, problem_runs: Sequence[ProblemRun], breadths: Sequence[int] | None = None
) -> Window:
    """How many prompts go into a policy call, and how many groups are in flight.

    breadths: the islands of every problem of the run, where `problem_runs` are those of one shard: the window is the
    whole run's, which decides what a prompt knows of; calls are as large as the shard's part of it

    Two calls' worth keep the policy busy while the other call's answers are scored. A smaller search takes smaller
    calls: with more groups in flight than islands and problems (or than five, for a single problem of one island),
    prompts would show parents that are long outdated.
    """
    if breadths is None:
        breadths = [one.population.config.islands for one in problem_runs]
    whole = _whole(config, policy, breadths)
    batch = -(-whole.batch * len(problem_runs) // len(breadths))
    if not config.lag:
        return Window(whole.groups, batch)
    groups = -(-whole.groups * len(problem_runs) // len(breadths))
    return Window(groups, batch, config.lag, -(-whole.groups // len(breadths)) + config.lag)


def _whole(config: RunConfig, policy: Policy, islands: Sequence[int]) -> Window:
    breadth = max(len(islands), *islands, ISLANDS)
    if policy.batch == 0:
        return Window(config.parallel or max(8, 2 * breadth, _filling(config, policy, breadth, len(islands))), 0)
    if config.parallel:
        batch = max(1, min(policy.batch, (config.parallel + 1) // 2))
        return Window(config.parallel, batch)
    batch = max(1, min(policy.batch, breadth))
    return Window(2 * batch, batch)


def _filling(config: RunConfig, policy: Policy, breadth: int, problems: int) -> int:
    """Groups that keep an engine busy whose size is known, as far as the search stays one: few in flight for each
    island or problem, and the run some generations deep. 0 where the engine does not say."""
    slots = getattr(policy, "slots", 0)
    fills = REFILLS * -(-slots // (config.rollouts or 1))
    return min(fills, OUTDATED * breadth, (config.iterations or DEFAULT_ITERATIONS) * problems // GENERATIONS)
