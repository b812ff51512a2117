"""Searches on many machines: whole searches of a comparison as tasks of a Ray cluster.

Ray places and restarts the work, and the database holds all state. Only this package imports Ray, and it does so only
when a cluster is used. Begin with `runner.ClusterRunner`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evo.config.compare import parse_cluster
from evo.errors import BadInput

if TYPE_CHECKING:
    from evo.comparison.workers import SearchRunner


def open_runner(ray: str, db: str) -> SearchRunner:
    """A runner on the cluster that `--ray` names. Raises BadInput for a bad address, or if Ray is not installed."""
    place = parse_cluster(ray)
    try:
        import ray as _  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise BadInput(f"--ray {ray} needs Ray: pip install 'evo-search[ray]'") from None
    from evo.cluster.runner import ClusterRunner

    return ClusterRunner(place, db)
