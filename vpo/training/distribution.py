"""How a training step is spread over processes: what is added up, and who holds which weights.

`Replicated` keeps the whole model in every process. vpo.training.sharding shares it out instead. Every process must
come to every collective, as the methods below are marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from vpo.training.examples import ExampleGroup

if TYPE_CHECKING:
    from accelerate import Accelerator
    from transformers import PreTrainedModel

Batch = list[tuple[ExampleGroup, Sequence[float]]]
"""A micro-batch: groups with their rollouts' token weights."""


@dataclass(frozen=True)
class ShardSettings:
    """offload: keep weights, gradients and the optimiser's state in the machine's memory, and step there
    reshard: give a layer's gathered weights back after its forward pass (less memory, one more gathering)"""

    offload: bool = False
    reshard: bool = True


class Replicated:
    """Every process holds the whole model; gradients are added up. Of a process that trains alone everything is the sum
    already.

    accelerator: accelerate.Accelerator of a run over several processes
    device: where it computes; None = where the model lies
    """

    sharded = False
    device: torch.device | None = None

    def __init__(self, accelerator: Accelerator | None) -> None:
        self._accelerator = accelerator

    @property
    def process(self) -> int | None:
        """This process's index, None if it trains alone."""
        return None if self._accelerator is None else self._accelerator.process_index

    def place(self, model: PreTrainedModel, mixed: bool) -> PreTrainedModel:
        """The model as this process trains it. mixed: whether it multiplies in bf16"""
        return model

    def add_up(self, value: float) -> float:
        """The sum over processes; a collective."""
        if self._accelerator is None or self._accelerator.num_processes == 1:
            return value
        tensor = torch.tensor(float(value), dtype=torch.float64, device=self._accelerator.device)
        return float(self._accelerator.reduce(tensor, "sum"))

    def shares_prefix(self, groups: Sequence[ExampleGroup]) -> bool:
        """Whether these groups' prompts may go through the model once; a collective."""
        return True

    def even_out(self, batches: list[Batch]) -> list[Batch]:
        """The micro-batches, as many as every other process has; a collective."""
        return batches

    def add_up_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Replace every parameter's gradient by the sum; a missing one counts as zeros. A collective."""
        if self._accelerator is None or self._accelerator.num_processes == 1:
            return
        for parameter in parameters:
            own = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            parameter.grad = self._accelerator.reduce(own, "sum")

    def clip(self, parameters: Sequence[torch.nn.Parameter], most: float) -> float:
        """Cut the gradient to a norm of `most`; its norm before. A collective."""
        return float(torch.nn.utils.clip_grad_norm_(parameters, most))

    def weights(self, model: PreTrainedModel) -> dict[str, torch.Tensor]:
        """The whole model's weights; a collective."""
        return {name: tensor.detach() for name, tensor in model.state_dict().items()}

    def copy_weights(self, model: PreTrainedModel, target: PreTrainedModel) -> None:
        """Give a whole model, of this process alone, the weights; a collective."""
        target.load_state_dict(model.state_dict())

    def load_weights(self, model: PreTrainedModel, saved: Mapping[str, torch.Tensor]) -> None:
        """Take whole weights, the same in every process."""
        with torch.no_grad():
            for name, tensor in model.state_dict().items():
                tensor.copy_(saved[name])

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """The whole optimiser's state; a collective."""
        return optimizer.state_dict()

    def restore_optimizer(self, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
        """Continue from optimizer_state; a collective."""
        optimizer.load_state_dict(dict(state))
