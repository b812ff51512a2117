"""Several engines of the same settings: `vllm:ID?replicas=N`. Prompts are spread over them (vpo.policies.spread).

Here each is a process of this machine, with GPUs of its own where there are any; on a cluster each is wherever that
has put it (evo.cluster.engines). One that is lost is begun anew, and the others answer meanwhile. Those of this machine
can take a trainer's weights.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from problems.contract import BadAddress
from problems.types import Prompt
from vpo.policies.contract import PolicyUnavailable
from vpo.policies.spread import Member, Spread
from vpo.vllm.address import EngineSettings
from vpo.vllm.engine import Engine
from vpo.vllm.text import Description

if TYPE_CHECKING:
    from vpo.vllm.process import Ready

DEADLINE = 1800.0
"""Seconds that a request waits while no replica answers: one that is restarted loads its model first."""


class Replica(Protocol):
    """One of several engines.

    name: for displays, and for which prompts belong to it
    """

    name: str

    @property
    def ready(self) -> Ready | None:
        """The engine's properties, once `wait` has returned True."""
        ...

    def describe(self) -> Description: ...

    def wait(self) -> bool:
        """Until it can answer; False if it cannot now but may later. Raises BadAddress, PolicyUnavailable."""
        ...

    def ask(self, kind: str, content: Any = None) -> Future[Any]:
        """The answer to come (vpo.vllm.process); PolicyUnavailable if the engine is gone. It can be cancelled."""
        ...

    def revive(self) -> bool:
        """Whether one that was lost answers again, perhaps restarted by this call. Blocks."""
        ...

    def close(self) -> None: ...


class LocalReplica:
    """A Replica whose engine is a process of this machine."""

    def __init__(self, settings: EngineSettings, number: int) -> None:
        self.name = f"replica {number}"
        self._settings, self._environment = settings, _gpus_of(settings, number)
        self._engine = Engine(settings, self._environment)
        self._changing = threading.Lock()  # an engine is revived, or given other weights, by one thread at a time
        self._closed = False

    @property
    def ready(self) -> Ready | None:
        ready: Ready | None = self._engine.ready
        return ready

    def describe(self) -> Description:
        return self._engine.describe()

    def wait(self) -> bool:
        self._engine.wait()
        return True

    def ask(self, kind: str, content: Any = None) -> Future[Any]:
        return self._engine.ask(kind, content)

    def revive(self) -> bool:
        with self._changing:
            if self._engine.gone and not self._closed:
                try:
                    self._begin()
                except PolicyUnavailable:
                    return False
            return not self._closed

    def reload(self, settings: EngineSettings) -> PolicyUnavailable | None:
        """Take other settings: on a CPU in the same process, on a GPU, whose memory comes back for certain with its
        process alone, in a fresh one. Blocks. Why it cannot, None where it has; it is closed then, and a revival is by
        these settings."""
        with self._changing:
            self._settings = settings
            ready = None if self._engine.gone else self.ready
            try:
                if ready is None or ready.device != "cpu":
                    self._begin()
                else:
                    self._engine.reload(settings)
            except (BadAddress, PolicyUnavailable) as error:
                self._engine.close(f"it cannot take other weights: {error}")
                return PolicyUnavailable(str(error))
            return None

    def _begin(self) -> None:
        """A fresh engine in the place of the one that was, loaded. Raises PolicyUnavailable."""
        self._engine.close()
        self._engine = Engine(self._settings, self._environment)
        if self._closed:  # in this moment
            self._engine.close()
        try:
            self._engine.wait()
        except (BadAddress, PolicyUnavailable) as error:
            self._engine.close(str(error))
            raise PolicyUnavailable(str(error)) from None

    def close(self) -> None:
        self._closed = True
        self._engine.close()


class Replicas:
    """They take the place of an Engine on lease.

    users: how many policies have them; ready: what one of them came to, with the slots of all, once `wait` has returned
    """

    def __init__(self, settings: EngineSettings, replicas: Sequence[Replica]) -> None:
        self.settings, self.users = settings, 1
        self.replicas = list(replicas)
        self.gone = ""
        self.ready: Any = None
        self._here: list[bool] = []

    @property
    def local(self) -> bool:
        """Whether all are processes of this machine, which can be given other weights."""
        return all(isinstance(one, LocalReplica) for one in self.replicas)

    def describe(self) -> Description:
        return self.replicas[0].describe()

    def wait(self) -> None:
        """Until one can answer at least. Raises as Engine.wait."""
        self._here = [one.wait() for one in self.replicas]
        if not any(self._here):
            raise PolicyUnavailable("none of its replicas can answer")
        known = next(one.ready for one in self.replicas if one.ready is not None)
        self.ready = dataclasses.replace(known, slots=known.slots * len(self.replicas), transfers=False)

    def reload(self, settings: EngineSettings) -> None:
        """Other settings for all, side by side, who have one holder. Blocks. Those that cannot take them are closed, so
        that who asks them next leaves them out and has them begun anew. Raises PolicyUnavailable where none can."""
        self.settings = settings
        local = [one for one in self.replicas if isinstance(one, LocalReplica)]
        with ThreadPoolExecutor(len(local), "replicas") as threads:
            faults = list(threads.map(lambda one: one.reload(settings), local))
        self._here = [fault is None for fault in faults]
        if not any(self._here):
            raise PolicyUnavailable(f"{local[0].name}: {faults[0]}")

    def spread(self) -> Spread[Replica]:
        """For one policy, on one event loop."""

        async def serves(replica: Replica) -> bool:
            return await asyncio.to_thread(replica.revive)

        members = [
            Member(one.name, one, lost=None if here else 0.0)
            for one, here in zip(self.replicas, self._here, strict=True)
        ]
        remedy = "see why they end, then evo resume"
        return Spread(members, serves, tries=len(members) + 1, deadline=DEADLINE, kind="replicas", remedy=remedy)

    def encode(self, prompt: Prompt) -> npt.NDArray[np.int32]:
        """The prompt's token ids (P,), by the first replica that answers."""
        fault: PolicyUnavailable | None = None
        for one in self.replicas:
            try:
                ids: npt.NDArray[np.int32] = one.ask("encode", prompt).result()
                return ids
            except PolicyUnavailable as error:
                fault = error
        assert fault is not None
        raise fault

    def close(self) -> None:
        self.gone = "the engines are closed"
        for one in self.replicas:
            one.close()


def local_replicas(settings: EngineSettings) -> Sequence[Replica]:
    """As many as the address asks for, beginning to load. Raises BadAddress where there are too few GPUs."""
    count = settings.options.replicas or 1
    visible, wanted = _visible(), count * settings.options.gpus
    if visible is not None and len(visible) < wanted and settings.device != "cpu":
        raise BadAddress(
            f"{count} replicas of {settings.options.gpus} GPUs are {wanted}; CUDA_VISIBLE_DEVICES names {len(visible)}"
        )
    return [LocalReplica(settings, number) for number in range(count)]


def _visible() -> list[str] | None:
    """The GPUs that the environment names; None where it says nothing of them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return [one for one in named.split(",") if one] or None


def _gpus_of(settings: EngineSettings, number: int) -> dict[str, str]:
    """The environment of a replica: GPUs of its own, unless the address says which, or none."""
    if settings.device is not None and settings.device != "cuda":
        return {}
    gpus = settings.options.gpus
    mine = range(number * gpus, (number + 1) * gpus)
    visible = _visible()
    return {"CUDA_VISIBLE_DEVICES": ",".join(str(one) if visible is None else visible[one] for one in mine)}
