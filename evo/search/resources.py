"""The resources of a search, opened once for all searches that share them: problems, policies, the scorer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from evo.config.parse import parse
from evo.config.run import RunConfig
from evo.errors import BadInput
from evo.prompts.registry import open_format
from evo.search.defaults import warn_of_resources, workers
from evo.search.operators import Operator
from problems.address import grouped
from problems.contract import Problem
from problems.scoring import Scorer
from problems.weights import weigh_by
from vpo.policies.address import PolicyAddress, parse_address, parse_addresses
from vpo.policies.checkpoint import trained_answers
from vpo.policies.contract import Policy

OpenPolicy = Callable[[RunConfig, Sequence[Problem]], Policy]
"""The policy that a configuration names, ready for these problems."""


class Resources:
    """The resources of one search, or of several in parallel: the problems, one scorer, and each policy once, however
    many arms sample it. `close` closes the policies and the scorer.

    open_policy: by default, by its address
    scorer: None until `scorer_for` makes it
    """

    def __init__(self, open_policy: OpenPolicy | None = None, scorer: Scorer | None = None) -> None:
        self.scorer, self._open_policy = scorer, open_policy
        self._problems: dict[str, list[Problem]] = {}
        self._policies: dict[str, Policy] = {}

    def problems(self, config: RunConfig) -> list[Problem]:
        key = repr((config.problems, config.limit, config.weights))
        if key not in self._problems:
            self._problems[key] = resolve_problems(config)
        return self._problems[key]

    def scorer_for(self, config: RunConfig, problems: Sequence[Problem]) -> Scorer:
        if self.scorer is None:
            warn_of_resources(config)
            self.scorer = Scorer(workers(config, problems))
        return self.scorer

    def policy(self, config: RunConfig, problems: Sequence[Problem]) -> Policy:
        key = policy_key(config)
        if key not in self._policies:
            self._policies[key] = (self._open_policy or open_policy)(config, problems)
        return self._policies[key]

    def operators(self, config: RunConfig, problems: Sequence[Problem]) -> list[Operator]:
        """The policy, or the policies that the configuration lists, each with the same number of answers per group."""
        addresses = parse_addresses(config.policy)
        return [self._operator(address, config, problems, alone=len(addresses) == 1) for address in addresses]

    def _operator(
        self, address: PolicyAddress, config: RunConfig, problems: Sequence[Problem], alone: bool
    ) -> Operator:
        """One policy with its settings: the share of fresh prompts that its address names, and,
        together with others, chains of the length that it was trained to write."""
        asked = address.without("fresh", "weight")
        changes: dict[str, Any] = {"policy": str(asked)}
        if (fresh := address.common.fresh) is not None:
            changes["prompt"] = {**config.prompt.model_dump(), "fresh": fresh}
        if not alone:
            answers = trained_answers(address) or config.answers
            total = config.rollouts * config.answers
            if total % answers:
                raise BadInput(
                    f"an iteration of {total} answers cannot be made of chains of {answers} ({asked}); see --rollouts"
                )
            changes |= {"answers": answers, "rollouts": total // answers}
        own = parse(RunConfig, {**config.model_dump(), **changes}, f"--policy {address}")
        weight = address.common.weight
        return Operator(str(address), self.policy(own, problems), own.rollouts, own.answers, own.prompt, weight)

    async def close(self) -> None:
        for policy in self._policies.values():
            await policy.close()
        if self.scorer is not None:
            self.scorer.close()


def policy_key(config: RunConfig) -> str:
    """Everything that decides a policy: runs with equal keys can share it."""
    asked = (config.policy, config.temperature, config.top_p, config.device, config.dtype)
    tokens = config.max_new_tokens or f"for {config.answers}"
    return repr((*asked, tokens))


def check_one_policy(policy: str, doing: str) -> None:
    """BadInput if several policies are named, which only a search can mix. doing: as in "evo train trains" """
    if len(parse_addresses(policy)) > 1:
        raise BadInput(f"{doing} one policy, not {policy}; several with commas are the operators of one search")


def resolve_problems(config: RunConfig) -> list[Problem]:
    from problems.sandbox import set_sandbox_mode

    set_sandbox_mode(config.sandbox)
    return problems_at(config.problems, config.limit, config.weights)


def check_apart(learned: Iterable[str], held_out: Iterable[Problem]) -> None:
    """BadInput if a problem is both learned from (by name) and held out."""
    if both := {problem.name for problem in held_out}.intersection(learned):
        raise BadInput(f"{min(both)} would be trained on and evaluated on; held-out problems must be others")


def problems_at(
    addresses: Sequence[str], limit: int | None = None, weights: Mapping[str, float] | str | None = None
) -> list[Problem]:
    """Every problem the addresses name, each once, in order; of each address the first `limit`. weights: that the
    configuration has them judged by. Raises BadAddress, also if a problem lacks an objective that has a weight."""
    from problems.registry import resolve

    problems: dict[str, Problem] = {}
    for address in addresses if limit else grouped(addresses):
        for problem in resolve(address, limit=limit):
            problems.setdefault(problem.name, problem)
    return [weigh_by(problem, weights) for problem in problems.values()]


def open_policy(config: RunConfig, problems: Sequence[Problem]) -> Policy:
    """The configured policy; without a token limit of the user's, the problems decide it."""
    from vpo.policies.registry import policy_at

    asked = config.model_dump(include={"temperature", "top_p", "device", "dtype"})
    policy = policy_at(config.policy, max_tokens=config.max_new_tokens, **asked)
    if config.max_new_tokens is None and parse_address(config.policy).common.max_tokens is None:
        one_of_each = {problem.answer_format: problem for problem in problems}.values()
        formats = [open_format(problem, policy.prompt_format, config.prompt, config.answers) for problem in one_of_each]
        needed = max(prompt_format.default_limit for prompt_format in formats)
        policy.max_tokens = max(needed, policy.traits.room)
    return policy
