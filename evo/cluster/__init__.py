"""Searches on many machines: Ray places and restarts the work, and the database holds all state.

Begin with `runner.ClusterRunner`; `worker` runs on a node, `connection` finds the cluster. Only this package imports
Ray, and it does so only when a cluster is used.

A cluster can do searches (`runner`), a training (`training`) and any command (`command`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evo.config.cluster import parse_cluster
from evo.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evo.cluster.runner import ClusterRunner
    from evo.cluster.training import ClusterTraining
    from evo.config.cluster import ClusterAddress
    from evo.config.run import RunConfig
    from evo.config.train import TrainRun


def open_runner(ray: str, db: str) -> ClusterRunner:
    """A runner on the cluster that `--ray` names. Raises BadInput for a bad address, or if Ray is not installed."""
    place = parse_place(ray)
    from evo.cluster.runner import ClusterRunner

    return ClusterRunner(place, db)


def open_run_runner(ray: str, db: str, configs: Sequence[RunConfig]) -> ClusterRunner:
    """A runner for one run, as from `open_runner`. Raises BadInput if a new run cannot be divided into shards.

    configs: the configuration of a new run; empty for a stored one
    """
    from evo.runs.resume import check_divisible

    runner = open_runner(ray, db)
    for config in configs:
        if runner.place.options.shards != 1:
            check_divisible(config, "this run")
    return runner


def open_training(
    ray: str, run: TrainRun | None, folder: str, named: Mapping[str, Any], command: str, *, as_json: bool
) -> ClusterTraining:
    """A training on the cluster that `--ray` names (see ClusterTraining). Raises BadInput as `open_runner` does."""
    place = parse_place(ray)
    from evo.cluster.training import ClusterTraining

    return ClusterTraining(place, run, folder, named, command, as_json)


def parse_place(ray: str) -> ClusterAddress:
    """The cluster that `--ray` names. Raises BadInput if Ray is not installed."""
    place = parse_cluster(ray)
    try:
        import ray as _  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise BadInput(f"--ray {ray} needs Ray: pip install 'evo-search[ray]'") from None
    return place
