"""`evo.load_policy` and `evo.load_problems`. evo.api.policy, which measures and trains policies, loads slowly."""

from __future__ import annotations

from os import PathLike
from typing import Any

from evo.api.arguments import ProblemSources, plain_settings, plain_value, split_problems
from evo.search.resources import problems_at
from problems.contract import Problem
from problems.registry import given
from vpo.policies.contract import Policy
from vpo.policies.registry import policy_at


def load_policy(address: str | PathLike[str], **settings: Any) -> Policy:
    """The policy that an address names, ready to sample.

    Args:
        address: embedded:NAME, a hub id or directory, vllm:ID, openai:MODEL@URL, scripted:NAME; options follow a
            question mark, as in "embedded:vpo?temperature=0.7".
        settings: of vpo.policies.address.PolicySettings: temperature, top_p, max_tokens (of a rollout), device,
            dtype, batch (prompts a call), threads.

    Raises:
        ValueError: one line, if the address names nothing or a setting is wrong.
        TypeError: an unknown setting.

    Example:
        policy = evo.load_policy("embedded:base", temperature=0.8)
        groups = await policy.sample([prompt], rollouts=4, answers=3, seed=0)
    """
    if not isinstance(address, str | PathLike):
        raise TypeError(f'a policy is named by its address, as in "embedded:vpo", not {address!r}')
    return policy_at(plain_value(address), **plain_settings(settings))


def load_problems(address: ProblemSources, *, limit: int | None = None) -> list[Problem]:
    """The problems that addresses name, each once, in order.

    Args:
        address: "maze:hard", "programs:easy/3", "my_scorer.py" ..., or several.
        limit: the most problems of each address.

    Raises:
        ValueError: one line, if an address names nothing.

    Example:
        problem = evo.load_problems("maze:test/17")[0]
        problem.score(problem.seed_answer()).fitness
    """
    addresses, objects = split_problems(address)
    if address is None:
        raise TypeError('problems are named by an address, as in "maze:hard", not None')
    with given(objects):
        return problems_at(addresses, limit)
