"""From a TrainRun, or from its directory, to a training loop that is ready to run. Faults of the input are found before
anything is written."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evo.config.colocated import complete_trainer
from evo.config.parse import parse
from evo.config.run import PromptConfig, RunConfig
from evo.config.train import TrainRun
from evo.errors import BadInput, not_trainable
from evo.evaluation.evaluate import evaluate as evaluate_policy
from evo.evaluation.evaluate import open_formats
from evo.prompts.contract import PromptFormat
from evo.provenance import source_commit
from evo.search.resources import check_apart, open_policy, problems_at
from evo.search.stop import Stop, StopReason
from evo.training.curriculum import open_stored_archives
from evo.training.improve import ImitationTraining, Improvements, find_improvements
from evo.training.loop import SteppedTraining
from evo.training.on_policy import TrainingLoop
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
from problems.sandbox.shared import set_sandbox_mode
from problems.scoring import Scorer
from vpo.policies.address import parse_address
from vpo.policies.contract import LocalPolicy, Policy
from vpo.policies.registry import load_policy
from vpo.training.checkpoint import load_state, save_checkpoint
from vpo.training.config import IMPROVE, TrainConfig, default_rate
from vpo.training.trainer import PolicyTrainer

if TYPE_CHECKING:
    from accelerate import Accelerator
    from transformers import PreTrainedModel

EVALUATION_STREAM_SEED = 1_000_003
"""Held-out answers are drawn with a separate seed, the same in every evaluation of every run."""
SHOWN = ("best@", "solve@", "diversity", "written", "valid", "distinct_vectors")


@dataclass
class Training:
    """A training run with its open resources; `close` releases them."""

    loop: SteppedTraining[Any]
    record: TrainingRecord
    run: TrainRun
    policy: LocalPolicy
    scorer: Scorer
    accelerator: Accelerator | None
    about: dict[str, Any]

    @property
    def main(self) -> bool:
        """Whether this process writes and prints."""
        return is_main(self.accelerator)

    def save(self) -> None:
        """Save a checkpoint; of the older ones, only the newest are kept (`keep`)."""
        trainer, state = self.loop.trainer, self.loop.state()
        if self.accelerator is not None and self.accelerator.num_processes > 1:
            from accelerate.utils import gather_object

            curricula = gather_object([state.pop("curriculum")])
        else:
            curricula = [state.pop("curriculum")]
        if not self.main:
            return
        self.record.check_claim()
        step = self.loop.status.step
        self._write(self.record.place(step), {"loop": state, "curricula": curricula, "trainer": trainer.state()})
        self.record.prune(self.run.keep)

    def finish(self) -> None:
        """Write the final policy with its card to the top of the directory."""
        if self.main:
            self.record.check_claim()
            self._write(self.record.folder)
        if self.accelerator is not None:
            self.accelerator.end_training()

    def _write(self, folder: Path, state: Mapping[str, Any] | None = None) -> None:
        tokenizer, model = self.policy.tokenizer, self.loop.trainer.model
        card = self.record.card(self.run, self.about, self.loop.source, self.loop.notes())
        trained = {"method": self.run.method, "answers": self.run.chain, "start": self.about["start"]}
        save_checkpoint(model, tokenizer, folder, card, state, trained=trained)

    async def run_to_end(
        self, interruptible: Callable[[Callable[[Stop], None]], contextlib.AbstractContextManager[None]]
    ) -> Stop:
        """Train to the end or to an interrupt, write the final policy at the end, and close; why it ended."""
        try:
            with interruptible(self.loop.stop):
                stop = await self.loop.run()
            if stop.reason is not StopReason.INTERRUPTED:
                self.finish()
            return stop
        finally:
            await self.close()

    async def close(self) -> None:
        await self.policy.close()
        self.scorer.close()
        self.loop.close()


def begin(run: TrainRun, output: str, command: str, on_log: Callable[[dict[str, Any]], None] | None = None) -> Training:
    """Begin a new training run in the directory `output`."""
    with contextlib.ExitStack() as opened:
        stored = _open_stored(run, None, opened)
        run = resolve_settings(run, stored) if isinstance(stored, StoredGroups) else run
        accelerator = open_accelerator(run)
        prepared = prepare(run, run.policy, accelerator, stored)
        if run.lr is None:
            run = run.model_copy(update={"lr": default_rate(prepared.policy.prompt_format)})
        about = {
            "command": command,
            "commit": source_commit(),
            "start": prepared.policy.version,
            "config": run.stored(),
            **({} if stored is None else {"traces": [source.describe() for source in stored.runs]}),
        }
        record = TrainingRecord(output)
        training = _assemble(run, prepared, record, accelerator, about, on_log)
        if isinstance(training.loop, StoredTraining):
            training.loop.check_teaches()
        if training.main:
            TrainingRecord.create(output, about)
            record.claim()
        opened.pop_all()
        return training


def resume(folder: str, overrides: dict[str, Any], on_log: Callable[[dict[str, Any]], None] | None = None) -> Training:
    """A stored training run, ready to continue from its last checkpoint, or from the start if it has none yet.
    `overrides` may raise its budgets and name the new place of its traces."""
    record, about = TrainingRecord.open(folder)
    run = parse(TrainRun, {**complete_trainer(about["config"]), **overrides}, f"--resume {folder}")
    with contextlib.ExitStack() as opened:
        stored = _open_stored(run, about.get("traces"), opened)
        accelerator = open_accelerator(run)
        checkpoint = next(reversed(record.checkpoints()), None)
        weights, state = run.policy, {}
        if checkpoint is not None:
            state = load_state(checkpoint)
            processes = 1 if accelerator is None else accelerator.num_processes
            if (began := len(state["curricula"])) != processes:
                raise BadInput(f"--resume {folder}: was trained by {began} processes, not {processes}")
            weights = run.policy if run.lora_rank else str(parse_address(run.policy).at(checkpoint))
        training = _assemble(run, prepare(run, weights, accelerator, stored), record, accelerator, about, on_log)
        loop = training.loop
        if state:
            loop.restore({**state["loop"], "curriculum": state["curricula"][loop.rank]})
            loop.trainer.restore(state["trainer"])
            training.policy.version = loop.trainer.version
        if training.main:
            record.claim()
            record.rewind(loop.status.step if state else -1)
            record.write_settings({**about, "config": run.stored()})
        opened.pop_all()
        return training


def _open_stored(
    run: TrainRun, began: Sequence[Mapping[str, Any]] | None, opened: contextlib.ExitStack
) -> LearningSource | None:
    """What `run` learns from in stored runs, None if it samples. `opened` closes it."""
    if not run.from_traces:
        return None
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise BadInput("training from traces runs in one process; start it without accelerate launch")
    choose: Callable[..., LearningSource] = find_improvements if run.method == IMPROVE else choose_groups
    stored = open_stored(run, began, choose)
    opened.callback(stored.close)
    return stored


def _problems_of(improvements: Improvements) -> dict[tuple[int, int], Problem]:
    """The problems of the lessons, resolved by their addresses. Raises BadInput, BadAddress."""
    by_name = {problem.name: problem for problem in problems_at(sorted(improvements.problem_names))}
    for lost in sorted(improvements.problem_names - by_name.keys()):
        raise BadInput(f"{lost} cannot be found again, so its answers can teach nothing")
    return {key: by_name[record.address] for key, record in improvements.records().items()}


def _assemble(
    run: TrainRun,
    prepared: PreparedTraining,
    record: TrainingRecord,
    accelerator: Accelerator | None,
    about: dict[str, Any],
    on_log: Callable[[dict[str, Any]], None] | None,
) -> Training:
    policy, scorer, stored = prepared.policy, Scorer(), prepared.stored
    by_reward = isinstance(stored, StoredGroups)
    config = TrainConfig.of(
        run,
        seed=run.seed,
        reward=run.reward,
        shaping=run.shaping,
        steps=plan_steps(run, stored) if isinstance(stored, StoredGroups) else run.steps,
        # without this limit, many steps on traces would let the policy drift from the one that wrote them
        trust=by_reward,
    )
    trainer = PolicyTrainer(
        policy.model,
        policy.tokenizer,
        config,
        version=about["start"],
        reference=prepared.reference,
        accelerator=accelerator,
        folder=record.folder,
    )
    main = is_main(accelerator)

    def log(line: dict[str, Any]) -> None:
        if main:
            record.log(line)
            if on_log is not None:
                on_log(line)

    async def held_out(policy: Policy) -> dict[str, float]:
        metrics = await _held_out_metrics(policy, prepared.held_out, run, scorer) if main else {}
        if accelerator is not None:
            accelerator.wait_for_everyone()
        return metrics

    evaluate = held_out if prepared.held_out else None
    loop: SteppedTraining[Any]
    if isinstance(stored, Improvements):
        loop = ImitationTraining(run, stored, _problems_of(stored), policy, trainer, log=log, evaluate=evaluate)
    elif isinstance(stored, StoredGroups):
        loop = OfflineTraining(run, stored, policy, trainer, log=log, evaluate=evaluate)
    else:
        loop = TrainingLoop(
            run,
            prepared.problems,
            prepared.styles,
            policy,
            trainer,
            scorer,
            log=log,
            evaluate=evaluate,
            accelerator=accelerator,
            stored=open_stored_archives(run, prepared.problems),
        )
    training = Training(loop, record, run, policy, scorer, accelerator, about)
    loop.save = training.save
    return training


async def _held_out_metrics(
    policy: Policy, problems: Sequence[Problem], run: TrainRun, scorer: Scorer
) -> dict[str, float]:
    evaluation = await evaluate_policy(
        policy,
        problems,
        answers=run.chain,
        total=run.evaluate_answers,
        seeds=[EVALUATION_STREAM_SEED],
        scorer=scorer,
    )
    if evaluation.faults:
        name, fault = next(iter(evaluation.faults.items()))
        raise BadInput(f"held-out {name} cannot be judged: {fault}")
    means = {name: evaluation.mean(name) for name in evaluation.metrics if name.startswith(SHOWN)}
    return {name: value for name, value in means.items() if value is not None}


def is_main(accelerator: Accelerator | None) -> bool:
    """Whether this process writes and prints."""
    return accelerator is None or accelerator.is_main_process


def open_accelerator(run: TrainRun) -> Accelerator | None:
    """accelerate's handle if several processes train together (`accelerate launch -m evo train ...`), each with the
    whole model; otherwise None, without its import."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return None
    if os.environ.get("ACCELERATE_USE_FSDP", "").lower() in ("1", "true", "yes"):
        raise BadInput("evo train does not shard a model over processes; vpo.trl.VPOTrainer does, with --use_fsdp")
    import torch
    from accelerate import Accelerator

    return Accelerator(cpu=run.device == "cpu" or not torch.cuda.is_available())


@dataclass
class PreparedTraining:
    """Problems with their prompt formats, held-out problems, and a policy that can learn."""

    problems: list[Problem]
    styles: list[PromptFormat]
    held_out: list[Problem]
    policy: LocalPolicy
    reference: PreTrainedModel | None
    stored: LearningSource | None


def prepare(
    run: TrainRun, weights: str, accelerator: Accelerator | None, stored: LearningSource | None
) -> PreparedTraining:
    if not run.problems and stored is None:
        raise BadInput("no problem named to learn from; try `evo train vpo maze:train -o DIR`")
    set_sandbox_mode(run.sandbox)
    problems = problems_at(run.problems, run.limit)
    held_out = problems_at(run.evaluate, run.evaluate_limit)
    learned = {problem.name for problem in problems} if stored is None else stored.problem_names
    check_apart(learned, held_out)
    if (address := parse_address(run.policy)).kind == "vllm":
        raise BadInput(
            f"evo train samples from the model that it trains, which {run.policy} keeps in a separate engine; name "
            f"{address.model}, or train during a search: evo run --train {run.method}"
        )
    device = run.device if accelerator is None else str(accelerator.device)
    if run.asked_temperature == 0 and stored is None:
        raise BadInput("at temperature 0 all rollouts of a group are alike, and nothing can be learned from them")
    asked = RunConfig(
        policy=weights,
        temperature=run.temperature,
        # a policy that never samples needs no limit
        max_new_tokens=run.max_new_tokens or (None if problems or held_out else 1),
        answers=run.chain,
        device=device,
        dtype=run.dtype,
    )
    policy = open_policy(asked, [*problems, *held_out])
    if not isinstance(policy, LocalPolicy):
        raise not_trainable(run.policy)
    styles = open_formats(problems, policy, run.chain, PromptConfig(prefill=run.begun_share))
    open_formats(held_out, policy, run.chain)  # raises if they do not fit together
    reference = None
    if run.has_reference and weights != run.policy:  # a resumed run still uses the policy it started from
        start = load_policy(run.policy, device=device)
        assert isinstance(start, LocalPolicy)  # as the one that is trained
        reference = start.model.float().requires_grad_(False)
    if isinstance(stored, StoredGroups):
        keep_fitting(stored, policy)
    return PreparedTraining(problems, styles, held_out, policy, reference, stored)
