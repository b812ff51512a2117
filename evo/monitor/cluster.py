"""The state of a cluster that works on a run, in words, read from the database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from islands.db.shards import read_cluster_state
from islands.db.store import Store

MOST_NAMED, LAST_EVENTS = 3, 5


def read_cluster(store: Store, name: str) -> str:
    """The state in one line; "" for a run on one machine."""
    found = read_cluster_state(store, name)
    return "" if found is None else describe(found[0])


def describe_whole(store: Store, name: str) -> list[str]:
    """The state in detail: a summary, every node and engine, and the last events; no line for one machine."""
    found = read_cluster_state(store, name)
    if found is None:
        return []
    state = found[0]
    lines = [f"cluster: {describe(state)}"]
    for node in state.get("nodes", []):
        has = f"{node['cpus']:g} CPUs, {node['gpus']:g} GPUs" if node["alive"] else "gone"
        lines.append(f"  node {node['node']} ({node['host']}): {has}")
    for one in state.get("engines", []):
        where = f" on {node}" if (node := one.get("node")) else ""
        lost = f", lost {one['lost']} times" if one["lost"] else ""
        there = "in" if one["in"] else "out"
        lines.append(
            f"  {one['address']}, {one['url']}{where}: {there}, {one['load']:,} under way, {one['answered']:,} "
            f"answered{lost}"
        )
    return lines + [f"  {event['text']}" for event in state.get("events", [])[-LAST_EVENTS:]]


def describe(state: Mapping[str, Any]) -> str:
    """Nodes, tasks and engines of a cluster, and the lost ones."""
    nodes = state.get("nodes", [])
    alive = sum(bool(node["alive"]) for node in nodes)
    parts = [f"{alive} node{'' if alive == 1 else 's'}{f' ({len(nodes) - alive} gone)' if alive < len(nodes) else ''}"]
    parts.append(
        f"{len(state.get('running', []))} tasks, {state.get('waiting', 0)} waiting, {state.get('done', 0)} done"
    )
    engines = state.get("engines", [])
    if engines:
        out = [f"{one['url']}{f' on {node}' if (node := one.get('node')) else ''}" for one in engines if not one["in"]]
        told = f"{len(engines) - len(out)} of {len(engines)} engines, {sum(one['load'] for one in engines):,} under way"
        shown = ", ".join(out[:MOST_NAMED]) + (f" and {len(out) - MOST_NAMED} more" if len(out) > MOST_NAMED else "")
        parts.append(told + (f" (out: {shown})" if out else ""))
    if state.get("lost"):
        parts.append(f"{state['lost']} lost, {state.get('restarted', 0)} restarted")
    return "; ".join(parts)
