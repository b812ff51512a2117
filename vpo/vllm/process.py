"""The process that holds a vLLM engine, as the other end of vpo.vllm.engine.

It owns one LLMEngine and steps it for as long as anything is in flight; what arrives meanwhile joins at the next step,
so that all groups in flight share one batch. A process of its own because vLLM changes the one that it lives in (thread
settings, environment, memory binding, on a CPU even functions of torch), because its memory comes back for certain with
the process alone, and because the search's own work would wait for the engine's Python.

The transport is problems.child_process. Everything but `sample` and `encode` waits until what is in flight has ended.
When its owner is gone, the process ends at once.
"""

from __future__ import annotations

import gc
import os
import queue
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from problems.child_process import Owner, WorkerAnswer
from problems.contract import BadAddress
from problems.types import Prompt
from vpo.policies.contract import PolicyUnavailable, PromptTooLong
from vpo.policies.encoding import context_of, remaining_tokens
from vpo.vllm.address import EngineSettings
from vpo.vllm.messages import DrawnRollout, EngineCall, Row
from vpo.vllm.text import Description, Text
from vpo.vllm.transfer import BACKEND, receive_weights

MESSAGE = 400


@dataclass
class _Pending:
    prompts: list[npt.NDArray[np.int32]]
    prefills: list[str]
    rows: list[Row | None]
    left: int
    greedy: bool
    requests: list[str] = field(default_factory=list)


class Host:
    """Serves one owner until it is told to close."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._inbox: queue.SimpleQueue[tuple[int, str, Any]] = queue.SimpleQueue()
        self._text: Any = None
        self._engine: Any = None
        self._adapter: Any = None
        self._transferred = False  # whether it has taken weights before
        self._workers = False  # whether the engine has processes of its own
        self._calls: dict[int, _Pending] = {}

    def serve(self) -> None:
        self._owner.listen(lambda *message: self._inbox.put(message), lambda: os._exit(0))
        handlers: dict[str, Callable[[Any], Any]] = {
            "describe": self._describe,
            "encode": self._encode,
            "load": self._load,
            "transfer": self._transfer,
            "score": self._score,
            "sleep": self._sleep,
            "wake": self._wake,
        }
        while True:
            try:
                number, kind, content = self._inbox.get_nowait() if self._calls else self._inbox.get()
            except queue.Empty:
                self._step()
                continue
            if kind == "close":
                if self._engine is not None and self._workers:
                    self._engine.engine_core.shutdown()
                return
            if kind == "cancel":
                self._cancel(content)
                continue
            if kind not in ("sample", "encode"):
                while self._calls:
                    self._step()
            try:
                if kind == "sample":
                    self._add(number, content)  # its answer comes later
                else:
                    self._owner.answer(number, WorkerAnswer(handlers[kind](content)))
            except Exception as error:
                self._owner.answer(number, WorkerAnswer(fault=fault_of(error)))

    def _describe(self, model: str) -> Description:
        self._text = Text(model)
        description: Description = self._text.description
        return description

    def _encode(self, prompt: Prompt) -> npt.NDArray[np.int32]:
        ids: npt.NDArray[np.int32] = self._text.encode(prompt)
        return ids

    def _load(self, settings: EngineSettings) -> Ready:
        self._discard()
        self._workers = settings.options.gpus > 1
        self._transferred = False
        self._engine, ready = build_engine(settings)
        if settings.adapter is not None:
            from vllm.lora.request import LoRARequest

            self._adapter = LoRARequest("adapter", 1, settings.adapter.folder)
            self._engine.add_lora(self._adapter)
        return ready

    def _transfer(self, update: dict[str, Any]) -> None:
        """Take a trainer's weights as they lie in its memory."""
        receive_weights(self._engine, update, self._transferred)
        self._transferred = True

    def _discard(self) -> None:
        """Let go of the engine, so that another fits in its place."""
        if self._engine is None:
            return
        from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

        self._engine.engine_core.shutdown()
        self._engine = self._adapter = None
        cleanup_dist_env_and_memory()
        gc.collect()

    def _add(self, number: int, call: EngineCall) -> None:
        """Put a call's rollouts into the batch; its answer comes when the last of them ends. Raises PromptTooLong
        before any of them is in it."""
        from vllm import SamplingParams
        from vllm.inputs.engine import tokens_input
        from vllm.sampling_params import RequestOutputKind

        greedy = call.temperature == 0.0
        prompts = [self._encode(group.prompt) for group in call.groups]
        limits = [remaining_tokens(ids, call.limit, call.context) for ids in prompts]
        prefills = [group.prompt.prefill for group in call.groups for _ in group.seeds]
        if not prefills:
            return self._owner.answer(number, WorkerAnswer(DrawnRollout(prompts, [])))
        rows: list[Row | None] = [None] * len(prefills)
        pending = self._calls[number] = _Pending(prompts, prefills, rows, len(rows), greedy)
        try:
            for group, ids, limit in zip(call.groups, prompts, limits, strict=True):
                prompt = ids.tolist()
                for seed in group.seeds:
                    name = f"{number}.{len(pending.requests)}"
                    params = SamplingParams(
                        temperature=call.temperature,
                        top_p=call.top_p,
                        seed=None if greedy else seed,
                        max_tokens=limit,
                        logprobs=None if greedy else 0,
                        stop_token_ids=list(call.stops),
                        ignore_eos=True,  # the stop tokens hold it where it is one
                        detokenize=False,
                        output_kind=RequestOutputKind.FINAL_ONLY,
                    )
                    own = self._engine.add_request(name, tokens_input(prompt), params, lora_request=self._adapter)
                    pending.requests.append(own)
        except BaseException:
            self._cancel(number)
            raise

    def _cancel(self, number: int) -> None:
        pending = self._calls.pop(number, None)
        if pending is not None:
            self._engine.abort_request(pending.requests, internal=True)

    def _step(self) -> None:
        """One step of the engine. One that fails leaves an engine in no known state, so the process ends with it."""
        try:
            outputs = self._engine.step()
        except Exception as error:
            for number in self._calls:
                self._owner.answer(number, WorkerAnswer(fault=fault_of(error, fatal=True)))
            raise
        for output in outputs:
            if output.finished:
                self._finish(output)

    def _finish(self, output: Any) -> None:
        number, _, place = output.request_id.partition(".")
        pending = self._calls.get(int(number))
        if pending is None:
            return
        pending.rows[int(place)] = self._row(output.outputs[0], pending.prefills[int(place)], pending.greedy)
        pending.left -= 1
        if not pending.left:
            del self._calls[int(number)]
            self._owner.answer(int(number), WorkerAnswer(DrawnRollout(pending.prompts, pending.rows)))  # type: ignore[arg-type]

    def _row(self, output: Any, prefill: str, greedy: bool) -> Row:
        """A finished CompletionOutput. The likeliest token has log-probability 0 at temperature 0."""
        ids, stopped = np.array(output.token_ids, dtype=np.int32), output.finish_reason == "stop"
        if greedy:
            values = np.zeros(len(ids), dtype=np.float32)
        else:
            told = zip(output.logprobs, output.token_ids, strict=True)
            values = np.array([step[token].logprob for step, token in told], dtype=np.float32)
        return Row(self._text.decode(ids, stopped, prefill), ids, values, stopped)

    def _score(self, asked: tuple[list[tuple[npt.NDArray[np.int32], int]], float]) -> list[npt.NDArray[np.float32]]:
        """(T,) log-probabilities at a temperature of the last T of each row's tokens. Rows: (token ids, T)."""
        from vllm import SamplingParams
        from vllm.inputs.engine import tokens_input
        from vllm.sampling_params import RequestOutputKind

        rows, temperature = asked
        params = SamplingParams(
            temperature=0.0,
            max_tokens=1,
            prompt_logprobs=0,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        found: dict[int, npt.NDArray[np.float32]] = {}
        scale = 1.0 / max(temperature, 1e-6)
        self._engine.apply_model(lambda model: _scale(model, scale))
        try:
            for i, (ids, _) in enumerate(rows):
                self._engine.add_request(f"s.{i}", tokens_input(ids.tolist()), params, lora_request=self._adapter)
            while self._engine.has_unfinished_requests():
                for output in self._engine.step():
                    if output.finished:
                        i = int(output.request_id.partition(".")[2])
                        ids, length = rows[i]
                        told = output.prompt_logprobs[len(ids) - length :]
                        values = [step[int(token)].logprob for step, token in zip(told, ids[-length:], strict=True)]
                        found[i] = np.array(values, dtype=np.float32)
        finally:
            self._engine.apply_model(_unscale)
        return [found[i] for i in range(len(rows))]

    def _sleep(self, _: None) -> None:
        self._engine.reset_prefix_cache()
        self._engine.sleep(level=1)

    def _wake(self, _: None) -> None:
        self._engine.wake_up()


def _scale(model: Any, scale: float) -> None:
    """Log-probabilities of given tokens come from the model's logits as they are; the sampler's are at a temperature.
    Until `_unscaled`, the logits are at it too, in float32, as the sampler divides them."""
    original = model.compute_logits

    def compute_logits(*args: Any, **kwargs: Any) -> Any:
        logits = original(*args, **kwargs)
        return None if logits is None else logits.float() * scale

    model.compute_logits = compute_logits


def _unscale(model: Any) -> None:
    vars(model).pop("compute_logits", None)


def fault_of(error: Exception, *, fatal: bool = False) -> Exception:
    """The fault in one line: PolicyUnavailable for the engine's, BadAddress for its input's, or PromptTooLong."""
    import torch

    if isinstance(error, PromptTooLong):
        return PromptTooLong(str(error))
    line = " ".join(str(error).split()) or type(error).__name__
    memory = isinstance(error, MemoryError | torch.OutOfMemoryError) or "memory" in line.lower()
    return (PolicyUnavailable if fatal or memory else BadAddress)(line[:MESSAGE])


def main(owner: Owner) -> None:
    Host(owner).serve()
    os._exit(0)  # threads of libraries may wait for ever


CPU_CONTEXT, GPU_CONTEXT = 8192, 32768
CPU_SEQUENCES, GPU_SEQUENCES = 64, 256
CPU_CACHE = 2 << 30


@dataclass(frozen=True)
class Ready:
    """What an engine came to.

    device: "cpu" or "cuda"; context: most tokens of prompt and answer; slots: rollouts that it decodes at once
    sleeps: whether the device's memory can be lent to a trainer; transfers: whether weights can be put into it running
    """

    device: str
    dtype: str
    context: int
    sleeps: bool
    transfers: bool = False
    slots: int = 0


def build_engine(settings: EngineSettings) -> tuple[Any, Ready]:
    """An LLMEngine in this process, and what it came to."""
    import torch._dynamo.config
    from transformers import AutoConfig
    from vllm.platforms import current_platform

    options, on_cpu = settings.options, bool(current_platform.is_cpu())
    eager = options.compile == "off" or (options.compile == "auto" and on_cpu)
    # Before vLLM's sampler is imported, whose small compiled parts would cost seconds at the first draw
    torch._dynamo.config.disable = eager
    from vllm import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    asked = (settings.device or ("cpu" if on_cpu else "cuda")).partition(":")[0]
    if (asked == "cpu") != on_cpu:
        raise ValueError(
            f"device {settings.device} cannot be used: this vLLM is built for {current_platform.device_name}"
        )
    dtype = settings.dtype or ("float32" if on_cpu else "bfloat16")
    longest = context_of(AutoConfig.from_pretrained(settings.model))
    context = min(longest, options.context or (CPU_CONTEXT if on_cpu else GPU_CONTEXT))
    sleeps = not on_cpu and options.sleep != "off"
    transfers = not on_cpu and options.transfer != "off" and options.gpus == 1 and settings.adapter is None
    arguments: dict[str, Any] = {
        "model": settings.weights or settings.model,
        "skip_tokenizer_init": True,
        "dtype": dtype,
        "max_model_len": context,
        "max_num_seqs": options.sequences or (CPU_SEQUENCES if on_cpu else GPU_SEQUENCES),
        "enable_prefix_caching": options.prefix_cache == "on",
        "enforce_eager": eager,
        "logprobs_mode": "processed_logprobs",
        "max_logprobs": 1,
        "tensor_parallel_size": options.gpus,
        "disable_log_stats": True,
        "seed": 0,
        "kv_cache_memory_bytes": int(options.cache_gib * (1 << 30)) if options.cache_gib else None,
    }
    if settings.adapter is not None:
        arguments |= {"enable_lora": True, "max_loras": 1, "max_lora_rank": settings.adapter.rank}
    if on_cpu:
        arguments |= {
            # A prompt that is computed in parts draws once a part from its own random stream, which a CPU generator
            # cannot take back (it fails): whole prompts alone, all of which must fit into one step
            "enable_chunked_prefill": False,
            "max_num_batched_tokens": max(context, 2048),
            "kv_cache_memory_bytes": arguments["kv_cache_memory_bytes"] or min(CPU_CACHE, _free_memory() // 4),
        }
    else:
        arguments |= {"gpu_memory_utilization": options.gpu_memory, "enable_sleep_mode": sleeps}
    if transfers:
        from vllm.config import WeightTransferConfig

        arguments["weight_transfer_config"] = WeightTransferConfig(backend=BACKEND)
    engine = LLMEngine.from_engine_args(EngineArgs(**arguments))
    return engine, Ready("cpu" if on_cpu else "cuda", dtype, context, sleeps, transfers, arguments["max_num_seqs"])


def _free_memory() -> int:
    import psutil  # one of vLLM's own requirements

    return int(psutil.virtual_memory().available)
