"""From a TrainRun, or from the directory of one, to a training loop that is ready to go.

Everything that can be wrong with the input is found here, before anything is written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evo.config.parse import parse
from evo.config.run import PromptConfig, RunConfig
from evo.config.train import TrainRun
from evo.config.trainer import stored_trainer
from evo.errors import BadInput
from evo.evaluation.evaluate import evaluate as evaluate_policy
from evo.evaluation.evaluate import open_formats
from evo.prompts.contract import PromptFormat
from evo.search.defaults import source_commit
from evo.search.resources import open_policy, problems_at
from evo.training.loop import SteppedTraining
from evo.training.offline import OfflineTraining, described, keep_fitting, planned_steps, settled
from evo.training.on_policy import TrainingLoop
from evo.training.processes import is_main, open_accelerator
from evo.training.run_directory import TrainingRecord
from evo.training.trace_selection import open_traces
from evo.training.traces import Traces
from problems.contract import Problem
from problems.sandbox.shared import set_sandbox_mode
from problems.scoring import Scorer
from vpo.policies.address import parse_address
from vpo.policies.contract import LocalPolicy, Policy
from vpo.policies.registry import load_policy
from vpo.training.checkpoint import load_state, save_checkpoint, save_model
from vpo.training.config import EMBEDDED_RATE, PAPER_RATE, TrainConfig
from vpo.training.trainer import PolicyTrainer

EVALUATION_STREAM_SEED = 1_000_003
"""Held-out answers are drawn with a seed of their own, the same in every evaluation of every run."""
SHOWN = ("best@", "solve@", "diversity", "written", "valid", "distinct_vectors")


@dataclass
class Training:
    """A training run with all it holds open; `close` gives everything back."""

    loop: SteppedTraining
    record: TrainingRecord
    run: TrainRun
    policy: LocalPolicy
    scorer: Scorer
    accelerator: Any
    about: dict[str, Any]

    @property
    def main(self) -> bool:
        """Whether this process writes and prints."""
        return is_main(self.accelerator)

    def save(self) -> None:
        """A checkpoint of this moment; older ones beyond `keep` go."""

        trainer, state = self.loop.trainer, self.loop.state()
        if self.accelerator is not None and self.accelerator.num_processes > 1:
            from accelerate.utils import gather_object

            curricula = gather_object([state.pop("curriculum")])
        else:
            curricula = [state.pop("curriculum")]
        if not self.main:
            return
        step = self.loop.status.step
        save_checkpoint(
            trainer.model,
            self.policy.tokenizer,
            self.record.place(step),
            self._card(),
            {"loop": state, "curricula": curricula, "trainer": trainer.state()},
            trained=self._trained(),
        )
        self.record.prune(self.run.keep)

    def finish(self) -> None:
        """The final policy with its card, at the top of the directory."""

        if self.main:
            model, tokenizer = self.loop.trainer.model, self.policy.tokenizer
            save_model(model, tokenizer, self.record.folder, self._card(), trained=self._trained())
        if self.accelerator is not None:
            self.accelerator.end_training()

    def _card(self) -> str:
        return self.record.card(self.run, self.about, self.loop.source, self.loop.notes())

    def _trained(self) -> dict[str, Any]:
        return {"method": self.run.method, "answers": self.run.chain, "start": self.about["start"]}

    async def close(self) -> None:
        await self.policy.close()
        self.scorer.close()
        self.loop.close()


def begin(run: TrainRun, output: str, command: str, on_log: Callable[[dict[str, Any]], None] | None = None) -> Training:
    """A new training run in the directory `output`."""
    traces = _traces(run)
    try:
        run = settled(run, traces) if traces is not None else run
        accelerator = open_accelerator(run, output)
        prepared = _prepared(run, run.policy, accelerator, traces)
        if run.lr is None:
            rate = PAPER_RATE if prepared.policy.prompt_format == "chat" else EMBEDDED_RATE
            run = run.model_copy(update={"lr": rate})
        about = {
            "command": command,
            "commit": source_commit(),
            "start": prepared.policy.version,
            "config": run.stored(),
            **({} if traces is None else {"traces": described(traces)}),
        }
        record = TrainingRecord(output)
        training = _assembled(run, prepared, record, accelerator, about, on_log)
        if isinstance(training.loop, OfflineTraining):
            training.loop.check_teaches()
        if training.main:
            TrainingRecord.create(output, about)
        return training
    except BaseException:
        if traces is not None:
            traces.close()
        raise


def resume(folder: str, overrides: dict[str, Any], on_log: Callable[[dict[str, Any]], None] | None = None) -> Training:
    """A stored training run, ready to go on from its last checkpoint (from the start where it has none yet).
    `overrides` may raise its budgets and say where its traces lie now."""
    record, about = TrainingRecord.open(folder)
    run = parse(TrainRun, {**stored_trainer(about["config"]), **overrides}, f"--resume {folder}")
    traces = _traces(run, about.get("traces"))
    try:
        return _resumed(run, folder, record, about, traces, on_log)
    except BaseException:
        if traces is not None:
            traces.close()
        raise


def _resumed(
    run: TrainRun,
    folder: str,
    record: TrainingRecord,
    about: dict[str, Any],
    traces: Traces | None,
    on_log: Callable[[dict[str, Any]], None] | None,
) -> Training:

    accelerator = open_accelerator(run, folder)
    saved = record.checkpoints()
    if not saved:
        if is_main(accelerator):
            record.rewind(-1)
        return _assembled(run, _prepared(run, run.policy, accelerator, traces), record, accelerator, about, on_log)
    state = load_state(saved[-1])
    processes = 1 if accelerator is None else accelerator.num_processes
    if len(state["curricula"]) != processes:
        raise BadInput(f"--resume {folder}: was trained by {len(state['curricula'])} processes, not {processes}")
    weights = run.policy if run.lora_rank else str(saved[-1])
    prepared = _prepared(run, weights, accelerator, traces)
    training = _assembled(run, prepared, record, accelerator, about, on_log)
    loop = training.loop
    loop.restore({**state["loop"], "curriculum": state["curricula"][loop.rank]})
    loop.trainer.restore(state["trainer"])
    training.policy.version = loop.trainer.version
    if training.main:
        record.rewind(loop.status.step)
        record.write_settings({**about, "config": run.stored()})
    return training


@dataclass
class _Prepared:
    """Problems and how they are put, held-out problems, and a policy that can learn."""

    problems: list[Problem]
    styles: list[PromptFormat]
    held_out: list[Problem]
    policy: LocalPolicy
    reference: Any
    traces: Traces | None = None


def _traces(run: TrainRun, began: Sequence[Mapping[str, Any]] | None = None) -> Traces | None:
    if not run.from_traces:
        return None
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise BadInput("training from traces runs in one process; start it without accelerate launch")
    return open_traces(run, began)


def _prepared(run: TrainRun, weights: str, accelerator: Any, traces: Traces | None) -> _Prepared:

    if not run.problems and traces is None:
        raise BadInput("no problem named to learn from; try `evo train vpo maze:train -o DIR`")
    set_sandbox_mode(run.sandbox)
    problems = problems_at(run.problems, run.limit)
    held_out = problems_at(run.evaluate, run.evaluate_limit)
    learned = {problem.name for problem in problems} if traces is None else traces.problem_names
    both = learned & {problem.name for problem in held_out}
    if both:
        raise BadInput(f"{min(both)} would be trained on and evaluated on; held-out problems must be others")
    if (address := parse_address(run.policy)).kind == "vllm":
        raise BadInput(
            f"evo train samples from the model that it trains, which {run.policy} keeps in an engine of its own; name "
            f"{address.model}, or train beside a search: evo run --train {run.method}"
        )
    device = run.device if accelerator is None else str(accelerator.device)
    asked = RunConfig(
        policy=weights,
        temperature=run.temperature,
        # a policy that nothing asks needs no limit of its own
        max_new_tokens=run.max_new_tokens or (None if problems or held_out else 1),
        answers=run.chain,
        device=device,
    )
    policy = open_policy(asked, [*problems, *held_out])
    if not isinstance(policy, LocalPolicy):
        raise BadInput(f"policy {run.policy} has no weights here to train; name embedded:NAME, a hub id or a directory")
    styles = open_formats(problems, policy, run.chain, PromptConfig())
    open_formats(held_out, policy, run.chain)  # raises where they do not go together
    reference = None
    if run.kl > 0 and weights != run.policy:  # a resumed run still keeps to where it started
        start = load_policy(run.policy, device=device)
        assert isinstance(start, LocalPolicy)  # as the one that is trained
        reference = start.model.float().requires_grad_(False)
    if traces is not None:
        keep_fitting(traces, policy)
    return _Prepared(problems, styles, held_out, policy, reference, traces)


def _assembled(
    run: TrainRun,
    prepared: _Prepared,
    record: TrainingRecord,
    accelerator: Any,
    about: dict[str, Any],
    on_log: Callable[[dict[str, Any]], None] | None,
) -> Training:

    policy, scorer, traces = prepared.policy, Scorer(), prepared.traces
    # over many steps on traces the policy would drift from what wrote them as far as it likes, step by step
    steps = run.steps if traces is None else planned_steps(run, traces)
    config = TrainConfig.of(run, seed=run.seed, reward=run.reward, steps=steps, trust=traces is not None)
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
        if not main:
            return
        record.log(line)
        if accelerator is not None and accelerator.trackers:
            prefix = "held_out/" if line["kind"] == "evaluation" else ""
            accelerator.log({prefix + k: v for k, v in line.items() if k not in ("kind", "step")}, step=line["step"])
        if on_log is not None:
            on_log(line)

    async def held_out(policy: Policy) -> dict[str, float]:
        figures: dict[str, float] = {}
        if main:
            figures = await _figures(policy, prepared.held_out, run, scorer)
        if accelerator is not None:
            accelerator.wait_for_everyone()
        return figures

    evaluate = held_out if prepared.held_out else None
    loop: SteppedTraining
    if traces is not None:
        loop = OfflineTraining(run, traces, policy, trainer, log=log, evaluate=evaluate)
    else:
        problems, styles = prepared.problems, prepared.styles
        loop = TrainingLoop(
            run, problems, styles, policy, trainer, scorer, log=log, evaluate=evaluate, accelerator=accelerator
        )
    training = Training(loop, record, run, policy, scorer, accelerator, about)
    loop.save = training.save
    return training


async def _figures(policy: Policy, problems: Sequence[Problem], run: TrainRun, scorer: Scorer) -> dict[str, float]:
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
