"""What can be wrong with a new run or comparison, cheapest first, before the seconds that libraries take to load: a
database's half a second, torch's three."""

from __future__ import annotations

from collections.abc import Iterable

from evo.config.run import RunConfig
from evo.errors import BadInput
from evo.search.resources import Shared
from islands.db.names import check_name
from islands.errors import DatabaseUnavailable
from vpo.policies.address import parse_addresses
from vpo.policies.registry import check_policy


def check_new_run(config: RunConfig, parts: Shared, db: str, name: str | None) -> None:
    """Raises BadInput, BadName, BadAddress or RunExists, one line. The problems stay in `parts`."""
    if not config.problems:
        raise BadInput("no problem named; try `evo run maze:hard --limit 10`, or `evo problems` for what there is")
    if name is not None:
        check_name(name)
    parts.problems(config)
    check_policies([config.policy])
    check_unused(db, name)


def check_policies(policies: Iterable[str]) -> None:
    """policies: an address each, or several with commas between. Raises BadAddress."""
    for policy in dict.fromkeys(policies):
        for address in parse_addresses(policy):
            check_policy(address)


def check_unused(db: str, name: str | None) -> None:
    """Raises RunExists where the database has a run or comparison of that name. What is wrong with the database itself
    shows as it is opened for writing."""
    if name is None:
        return
    from islands.db.comparisons import check_free  # SQLAlchemy
    from islands.db.store import Store

    check_name(name)
    try:
        store = Store.open(db, read_only=True)
    except DatabaseUnavailable:
        return
    with store:
        check_free(store, name)
