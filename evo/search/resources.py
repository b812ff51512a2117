"""The resources of a search, opened once for all searches that share them: problems, policies, the scorer. Before that,
unset options are resolved from the problem, the policy and the machine."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evo.config.parse import parse
from evo.config.run import MOST_ROLLOUTS, PromptConfig, RunConfig
from evo.errors import BadInput
from evo.prompts.registry import TunedFormat, open_format
from islands.population.config import PopulationConfig
from problems.address import grouped
from problems.contract import Problem
from problems.objectives import groups_of
from problems.openevolve.config import FEATURE_DIMENSIONS, TEMPERATURE
from problems.scoring import Scorer
from problems.weights import weigh_by
from vpo.policies.address import parse_address, parse_addresses
from vpo.policies.checkpoint import trained_answers
from vpo.policies.contract import Policy

_DEFAULT_ITERATIONS = 100
_WITHOUT_MODEL = "scripted:mutate"


def resolve_settings(config: RunConfig, problems: Sequence[Problem]) -> RunConfig:
    """Settings that the user left open, as an OpenEvolve directory's config decides them: seed, temperature, top-p,
    tokens of a rollout; one answer per rollout for edits of a program, and for whole programs of a hosted model, whose
    replies would be cut, and for commands."""
    given, decided = config.model_fields_set, dict[str, Any]()
    kinds = {address.kind for address in parse_addresses(config.policy)}
    for settings in (problem.settings for problem in problems):
        if "seed" in settings and "seed" not in given:
            decided.setdefault("seed", settings["seed"])
        served = "diff_based_evolution" in settings and kinds == {"openai"}  # a model's own is not known
        if config.temperature is None and ("temperature" in settings or served):
            decided.setdefault("temperature", float(settings.get("temperature", TEMPERATURE)))
        if "top_p" in settings and "top_p" not in given:
            decided.setdefault("top_p", float(settings["top_p"]))
        if "max_tokens" in settings and config.max_new_tokens is None:
            decided["max_new_tokens"] = max(decided.get("max_new_tokens", 0), settings["max_tokens"])
        if "diff_based_evolution" in settings and "answers" not in given:
            decided.setdefault("answers", 1)
    programs = any(problem.answer_format == "python" for problem in problems)
    if "answers" not in given and ("command" in kinds or ("openai" in kinds and programs)):
        decided.setdefault("answers", 1)
    if config.set_size:
        for problem in (problem for problem in problems if len(groups_of(problem.metrics)) == 1):
            why = "has one objective" if len(problem.metrics) == 1 else "is served by one answer in all objectives"
            told = f"--set {config.set_size}: {problem.name} {why}, so the best set is its best answer"
            warnings.warn(told, stacklevel=2)
    if config.until_solved and all(problem.target is None for problem in problems):
        told = "--until-solved stops nothing: no problem here has a target; a scorer declares one by `target`"
        warnings.warn(told, stacklevel=2)
    # only given keys are carried over: population_config distinguishes a user's value from a default by that
    return parse(RunConfig, {**config.model_dump(exclude_unset=True), **decided}, "config.yaml") if decided else config


def resolve_address(config: RunConfig) -> RunConfig:
    """The settings to put on record: the options of the policy's address take precedence."""
    fields = {"temperature", "top_p", "max_tokens", "device", "dtype"}
    named = parse_address(config.policy).common.model_dump(include=fields, exclude_unset=True)
    if "max_tokens" in named:
        named["max_new_tokens"] = named.pop("max_tokens")
    return config.model_copy(update=named)


def resolve_policy(config: RunConfig, problems: Sequence[Problem]) -> RunConfig:
    """The default policy only understands mazes. Without a policy of the user's, an OpenEvolve directory is searched by
    the models that its config names, and other problems by their default policy or by random edits; a warning reports
    that. Raises BadInput if directories name different models."""
    other = next((problem.name for problem in problems if problem.answer_format != "route"), None)
    if "policy" in config.model_fields_set or other is None:
        return config
    named = list(dict.fromkeys(each.settings["policy"] for each in problems if "policy" in each.settings))
    if len(named) > 1:
        raise BadInput(f"the problems name different models ({'; '.join(named)}): choose with --policy")
    if named:
        warnings.warn(f"No --policy given; using the models of config.yaml: {named[0]}", stacklevel=2)
        return config.model_copy(update={"policy": named[0]})
    own = {problem.default_policy for problem in problems}
    if len(own) == 1 and (policy := own.pop()):
        warnings.warn(f"No --policy given; using {policy} for {other}", stacklevel=2)
        return config.model_copy(update={"policy": policy})
    used = f"No --policy given; using {_WITHOUT_MODEL} (random edits of numbers and programs, no model) for {other}"
    warnings.warn(f"{used}. Choose a model by a hub id, a directory or openai:MODEL@URL", stacklevel=2)
    return config.model_copy(update={"policy": _WITHOUT_MODEL})


def to_stored(config: RunConfig, addresses: Sequence[str]) -> dict[str, Any]:
    """The configuration as a run keeps it: complete, except that the population has only the user's values, so that
    a resume completes it from the problems' directories as the start did."""
    kept = config.model_dump(mode="json")
    given = config.population.model_dump(mode="json", exclude_unset=True)
    given.setdefault("strategy", config.population.strategy)
    given.setdefault("islands", config.population.islands)
    if given["strategy"] in ("auto", "pareto"):
        given.setdefault("pareto_pool", config.population.pareto_pool)
        given.setdefault("climb", config.population.climb)
    return {**kept, "population": given, "problems": list(addresses), "limit": None}


def population_config(config: RunConfig, problem: Problem) -> PopulationConfig:
    """Defaults, then an OpenEvolve directory's config, then the user's settings."""
    fields = PopulationConfig.model_fields
    settings = {k: v for k, v in problem.settings.items() if k in fields and v is not None}
    if problem.settings:  # whose metrics are features, and span the grid only if the config says so
        settings.setdefault("feature_dimensions", FEATURE_DIMENSIONS)
    given = config.population.model_dump(exclude_unset=True)
    if not given.get("islands"):
        given.pop("islands", None)  # left open
    if not settings and given.keys() == config.population.model_fields_set:
        return config.population
    return PopulationConfig.model_validate({**settings, **given})


def resolve_iterations(config: RunConfig, problems: Sequence[Problem]) -> RunConfig:
    """The iterations that the user left open, as OpenEvolve directories plan them; a run stores them, for its resume
    and for everything that counts them."""
    planned = [problem.settings.get("max_iterations") or _DEFAULT_ITERATIONS for problem in problems]
    if config.iterations is not None or config.iterations_each or not planned:
        return config
    same = len(set(planned)) == 1
    return config.model_copy(update={"iterations": planned[0]} if same else {"iterations_each": planned})


def planned_iterations(config: Mapping[str, Any], problems: int | None = None) -> list[int]:
    """Iterations of each problem, by the config of a run. problems: how many; by default those that the config names"""
    count = max(1, len(config.get("problems") or ())) if problems is None else problems
    if not config.get("iterations") and (each := config.get("iterations_each")):
        return [*each, *[_DEFAULT_ITERATIONS] * count][:count]
    return [int(config.get("iterations") or _DEFAULT_ITERATIONS)] * count


def workers(config: RunConfig, problems: Sequence[Problem]) -> int:
    """How many answers are scored at once."""
    if config.scoring_workers:
        return config.scoring_workers
    asked = [p.settings.get("parallel_evaluations") or 0 for p in problems]
    return max([os.cpu_count() or 1, *asked])


OpenPolicy = Callable[[RunConfig, Sequence[Problem]], Policy]
"""The policy that a configuration names, ready for these problems."""


@dataclass(frozen=True)
class Operator:
    """A policy with its sampling settings: G rollouts of m answers, and how its prompts are built.

    weight: its part of the iterations, relative to the other operators' (1 each); if no operator has one, they take
        turns
    """

    address: str
    policy: Policy
    rollouts: int
    answers: int
    prompt: PromptConfig
    weight: float | None = None


class Resources:
    """The resources of one search, or of several in parallel: the problems, one scorer, and each policy once, however
    many arms sample it. `close` closes the policies and the scorer.

    open_policy: by default, by its address
    scorer: None until the first search makes it
    """

    def __init__(self, open_policy: OpenPolicy | None = None) -> None:
        self.scorer: Scorer | None = None
        self._open_policy = open_policy
        self._problems: dict[str, list[Problem]] = {}
        self._policies: dict[str, Policy] = {}

    def problems(self, config: RunConfig) -> list[Problem]:
        key = repr((config.problems, config.limit, config.weights))
        if key not in self._problems:
            self._problems[key] = resolve_problems(config)
        return self._problems[key]

    def operators(self, config: RunConfig, problems: Sequence[Problem]) -> list[Operator]:
        """The policy, or the policies that the configuration lists, each with the same number of answers per group.
        Raises BadInput if one cannot be prompted with these problems."""
        addresses, total, operators = parse_addresses(config.policy), config.rollouts * config.answers, []
        for address in addresses:
            asked, common = address.without("fresh", "weight"), address.common
            changes: dict[str, Any] = {"policy": str(asked)}
            if common.fresh is not None:
                changes["prompt"] = config.prompt.model_copy(update={"fresh": common.fresh})
            if len(addresses) > 1:  # chains of the length that each was trained to write
                answers = trained_answers(address) or config.answers
                if total % answers or total // answers > MOST_ROLLOUTS:
                    raise BadInput(
                        f"an iteration of {total} answers cannot be made of chains of {answers} ({asked}); see "
                        "--rollouts"
                    )
                changes |= {"answers": answers, "rollouts": total // answers}
            own = config.model_copy(update=changes)
            if (key := policy_key(own)) not in self._policies:
                self._policies[key] = (self._open_policy or open_policy)(own, problems)
            policy = self._policies[key]
            for problem in problems:
                opened = open_format(problem, policy.prompt_format, own.prompt, own.answers)
                if len(addresses) > 1 and isinstance(opened, TunedFormat):
                    raise BadInput(f"{address} searches alone: name no other policy beside it")
            operators.append(Operator(str(address), policy, own.rollouts, own.answers, own.prompt, common.weight))
        return operators

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


def different_policies(configs: Iterable[RunConfig]) -> list[RunConfig]:
    """A configuration of each policy, and of each that learns: when these are loaded, all are checked."""
    return list({(policy_key(config), config.train is None): config for config in configs}.values())


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
    return [weigh_by(problem, weights) for problem in problems.values()] if weights else list(problems.values())


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
