"""The rows of a batch: each prompt goes through the model once, and each row gets a copy of its state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from vpo.hf.llama import SPARE_COLUMNS, LlamaBatch, SmallLlama, small_llama

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from vpo.hf.cache import LibraryBatch


def begin_batch(model: PreTrainedModel | SmallLlama) -> LlamaBatch | LibraryBatch:
    """A batch that has no columns yet, without transformers' overhead where the model is a small Llama."""
    if isinstance(model, SmallLlama):
        return LlamaBatch(model)
    if (small := small_llama(model)) is not None:
        return LlamaBatch(small)
    from vpo.hf.cache import LibraryBatch  # imported here: transformers takes seconds to load

    return LibraryBatch(model)


class SharedRows:
    """The rows of a batch, each with its own copy of its prompt's state.

    logits: (rows, vocabulary) of the next token
    """

    def __init__(
        self,
        state: LlamaBatch | LibraryBatch,
        prompts: Sequence[npt.NDArray[np.int32]],
        row: torch.Tensor,
        pad: int,
        look: Callable[[], None] | None = None,
    ) -> None:
        """Run the prompts in one batch, padded on the left. row: (rows,) the prompt of each row; pad: any token; look:
        called between layers"""
        lengths = np.array([len(prompt) for prompt in prompts])
        columns = int(lengths.max())
        padded = np.full((len(prompts), columns), pad, dtype=np.int64)
        for i, prompt in enumerate(prompts):
            padded[i, columns - len(prompt) :] = prompt
        real = torch.from_numpy(np.arange(columns) >= columns - lengths[:, None]).to(row.device)
        whole = bool(real.all())
        positions = (real.cumsum(-1) - 1).clamp(min=0)
        ids = torch.from_numpy(padded).to(row.device)
        logits = state.append(ids, positions, None if whole else real, look)
        if not torch.equal(row, torch.arange(len(real), device=row.device)):
            state.select(row, 0)
        self._state, self._columns = state, columns
        self._mask = None if whole else real[row]  # with room for more columns, all of them tokens
        self._positions = real.sum(-1)[row]
        self.logits = logits[row]

    def step(self, tokens: torch.Tensor) -> None:
        """Append one token per row (rows,)."""
        self._columns += 1
        if self._mask is not None and self._mask.shape[1] < self._columns:
            self._mask = torch.nn.functional.pad(self._mask, (0, SPARE_COLUMNS), value=True)
        mask = None if self._mask is None else self._mask[:, : self._columns]
        self.logits = self._state.append(tokens[:, None], self._positions[:, None], mask)
        self._positions = self._positions + 1

    def keep(self, rows: torch.Tensor) -> None:
        """Drop all rows but these, and the columns that none of them has."""
        self._positions, first = self._positions[rows], 0
        if self._mask is not None:
            self._mask = self._mask[rows]
            if self._state.drops_columns:
                first = int(self._mask.any(0).to(torch.uint8).argmax())
                self._mask, self._columns = self._mask[:, first:], self._columns - first
        self._state.select(rows, first)


def leaving_order(stay: torch.Tensor) -> torch.Tensor:
    """The places of those that stay (rows,) bool, in an order in which only rows behind the new end move."""
    rows = stay.nonzero().squeeze(-1)
    order = torch.arange(len(rows), device=rows.device)
    order[~stay[: len(rows)]] = rows[rows >= len(rows)]
    return order


def leave_cudnn_attention() -> None:
    """Keep torch from choosing cuDNN's attention in this process, as it does on an H100 since 2.11. With a mask and 64
    keys more than a multiple of 128, its gradients are NaN where all scores of a query are far below zero, as in a head
    of Qwen2.5 (pytorch/pytorch#196678); on a B200 it samples wrong tokens (#193893)."""
    torch.backends.cuda.enable_cudnn_sdp(False)


def free_memory(device: torch.device) -> float:
    """Bytes of a GPU that no process uses, with those that torch holds for later; else those of main memory that are
    available without swapping, 4 GiB if the system does not report it."""
    if device.type == "cuda":
        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return float(torch.cuda.mem_get_info(device)[0] + held)
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("MemAvailable")) * 1024.0
    except (OSError, StopIteration, ValueError):
        return 4.0 * (1 << 30)
