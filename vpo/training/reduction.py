"""Sums over the processes that train together: of figures and of gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from accelerate import Accelerator


class Reduction:
    """Adds up over processes; of a process that trains alone everything is the sum already.

    accelerator: accelerate.Accelerator of a run over several processes. Every one of them must come to every sum
    """

    def __init__(self, accelerator: Accelerator | None) -> None:
        self._accelerator = accelerator

    @property
    def process(self) -> int | None:
        """This process's index, None without others beside it."""
        return None if self._accelerator is None else self._accelerator.process_index

    def add_up(self, value: float) -> float:
        if self._accelerator is None or self._accelerator.num_processes == 1:
            return value
        tensor = torch.tensor(float(value), dtype=torch.float64, device=self._accelerator.device)
        return float(self._accelerator.reduce(tensor, "sum"))

    def add_up_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Replace every parameter's gradient by the sum; a missing one counts as zeros."""
        if self._accelerator is None or self._accelerator.num_processes == 1:
            return
        for parameter in parameters:
            own = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            parameter.grad = self._accelerator.reduce(own, "sum")
