"""From a TrainRun, or from its directory, to a training that is ready to run. Faults of the input are found before
anything is written."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from evo.config.parse import parse
from evo.config.run import PromptConfig, RunConfig
from evo.config.train import RESUMABLE, TrainRun, run_and_address
from evo.errors import BadInput, check_whole_sampling, not_trainable
from evo.evaluation.evaluate import open_formats
from evo.prompts.registry import open_format
from evo.provenance import source_commit
from evo.search.resources import check_apart, open_policy, problems_at
from evo.training.directory import TrainingDirectory
from evo.training.improve import Improvements
from evo.training.loop import GroupSource, Training
from evo.training.on_policy import OnPolicy, StoredArchives
from evo.training.stored import StoredGroups, open_stored
from islands.store import Store
from problems.contract import Problem
from problems.sandbox import set_sandbox_mode
from problems.scoring import Scorer
from vpo.policies.address import parse_address
from vpo.policies.contract import LocalPolicy
from vpo.policies.registry import policy_at
from vpo.training.checkpoint import load_state
from vpo.training.config import IMPROVE, TrainConfig, default_rate
from vpo.training.trainer import PolicyTrainer


def begin_training(run: TrainRun, output: str, command: str) -> Training:
    """Begin a training run in the directory `output`, or continue the one there, which has the same settings."""
    directory = TrainingDirectory(output)
    if directory.begun(run):
        budgets = {name: getattr(run, name) for name in RESUMABLE if name in run.model_fields_set}
        return resume_training(output, budgets)
    about = {"command": command, "commit": source_commit(), "given": run.stored()}
    return _open(run, run.policy, directory, about, {})


def resume_training(folder: str, overrides: Mapping[str, Any]) -> Training:
    """A stored training run, ready to continue from its last checkpoint, or from the start if it has none yet.
    `overrides` may raise its budgets and name the new place of its traces."""
    directory = TrainingDirectory(folder)
    about = directory.settings()
    run = parse(TrainRun, {**about["config"], **overrides}, f"--resume {folder}")
    checkpoint = next(reversed(directory.checkpoints()), None)
    if checkpoint is None:
        return _open(run, run.policy, directory, about, {})
    state = load_state(checkpoint)
    weights = run.policy if run.lora_rank else str(parse_address(run.policy).at(checkpoint))
    return _open(run, weights, directory, about, state)


def _open(
    run: TrainRun, weights: str, directory: TrainingDirectory, about: dict[str, Any], state: Mapping[str, Any]
) -> Training:
    """weights: the address of the policy with the weights to start from, which is the run's own at first; state: of a
    checkpoint, {} at first."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise BadInput("evo train runs in one process; vpo.trl.VPOTrainer trains in several, with accelerate")
    with contextlib.ExitStack() as opened:
        stored = _open_stored(run, about, opened)
        run = run if stored is None else stored.run
        problems, held_out = _open_problems(run, stored)
        policy = _open_policy(run, weights, [*problems, *held_out])
        open_formats(held_out, policy, run.chain)  # raises if they do not fit together
        if run.lr is None:
            run = run.model_copy(update={"lr": default_rate(policy.prompt_format)})
        scorer = Scorer()
        source: GroupSource = _open_sampling(run, policy, scorer, problems, opened) if stored is None else stored
        if stored is not None:
            stored.fit(policy)
            about["traces"] = [each.describe() for each in stored.runs]
        about |= {"start": about.get("start", policy.version), "config": run.stored()}
        about |= {"steps": source.steps, "held_out": len(held_out)}
        trainer = _open_trainer(run, weights, policy, source, about["start"], directory)
        source.check(trainer.config)
        training = Training(
            run=run, source=source, policy=policy, trainer=trainer, scorer=scorer, directory=directory, about=about,
            held_out=held_out,
        )  # fmt: skip
        if state:
            training.restore(state)
        opened.enter_context(directory.lock())
        directory.write_settings(about)
        directory.rewind(training.status.step if state else -1)
        training.opened = opened.pop_all()
        return training


def _open_stored(
    run: TrainRun, about: Mapping[str, Any], opened: contextlib.ExitStack
) -> Improvements | StoredGroups | None:
    if run.from_traces:
        began = about.get("traces")
        if run.method == IMPROVE:
            return open_stored(run, began, Improvements, opened)
        return open_stored(run, began, StoredGroups, opened)
    return None


def _open_problems(run: TrainRun, stored: Improvements | StoredGroups | None) -> tuple[list[Problem], list[Problem]]:
    """(those that are learned from, those held out)."""
    set_sandbox_mode(run.sandbox)
    problems = problems_at(run.problems, run.limit, run.weights)
    held_out = problems_at(run.evaluate, run.evaluate_limit, run.weights)
    check_apart({problem.name for problem in problems} if stored is None else stored.problem_names, held_out)
    return problems, held_out


def _open_sampling(
    run: TrainRun, policy: LocalPolicy, scorer: Scorer, problems: Sequence[Problem], opened: contextlib.ExitStack
) -> OnPolicy:
    check_whole_sampling(policy.top_p)
    styles = [open_format(problem, policy.prompt_format, PromptConfig(), run.chain) for problem in problems]
    archives = None
    if run.archive_run is not None:
        name, address = run_and_address(run.archive_run, run.db)
        archives = StoredArchives(opened.enter_context(Store.open(address, read_only=True)), name, problems)
    return OnPolicy(run, policy, scorer, problems, styles, archives)


def _open_trainer(
    run: TrainRun, weights: str, policy: LocalPolicy, source: GroupSource, start: str, directory: TrainingDirectory
) -> PolicyTrainer:
    # without the trust region, many steps on traces would let the policy drift from the one that wrote them
    decided = {"seed": run.seed, "reward": run.reward, "steps": source.steps}
    trainer = PolicyTrainer(
        policy.open_model(),
        policy.tokenizer,
        TrainConfig.of(run, **decided, trust=isinstance(source, StoredGroups)),
        version=start,
        reference=_open_reference(run, weights),
        folder=directory.folder,
    )
    if isinstance(source, OnPolicy):
        trainer.find_goal = source.find_goal
    return trainer


def _open_policy(run: TrainRun, weights: str, problems: Sequence[Problem]) -> LocalPolicy:
    if (address := parse_address(run.policy)).kind == "vllm":
        raise BadInput(
            f"evo train samples from the model that it trains, which {run.policy} keeps in a separate engine; name "
            f"{address.model}, or train during a search: evo run --train {run.method}"
        )
    # a policy that never samples needs no limit
    limit = run.max_new_tokens or (None if problems else 1)
    asked = {"temperature": run.temperature, "max_new_tokens": limit, "answers": run.chain, "dtype": run.dtype}
    policy = open_policy(RunConfig(policy=weights, device=run.device, **asked), problems)
    if not isinstance(policy, LocalPolicy):
        raise not_trainable(run.policy)
    return policy


def _open_reference(run: TrainRun, weights: str) -> Any:
    """The policy where training started, which a resumed run still compares with; None while that is the one that is
    trained."""
    if not run.has_reference or weights == run.policy:
        return None
    start = policy_at(run.policy, device=run.device)
    assert isinstance(start, LocalPolicy)  # as the one that is trained
    return start.open_model().float().requires_grad_(False)
