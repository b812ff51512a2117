"""Searches on many machines: Ray places and restarts the work, the database is what stays.

Begin with `runner.ClusterRunner`; `worker` is what runs on a node, `connection` finds the cluster. Ray is imported by
this room alone, and by no more than this file of it until a cluster is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evo.config.cluster import parse_cluster
from evo.errors import BadInput

if TYPE_CHECKING:
    from evo.cluster.runner import ClusterRunner


def cluster_runner(ray: str, db: str) -> ClusterRunner:
    """A runner on the cluster that `--ray` names. Raises BadInput where that is none, or Ray is not installed."""
    place = parse_cluster(ray)
    try:
        from evo.cluster.runner import ClusterRunner
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise BadInput(f"--ray {ray} needs Ray: pip install 'evo[ray]'") from None
    return ClusterRunner(place, db)
