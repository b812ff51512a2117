"""Whether a model can be decoded here, found by running it: architectures differ in the state that they keep of a text.

`try_decoding` runs two prompts of unequal length with two rows each through the engine, and each row alone through a
plain forward pass. A model whose log-probabilities differ by more than rounding is refused. Nothing is known by a
model's name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from problems.contract import BadAddress
from vpo.hf.cache import accepted, state_bytes
from vpo.hf.rows import SharedRows, begin_batch, free_memory, leaving_order

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_LENGTHS, _STEPS = (5, 29), 6
"""Tokens of the prompts, and of the rows. No size of a model is 29 (see state_bytes)."""
_EXACT, _ALMOST, _ROUNDED = 2e-4, 1e-2, 0.3
"""Difference of two log-probabilities, in nats, that rounding explains, for logits of deviation 1: in float32; there
where a model samples in 16 bits, which hide it; in 16 bits."""


@dataclass(frozen=True)
class Decoding:
    """tolerance: nats that rounding explains, within in_float32
    bytes_a_token, bytes_a_row: of a row's state
    """

    tolerance: float
    bytes_a_token: float
    bytes_a_row: float


_found: dict[tuple[str, ...], Decoding] = {}


def try_decoding(model: PreTrainedModel) -> Decoding:
    """What a trial of the model found; tried once for all models of one configuration.

    Raises BadAddress, one line, if the engine does not give the log-probabilities of a plain forward pass.
    """
    kind = (type(model).__name__, str(model.dtype), model.device.type, model.config.to_json_string(use_diff=False))
    if kind not in _found:
        least = _EXACT if model.dtype == torch.float32 else _ALMOST
        with in_float32(model), torch.no_grad():
            _found[kind] = _try_out(model, least)
    return _found[kind]


def _try_out(model: PreTrainedModel, least: float) -> Decoding:
    try:
        trial = _Trial(model, least)
    except (torch.OutOfMemoryError, BadAddress):
        raise
    except Exception as error:  # a foreign model can do anything
        raise refusal(model.name_or_path, f"its forward pass fails, {_one_line(error)}") from error
    try:
        wrong, most = trial.wrong(trial.shared())
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        reason = f"its state cannot be copied from a prompt to several rollouts, {_one_line(error)}"
        raise refusal(model.name_or_path, reason) from error
    # where rounding flips a choice of experts, recomputing the text does not agree with itself either
    if wrong and wrong > 4 * trial.wrong(trial.recomputed())[0]:
        raise refusal(model.name_or_path, f"with a shared prompt log-probabilities are off by {most:.2g}")
    return Decoding(trial.tolerance, *trial.bytes)


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"


def refusal(name: str | None, reason: str) -> BadAddress:
    """Why the model of an address cannot be a policy, and what else to try."""
    return BadAddress(f"policy {name!r}: {reason}; if vLLM runs it, vllm:{name} samples from it")


class _Trial:
    """Two prompts, two rows of each, and their log-probabilities by a plain forward pass.

    bytes: that a token and a row take, once `shared` ran
    tolerance: nats that rounding explains
    Raises BadAddress if a token changes what is before it.
    """

    def __init__(self, model: PreTrainedModel, least: float) -> None:
        self._model, self.bytes = model, (0.0, 0.0)
        self._prompts = [some_tokens(model, length).astype(np.int32) for length in _LENGTHS]
        self._row = torch.tensor([1, 0, 1, 0], device=model.device)
        self._tokens = torch.from_numpy(some_tokens(model, 4, _STEPS)).to(model.device)
        self._plain = torch.stack([self._forward(i)[0] for i in range(4)])
        together = torch.stack([self._forward(i, copies=2)[0] for i in range(4)])
        rounding = float(self._differences(together).median())
        exact = least * max(1.0, float(self._plain.std().nan_to_num())) + 8 * rounding
        self.tolerance = exact if model.dtype == torch.float32 else _ROUNDED
        later = torch.stack([self._forward(i, last=self._tokens[i, -1] + 1)[0] for i in range(4)])
        if self.wrong(later)[0] > later[..., 0].numel() / 4:
            reason = "a token changes the probabilities of those before it, as in an encoder: it is no causal model"
            raise refusal(model.name_or_path, f"{type(model).__name__}: {reason}")

    def wrong(self, logits: torch.Tensor) -> tuple[int, float]:
        """How many of the distributions are not those of a plain pass, and the largest difference, in nats."""
        differences = self._differences(logits)
        return int((differences > self.tolerance).sum()), float(differences.max())

    def _differences(self, logits: torch.Tensor) -> torch.Tensor:
        return logprob_differences(logits, self._plain)

    def _forward(self, row: int, copies: int = 1, last: torch.Tensor | None = None) -> torch.Tensor:
        """(copies, steps, vocabulary) of one row alone, with another last token."""
        prompt = torch.from_numpy(self._prompts[int(self._row[row])].astype(np.int64)).to(self._model.device)
        ids = torch.cat([prompt, self._tokens[row]])[None].repeat(copies, 1)
        if last is not None:
            ids[:, -1] = last
        logits: torch.Tensor = self._model(input_ids=ids, **accepted(self._model, use_cache=False)).logits
        return logits[:, -_STEPS - 1 : -1]

    def shared(self) -> torch.Tensor:
        """(rows, steps, vocabulary) by the engine."""
        model, tokens = self._model, self._tokens
        state, place = begin_batch(model), torch.arange(4, device=model.device)
        rows = SharedRows(state, self._prompts, self._row, 0)
        self.bytes = state_bytes(state.cache, len(place), max(_LENGTHS))
        logits = self._plain.clone()
        for step in range(_STEPS):
            logits[place, step] = rows.logits.to(logits.dtype)
            if step == _STEPS // 2:  # the rows of the long prompt end, and with them go the columns of padding
                kept = leaving_order(self._row[place] == 0)
                rows.keep(kept)
                place = place[kept]
            rows.step(tokens[place, step])
        return logits

    def recomputed(self) -> torch.Tensor:
        """The same, with the whole text computed again for each token."""
        logits = torch.empty_like(self._plain)
        for row, number in enumerate(self._row.tolist()):
            ids = torch.from_numpy(self._prompts[number].astype(np.int64)).to(self._model.device)
            for step in range(_STEPS):
                seen = torch.cat([ids, self._tokens[row, :step]])[None]
                logits[row, step] = self._model(input_ids=seen, **accepted(self._model, use_cache=False)).logits[0, -1]
        return logits


def some_tokens(model: PreTrainedModel, *shape: int) -> npt.NDArray[np.int64]:
    """Token ids of this shape, from the middle of the vocabulary: those at its ends may mean images."""
    size = int(model.config.get_text_config(decoder=True).vocab_size)
    return np.random.default_rng(list(shape)).integers(size // 4, max(size // 4 + 1, size // 2), shape)


def logprob_differences(logits: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """The largest difference of log-probabilities of each distribution, in nats. Weights that give no numbers differ
    from nothing."""
    ours, theirs = (values.float().log_softmax(-1).nan_to_num() for values in (logits, others))
    return (ours - theirs).abs().amax(-1)


@contextlib.contextmanager
def in_float32(model: PreTrainedModel) -> Iterator[None]:
    """The same weights in float32 within the block, where memory holds them: 16 bits round too much to tell a wrong
    state from a right one."""
    halves = [part for part in (*model.parameters(), *model.buffers()) if part.dtype in (torch.float16, torch.bfloat16)]
    size = 4 * sum(part.numel() for part in halves)
    if getattr(model, "is_quantized", False) or size > 0.5 * free_memory(model.device):
        halves = []
    kept = [part.data for part in halves]
    try:
        for part in halves:
            part.data = part.data.float()
        with torch.autocast(model.device.type, enabled=False):
            yield
    finally:
        for part, data in zip(halves, kept, strict=True):
            part.data = data
