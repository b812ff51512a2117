"""Any transformers model as a policy: a hub id, a directory, or the embedded checkpoint, and how it is loaded."""

from __future__ import annotations

import asyncio
import copy
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from problems.contract import BadAddress
from problems.types import Prompt, Rollout
from vpo.hf.engine import SampledTokens, SampleRequest, SamplingParams, Stopped, sample_rows
from vpo.hf.llama import SMALL_MODEL, LlamaBatch, SmallLlama
from vpo.hf.llama_files import load_llama
from vpo.hf.rows import free_memory, leave_cudnn_attention
from vpo.hf.sampling import mask_forbidden
from vpo.languages.contract import DIALECT_KEY
from vpo.policies.address import Dtype, PolicyAddress, PolicySettings
from vpo.policies.checkpoint import check_checkpoint, find_base, fingerprint, load_adapter, loading, trained_format
from vpo.policies.contract import CallWatch, Policy, PolicyTraits, PolicyUnavailable, ResultT
from vpo.policies.encoding import (
    context_of,
    decode_rollout,
    default_limit,
    end_tokens,
    grammar_of,
    named_prompt_format,
    own_temperature,
    read_prompt_format,
    remaining_tokens,
    text_config,
    tokenize_prompt,
)
from vpo.policies.prompt_formats import CHAT

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_STEP_ROWS, _PAYS = 16, 0.9
"""Rows of the steps by which threads are chosen; the share of the seconds below which twice as many pay."""


class TransformersPolicy(Policy):
    """A Policy over a causal language model.

    model: what samples; tokenizer: public, so a trainer can share it; set `version` when the weights change
    max_tokens: limit of one rollout, settable; None for the default of the prompt_format
    One worker thread runs the model: calls queue, and the event loop stays free.
    """

    def __init__(
        self,
        model: PreTrainedModel | SmallLlama,
        tokenizer: PreTrainedTokenizerBase,
        *,
        version: str,
        load_model: Callable[[], PreTrainedModel] | None = None,
        temperature: float = 1.0,
        top_p: float = 1.0,
        max_tokens: int | None = None,
        batch: int | None = None,
        threads: int | None = None,
    ) -> None:
        """load_model: the same model by transformers, for a trainer, where `model` is not"""
        self.model: Any = model if isinstance(model, SmallLlama) else model.eval()
        self.tokenizer, self._load_model = tokenizer, load_model
        self.version = version
        self.temperature = temperature
        self.top_p = top_p
        self.max_tokens = max_tokens
        self.prompt_format = read_prompt_format(model.config, version)
        self.parameters = sum(parameter.numel() for parameter in model.parameters())
        self.batch = batch or (64 if self.parameters < SMALL_MODEL or model.device.type == "cuda" else 16)
        self.context = context_of(model.config)
        self.stops = end_tokens(model.generation_config, tokenizer)
        recommended = own_temperature(model.generation_config)
        self.traits = PolicyTraits(logprobs=True, weights="model", temperature=recommended)
        if threads is None and model.device.type == "cpu":
            # the products of a small one are too small to share: a second thread mostly waits, and spins meanwhile
            threads = 1 if self.parameters < SMALL_MODEL else _measure_threads(model)
        self._worker = ThreadPoolExecutor(1, "policy", _set_threads, (threads,))
        self._closing = threading.Event()
        if isinstance(model, SmallLlama):
            self._state_bytes = model.bytes_a_token, 0.0
        else:
            from vpo.hf.decoding import try_decoding  # imported here: transformers takes seconds to load

            decoding = self._worker.submit(try_decoding, model).result()
            self._state_bytes = decoding.bytes_a_token, decoding.bytes_a_row
        # on a GPU memory alone decides
        self._rows = 1 << 16 if model.device.type == "cuda" else 512 if self.parameters < SMALL_MODEL else 256

    async def sample(
        self, prompts: Sequence[Prompt], *, rollouts: int, answers: int, seed: int, watch: CallWatch | None = None
    ) -> list[list[Rollout]]:
        """One list per prompt of `rollouts` Rollouts, in order.

        Raises PromptTooLong (before anything is sampled), PolicyUnavailable if the model runs out of memory with a
        single row, gives logits that are not finite, or is closed.
        """
        if self._closing.is_set():
            raise PolicyUnavailable(f"{self.version} is closed")
        cancelled, loop = threading.Event(), asyncio.get_running_loop()

        def go_on(tokens: int) -> bool:
            if watch is not None:
                watch.on_tokens(tokens)
            return not (cancelled.is_set() or self._closing.is_set())

        def back(prompt: int, group: list[Rollout]) -> None:
            if watch is not None:
                loop.call_soon_threadsafe(watch.on_group, prompt, group)

        work = loop.run_in_executor(self._worker, self._sample, list(prompts), rollouts, answers, seed, go_on, back)
        try:
            return await work
        except asyncio.CancelledError:
            cancelled.set()  # the worker stops at its next step rather than blocking the exit
            raise
        except Stopped:
            raise PolicyUnavailable(f"{self.version} was closed while it sampled") from None

    async def close(self) -> None:
        """Stop the worker and release the weights. Safe to call twice."""
        if not self._closing.is_set():
            self._closing.set()
            await asyncio.to_thread(self._worker.shutdown, cancel_futures=True)
            self.model = None  # a closed policy is not used again

    async def between(self, work: Callable[[], ResultT]) -> ResultT:
        """Run `work` in the worker, so that it and sampling take turns."""
        if self._closing.is_set():
            raise PolicyUnavailable(f"{self.version} is closed")
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)

    async def update(self, weights: Mapping[str, torch.Tensor], version: str) -> None:
        """Sample from `weights` from now on. Raises ValueError if they do not fit this model."""

        def load() -> None:
            own = self.model.state_dict()
            wrong = own.keys() ^ weights.keys()
            wrong |= {name for name in own.keys() & weights.keys() if own[name].shape != weights[name].shape}
            if wrong:
                raise ValueError(f"{version}: not this model's weights: {min(wrong)} and {len(wrong) - 1} more differ")
            with torch.no_grad():
                for name, tensor in own.items():
                    tensor.copy_(weights[name])

        await self.between(load)
        self.version = version

    async def logprobs(self, rollouts: Sequence[Rollout]) -> list[npt.NDArray[np.float32]]:
        """Log-probabilities of these rollouts' tokens under the current sampling weights, in nats, by plain passes
        of the model in its sampling precision and with its sampling attention."""
        return await self.between(lambda: [self._logprobs(rollout) for rollout in rollouts])

    @torch.inference_mode()
    def _logprobs(self, rollout: Rollout) -> npt.NDArray[np.float32]:
        ids = torch.from_numpy(np.concatenate([rollout.prompt_ids, rollout.token_ids]).astype(np.int64))[None]
        if isinstance(self.model, SmallLlama):
            logits = LlamaBatch(self.model).append(ids, torch.arange(ids.shape[1])[None], None, every=True)
        else:
            logits = self.model(input_ids=ids.to(self.model.device)).logits[0]
        logits = logits[len(rollout.prompt_ids) - 1 : -1]
        chosen = torch.from_numpy(rollout.token_ids.astype(np.int64)).to(logits.device)
        if (start := grammar_of(self.prompt_format)) is not None:
            grammar = start([rollout.prompt_ids], chosen.new_zeros(1))
            logits = mask_forbidden(logits[None], grammar, chosen[None])[0]
        scaled = logits.float() / max(self.temperature, 1e-6)
        return scaled.log_softmax(-1).gather(-1, chosen[:, None])[:, 0].cpu().numpy()

    def learner(self) -> PreTrainedModel:
        """A copy of the model, for a trainer to keep."""
        if not isinstance(self.model, SmallLlama):
            return copy.deepcopy(self.model)
        assert self._load_model is not None
        model = self._load_model()
        model.load_state_dict(self.model.state_dict())
        return model.eval()

    def open_model(self) -> PreTrainedModel:
        """The model, which samples from now on, for a trainer to change in place."""
        if isinstance(self.model, SmallLlama):
            self.model = self.learner()
        return self.model

    def encode(self, prompt: Prompt) -> npt.NDArray[np.int32]:
        """The prompt's token ids (P,), as the model is conditioned on them."""
        return tokenize_prompt(self.tokenizer, self.prompt_format, prompt)

    def _sample(
        self,
        prompts: list[Prompt],
        rollouts: int,
        answers: int,
        seed: int,
        go_on: Callable[[int], bool],
        back: Callable[[int, list[Rollout]], None],
    ) -> list[list[Rollout]]:
        limit = self.max_tokens or default_limit(answers, self.prompt_format)
        requests: list[SampleRequest] = []
        for prompt in prompts:
            ids = self.encode(prompt)
            most = remaining_tokens(len(ids), limit, self.context)
            requests += [SampleRequest(ids, prompt.stream, rollout, most) for rollout in range(rollouts)]
        found: dict[int, Rollout] = {}
        missing = [rollouts] * len(prompts)

        def group(number: int) -> list[Rollout]:
            return [found[row] for row in range(number * rollouts, (number + 1) * rollouts)]

        for row, drawn in self._decode(requests, seed, go_on):
            text = decode_rollout(self.tokenizer, drawn.token_ids, drawn.stopped)
            finish = "stop" if drawn.stopped else "length"
            found[row] = Rollout(text, drawn.token_ids, drawn.logprobs, requests[row].prompt, finish)
            number = row // rollouts
            missing[number] -= 1
            if not missing[number]:
                back(number, group(number))
        return [group(number) for number in range(len(prompts))]

    def _decode(
        self, requests: list[SampleRequest], seed: int, go_on: Callable[[int], bool]
    ) -> Iterator[tuple[int, SampledTokens]]:
        """All of them; if memory runs out, the others again in batches of half the rows (rows do not depend on their
        batch)."""
        left = list(range(len(requests)))
        while True:
            pad = min(self.stops, default=0)
            params = SamplingParams(self.temperature, self.top_p, self.stops, pad, *self._bounds())
            ended = set()
            try:
                for number, drawn in sample_rows(self.model, [requests[i] for i in left], seed, params, go_on):
                    ended.add(left[number])
                    yield left[number], drawn
                return
            except FloatingPointError as error:
                raise PolicyUnavailable(f"{self.version}: {error}; try dtype float32") from None
            except RuntimeError as error:
                if not _is_memory(error):
                    raise
                left = [i for i in left if i not in ended]
                self._rows = min(self._rows, len(left)) // 2
                if not self._rows:
                    self._rows = 1
                    raise PolicyUnavailable(f"{self.version}: out of memory with one row: {error}") from None
            if self.model.device.type == "cuda":
                torch.cuda.empty_cache()

    def _bounds(self) -> tuple[int, int, int]:
        """(rows, rows x columns, prompts x columns) of a batch at most, by the memory that is free now.

        Growing a state keeps its old and its new buffers for a moment. A draw on a GPU holds several copies of its
        rows' logits, 32 bytes a word. The widest activations of prompts stay near 1 GiB (8 on a GPU).
        """
        on_gpu, text = self.model.device.type == "cuda", text_config(self.model.config)
        free, (bytes_a_token, bytes_a_row) = free_memory(self.model.device), self._state_bytes
        states = free * (0.8 if on_gpu else 0.5) / 2
        drawn = max(1, int(free * 0.15 / (32 * text.vocab_size))) if on_gpu else self._rows
        rows = min(self._rows, drawn, max(1, int(states / max(1.0, bytes_a_row))))
        cells = max(1, int(states / max(1.0, bytes_a_token)))
        width = getattr(text, "intermediate_size", None) or 4 * text.hidden_size
        width = width if isinstance(width, int) else max(width)  # one a layer
        bound = 8 << 30 if on_gpu else 1 << 30
        return rows, cells, max(1, int(bound / (4 * width * self.model.dtype.itemsize)))


def _is_memory(error: RuntimeError) -> bool:
    """Whether memory ran out; on a CPU, torch reports it only in the message."""
    return isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error)


def _set_threads(threads: int | None) -> None:
    if threads is not None:
        torch.set_num_threads(threads)


def _measure_threads(model: Any) -> int:
    """How many threads compute a step soonest now: doubled from one while that pays. Where other work keeps the cores
    busy, several threads wait in each product for the slowest (SmolLM2-135M, 16 rows, two cores at load 11: .6 s
    by one thread, 5 s by two). The logits have the same bits."""
    most, ids = torch.get_num_threads(), torch.zeros((_STEP_ROWS, 1), dtype=torch.long)

    def seconds(threads: int, enough: float = math.inf) -> float:
        torch.set_num_threads(threads)
        times: list[float] = []
        while len(times) < 3 and min(times, default=0.0) < enough:  # the first step starts threads and allocates
            started = time.perf_counter()
            model(input_ids=ids)
            times.append(time.perf_counter() - started)
        return min(times)

    try:
        with torch.inference_mode():
            threads, best = 1, seconds(1)
            while threads < most and (time_of_more := seconds(min(most, 2 * threads), 3 * best)) < _PAYS * best:
                threads, best = min(most, 2 * threads), time_of_more
        return threads
    finally:
        torch.set_num_threads(most)


def load_transformers(address: PolicyAddress, settings: PolicySettings) -> TransformersPolicy:
    """The policy of a directory, a hub id, or an embedded checkpoint. Raises BadAddress in one line."""
    cached = check_checkpoint(address)
    (source, adapters), name = find_base(address), address.plain
    device = _device(settings.device)
    kind = _dtype(settings.dtype, device)
    leave_cudnn_attention()
    load = partial(_load_with_transformers, address, source, adapters, device, kind, cached)
    small = None
    if not adapters and device.type == "cpu" and kind == torch.float32:
        small = load_llama(Path(source), address.common.format)
    model, tokenizer = small or load()
    prints = [fingerprint(source, model.config), *(fingerprint(folder) for folder in adapters)]
    return TransformersPolicy(
        model,
        tokenizer,
        version=f"{name}@{'+'.join(prints)}",
        load_model=lambda: load()[0],
        temperature=settings.temperature,
        top_p=settings.top_p,
        max_tokens=settings.max_tokens,
        batch=settings.batch,
        threads=settings.threads,
    )


def _load_with_transformers(
    address: PolicyAddress, source: str, adapters: list[str], device: torch.device, kind: torch.dtype, cached: bool
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model with its adapters merged, and its tokenizer. cached: whether their files are in the hub's cache"""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    from vpo.hf.decoding import refusal

    name = address.plain
    with loading(name):
        try:
            if AutoConfig.from_pretrained(source, local_files_only=cached).is_encoder_decoder:
                raise refusal(name, "an encoder reads the prompt and another model writes, so it is no causal model")
            tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=cached)
            model: Any = AutoModelForCausalLM.from_pretrained(source, dtype=kind, local_files_only=cached)
            form = address.common.format
            if form is None and adapters and named_prompt_format(model.config) == CHAT:
                form = trained_format(adapters[-1])
            if form is not None:
                setattr(model.config, DIALECT_KEY, form)  # checked with the address, or by the policy
            # as an adapter that is trained on it names its base
            folder = str(Path(source).resolve()) if Path(source).is_dir() else source
            model.name_or_path = address.plain if address.kind == "embedded" else folder
            for adapter in adapters:
                model = load_adapter(model, adapter)
            return torch.nn.Module.to(model, device), tokenizer
        except torch.OutOfMemoryError as error:
            raise PolicyUnavailable(f"policy {name!r} does not fit on {device}: {error}") from None


def _device(name: str | None) -> torch.device:
    name = name or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise BadAddress(f"device {name!r} cannot be used: {str(error).splitlines()[0]}") from None


def _dtype(name: Dtype | None, device: torch.device) -> torch.dtype:
    kinds = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    return kinds[name or ("bfloat16" if device.type == "cuda" else "float32")]
