"""From a run's configuration to the learner of its search."""

from __future__ import annotations

from collections.abc import Sequence

from evo.config.run import RunConfig
from evo.errors import BadInput, not_trainable
from evo.search.core import SearchCore
from evo.search.operator_selection import Operator
from evo.search.resources import check_apart
from evo.search.sampler import FrozenLearner, Learner
from islands.types import RunRecord
from problems.contract import Problem
from problems.scoring import Scorer
from vpo.advantage import METHODS
from vpo.policies.address import parse_address
from vpo.policies.contract import Policy, SharedEngines, TakesAdapters, TrainablePolicy
from vpo.training.config import BY_EXAMPLES


def check_trainable(
    config: RunConfig, problems: Sequence[Problem], operators: Sequence[Operator], held_out: Sequence[Problem]
) -> None:
    """Raise BadInput if this search cannot train its policy by the named method."""
    if config.train is None:
        return
    if len(operators) > 1:
        raise BadInput("--train takes one policy; a search with several operators keeps them as they are")
    policy = operators[0].policy
    if (name := config.train.method) in BY_EXAMPLES:
        raise BadInput(f"{name} learns from stored searches: evo train {name} --from-traces RUN -o DIR")
    method = METHODS[config.train.method]
    if parse_address(config.policy).kind == "openai" and not isinstance(policy, TrainablePolicy):
        later = (
            "evo train METHOD --from-traces RUN can train a copy of it here later"
            if policy.has_logprobs
            else ("and its traces cannot train a copy, because its server gives no token ids and log-probabilities")
        )
        raise BadInput(
            f"policy {config.policy} has its weights on a server: it can search and compare, not train, unless a copy "
            f"of them is named (?weights=ID&adapters=DIR); {later}"
        )
    if isinstance(policy, TakesAdapters):
        _check_adapter(config, policy)
    if isinstance(policy, SharedEngines) and not policy.takes_weights:
        raise BadInput(
            f"policy {config.policy} has its engines on the cluster, where other searches use them; to train it during "
            "its search leave out --ray, or ?replicas="
        )
    if not isinstance(policy, TrainablePolicy) or not policy.has_logprobs:
        raise not_trainable(config.policy)
    if config.answers > 1 and not method.chain:
        raise BadInput(f"{config.train.method} learns from single answers: --answers must be 1, not {config.answers}")
    if config.rollouts < 2 and method.credit == "rollout":
        raise BadInput(f"{config.train.method} compares the rollouts of a prompt group: --rollouts must be 2 or more")
    if policy.temperature == 0:
        raise BadInput("at temperature 0 all rollouts of a group are alike, and nothing can be learned from them")
    check_apart((problem.name for problem in problems), held_out, "searched and checked on; problems of train.check")


def _check_adapter(config: RunConfig, policy: Policy) -> None:
    """Raise BadInput if a policy that takes only adapters cannot be trained with them."""
    assert config.train is not None
    if not config.train.lora_rank:
        raise BadInput(
            f"policy {config.policy} takes only LoRA adapters: set lora_rank under train in --config, such as 16, and "
            "its server's --max-lora-rank to no less"
        )
    if policy.temperature != 1.0:
        raise BadInput(
            f"policy {config.policy} can be trained only at temperature 1, at which a server reports the "
            "log-probabilities that prove new weights"
        )
    if not policy.has_logprobs:
        raise BadInput(f"policy {config.policy} gives no token ids and log-probabilities, which training learns from")


def open_learner(core: SearchCore, run: RunRecord, scorer: Scorer) -> Learner:
    """A frozen learner, or one that trains the policy during the search, if check_trainable has accepted it."""
    if core.config.train is None:
        return FrozenLearner()
    from evo.runs.colocated import open_colocated  # slow to import: evaluation and training

    return open_colocated(core, run, scorer)
