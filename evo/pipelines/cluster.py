"""`evo pipeline --ray`: stages as commands on the nodes of a cluster, several at the same time.

Stages that sample or train in one process (pretrain, train, evaluate) run on a node. Searches and comparisons run in a
process here, which gives their work to the cluster (`--ray`). Stages that take seconds (pick, report) run here.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from evo.cluster import parse_place
from evo.cluster.actor_pool import ActorPool, run_command
from evo.cluster.connection import check_database, connect, find_address, leave
from evo.cluster.task import CommandOrder
from evo.config.cluster import ClusterAddress
from evo.pipelines.file import SEARCHES
from evo.pipelines.plan import Planned
from evo.pipelines.stage import PipelineFolder
from evo.pipelines.state import STATE

ON_A_NODE = ("pretrain", "train", "evaluate")
_WITHOUT_SCREEN = ("pretrain",)
AT_ONCE = 32
"""Stages at the same time; most of them wait for the cluster."""


class ClusterStages:
    """Runs stages on the nodes of a cluster, for evo.pipelines.runner.

    at_once: how many stages may run
    ray: the cluster's address, for searches
    """

    at_once = AT_ONCE

    def __init__(self, address: ClusterAddress, ray: str, place: PipelineFolder) -> None:
        self._address, self._ray, self._place = address, ray, place
        self._pools: dict[str, ActorPool] = {}
        self._interrupted = False
        self._writing = threading.Lock()

    def takes(self, kind: str) -> bool:
        """Whether stages of this kind run on a node; others run here, with `options`."""
        return kind in ON_A_NODE

    def options(self, kind: str) -> list[str]:
        return ["--ray", self._ray] if kind in SEARCHES else []

    def run(self, stage: str, arguments: Callable[[], list[str]]) -> tuple[int, str]:
        """Run `evo ARGUMENTS`, again if its process is lost. Returns its exit code and the last line of its stderr.
        Raises the cluster's faults."""
        pool = self._pools[stage] = ActorPool(self._address, lambda _: 0, "steps")
        pool.warning = lambda text: self.write(stage, f"warning: {text}")
        if self._interrupted:
            pool.interrupt("interrupted")

        def order() -> CommandOrder:
            words = arguments()
            shown = () if words[0] in _WITHOUT_SCREEN else ("--plain",)
            witness = str((self._place.folder / STATE).absolute())
            return CommandOrder((*words, *shown), witness, database=self._place.db)

        try:
            outcome = asyncio.run(run_command(pool, stage, order, lambda _, line: self.write(stage, line)))
            return outcome.code, outcome.last_line
        finally:
            pool.close()

    def write(self, stage: str, line: str) -> None:
        """Print a line of a stage."""
        with self._writing:
            print(f"{stage} | {line}", file=sys.stderr, flush=True)

    def interrupt(self) -> None:
        self._interrupted = True
        for pool in list(self._pools.values()):
            pool.interrupt("interrupted")


@contextmanager
def stages_on_cluster(ray: str, place: PipelineFolder, plan: Sequence[Planned]) -> Iterator[ClusterStages]:
    """Join the cluster. Raises BadInput if it cannot be joined, or if its nodes cannot use the database."""
    address = parse_place(ray)
    ours = connect(address)
    try:
        if any(one.works and (one.stage.kind in SEARCHES or _reads_runs(one)) for one in plan):
            check_database(place.db, address)
        _, question, options = ray.partition("?")
        yield ClusterStages(address, find_address(address) + question + options, place)
    finally:
        if ours:
            leave()


def _reads_runs(planned: Planned) -> bool:
    return bool(getattr(planned.stage.settings, "from_traces", None))
