"""Policies by address (vpo.policies.address), as the command line writes them.

A package adds a kind of its own with an entry point whose name is the kind:

    [project.entry-points."evo.policies"]
    bedrock = "my_package.policies:load_bedrock"

    def load_bedrock(address: PolicyAddress, settings: PolicySettings) -> Policy:
        return BedrockPolicy(address.model, temperature=settings.temperature)

`evo run maze:test --policy "bedrock:MODEL?temperature=0.7"` then asks it. evo.testing.PolicyContract holds what it must
keep.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from problems.contract import BadAddress
from problems.entry_points import find_entry_points, load_built_in, load_entry_point
from vpo.policies.address import BUILT_IN, CHECKS, ENTRY_POINTS, OF_THE_SEARCH, PolicyAddress, parse_address
from vpo.policies.contract import Policy
from vpo.policies.encoding import check_prompt_format


@dataclass(frozen=True)
class PolicySettings:
    """How a policy is loaded and asked; the options of its address are in it.

    temperature: 0 takes the likeliest token always
    top_p: keep the likeliest tokens up to this mass
    max_tokens: limit of one rollout; None lets the policy choose (vpo.chain.default_max_tokens is what the engine sets)
    device: "cuda", "cpu"; None takes a GPU where there is one
    dtype: "float32", "bfloat16" or "float16"; None is bfloat16 on a GPU and float32 on a CPU. In bfloat16 rounding
        depends on the shape of the batch, so what shares a rollout's batch can change it; in float32 it does not
    batch: prompts per call; None chooses by the model's size
    threads: CPU threads of the model's arithmetic; None takes one for a small model, else torch's own choice
    """

    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int | None = None
    device: str | None = None
    dtype: str | None = None
    batch: int | None = None
    threads: int | None = None


Loader = Callable[[PolicyAddress, PolicySettings], Policy]
"""Makes a kind's policies, ready to sample. Raises BadAddress, one line, where it cannot."""


def load_policy(
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
    given = PolicySettings(
        1.0 if temperature is None else temperature, top_p, max_tokens, device, dtype, batch, threads
    )
    policy = _loader(address)(address, _with_options(address, given))
    unnamed = temperature is None and address.common.temperature is None
    if not isinstance(policy, Policy):
        raise BadAddress(f"policy {address.plain!r}: its class is no vpo.policies.contract.Policy; subclass that one")
    if unnamed and policy.traits.temperature is not None:
        policy.temperature = policy.traits.temperature
    return policy


def settings_at(address: PolicyAddress, *, device: str | None = None, dtype: str | None = None) -> PolicySettings:
    """What a policy is loaded with: the options of its address, before what its run says. Raises BadAddress."""
    return _with_options(address, PolicySettings(device=device, dtype=dtype))


def check_policy(address: PolicyAddress) -> None:
    """Raises BadAddress, one line, where an address names nothing, as far as that can be told in a moment: before the
    seconds that a model's library takes to load. A hub is asked whether it has a model, a server nothing."""
    settings = _with_options(address, PolicySettings())
    if address.kind in CHECKS:
        load_built_in(CHECKS[address.kind], address.plain)(address, settings)


def _with_options(address: PolicyAddress, given: PolicySettings) -> PolicySettings:
    if (form := address.common.format) is not None:
        if not address.has_weights:
            raise BadAddress(f"policy {address.plain!r}: option format is for a model that is loaded here")
        check_prompt_format(form, address.plain)
    written = address.common.model_dump(exclude_none=True, exclude={*OF_THE_SEARCH, "format"})
    settings = replace(given, **written)
    _check(settings)
    return settings


def _check(settings: PolicySettings) -> None:
    if not 0.0 <= settings.temperature <= 100.0:
        raise BadAddress(f"temperature {settings.temperature} must lie between 0 and 100")
    if not 0.0 < settings.top_p <= 1.0:
        raise BadAddress(f"top-p {settings.top_p} must lie above 0 and at most 1")
    whole = (("max tokens", settings.max_tokens), ("batch", settings.batch), ("threads", settings.threads))
    for name, value in whole:
        if value is not None and value < 1:
            raise BadAddress(f"{name} {value} must be 1 or more")


def _loader(address: PolicyAddress) -> Loader:
    kind, what = address.kind, f"policy {address.plain!r}"
    loader: Loader
    if kind in BUILT_IN:
        loader = load_built_in(BUILT_IN[kind], what)
    elif (point := find_entry_points(ENTRY_POINTS).get(kind)) is not None:
        loader = load_entry_point(point, what)
    else:
        raise BadAddress(f"{what}: nothing installed loads policies of the kind {kind}")
    return loader
