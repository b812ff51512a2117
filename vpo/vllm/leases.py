"""Engines are leased: policies whose settings agree share one, so that arms of a comparison that differ in their
answers or their temperature load the model once and fill each other's batches. The last one to let go ends it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from problems.contract import BadAddress
from vpo.policies.contract import PolicyUnavailable
from vpo.vllm.address import EngineSettings
from vpo.vllm.engine import Engine, check_installed
from vpo.vllm.replicas import Replica, Replicas, local_replicas

ENGINE_REGISTRY: dict[EngineSettings, Sequence[Replica]] = {}
"""Replicas that run on other machines, put here by who started them (evo.cluster.engines)."""
_LEASED: dict[EngineSettings, Engine | Replicas] = {}
_LEASES = threading.Lock()


def lease(settings: EngineSettings) -> Engine | Replicas:
    """An engine of these settings, or its replicas: what others have on lease, or a new one, which begins to load.
    BadAddress where there is no vLLM."""
    with _LEASES:
        engine = _LEASED.get(settings)
        if engine is not None and not engine.gone:
            engine.users += 1
            return engine
        there = ENGINE_REGISTRY.get(settings)
        if there is None:
            check_installed()
        engine = _begin(settings) if there is None else Replicas(settings, there)
        _LEASED[settings] = engine
        return engine


def _begin(settings: EngineSettings) -> Engine | Replicas:
    """An engine, or its replicas on this machine, beginning to load."""
    return Engine(settings) if settings.options.replicas is None else Replicas(settings, local_replicas(settings))


def reload_engine(engine: Engine | Replicas, settings: EngineSettings) -> Engine | Replicas:
    """An engine of other settings in the stead of a leased one, for its holder alone, loaded; the one given is not the
    holder's any more, unless it comes back. On a CPU the process stays; on a GPU it is a fresh one, since what was held
    there comes back for certain with its process alone. Raises PolicyUnavailable where it cannot be made."""
    with _LEASES:
        shared = engine.users > 1
        engine.users -= shared
        if not shared and _LEASED.get(engine.settings) is engine:
            del _LEASED[engine.settings]
    try:
        if not shared and (isinstance(engine, Replicas) or (engine.ready is not None and engine.ready.device == "cpu")):
            engine.reload(settings)
            return engine
        if not shared:
            engine.close()
        fresh = _begin(settings)
        try:
            fresh.wait()
        except BaseException:
            fresh.close()
            with _LEASES:
                engine.users += shared  # it is the holder's still
            raise
        return fresh
    except BadAddress as error:
        raise PolicyUnavailable(f"the vLLM engine cannot take other weights: {error}") from None


def release(engine: Engine | Replicas) -> None:
    """Let go of it; the last one ends the process."""
    with _LEASES:
        engine.users -= 1
        if engine.users > 0:
            return
        if _LEASED.get(engine.settings) is engine:
            del _LEASED[engine.settings]
    engine.close()
