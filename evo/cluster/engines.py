"""Engines on the nodes of a cluster: `vllm:ID?replicas=N` as N actors, which all tasks ask.

Each has a placement group of its own: one bundle with all its GPUs, so that they lie on one node. One that is lost with
its node or by itself is started again by Ray, and taken back by those who ask when it has loaded (vpo.policies.spread).
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

from evo.cluster.connection import import_path, take_on
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
"""Seconds that an engine's fault has to reach who asked, before its actor ends with it."""
Engines = Mapping[EngineSettings, Sequence["ActorReplica"]]


class EngineHost:
    """The actor: an engine (vpo.vllm.engine) in a process beside this one, restarted with it."""

    def __init__(self, folder: str, path: Sequence[str], settings: EngineSettings) -> None:
        take_on(folder, path)
        self._engine = Engine(settings)
        self._life = uuid.uuid4().hex
        self._asked = self._answered = 0

    async def describe(self) -> WorkerAnswer:
        return await self._answer(asyncio.to_thread(self._engine.describe))

    async def ready(self) -> WorkerAnswer:
        """What the engine came to, once it has loaded."""

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
        """For those who watch; `life` changes when the actor is started again."""
        serves = self._engine.ready is not None and not self._engine.gone
        node = str(ray.get_runtime_context().get_node_id())[:8]
        return {"node": node, "in": serves, "load": self._asked, "answered": self._answered, "life": self._life}

    async def _answer(self, work: Any) -> WorkerAnswer:
        try:
            return WorkerAnswer(await work)
        except Exception as error:
            if isinstance(error, PolicyUnavailable):  # no engine: Ray starts both again
                asyncio.get_running_loop().call_later(SHUTDOWN_GRACE, os._exit, 1)
            return WorkerAnswer(fault=error) if isinstance(error, PromptTooLong) else answer_of_error(error)


class ActorReplica:
    """A vpo.vllm.replicas.Replica on another node. It goes to the tasks as it is."""

    def __init__(self, actor: Any, name: str) -> None:
        self.name, self._actor = name, actor
        self.ready: Ready | None = None

    def describe(self) -> Description:
        found: Description = self._now("describe", None)
        return found

    def wait(self) -> bool:
        return self.revive()

    def revive(self) -> bool:
        try:
            self.ready = self._now("ready", ANSWER_SECONDS)
        except PolicyUnavailable:
            return False
        return True

    def ask(self, kind: str, content: Any = None) -> Future[Any]:
        ref = self._actor.ask.remote(kind, content)
        asked: Future[Any] = Future()

        def pass_on(answered: Future[WorkerAnswer]) -> None:
            try:
                settle(asked, answered.result())
            except RayError as error:
                settle(asked, WorkerAnswer(fault=_lost(error)))

        ref.future().add_done_callback(pass_on)
        asked.add_done_callback(lambda _: ray.cancel(ref) if asked.cancelled() else None)
        return asked

    def close(self) -> None:
        """It is its driver's to end."""

    def _now(self, method: str, seconds: float | None) -> Any:
        try:
            answer: WorkerAnswer = ray.get(getattr(self._actor, method).remote(), timeout=seconds)
            return answer.result()
        except GetTimeoutError:
            raise PolicyUnavailable("it does not answer") from None
        except RayError as error:
            raise _lost(error) from None


class EnginePool:
    """All engines that a driver has started. taken: resources that they hold"""

    def __init__(self) -> None:
        self.replicas: dict[EngineSettings, list[ActorReplica]] = {}
        self.taken: dict[str, float] = {}
        self._started: list[tuple[str, str, Any, Any]] = []
        self._lives: dict[str, list[str]] = {}

    def start(self, configs: Iterable[RunConfig], tell: Callable[[str], None]) -> None:
        """Those that these runs ask for and that are not there yet, loaded. Blocks. Raises BadInput where the cluster
        cannot hold them, BadAddress and PolicyUnavailable where they cannot be loaded."""
        fresh: list[ActorReplica] = []
        for settings, address in _asked_for(configs).items():
            if settings in self.replicas:
                continue
            bundle = _bundle(settings)
            count = settings.options.replicas or 1
            there = ray.cluster_resources()
            for name, amount in bundle.items():
                self.taken[name] = self.taken.get(name, 0.0) + count * amount
                if self.taken[name] > there.get(name, 0.0):
                    raise BadInput(
                        f"policy {address}: {count} engines of {amount:g} {name} are beyond the cluster's "
                        f"{there.get(name, 0.0):g}; ask for fewer ?replicas="
                    )
            found = [self._start(address, settings, bundle, number, tell) for number in range(count)]
            self.replicas[settings] = found
            fresh += found
        if fresh:
            tell(f"loading {len(fresh)} engines")
        for one in fresh:
            one.ready = one._now("ready", None)

    def _start(
        self,
        address: str,
        settings: EngineSettings,
        bundle: Mapping[str, float],
        number: int,
        tell: Callable[[str], None],
    ) -> ActorReplica:
        group = placement_group([dict(bundle)], strategy="PACK")
        if not group.wait(PLACE_SECONDS):
            wants = ", ".join(f"{amount:g} {name}" for name, amount in bundle.items())
            tell(f"{address}: waits for a node with {wants}")
        actor = (
            ray.remote(EngineHost)
            .options(
                num_cpus=bundle["CPU"],
                num_gpus=bundle.get("GPU", 0),
                max_restarts=-1,
                max_concurrency=10_000,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group),
            )
            .remote(str(Path.cwd()), import_path(), settings)
        )
        name = f"engine {number}"
        self._started.append((address, name, actor, group))
        return ActorReplica(actor, name)

    def state(self) -> list[dict[str, Any]]:
        """Every engine for those who watch; one that does not answer at once is out."""
        refs = [actor.state.remote() for _, _, actor, _ in self._started]
        answered, _ = ray.wait(refs, num_returns=len(refs), timeout=1.0) if refs else ([], [])
        return [
            self._described(address, name, ref if ref in answered else None)
            for (address, name, _, _), ref in zip(self._started, refs, strict=True)
        ]

    def _described(self, address: str, name: str, ref: Any) -> dict[str, Any]:
        lives = self._lives.setdefault(f"{address} {name}", [])
        said: dict[str, Any] = {"node": "", "in": False, "load": 0, "answered": 0}
        if ref is not None:
            with suppress(RayError):
                said = ray.get(ref)
                if (life := said.pop("life")) not in lives:
                    lives.append(life)
        return {"address": address, "url": name, **said, "lost": max(0, len(lives) - 1)}

    def close(self) -> None:
        for _, _, actor, group in self._started:
            ray.kill(actor)
            remove_placement_group(group)
        self._started, self.replicas = [], {}


def _asked_for(configs: Iterable[RunConfig]) -> dict[EngineSettings, str]:
    """Settings and address of every policy of these runs that asks for replicas, each once."""
    found: dict[EngineSettings, str] = {}
    for config in configs:
        named: list[PolicyAddress] = list(parse_addresses(config.policy))
        named += [] if config.feedback.policy is None else [parse_address(config.feedback.policy)]
        for address in named:
            if address.kind == "vllm":
                settings = engine_settings(address, settings_at(address, device=config.device, dtype=config.dtype))
                if settings.options.replicas is not None:
                    found.setdefault(settings, str(address))
    return found


def _bundle(settings: EngineSettings) -> dict[str, float]:
    """What an engine takes of a node: its GPUs where the cluster has any, else its threads."""
    if settings.device != "cpu" and ray.cluster_resources().get("GPU", 0.0):
        return {"CPU": 1.0, "GPU": float(settings.options.gpus)}
    return {"CPU": float(settings.threads or 1)}


def _lost(error: RayError) -> PolicyUnavailable:
    return PolicyUnavailable(f"its process was lost ({' '.join(str(error).split())[:160]})")
