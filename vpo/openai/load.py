"""The policy at an OpenAI-compatible server from its address."""

from __future__ import annotations

from typing import Any

from problems.address import user_path
from vpo.openai.address import endpoint
from vpo.openai.policy import OpenAIPolicy, ServerSpread
from vpo.openai.probe import probe_servers
from vpo.openai.server import Server
from vpo.policies.address import PolicyAddress
from vpo.policies.registry import PolicySettings


def load_openai(address: PolicyAddress, settings: PolicySettings) -> OpenAIPolicy:
    """The policy at a server, or at several, which are asked what they serve. Raises BadAddress in one line."""
    place = endpoint(address)
    places = place.servers()
    found, lost = probe_servers(places, settings.temperature, settings.top_p)
    servers = [
        Server(one, settings.temperature, settings.top_p, found.engine, found.with_ids, found.context) for one in places
    ]
    server = servers[0] if len(servers) == 1 else ServerSpread(place, servers, lost)
    options = place.options
    given: dict[str, Any] = {
        "has_logprobs": found.has_logprobs,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "max_tokens": settings.max_tokens,
        "batch": settings.batch,
    }
    if options.weights is None or options.adapters is None:
        return OpenAIPolicy(place, server, **given)
    from vpo.openai.trainable import AdaptedPolicy  # which needs torch

    return AdaptedPolicy(
        place,
        server,
        weights=options.weights,
        folder=user_path(options.adapters).absolute(),
        device=settings.device,
        **given,
    )
