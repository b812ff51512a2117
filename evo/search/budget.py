"""The budgets of a search while it runs."""

from __future__ import annotations

from evo.config.run import RunConfig
from evo.search.status import SearchStatus
from evo.search.stop import Stop, StopReason


def budget_spent(config: RunConfig, status: SearchStatus, groups: int) -> Stop | None:
    """The first budget that leaves no room for a further group, None where all do. groups: asked for so far, those in
    flight included."""
    per_group = config.rollouts * config.answers
    if config.max_answers and (groups + 1) * per_group > config.max_answers:
        return _budget(f"{config.max_answers:,} answers")
    if config.max_tokens and status.tokens >= config.max_tokens:
        return _budget(f"{config.max_tokens:,} tokens")
    if config.max_cost and status.cost >= config.max_cost:
        return _budget(f"{config.max_cost:g} of cost")
    if config.max_seconds and status.elapsed >= config.max_seconds:
        return _budget(f"{config.max_seconds:g} seconds")
    return None


def _budget(what: str) -> Stop:
    return Stop(StopReason.BUDGET, f"budget of {what}")
