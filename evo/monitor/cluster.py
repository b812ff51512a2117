"""What a cluster says of its work on a run, in words: from the database, as everything that is watched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from islands.db.shards import read_cluster_state
from islands.db.store import Store


def read_cluster(store: Store, name: str) -> str:
    """One line; "" for work of one machine."""
    found = read_cluster_state(store, name)
    return "" if found is None else describe(found[0])


def describe(state: Mapping[str, Any]) -> str:
    """Nodes, tasks and engines of a cluster's state, and what was lost."""
    nodes = state.get("nodes", [])
    alive = sum(bool(node["alive"]) for node in nodes)
    parts = [f"{alive} node{'' if alive == 1 else 's'}{f' ({len(nodes) - alive} gone)' if alive < len(nodes) else ''}"]
    parts.append(
        f"{len(state.get('running', []))} tasks, {state.get('waiting', 0)} waiting, {state.get('done', 0)} done"
    )
    engines = state.get("engines", [])
    if engines:
        parts.append(f"{sum(bool(one['in']) for one in engines)} of {len(engines)} engines")
    if state.get("lost"):
        parts.append(f"{state['lost']} lost, {state.get('restarted', 0)} restarted")
    return "; ".join(parts)
