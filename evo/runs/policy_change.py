"""A run that continues with other policies: other options of a model, a replacement for a dead one, or fewer members.

Groups hold the number of their operator, by its place in the configuration. The policies of a run are therefore
numbered again when they change: those that stay or are new come first, in the order of the new configuration, then
those that were dropped, whose answers stay.
"""

from __future__ import annotations

import time
from typing import Any

from evo.config.run import PolicyChange, RunConfig
from evo.errors import BadInput
from islands.db.renumbering import renumber_operators
from islands.db.store import Store
from islands.db.transaction import Transaction
from islands.interop.importing import POLICY as IMPORTED
from vpo.policies.address import parse_addresses


def changes_policy(config: RunConfig, settings: dict[str, Any]) -> bool:
    """Whether these settings of a resume replace the policy that a run was searched with."""
    policy = settings.get("policy")
    return policy is not None and policy != config.policy and config.policy != IMPORTED


def with_other_policies(config: RunConfig, before: RunConfig, sequence: int) -> RunConfig:
    """The configuration of a run that continues with other policies, with the change on record.

    sequence: of the first group that may be of the new ones
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
    """By the old number of each policy, dropped ones included: its new number."""
    old, new = parse_addresses(before.policy), parse_addresses(now.policy)
    places: dict[int, int] = {}
    for exact in (True, False):  # then the same model with other options
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
