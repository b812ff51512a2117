"""Models that one card does not hold: weights, gradients and the optimiser's state shared out over the processes by
FSDP2 (torch's fully_shard; ZeRO stage 3, arXiv 1910.02054; PyTorch FSDP, arXiv 2304.11277).

Departures from the usual loop, each because a step here is made of unequal shares:
- gradients are added up, not averaged: the loss's weights are shares of the whole batch already;
- a layer's weights are gathered by every process together, so every process makes the same number of passes. One with
  fewer micro-batches makes up for it with batches of weight 0;
- in the shared-prefix step a prompt's layers are reached by gradients through the cache alone, which FSDP does not see:
  vpo.training.forward has their weights gathered before that.
What is saved is whole: the weights are an ordinary checkpoint. A run is resumed by as many processes as began it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from vpo.training.distribution import Batch, Replicated, ShardSettings
from vpo.training.examples import Example, ExampleGroup
from vpo.training.forward import layers_of

if TYPE_CHECKING:
    from accelerate import Accelerator
    from transformers import PreTrainedModel


class Sharded(Replicated):
    """Every process holds a part of every weight. accelerator: of all processes, two or more in use"""

    sharded = True
    device: torch.device

    def __init__(self, accelerator: Accelerator, settings: ShardSettings) -> None:
        super().__init__(accelerator)
        self.device = accelerator.device
        self._settings = settings
        self._processes = accelerator.num_processes
        self._mesh: DeviceMesh = init_device_mesh(accelerator.device.type, (self._processes,))

    def place(self, model: PreTrainedModel, mixed: bool) -> PreTrainedModel:
        """Share the model out, layer by layer, from wherever it lies; it must be the same in every process."""
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        options: dict[str, Any] = {
            "mesh": self._mesh,
            "reshard_after_forward": self._settings.reshard,
            "mp_policy": policy if mixed else MixedPrecisionPolicy(),
            "offload_policy": CPUOffloadPolicy() if self._offloads else OffloadPolicy(),
        }
        for layer in layers_of(model):
            fully_shard(layer, **options)
        fully_shard(model, **options)
        for part in model.modules():
            if isinstance(part, FSDPModule):
                part.set_gradient_divide_factor(1.0)
                part.set_force_sum_reduction_for_comms(True)  # gloo knows no scaled sums
        return model

    @property
    def _offloads(self) -> bool:
        return self._settings.offload and self.device.type != "cpu"

    def shares_prefix(self, groups: Sequence[ExampleGroup]) -> bool:
        """The same answer for all: processes that made different passes would wait for each other for ever."""
        return not self.add_up(sum(len(group.prompt_ids) < 2 for group in groups))

    def even_out(self, batches: list[Batch]) -> list[Batch]:
        assert self._accelerator is not None
        counts: Any = self._accelerator.gather(torch.tensor([len(batches)], device=self.device))
        return batches + [_idle() for _ in range(int(counts.max()) - len(batches))]

    def add_up_gradients(self, parameters: object) -> None:
        """They are sums already: FSDP scatters them as a layer's backward pass ends."""

    def clip(self, parameters: Sequence[torch.nn.Parameter], most: float) -> float:
        norm = torch.nn.utils.clip_grad_norm_(parameters, most)
        return float(_whole(norm))

    def weights(self, model: PreTrainedModel) -> dict[str, torch.Tensor]:
        return {name: _whole(tensor.detach()).cpu() for name, tensor in model.state_dict().items()}

    @torch.no_grad()
    def copy_weights(self, model: PreTrainedModel, target: PreTrainedModel) -> None:
        """One weight at a time, so that no second whole model is ever held."""
        own = target.state_dict()
        for name, tensor in model.state_dict().items():
            own[name].copy_(_whole(tensor))

    @torch.no_grad()
    def load_weights(self, model: PreTrainedModel, saved: Mapping[str, torch.Tensor]) -> None:
        for name, tensor in model.state_dict().items():
            _put(tensor, saved[name])

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        found = optimizer.state_dict()
        state = {i: {key: _kept(value) for key, value in one.items()} for i, one in found["state"].items()}
        return {"state": state, "param_groups": found["param_groups"]}

    def restore_optimizer(self, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        shared: dict[int, dict[str, Any]] = {}
        for i, one in state["state"].items():
            like = parameters[i]
            shared[i] = {
                key: _share_out(value, like) if key.startswith("exp_") else value for key, value in one.items()
            }
        optimizer.load_state_dict({"state": shared, "param_groups": state["param_groups"]})


def _idle() -> Batch:
    """A micro-batch that costs little and teaches nothing."""
    zeros = np.zeros(1, dtype=np.float32)
    group = ExampleGroup(np.zeros(2, dtype=np.int32), (Example(np.zeros(1, dtype=np.int32), zeros, zeros),), 1.0)
    return [(group, [0.0])]


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _kept(value: Any) -> Any:
    # a copy: what is kept must not move with the optimiser
    return _whole(value).cpu().clone() if isinstance(value, torch.Tensor) else value


def _share_out(value: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    if not isinstance(like, DTensor):
        return value
    whole = value.to(like.device_mesh.device_type if like.to_local().device.type != "cpu" else "cpu")
    return distribute_tensor(whole, like.device_mesh, like.placements)


def _put(tensor: torch.Tensor, saved: torch.Tensor) -> None:
    if isinstance(tensor, DTensor):
        tensor.to_local().copy_(
            distribute_tensor(saved.to(tensor.dtype), tensor.device_mesh, tensor.placements).to_local()
        )
    else:
        tensor.copy_(saved)
