"""From an address to a policy whose engine is loaded."""

from __future__ import annotations

from types import SimpleNamespace

from problems.contract import BadAddress
from vpo.policies.address import PolicyAddress
from vpo.policies.contract import PolicyUnavailable
from vpo.policies.encoding import check_prompt_format
from vpo.policies.fingerprint import fingerprint
from vpo.policies.processor import warn_of_emulation
from vpo.policies.registry import PolicySettings
from vpo.vllm.address import EngineSettings, engine_settings
from vpo.vllm.leases import lease, release
from vpo.vllm.policy import VllmPolicy
from vpo.vllm.text import Description


def load_vllm(address: PolicyAddress, asked: PolicySettings) -> VllmPolicy:
    """The policy of an engine, which is loaded. Raises BadAddress in one line, PolicyUnavailable where the engine
    ends or runs out of memory as it loads."""
    settings, name = engine_settings(address, asked), address.plain
    engine = lease(settings)
    try:
        try:
            description = engine.describe()
            version = _version(settings, description, name)  # read while the engine loads
            engine.wait()
        except BadAddress as error:
            raise BadAddress(f"policy {name!r} cannot be loaded: {error}") from None
        except PolicyUnavailable as error:
            raise PolicyUnavailable(f"policy {name!r}: {error}") from None
        warn_of_emulation(engine.ready.dtype, engine.ready.device)
        prompt_format = check_prompt_format(description.prompt_format, name)
        return VllmPolicy(
            engine,
            version=version,
            prompt_format=prompt_format,
            stops=description.stops,
            temperature=asked.temperature,
            top_p=asked.top_p,
            max_tokens=asked.max_tokens,
            batch=asked.batch,
        )
    except BaseException:
        release(engine)
        raise


def _version(settings: EngineSettings, description: Description, address: str) -> str:
    config = SimpleNamespace(_commit_hash=description.commit)
    parts = [fingerprint(settings.model, SimpleNamespace(config=config))]
    if settings.adapter is not None:
        parts.append(fingerprint(settings.adapter.folder, SimpleNamespace(config=None)))
    return f"{address}@{'+'.join(parts)}"
