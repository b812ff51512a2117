"""The trainer of a policy during its search, built from the search's core."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evo.config.colocated import SearchTraining
from evo.config.run import RunConfig
from evo.search.core import SearchCore
from evo.search.resources import problems_at
from evo.training.colocated import CoLocated, Promotion
from islands.db.store import Store
from islands.queries.groups import shown_answers
from islands.types import RunRecord
from problems.scoring import Scorer
from vpo.policies.contract import Policy, TrainablePolicy
from vpo.training.config import TrainConfig, default_rate
from vpo.training.examples import SearchContext

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from vpo.training.trainer import PolicyTrainer


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
    decided = {name: getattr(settings, name) for name in ("most_behind", "reward", "shaping")}
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
        f"# {config.train.method} from {start}\n\nTrained beside the search {run.name}, on its own prompt groups, by "
        f"evo, commit {run.commit}, seed {run.seed}:\n\n    {run.command}\n"
    )
