"""The trainer of a policy during its search, checked and built from the search's core."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evo.config.colocated import SearchTraining
from evo.config.run import RunConfig
from evo.errors import BadInput, not_trainable
from evo.search.core import SearchCore
from evo.search.resources import check_apart, problems_at
from evo.training.colocated import CoLocated, Promotion
from islands.groups import shown_answers
from islands.store import Store
from islands.types import RunRecord
from problems.contract import Problem
from problems.scoring import Scorer
from vpo.advantage import METHODS
from vpo.policies.contract import Policy, TrainablePolicy
from vpo.training.config import IMPROVE, TrainConfig, default_rate
from vpo.training.examples import SearchContext

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from vpo.training.trainer import PolicyTrainer


def check_trainable(
    config: RunConfig, problems: Sequence[Problem], policies: Sequence[Policy], held_out: Sequence[Problem]
) -> None:
    """Raise BadInput if this search cannot train its policy by the named method."""
    if config.train is None:
        return
    if len(policies) > 1:
        raise BadInput("--train takes one policy; a search with several operators keeps them as they are")
    policy = policies[0]
    if (name := config.train.method) == IMPROVE:
        raise BadInput(f"{name} learns from stored searches: evo train {name} --from-traces RUN -o DIR")
    method = METHODS[config.train.method]
    if policy.traits.remote:
        _check_server(config, policy)
    if not isinstance(policy, TrainablePolicy) or not policy.traits.logprobs:
        raise not_trainable(config.policy)
    if config.answers > 1 and not method.chain:
        raise BadInput(f"{config.train.method} learns from single answers: --answers must be 1, not {config.answers}")
    if config.rollouts < 2:
        raise BadInput(f"{config.train.method} compares the rollouts of an iteration: --rollouts must be 2 or more")
    if policy.temperature == 0:
        raise BadInput("at temperature 0 all rollouts of an iteration are alike, and nothing can be learned from them")
    check_apart((problem.name for problem in problems), held_out, "searched and checked on; problems of train.check")


def _check_server(config: RunConfig, policy: Policy) -> None:
    """Raise BadInput if a policy on a server cannot be given new weights, or not be proved to have taken them."""
    assert config.train is not None
    if policy.traits.weights == "none":
        later = "evo train METHOD --from-traces RUN can train a copy of it here later"
        if not policy.traits.logprobs:
            later = "its traces cannot train a copy, because its server gives no token ids and log-probabilities"
        raise BadInput(
            f"policy {config.policy} has its weights on a server: it can search and compare, not train, unless they "
            f"are named and adapters can be left there (vllm:ID@URL?adapters=DIR); {later}"
        )
    if policy.traits.weights == "adapter" and not config.train.lora_rank:
        raise BadInput(
            f"policy {config.policy} takes only LoRA adapters: set lora_rank under train in --config, such as 16, and "
            "its server's --max-lora-rank to no less"
        )
    if policy.temperature != 1.0:
        raise BadInput(
            f"policy {config.policy} can be trained only at temperature 1, at which a server reports the "
            "log-probabilities that prove new weights"
        )
    if not policy.traits.logprobs:
        raise BadInput(f"policy {config.policy} gives no token ids and log-probabilities, which training learns from")


def policies_folder(store: Store, run: RunRecord) -> Path:
    """The folder of a run's checkpoints: next to an SQLite file, else in the working directory."""
    name = run.name.replace("/", "-")
    if store.dialect == "sqlite":
        file = Path(str(store.url.database)).absolute()
        return file.with_name(f"{file.stem}-policies") / name
    return Path("evo-policies").absolute() / name


def open_colocated(core: SearchCore, run: RunRecord, scorer: Scorer) -> CoLocated:
    """A trainer of the search's policy, for a search that check_trainable has accepted."""
    store, config, policy = core.store, core.config, core.operators[0].policy
    settings = config.train
    assert isinstance(policy, TrainablePolicy) and settings is not None  # check_trainable
    folder = policies_folder(store, run)
    trainer = open_trainer(policy, settings, store, seed=config.seed, folder=folder)
    promotion = None
    held_out = problems_at(settings.check, settings.check_limit)
    if held_out:
        promotion = Promotion(
            open_candidate(policy, trainer.model),
            held_out,
            scorer,
            every=settings.check_every,
            answers=config.answers,
            total=settings.check_answers,
        )
    searched = {problem_run.record.id: problem_run for problem_run in core.problem_runs}
    return CoLocated(
        store=store,
        run_id=run.id,
        policy=policy,
        trainer=trainer,
        settings=settings,
        solved_at=lambda problem: searched[problem].solved_sequence,
        status=core.status,
        folder=folder,
        card=model_card(run, config, policy.version),
        answers=config.answers,
        promotion=promotion,
    )


def open_trainer(
    policy: TrainablePolicy, settings: SearchTraining, store: Store, *, seed: int, folder: Path
) -> PolicyTrainer:
    """A trainer of a copy of the policy's weights. Its default learning rate is the paper's, or that of the embedded
    policies. A reward of gains measures them over the parent and the inspirations in the group's prompt."""
    from vpo.training.trainer import PolicyTrainer  # imported here: torch takes seconds, and only training needs it

    if settings.lr is None:
        settings = settings.model_copy(update={"lr": default_rate(policy.prompt_format)})
    decided = {name: getattr(settings, name) for name in ("max_staleness", "reward", "shaping")}
    config = TrainConfig.of(settings, seed=seed, **decided)
    model = policy.learner()
    return PolicyTrainer(
        model,
        policy.tokenizer,
        config,
        version=policy.version,
        folder=folder,
        context=lambda group: SearchContext(shown_answers(store, group) if settings.reward == "gain" else ()),
    )


def open_candidate(policy: TrainablePolicy, model: PreTrainedModel) -> Policy:
    """A policy that samples from the learner's current weights, with the settings of the policy that searches. It never
    uses a vLLM engine, even if that policy does: to start one for each check would take longer than the check."""
    from vpo.hf.policy import TransformersPolicy

    return TransformersPolicy(
        model,
        policy.tokenizer,
        version=f"{policy.version}+learner",
        temperature=policy.temperature,
        top_p=policy.top_p,
        max_tokens=policy.max_tokens,
    )


def model_card(run: RunRecord, config: RunConfig, start: str) -> str:
    assert config.train is not None
    return (
        f"# {config.train.method} from {start}\n\nTrained beside the search {run.name}, on its own iterations, by "
        f"evo, commit {run.commit}, seed {run.seed}:\n\n    {run.command}\n"
    )
