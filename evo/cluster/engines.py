"""Engines on the nodes of a cluster: `vllm:ID?replicas=N` starts N actors, which all tasks use.

Each actor has its own placement group, one bundle with all its GPUs, so that they are on one node. Ray restarts an
actor that is lost. The tasks use it again after it has loaded (vpo.policies.spread).
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from evo.cluster.connection import adopt_paths, list_import_path
from evo.config.run import RunConfig
from evo.errors import BadInput
from evo.exit_status import answer_of_error
from problems.child_process import WorkerAnswer, settle
from vpo.policies.address import PolicyAddress, parse_address, parse_addresses
from vpo.policies.contract import PolicyUnavailable, PromptTooLong
from vpo.policies.registry import settings_at
from vpo.vllm.address import EngineSettings, engine_settings
from vpo.vllm.engine import Engine
from vpo.vllm.process import Ready
from vpo.vllm.text import Description

PLACE_SECONDS = 30.0
ANSWER_SECONDS = 5.0
SHUTDOWN_GRACE = 0.5
"""Seconds for an engine's fault to reach the caller before its actor ends."""
Engines = Mapping[EngineSettings, Sequence["ActorReplica"]]


class EngineHost:
    """The actor: it holds an engine (vpo.vllm.engine) in a child process, and both are restarted together."""

    def __init__(self, folder: str, path: Sequence[str], settings: EngineSettings) -> None:
        adopt_paths(folder, path)
        self._engine = Engine(settings)
        self._life = uuid.uuid4().hex
        self._asked = self._answered = 0

    async def describe(self) -> WorkerAnswer:
        return await self._answer(asyncio.to_thread(self._engine.describe))

    async def ready(self) -> WorkerAnswer:
        """Wait for the engine to load, then return its `ready`."""

        async def wait() -> Any:
            await asyncio.to_thread(self._engine.wait)
            return self._engine.ready

        return await self._answer(wait())

    async def ask(self, kind: str, content: Any) -> WorkerAnswer:
        self._asked += 1
        try:
            return await self._answer(asyncio.wrap_future(self._engine.ask(kind, content)))
        finally:
            self._asked -= 1
            self._answered += 1

    async def state(self) -> dict[str, Any]:
        """The state for a display; `life` changes when the actor is restarted."""
        serves = self._engine.ready is not None and not self._engine.gone
        node = str(ray.get_runtime_context().get_node_id())[:8]
        return {"node": node, "in": serves, "load": self._asked, "answered": self._answered, "life": self._life}

    async def _answer(self, work: Any) -> WorkerAnswer:
        try:
            return WorkerAnswer(await work)
        except Exception as error:
            if isinstance(error, PolicyUnavailable):  # the engine is gone: Ray restarts both
                asyncio.get_running_loop().call_later(SHUTDOWN_GRACE, os._exit, 1)
            return WorkerAnswer(fault=error) if isinstance(error, PromptTooLong) else answer_of_error(error)


class ActorReplica:
    """A vpo.vllm.replicas.Replica on another node. It is pickled and sent to the tasks."""

    def __init__(self, actor: Any, name: str) -> None:
        self.name, self._actor = name, actor
        self.ready: Ready | None = None

    def describe(self) -> Description:
        description: Description = self._call("describe", None)
        return description

    def wait(self) -> bool:
        return self.revive()

    def revive(self) -> bool:
        try:
            self.ready = self._call("ready", ANSWER_SECONDS)
        except PolicyUnavailable:
            return False
        return True

    def ask(self, kind: str, content: Any = None) -> Future[Any]:
        ref = self._actor.ask.remote(kind, content)
        answer: Future[Any] = Future()

        def pass_on(answered: Future[WorkerAnswer]) -> None:
            try:
                settle(answer, answered.result())
            except RayError as error:
                settle(answer, WorkerAnswer(fault=_make_loss(error)))

        ref.future().add_done_callback(pass_on)
        answer.add_done_callback(lambda _: ray.cancel(ref) if answer.cancelled() else None)
        return answer

    def close(self) -> None:
        """Does nothing: the driver ends the actor."""

    def _call(self, method: str, seconds: float | None) -> Any:
        try:
            answer: WorkerAnswer = ray.get(getattr(self._actor, method).remote(), timeout=seconds)
            return answer.result()
        except GetTimeoutError:
            raise PolicyUnavailable("it does not answer") from None
        except RayError as error:
            raise _make_loss(error) from None


class EnginePool:
    """All engines that a driver has started. taken: resources that they hold"""

    def __init__(self) -> None:
        self.replicas: dict[EngineSettings, list[ActorReplica]] = {}
        self.taken: dict[str, float] = {}
        self._reserved: dict[EngineSettings, dict[str, float]] = {}
        self._started: list[tuple[str, str, Any, Any]] = []
        self._lives: dict[str, list[str]] = {}

    def reserve(self, configs: Iterable[RunConfig]) -> None:
        """Count the resources of the engines that these runs need, before any of them is loaded. Raises BadInput if the
        cluster cannot hold them."""
        for settings, address in _find_engines(configs).items():
            if settings in self._reserved:
                continue
            bundle = self._reserved[settings] = _make_bundle(settings)
            count = settings.options.replicas or 1
            total = ray.cluster_resources()
            for name, amount in bundle.items():
                self.taken[name] = self.taken.get(name, 0.0) + count * amount
                if self.taken[name] > total.get(name, 0.0):
                    raise BadInput(
                        f"policy {address}: {count} engines of {amount:g} {name} exceed the cluster's "
                        f"{total.get(name, 0.0):g}; ask for fewer ?replicas="
                    )

    def start(self, configs: Sequence[RunConfig], report: Callable[[str], None]) -> None:
        """Start and load the engines that these runs need and that are not started yet. Blocks. Raises BadInput if the
        cluster cannot hold them, BadAddress or PolicyUnavailable if they cannot be loaded."""
        self.reserve(configs)
        started: list[ActorReplica] = []
        for settings, address in _find_engines(configs).items():
            if settings in self.replicas:
                continue
            bundle, count = self._reserved[settings], settings.options.replicas or 1
            replicas = [self._start(address, settings, bundle, number, report) for number in range(count)]
            self.replicas[settings] = replicas
            started += replicas
        if started:
            report(f"loading {len(started)} engines")
        for replica in started:
            replica.ready = replica._call("ready", None)

    def _start(
        self,
        address: str,
        settings: EngineSettings,
        bundle: Mapping[str, float],
        number: int,
        report: Callable[[str], None],
    ) -> ActorReplica:
        group = placement_group([dict(bundle)], strategy="PACK")
        if not group.wait(PLACE_SECONDS):
            wants = ", ".join(f"{amount:g} {name}" for name, amount in bundle.items())
            report(f"{address}: waits for a node with {wants}")
        actor = (
            ray.remote(EngineHost)
            .options(
                num_cpus=bundle["CPU"],
                num_gpus=bundle.get("GPU", 0),
                max_restarts=-1,
                max_concurrency=10_000,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group),
            )
            .remote(str(Path.cwd()), list_import_path(), settings)
        )
        name = f"engine {number}"
        self._started.append((address, name, actor, group))
        return ActorReplica(actor, name)

    def describe(self) -> list[dict[str, Any]]:
        """Every engine for a display; one that does not answer within a second counts as down."""
        refs = [actor.state.remote() for _, _, actor, _ in self._started]
        answered, _ = ray.wait(refs, num_returns=len(refs), timeout=1.0) if refs else ([], [])
        return [
            self._describe(address, name, ref if ref in answered else None)
            for (address, name, _, _), ref in zip(self._started, refs, strict=True)
        ]

    def _describe(self, address: str, name: str, ref: Any) -> dict[str, Any]:
        lives = self._lives.setdefault(f"{address} {name}", [])
        state: dict[str, Any] = {"node": "", "in": False, "load": 0, "answered": 0}
        if ref is not None:
            with suppress(RayError):
                state = ray.get(ref)
                if (life := state.pop("life")) not in lives:
                    lives.append(life)
        return {"address": address, "url": name, **state, "lost": max(0, len(lives) - 1)}

    def close(self) -> None:
        for _, _, actor, group in self._started:
            ray.kill(actor)
            remove_placement_group(group)
        self._started, self.replicas = [], {}


def _find_engines(configs: Iterable[RunConfig]) -> dict[EngineSettings, str]:
    """Settings and address of each policy of these runs that has replicas."""
    addresses: dict[EngineSettings, str] = {}
    for config in configs:
        named: list[PolicyAddress] = list(parse_addresses(config.policy))
        named += [] if config.feedback.policy is None else [parse_address(config.feedback.policy)]
        for address in named:
            if address.kind == "vllm":
                settings = engine_settings(address, settings_at(address, device=config.device, dtype=config.dtype))
                if settings.options.replicas is not None:
                    addresses.setdefault(settings, str(address))
    return addresses


def _make_bundle(settings: EngineSettings) -> dict[str, float]:
    """The resources of an engine: its GPUs if the cluster has any, else a CPU for each thread."""
    if settings.device != "cpu" and ray.cluster_resources().get("GPU", 0.0):
        return {"CPU": 1.0, "GPU": float(settings.options.gpus)}
    return {"CPU": float(settings.threads or 1)}


def _make_loss(error: RayError) -> PolicyUnavailable:
    return PolicyUnavailable(f"its process was lost ({' '.join(str(error).split())[:160]})")
