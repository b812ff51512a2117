"""Runs of a comparison on a Ray cluster: a SearchRunner like those of evo.comparison.workers on one machine.

Each run is a task. Ray reports a process or a node that is gone; the run then continues in another task. If the first
one was only unreachable, the database refuses its writes, so nothing is committed twice.

A task is a search by the runner of one machine (evo.comparison.workers). Faults of known kinds are returned as answers,
because Ray would wrap exceptions in its own classes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from evo.comparison.workers import Runner, SeedBatch
from evo.config.compare import AUTO, LOCAL, ClusterAddress
from evo.config.run import RunConfig
from evo.errors import BadInput, SearchFailed
from evo.exit_status import answer_of_error
from evo.runs.start import UNCHANGED, Changes
from evo.search.resources import different_policies
from evo.search.sampler import cancel_all
from evo.search.stop import Stop, StopReason
from islands.engine import mask_url, parse_url
from islands.errors import DatabaseUnavailable, RunBusy
from problems.child_process import WorkerAnswer, WorkerFailed
from problems.redaction import redact
from problems.scoring import cores

_BUSY_SECONDS, _BUSY_TRIES = 5.0, 30
"""Pause between attempts, and their number. A run whose writer was lost on another machine is busy for a while; a
database server may come back after a restart."""


class Bell:
    """An actor that tells every task to stop."""

    def __init__(self) -> None:
        self.reason = ""
        self._rung = asyncio.Event()

    async def ring(self, reason: str) -> None:
        self.reason = reason
        self._rung.set()

    async def has_rung(self) -> bool:
        return self._rung.is_set()

    async def wait(self) -> str:
        """The reason, once it is rung."""
        await self._rung.wait()
        return self.reason


@dataclass(frozen=True)
class Surroundings:
    """What each task needs of its driver.

    folder, path: its working directory, to which relative names refer, and its import path
    """

    folder: str
    path: Sequence[str]
    bell: Any


def load_policies(surroundings: Surroundings, configs: Sequence[RunConfig]) -> WorkerAnswer:
    """Load the problems and policies of these runs, as a check."""
    return _answer(surroundings, lambda runner: runner.prepare(configs))


def search_run(surroundings: Surroundings, run: str, db: str, changes: Changes, take_over: bool) -> WorkerAnswer:
    """Search a run to its end; wait for one that another process still holds, or for the database."""

    async def listen(runner: Runner) -> None:
        runner.interrupt(Stop(StopReason.INTERRUPTED, await surroundings.bell.wait.remote()))

    async def work(runner: Runner) -> None:
        if await surroundings.bell.has_rung.remote():
            return
        listening = asyncio.create_task(listen(runner))
        try:
            for attempt in range(_BUSY_TRIES + 1):
                try:
                    await runner.search_run(run, db, changes, take_over=take_over)
                    return
                except (RunBusy, DatabaseUnavailable):
                    if runner.stopping or attempt == _BUSY_TRIES:
                        raise
                await asyncio.sleep(_BUSY_SECONDS)
        finally:
            listening.cancel()

    return _answer(surroundings, work)


def _answer(surroundings: Surroundings, work: Callable[[Runner], Awaitable[None]]) -> WorkerAnswer:
    async def whole() -> None:
        runner = Runner()
        try:
            await work(runner)
        finally:
            await runner.close()

    adopt_paths(surroundings.folder, surroundings.path)
    try:
        asyncio.run(whole())
        return WorkerAnswer()
    except Exception as error:
        return answer_of_error(error)


_STORE_BYTES = 100 << 20
"""Shared memory of a Ray that we start: its processes exchange little data."""

_REACH_SECONDS = 10.0
_HEAD_OR_TOKEN = (
    "is its head running, is this machine one of the cluster (`ray start --address`), and has it the cluster's token "
    "(~/.ray/auth_token, RAY_AUTH_MODE=token)?"
)
"""Ray's errors do not tell these cases apart."""


def connect(place: ClusterAddress) -> bool:
    """Join the cluster, or start one for `local`. Returns whether the caller must leave it. Raises BadInput."""
    if ray.is_initialized():
        return False
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
    if place.where == LOCAL:
        settings |= {"num_cpus": cores(), "include_dashboard": False, "object_store_memory": _STORE_BYTES}
    _check_reachable(place.where)
    logging.getLogger("ray").setLevel(logging.ERROR)  # its warnings are of no use to a search
    try:
        ray.init(address=LOCAL if place.where == LOCAL else place.where, **settings)
    except (ConnectionError, RuntimeError, ValueError, RayError, OSError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        remedy = "start one with `ray start --head`" if place.where == AUTO else _HEAD_OR_TOKEN
        raise BadInput(f"--ray {place.where}: no Ray cluster can be joined ({reason}); {remedy}") from None
    return True


def _check_reachable(where: str) -> None:
    """Raise BadInput if HOST:PORT refuses connections. Ray would retry for minutes and ignore Ctrl-C."""
    host, colon, port = where.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), timeout=_REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise BadInput(f"--ray {where}: no Ray cluster can be joined ({error}); is its head running?") from None


def check_shared_database(db: str, place: ClusterAddress) -> None:
    """Raise BadInput if other machines cannot write to the database."""
    url = parse_url(db)
    if url.drivername != "sqlite":
        return
    nodes = list_alive_nodes()
    hosts = {str(node["NodeManagerHostname"]) for node in nodes}
    if len(nodes) > 1 or hosts - {socket.gethostname()}:
        raise BadInput(
            f"{mask_url(url)} is a file of one machine, and the Ray cluster at {place} has {len(nodes)} nodes; "
            "use --db postgresql+psycopg://..., or --ray local"
        )


def list_alive_nodes() -> list[Mapping[str, Any]]:
    """Ray's records of the nodes that are alive."""
    return [node for node in ray.nodes() if node["Alive"]]


def list_import_path() -> list[str]:
    """The import path of this process, without the entry for its working directory."""
    return [entry for entry in sys.path if entry]


def adopt_paths(folder: str, path: Sequence[str]) -> None:
    """Change to the driver's folder, if this machine has it, and import from the driver's path first."""
    with contextlib.suppress(OSError):  # another machine need not have it
        os.chdir(folder)
    sys.path[:0] = [entry for entry in path if entry not in sys.path]


_MOST_LOST = 5
"""Tasks that a run may lose."""


class ClusterRunner:
    """Searches on a cluster. Used once: prepare, search, close."""

    def __init__(self, place: ClusterAddress, db: str) -> None:
        self.place, self.db = place, db
        self.stopping: Stop | None = None
        self._tasks: list[Any] = []
        self._surroundings = Surroundings(str(Path.cwd()), list_import_path(), None)
        self._must_leave = False

    async def prepare(self, configs: Sequence[RunConfig]) -> None:
        """Join the cluster and load each policy in a task there, as a check. Raises BadInput.

        Side by side: the processes that have imported torch for it then search, while one alone would leave the others
        to begin after it.
        """
        self._must_leave = await asyncio.to_thread(connect, self.place)
        check_shared_database(self.db, self.place)
        bell: Any = ray.remote(Bell).options(num_cpus=0, max_restarts=-1, max_task_retries=-1)
        self._surroundings = replace(self._surroundings, bell=bell.remote())
        await asyncio.gather(*(self._run(load_policies, [config]) for config in different_policies(configs)))

    async def search(self, db: str, seed_batches: Sequence[SeedBatch], changes: Changes = UNCHANGED) -> None:
        """Search every run as a task; Ray begins them in their order, as resources become free."""
        names = [name for batch in seed_batches for name in batch]
        searching = [asyncio.create_task(self._search(name, changes)) for name in names]
        try:
            await asyncio.gather(*searching)
        finally:
            await cancel_all(searching)

    async def _search(self, run: str, changes: Changes) -> None:
        for lost in range(_MOST_LOST):
            try:
                return await self._run(search_run, run, self.db, changes, lost > 0)
            except RayError as error:
                reason = " ".join(str(error).split())[:160]
                _warn(f"{run} lost its process and continues in another ({reason})")
        raise SearchFailed(f"{run}: {_MOST_LOST} processes were lost ({reason}); evo resume continues")

    async def _run(self, function: Callable[..., WorkerAnswer], *arguments: Any) -> None:
        """Call a function of this module on any node with room. Raises its fault, WorkerFailed for a bug, or
        RayError if its process is gone."""
        options = self.place.options
        remote = ray.remote(function).options(
            num_cpus=options.cpus, num_gpus=options.gpus, resources=options.resources or None, max_retries=0
        )
        task = remote.remote(self._surroundings, *arguments)
        self._tasks.append(task)
        try:
            answer: WorkerAnswer = await task
        except RayTaskError as error:
            raise WorkerFailed(f"a task failed in {function.__name__}: {error}") from None
        answer.check()

    def interrupt(self, stop: Stop) -> None:
        """Finish what is in flight, commit it, and end; begin no further task."""
        self.stopping = stop
        if self._surroundings.bell is not None:
            self._surroundings.bell.ring.remote(str(stop))

    async def close(self) -> None:
        for task in self._tasks:
            ray.cancel(task, force=True)
        if self._surroundings.bell is not None:
            ray.kill(self._surroundings.bell)
        if self._must_leave:
            await asyncio.to_thread(ray.shutdown)


def _warn(text: str) -> None:
    warnings.warn(redact(text), stacklevel=2)
