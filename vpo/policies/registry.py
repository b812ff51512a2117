"""Policies by address (vpo.policies.address), as the command line writes them.

A package adds a kind with an entry point whose name is the kind:

    [project.entry-points."evo.policies"]
    bedrock = "my_package.policies:load_bedrock"

    def load_bedrock(address: PolicyAddress, settings: PolicySettings) -> Policy:
        return BedrockPolicy(address.model, temperature=settings.temperature)

`evo run maze:test --policy "bedrock:MODEL?temperature=0.7"` then asks it. evo.testing.PolicyContract holds what it must
keep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from problems.contract import BadAddress
from problems.entry_points import find_entry_points, load_entry_point
from vpo.policies.address import KINDS, POLICY_ENTRY_POINTS, PolicyAddress, PolicySettings, parse_address
from vpo.policies.contract import Policy
from vpo.policies.encoding import check_prompt_format

Loader = Callable[[PolicyAddress, PolicySettings], Policy]
"""Makes a kind's policies, ready to sample. Raises BadAddress, one line, where it cannot."""


def policy_at(
    address: str | PolicyAddress,
    *,
    temperature: float | None = None,
    top_p: float = 1.0,
    max_tokens: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    batch: int | None = None,
    threads: int | None = None,
) -> Policy:
    """The policy that `address` names, ready to sample; the other arguments are those of PolicySettings. Without a
    temperature, here or in the address, it samples at the one that the model recommends, else at 1.

    Raises BadAddress, one line, on an address that names nothing, settings that cannot be, or a missing extra.
    """
    if isinstance(address, str):
        address = parse_address(address)
    given = {"top_p": top_p, "max_tokens": max_tokens, "device": device, "dtype": dtype, "batch": batch}
    given |= {"threads": threads} | ({} if temperature is None else {"temperature": temperature})
    settings = _settings(address, given)
    what = f"policy {address.plain!r}"
    own = KINDS.get(address.kind)
    point = own[0] if own else find_entry_points(POLICY_ENTRY_POINTS).get(address.kind)
    if point is None:
        raise BadAddress(f"{what}: nothing installed loads policies of the kind {address.kind}")
    loader: Loader = load_entry_point(point, what)
    policy = loader(address, settings)
    if not isinstance(policy, Policy):
        raise BadAddress(f"{what}: its class is no vpo.policies.contract.Policy; subclass that one")
    if "temperature" not in settings.model_fields_set and policy.traits.temperature is not None:
        policy.temperature = policy.traits.temperature
    return policy


def check_policy(address: PolicyAddress) -> None:
    """Raises BadAddress, one line, where an address names nothing, as far as that can be told in a moment: before the
    seconds that a model's library takes to load. A hub is asked whether it has a model, a server nothing."""
    settings = _settings(address, {})
    if address.kind in KINDS:
        load_entry_point(KINDS[address.kind][1], address.plain)(address, settings)


def _settings(address: PolicyAddress, given: Mapping[str, Any]) -> PolicySettings:
    settings = address.settings(**given)
    if settings.format is not None:
        if not address.has_weights:
            raise BadAddress(f"policy {address.plain!r}: option format is for a model that is loaded here")
        check_prompt_format(settings.format, address.plain)
    return settings
