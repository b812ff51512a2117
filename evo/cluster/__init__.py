"""Searches on many machines: Ray places and restarts the work, the database is what stays.

Begin with `runner.ClusterRunner`; `worker` is what runs on a node, `connection` finds the cluster. Ray is imported by
this room alone, and by no more than this file of it until a cluster is asked for.

What is done there: searches (`runner`), a training (`training`), any command (`command`).
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


def cluster_runner(ray: str, db: str) -> ClusterRunner:
    """A runner on the cluster that `--ray` names. Raises BadInput where that is none, or Ray is not installed."""
    place = cluster_place(ray)
    from evo.cluster.runner import ClusterRunner

    return ClusterRunner(place, db)


def runner_of_a_run(ray: str, db: str, configs: Sequence[RunConfig]) -> ClusterRunner:
    """As `cluster_runner`, for one run; configs: its own where it is new. Raises BadInput where it cannot be dealt
    out."""
    from evo.runs.resume import check_divisible

    runner = cluster_runner(ray, db)
    for config in configs:
        if runner.place.options.shards != 1:
            check_divisible(config, "this run")
    return runner


def cluster_training(
    ray: str, run: TrainRun | None, folder: str, named: Mapping[str, Any], said: str, *, as_json: bool
) -> ClusterTraining:
    """A training on the cluster that `--ray` names; see there. Raises BadInput as `cluster_runner` does."""
    place = cluster_place(ray)
    from evo.cluster.training import ClusterTraining

    return ClusterTraining(place, run, folder, named, said, as_json)


def cluster_place(ray: str) -> ClusterAddress:
    """What `--ray` names, with Ray installed. Raises BadInput where it is not."""
    place = parse_cluster(ray)
    try:
        import ray as _  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise BadInput(f"--ray {ray} needs Ray: pip install 'evo-search[ray]'") from None
    return place
