"""How many prompt groups of a search are in flight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evo.config.run import RunConfig
from evo.search.problem_run import ProblemRun
from islands.population.config import ISLANDS
from vpo.policies.contract import Policy


@dataclass(frozen=True)
class Window:
    """groups: in flight at most; batch: prompts a policy call"""

    groups: int
    batch: int


def in_flight(config: RunConfig, policy: Policy, problem_runs: Sequence[ProblemRun]) -> Window:
    """How many prompts go into a policy call, and how many groups are in flight.

    Two calls' worth keep the policy busy while the other call's answers are scored. A smaller search takes smaller
    calls: with more groups in flight than islands and problems (or than five, for a single problem of one island),
    prompts would show parents that are long outdated.
    """
    breadth = max(len(problem_runs), *(one.population.config.islands for one in problem_runs), ISLANDS)
    if policy.batch == 0:
        return Window(config.parallel or max(8, 2 * breadth), 0)
    if config.parallel:
        batch = max(1, min(policy.batch, (config.parallel + 1) // 2))
        return Window(config.parallel, batch)
    batch = max(1, min(policy.batch, breadth))
    return Window(2 * batch, batch)
