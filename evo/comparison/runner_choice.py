"""Whether a comparison's runs are searched in this process or in several."""

from __future__ import annotations

from collections.abc import Sequence

from evo.comparison.runner import Runner
from evo.comparison.workers import Workers
from evo.config.run import RunConfig
from evo.search.resources import policy_key
from problems.scoring import cores
from vpo.embedded import dialect_of
from vpo.policies.address import parse_addresses
from vpo.policies.prompt_formats import is_token_format


def runner_for(configs: Sequence[RunConfig], processes: int | None) -> Runner | Workers:
    """Several processes if every policy is small and on the CPU, or as many as requested; else only this one, in which
    all searches of a policy share one engine."""
    settings = [(policy_key(config), config.prompt, config.population, config.train) for config in configs]
    arms = len(set(map(repr, settings)))
    if processes is None:
        small = all(_small(config) for config in configs)
        processes = cores() if small else 1
    processes = min(processes, arms)
    return Workers(processes) if processes > 1 else Runner()


def _small(config: RunConfig) -> bool:
    if config.device not in (None, "cpu"):
        return False
    return all(
        address.kind in ("embedded", "scripted")
        or (address.folder is not None and is_token_format(dialect_of(address.folder)))
        for address in parse_addresses(config.policy)
    )
