"""From a TrainRun, or from its directory, to a training that is ready to run. Faults of the input are found before
anything is written."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evo.config.parse import parse
from evo.config.run import PromptConfig, RunConfig, complete_trainer
from evo.config.train import TrainRun
from evo.errors import BadInput, not_trainable
from evo.evaluation.evaluate import open_formats
from evo.provenance import source_commit
from evo.search.resources import check_apart, open_policy, problems_at
from evo.training.curriculum import open_stored_archives
from evo.training.improve import ImitationTraining, Improvements, find_improvements
from evo.training.loop import Training
from evo.training.on_policy import OnPolicyTraining
from evo.training.run_directory import TrainingRecord
from evo.training.stored import (
    LearningSource,
    OfflineTraining,
    StoredGroups,
    StoredTraining,
    choose_groups,
    keep_fitting,
    open_stored,
    plan_steps,
    resolve_settings,
)
from problems.contract import Problem
from problems.sandbox import set_sandbox_mode
from problems.scoring import Scorer
from vpo.policies.address import parse_address
from vpo.policies.contract import LocalPolicy
from vpo.policies.registry import load_policy
from vpo.training.checkpoint import load_state
from vpo.training.config import IMPROVE, TrainConfig, default_rate
from vpo.training.trainer import PolicyTrainer

if TYPE_CHECKING:
    from accelerate import Accelerator

OnLog = Callable[[dict[str, Any]], None]


def begin(run: TrainRun, output: str, command: str, on_log: OnLog | None = None) -> Training[Any]:
    """Begin a new training run in the directory `output`."""
    with contextlib.ExitStack() as opened:
        stored = _open_stored(run, None, opened)
        run = resolve_settings(run, stored) if isinstance(stored, StoredGroups) else run
        about: dict[str, Any] = {"command": command, "commit": source_commit()}
        if stored is not None:
            about |= {"traces": [source.describe() for source in stored.runs]}
        training = _open_training(run, run.policy, TrainingRecord(output), about, stored, opened, on_log)
        if isinstance(training, StoredTraining):
            training.check_teaches()
        if training.main:
            TrainingRecord.create(output, training.about)
        training.opened = opened.pop_all()
        return training


def resume(folder: str, overrides: dict[str, Any], on_log: OnLog | None = None) -> Training[Any]:
    """A stored training run, ready to continue from its last checkpoint, or from the start if it has none yet.
    `overrides` may raise its budgets and name the new place of its traces."""
    record, about = TrainingRecord.open(folder)
    run = parse(TrainRun, {**complete_trainer(about["config"]), **overrides}, f"--resume {folder}")
    with contextlib.ExitStack() as opened:
        stored = _open_stored(run, about.get("traces"), opened)
        checkpoint = next(reversed(record.checkpoints()), None)
        weights, state = run.policy, {}
        if checkpoint is not None:
            state = load_state(checkpoint)
            began, processes = len(state["curricula"]), int(os.environ.get("WORLD_SIZE", "1"))
            if began != processes:
                raise BadInput(f"--resume {folder}: was trained by {began} processes, not {processes}")
            weights = run.policy if run.lora_rank else str(parse_address(run.policy).at(checkpoint))
        training = _open_training(run, weights, record, about, stored, opened, on_log)
        if state:
            training.restore({**state["loop"], "curriculum": state["curricula"][training.rank]})
            training.trainer.restore(state["trainer"])
            training.policy.version = training.trainer.version
        if training.main:
            record.rewind(training.status.step if state else -1)
            record.write_settings({**about, "config": run.stored()})
        training.opened = opened.pop_all()
        return training


def _open_stored(
    run: TrainRun, began: Sequence[Mapping[str, Any]] | None, opened: contextlib.ExitStack
) -> LearningSource | None:
    """What `run` learns from in stored runs, None if it samples."""
    if not run.from_traces:
        return None
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise BadInput("training from traces runs in one process; start it without accelerate launch")
    choose: Callable[..., LearningSource] = find_improvements if run.method == IMPROVE else choose_groups
    return open_stored(run, began, choose, opened)


def _open_training(
    run: TrainRun,
    weights: str,
    record: TrainingRecord,
    about: dict[str, Any],
    stored: LearningSource | None,
    opened: contextlib.ExitStack,
    on_log: OnLog | None,
) -> Training[Any]:
    """weights: the address of the policy with the weights to start from, which is the run's own at first."""
    accelerator = _open_accelerator(run)
    if not run.problems and stored is None:
        raise BadInput("no problem named to learn from; try `evo train vpo maze:train -o DIR`")
    set_sandbox_mode(run.sandbox)
    problems, held_out = problems_at(run.problems, run.limit), problems_at(run.evaluate, run.evaluate_limit)
    check_apart({problem.name for problem in problems} if stored is None else stored.problem_names, held_out)
    if run.asked_temperature == 0 and stored is None:
        raise BadInput("at temperature 0 all rollouts of a group are alike, and nothing can be learned from them")
    device = run.device if accelerator is None else str(accelerator.device)
    sampling = RunConfig(
        policy=weights,
        temperature=run.temperature,
        # a policy that never samples needs no limit
        max_new_tokens=run.max_new_tokens or (None if problems or held_out else 1),
        answers=run.chain,
        device=device,
        dtype=run.dtype,
    )
    policy = _open_policy(run, sampling, [*problems, *held_out])
    styles = open_formats(problems, policy, run.chain, PromptConfig(prefill=run.begun_share))
    open_formats(held_out, policy, run.chain)  # raises if they do not fit together
    if isinstance(stored, StoredGroups):
        keep_fitting(stored, policy)
    if run.lr is None:
        run = run.model_copy(update={"lr": default_rate(policy.prompt_format)})
    about = {**about, "start": about.get("start", policy.version), "config": run.stored()}
    reference = None
    if run.has_reference and weights != run.policy:  # a resumed run still uses the policy it started from
        start = load_policy(run.policy, device=device)
        assert isinstance(start, LocalPolicy)  # as the one that is trained
        reference = start.model.float().requires_grad_(False)
    steps = plan_steps(run, stored) if isinstance(stored, StoredGroups) else run.steps
    # without the trust region, many steps on traces would let the policy drift from the one that wrote them
    decided = {"seed": run.seed, "reward": run.reward, "shaping": run.shaping, "steps": steps}
    config = TrainConfig.of(run, **decided, trust=isinstance(stored, StoredGroups))
    trainer = PolicyTrainer(
        policy.model,
        policy.tokenizer,
        config,
        version=about["start"],
        reference=reference,
        accelerator=accelerator,
        folder=record.folder,
    )
    parts: dict[str, Any] = {
        **{"run": run, "steps": steps, "policy": policy, "trainer": trainer, "scorer": Scorer(), "record": record},
        **{"about": about, "held_out": held_out, "accelerator": accelerator, "on_log": on_log},
    }
    if isinstance(stored, Improvements):
        return ImitationTraining(**parts, stored=stored, problems=_problems_of(stored))
    if isinstance(stored, StoredGroups):
        return OfflineTraining(**parts, stored=stored)
    archives = open_stored_archives(run, problems, opened)
    return OnPolicyTraining(**parts, problems=problems, styles=styles, archives=archives)


def _open_policy(run: TrainRun, sampling: RunConfig, problems: Sequence[Problem]) -> LocalPolicy:
    if (address := parse_address(run.policy)).kind == "vllm":
        raise BadInput(
            f"evo train samples from the model that it trains, which {run.policy} keeps in a separate engine; name "
            f"{address.model}, or train during a search: evo run --train {run.method}"
        )
    policy = open_policy(sampling, problems)
    if not isinstance(policy, LocalPolicy):
        raise not_trainable(run.policy)
    return policy


def _problems_of(improvements: Improvements) -> dict[tuple[int, int], Problem]:
    """The problems of the lessons, resolved by their addresses. Raises BadInput, BadAddress."""
    by_name = {problem.name: problem for problem in problems_at(sorted(improvements.problem_names))}
    for lost in sorted(improvements.problem_names - by_name.keys()):
        raise BadInput(f"{lost} cannot be found again, so its answers can teach nothing")
    return {key: by_name[record.address] for key, record in improvements.records().items()}


def _open_accelerator(run: TrainRun) -> Accelerator | None:
    """accelerate's handle if several processes train together (`accelerate launch -m evo train ...`), each with the
    whole model; otherwise None, without its import."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return None
    if os.environ.get("ACCELERATE_USE_FSDP", "").lower() in ("1", "true", "yes"):
        raise BadInput("evo train does not shard a model over processes; vpo.trl.VPOTrainer does, with --use_fsdp")
    import torch
    from accelerate import Accelerator

    return Accelerator(cpu=run.device == "cpu" or not torch.cuda.is_available())
