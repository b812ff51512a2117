"""What a training run needs before its loop: problems and their prompt formats, a policy that can learn, traces."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evo.config.run import PromptConfig, RunConfig
from evo.config.train import TrainRun
from evo.errors import BadInput, not_trainable
from evo.evaluation.evaluate import open_formats
from evo.prompts.contract import PromptFormat
from evo.search.resources import check_apart, open_policy, problems_at
from evo.training.improvement import Improvements
from evo.training.offline import keep_fitting
from evo.training.trace_selection import open_improvements, open_traces
from evo.training.traces import Traces
from problems.contract import Problem
from problems.sandbox.shared import set_sandbox_mode
from vpo.policies.address import parse_address
from vpo.policies.contract import LocalPolicy
from vpo.policies.registry import load_policy
from vpo.training.config import BY_EXAMPLES

if TYPE_CHECKING:
    from accelerate import Accelerator
    from transformers import PreTrainedModel


@dataclass
class PreparedTraining:
    """Problems and how they are put, held-out problems, and a policy that can learn. weights: its address"""

    problems: list[Problem]
    styles: list[PromptFormat]
    held_out: list[Problem]
    policy: LocalPolicy
    reference: PreTrainedModel | None
    traces: Traces | Improvements | None = None
    weights: str = ""


def open_named_traces(run: TrainRun, began: Sequence[Mapping[str, Any]] | None = None) -> Traces | Improvements | None:
    if not run.from_traces:
        return None
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise BadInput("training from traces runs in one process; start it without accelerate launch")
    return open_improvements(run, began) if run.method in BY_EXAMPLES else open_traces(run, began)


def prepare(
    run: TrainRun, weights: str, accelerator: Accelerator | None, traces: Traces | Improvements | None
) -> PreparedTraining:
    if not run.problems and traces is None:
        raise BadInput("no problem named to learn from; try `evo train vpo maze:train -o DIR`")
    set_sandbox_mode(run.sandbox)
    problems = problems_at(run.problems, run.limit)
    held_out = problems_at(run.evaluate, run.evaluate_limit)
    learned = {problem.name for problem in problems} if traces is None else traces.problem_names
    check_apart(learned, held_out)
    if (address := parse_address(run.policy)).kind == "vllm":
        raise BadInput(
            f"evo train samples from the model that it trains, which {run.policy} keeps in an engine of its own; name "
            f"{address.model}, or train beside a search: evo run --train {run.method}"
        )
    device = run.device if accelerator is None else str(accelerator.device)
    if run.asked_temperature == 0 and traces is None:
        raise BadInput("at temperature 0 all rollouts of a group are alike, and nothing can be learned from them")
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
        raise not_trainable(run.policy)
    styles = open_formats(problems, policy, run.chain, PromptConfig(prefill=run.begun_share))
    open_formats(held_out, policy, run.chain)  # raises where they do not go together
    reference = None
    if run.has_reference and weights != run.policy:  # a resumed run still keeps to where it started
        start = load_policy(run.policy, device=device)
        assert isinstance(start, LocalPolicy)  # as the one that is trained
        reference = start.model.float().requires_grad_(False)
    if isinstance(traces, Traces):
        keep_fitting(traces, policy)
    return PreparedTraining(problems, styles, held_out, policy, reference, traces, weights)


def whole_model(weights: str) -> PreTrainedModel:
    """A second copy of a policy's model, in float32 and in the machine's memory, to be shared out from there."""
    policy = load_policy(weights, device="cpu", dtype="float32")
    assert isinstance(policy, LocalPolicy)
    return policy.model
