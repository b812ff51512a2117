"""From a run's configuration to what learns beside its search."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evo.config.colocated import SearchTraining
from evo.config.run import RunConfig
from evo.errors import BadInput
from evo.search.learner import FrozenLearner, Learner
from evo.search.operator_selection import Operator
from evo.search.problem_run import ProblemRun
from evo.search.resources import problems_at
from evo.search.status import SearchStatus
from evo.training.colocated import CoLocated
from evo.training.promotion import Promotion
from islands.db.store import Store
from islands.queries.groups import rewards_before
from islands.types import RunRecord
from problems.scoring import Scorer
from vpo.advantage import METHODS
from vpo.policies.address import parse_address
from vpo.policies.contract import Policy, TrainablePolicy
from vpo.training.config import EMBEDDED_RATE, PAPER_RATE, TrainConfig

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from vpo.training.trainer import PolicyTrainer


def check_trainable(config: RunConfig, operators: Sequence[Operator]) -> None:
    """BadInput where this search cannot train its policy by the method that it names."""
    if config.train is None:
        return
    if len(operators) > 1:
        raise BadInput("--train takes one policy; a search with several operators keeps them as they are")
    policy = operators[0].policy
    method = METHODS[config.train.method]
    if parse_address(config.policy).kind == "openai":
        later = (
            "evo train METHOD --from-traces RUN can train a copy of it here later"
            if policy.has_logprobs
            else (
                "and as its server gives no token ids and log-probabilities to learn from, nothing can from its traces"
            )
        )
        raise BadInput(
            f"policy {config.policy} has its weights on a server: it can search and compare, not train; {later}"
        )
    if not isinstance(policy, TrainablePolicy) or not policy.has_logprobs:
        raise BadInput(
            f"policy {config.policy} has no weights here to train; name embedded:NAME, a hub id or a directory"
        )
    if config.answers > 1 and not method.chain:
        raise BadInput(f"{config.train.method} learns from single answers: --answers must be 1, not {config.answers}")
    if config.rollouts < 2 and method.credit == "rollout":
        raise BadInput(f"{config.train.method} compares the rollouts of a prompt group: --rollouts must be 2 or more")
    if policy.temperature == 0:
        raise BadInput("at temperature 0 all rollouts of a group are alike, and nothing can be learned from them")
    held_out = {problem.name for problem in problems_at(config.train.check, config.train.check_limit)}
    both = held_out & {problem.name for problem in problems_at(config.problems, config.limit)}
    if both:
        raise BadInput(f"{min(both)} would be searched and checked on; problems of train.check must be others")


def policies_folder(store: Store, run: RunRecord) -> Path:
    """Where the checkpoints of a run lie: beside an SQLite file, else in the working directory."""
    name = run.name.replace("/", "-")
    if store.dialect == "sqlite":
        file = Path(str(store.url.database)).absolute()
        return file.with_name(f"{file.stem}-policies") / name
    return Path("evo-policies").absolute() / name


def open_learner(
    store: Store,
    run: RunRecord,
    config: RunConfig,
    problem_runs: Sequence[ProblemRun],
    operators: Sequence[Operator],
    scorer: Scorer,
    status: SearchStatus,
) -> Learner:
    """Frozen, or a trainer beside the search, for what check_trainable has let through."""
    settings = config.train
    if settings is None:
        return FrozenLearner()
    policy = operators[0].policy
    assert isinstance(policy, TrainablePolicy)  # check_trainable
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
    solved = {problem_run.record.id: problem_run for problem_run in problem_runs}
    return CoLocated(
        store=store,
        run_id=run.id,
        policy=policy,
        trainer=trainer,
        settings=settings,
        solved_at=lambda problem: solved[problem].solved_sequence,
        status=status,
        folder=folder,
        card=model_card(run, config, policy.version),
        answers=config.answers,
        promotion=promotion,
    )


def open_trainer(
    policy: TrainablePolicy, settings: SearchTraining, store: Store, *, seed: int, folder: Path
) -> PolicyTrainer:
    """A trainer over a copy of the policy's weights. The learning rate, where none was given, is the paper's, or that
    of the embedded policies; what archive_vpo takes the gain over is all that the search had found before a group."""
    from vpo.training.trainer import PolicyTrainer  # torch: seconds that a search which trains nothing is spared

    rate = PAPER_RATE if policy.prompt_format == "chat" else EMBEDDED_RATE
    settings = settings if settings.lr is not None else settings.model_copy(update={"lr": rate})
    config = TrainConfig.of(settings, seed=seed, most_behind=settings.most_behind)
    model = policy.learner()
    return PolicyTrainer(
        model,
        policy.tokenizer,
        config,
        version=policy.version,
        folder=folder,
        archive=lambda group: rewards_before(store, group.problem, group.sequence) or None,
    )


def open_candidate(policy: TrainablePolicy, model: PreTrainedModel) -> Policy:
    """A policy that samples from the learner's weights as they are, with the settings of the one that searches. Where a
    vLLM engine searches, it is none itself: to build one for every check would take longer than the check."""
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
        f"# {config.train.method} from {start}\n\nTrained beside the search {run.name}, on its own prompt groups, by "
        f"evo, commit {run.commit}, seed {run.seed}:\n\n    {run.command}\n"
    )
