"""What the engine's process needs of vLLM, over a plain transformers model: the protocol around an engine can then be
tested where vLLM is not installed. It samples as an engine does (one token a step for every request, a seed a request),
with no cache, and no batch but for rows of one length. Never on the path of the tests themselves, only of the engine's
process.

Prompts that begin with token 13 fail the step; a model in a directory called `hungry` does not fit.
"""

import os
import sys
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__path__: list[str] = []


@dataclass
class EngineArgs:
    model: str
    dtype: str
    max_model_len: int
    skip_tokenizer_init: bool = False
    max_num_seqs: int = 1
    enable_prefix_caching: bool = True
    enforce_eager: bool = False
    logprobs_mode: str = "raw_logprobs"
    max_logprobs: int = 20
    tensor_parallel_size: int = 1
    disable_log_stats: bool = False
    seed: int = 0
    kv_cache_memory_bytes: int | None = None
    enable_chunked_prefill: bool = True
    max_num_batched_tokens: int = 0
    enable_lora: bool = False
    max_loras: int = 0
    max_lora_rank: int = 0
    gpu_memory_utilization: float = 0.9
    enable_sleep_mode: bool = False
    weight_transfer_config: Any = None


@dataclass
class SamplingParams:
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None
    max_tokens: int = 16
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    stop_token_ids: list[int] = field(default_factory=list)
    ignore_eos: bool = False
    detokenize: bool = True
    output_kind: int = 0


class Model:
    """As vLLM's models: hidden states first, logits of them when asked."""

    def __init__(self, folder: str, dtype: str, adapter: str | None) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        self.inner = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()
        if adapter is not None:
            from peft import PeftModel

            self.inner = PeftModel.from_pretrained(self.inner, adapter).merge_and_unload()

    def hidden(self, rows: list[list[int]]) -> Any:
        import torch

        with torch.inference_mode():
            return self.inner.model(torch.tensor(rows)).last_hidden_state

    def compute_logits(self, hidden: Any) -> Any:
        import torch

        with torch.inference_mode():
            return self.inner.lm_head(hidden)


class LLMEngine:
    def __init__(self, args: EngineArgs) -> None:
        if Path(args.model).name == "hungry":
            raise MemoryError("Available memory is less than the model")
        if args.logprobs_mode != "processed_logprobs" or (args.enable_chunked_prefill and not GPU):
            raise ValueError("log-probabilities would not be those of sampling")
        self.args, self.engine_core = args, types.SimpleNamespace(shutdown=lambda: None)
        self.model = None if args.enable_lora else Model(args.model, args.dtype, None)
        self.requests: dict[str, Any] = {}
        self.transferring = False

    def collective_rpc(self, method: str, kwargs: dict[str, Any] | None = None) -> None:
        """The worker's side of weight transfer, in the order that vLLM's worker insists on. A model in a directory
        called `deaf` says OK and keeps its weights; in one called `refusing` it says no."""
        import torch

        if self.args.weight_transfer_config is None:
            raise RuntimeError("Weight transfer not configured")
        name = Path(self.args.model).name
        if method == "init_weight_transfer_engine":
            assert kwargs == {"init_info": {"packed": False}}
        elif method == "start_weight_update":
            self.transferring = True
        elif method == "update_weights":
            assert self.transferring, "start_weight_update must be called before update_weights."
            if name == "refusing":
                raise ValueError("IPC handle not found for GPU UUID")
            update = (kwargs or {})["update_info"]
            told = zip(update["names"], update["ipc_handles"], strict=True)
            if name != "deaf":
                self.model.inner.load_state_dict({key: torch.from_numpy(one["gpu"]) for key, one in told})
        elif method == "finish_weight_update":
            self.transferring = False
        else:
            raise AttributeError(method)

    def reset_prefix_cache(self) -> None:
        """There is no cache."""

    def sleep(self, level: int) -> None:
        """Nothing is held."""

    def wake_up(self) -> None:
        """Nothing was let go."""

    @classmethod
    def from_engine_args(cls, args: EngineArgs) -> "LLMEngine":
        return cls(args)

    def add_lora(self, request: Any) -> None:
        self.model = Model(self.args.model, self.args.dtype, request.path)

    def add_request(self, name: str, prompt: Any, params: SamplingParams, lora_request: Any = None) -> str:
        import torch

        ids = prompt["prompt_token_ids"]
        if len(ids) + params.max_tokens > self.args.max_model_len:
            raise ValueError(f"{len(ids)} tokens and {params.max_tokens} more are beyond {self.args.max_model_len}")
        random = torch.Generator()
        if params.seed is not None:
            random.manual_seed(params.seed)
        self.requests[f"{name}-inner"] = types.SimpleNamespace(
            name=name, prompt=ids, params=params, random=random, ids=[], told=[]
        )
        return f"{name}-inner"

    def abort_request(self, names: list[str], internal: bool) -> None:
        for name in names:
            self.requests.pop(name, None)

    def has_unfinished_requests(self) -> bool:
        return bool(self.requests)

    def apply_model(self, work: Any) -> Any:
        return work(self.model)

    def step(self) -> list[Any]:
        finished = []
        for inner, (request, logits) in self._next_logits().items():
            reason = self._draw(request, logits)
            if reason:
                del self.requests[inner]
                output = types.SimpleNamespace(token_ids=request.ids, logprobs=request.told, finish_reason=reason)
                told = self._prompt_logprobs(request) if request.params.prompt_logprobs is not None else None
                finished.append(
                    types.SimpleNamespace(
                        finished=True, request_id=request.name, outputs=[output], prompt_logprobs=told
                    )
                )
        return finished

    def _next_logits(self) -> dict[str, tuple[Any, Any]]:
        """Every request with the logits of its next token; rows of one length share a forward pass."""
        by_length: dict[int, list[str]] = {}
        for inner, request in self.requests.items():
            if request.prompt[0] == 13:
                raise RuntimeError("the step failed")
            by_length.setdefault(len(request.prompt) + len(request.ids), []).append(inner)
        found = {}
        for names in by_length.values():
            requests = [self.requests[inner] for inner in names]
            hidden = self.model.hidden([request.prompt + request.ids for request in requests])
            logits = self.model.compute_logits(hidden[:, -1]).float()
            found.update(zip(names, zip(requests, logits, strict=True), strict=True))
        return {inner: found[inner] for inner in self.requests}

    def _draw(self, request: Any, logits: Any) -> str:
        import torch

        params = request.params
        if params.temperature == 0:
            token, logprobs = int(logits.argmax()), logits.log_softmax(-1)
        else:
            from vpo.hf.sampling import nucleus

            logprobs = (logits / params.temperature).log_softmax(-1)
            if params.top_p < 1:
                logprobs = nucleus(logprobs[None], params.top_p)[0]
            token = int(torch.multinomial(logprobs.exp(), 1, generator=request.random))
        request.ids.append(token)
        request.told.append({token: types.SimpleNamespace(logprob=float(logprobs[token]))})
        if token in params.stop_token_ids:
            return "stop"
        return "length" if len(request.ids) == params.max_tokens else ""

    def _prompt_logprobs(self, request: Any) -> list[Any]:
        logprobs = self.model.compute_logits(self.model.hidden([request.prompt])[0]).float().log_softmax(-1)
        told = [
            {token: types.SimpleNamespace(logprob=float(row[token]))}
            for row, token in zip(logprobs, request.prompt[1:], strict=False)
        ]
        return [None, *told]


def _module(name: str, **content: Any) -> None:
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(content)


for package in ("v1", "v1.engine", "inputs", "lora", "distributed"):
    _module(f"vllm.{package}", __path__=[])
GPU = os.environ.get("VLLM_STUB_GPU") == "1"
"""Whether to pass for a vLLM that was built for a GPU."""
_module("vllm.platforms", current_platform=types.SimpleNamespace(is_cpu=lambda: not GPU, device_name="cpu"))
_module("vllm.config", WeightTransferConfig=lambda backend: types.SimpleNamespace(backend=backend))
_module("vllm.v1.engine.llm_engine", LLMEngine=LLMEngine)
_module("vllm.inputs.engine", tokens_input=lambda ids: {"type": "token", "prompt_token_ids": ids})
_module("vllm.sampling_params", RequestOutputKind=types.SimpleNamespace(FINAL_ONLY=2))
_module("vllm.lora.request", LoRARequest=lambda name, number, path: types.SimpleNamespace(path=path))
_module("vllm.distributed.parallel_state", cleanup_dist_env_and_memory=lambda: None)
print(f"a stub of vLLM in process {os.getpid()}")
