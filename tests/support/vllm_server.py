"""`vllm serve` for tests: vLLM's routes over a tiny model, sampled by transformers without a cache.

What it samples, and what it says of given tokens, is what the weights and the adapter make of them, which it reads from
the directories that it is given. As a program it takes the command line that vpo.servers.vllm writes.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import time
from contextlib import AbstractContextManager, closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from support.completion_server import CompletionServer
from transformers import AutoModelForCausalLM

TESTS = Path(__file__).parent.parent


class VllmServer(CompletionServer):
    """adapters: those that are loaded, by name.

    updates: whether it was started to take adapters; most_rank: of an adapter
    """

    def __init__(self, folder: Path, *, updates: bool = True, most_rank: int = 16, **manners: Any) -> None:
        self.updates, self.most_rank = updates, most_rank
        self.base: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.adapters: dict[str, Any] = {}
        super().__init__(**{"context": 512, **manners})

    def models(self) -> list[str]:
        return [self.manners.model, *self.adapters]

    def list_models(self, handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/health":
            handler.path = "/v1/models"
            handler.headers["authorization"] = f"Bearer {self.manners.key}"
        super().list_models(handler)

    def answer(self, handler: BaseHTTPRequestHandler, body: dict[str, Any], *_: Any) -> tuple[int, dict[str, Any]]:
        with self.lock, torch.inference_mode():
            if not self.allowed(handler):
                return 401, {"error": {"message": "Unauthorized"}}
            if handler.path.endswith("_lora_adapter") and self.updates:
                return self.change(handler.path, body)
            if body.get("model") not in self.models():
                detail = f"The model `{body.get('model')}` does not exist."
                return (404, {"error": {"message": detail}}) if "model" in body else (404, {"detail": "Not Found"})
            if body.get("prompt") == [13]:
                os._exit(3)  # as of an engine that runs out of memory
            return 200, self.complete(self.adapters.get(body["model"], self.base), body)

    def change(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        name = body["lora_name"]
        if path == "/v1/unload_lora_adapter":
            return (200, {}) if self.adapters.pop(name, None) else (404, {"error": {"message": "cannot be found"}})
        if name in self.adapters:
            return 400, {"error": {"message": f"The lora adapter '{name}' has already been loaded."}}
        settings = json.loads((Path(body["lora_path"]) / "adapter_config.json").read_text())
        if settings["r"] > self.most_rank:
            return 500, {"error": {"message": f"LoRA rank {settings['r']} is greater than max_lora_rank"}}
        self.load(name, body["lora_path"])
        return 200, {}

    def load(self, name: str, folder: str) -> None:
        with torch.inference_mode(False):
            whole = PeftModel.from_pretrained(copy.deepcopy(self.base), folder).merge_and_unload()
        self.adapters[name] = whole.eval()

    def complete(self, model: Any, body: dict[str, Any]) -> dict[str, Any]:
        """Of token ids; of a text, as in a probe, by its bytes."""
        prompt = body["prompt"] if isinstance(body["prompt"], list) else list(body["prompt"].encode())
        choices = [self.sample(model, prompt, body, index) for index in range(body.get("n", 1))]
        if "prompt_logprobs" in body:
            steps = self.logprobs(model, prompt, 1.0).gather(-1, torch.tensor(prompt)[1:, None])[:, 0].tolist()
            pairs = zip(prompt[1:], steps, strict=True)
            choices[0]["prompt_logprobs"] = [None, *({str(token): {"logprob": value}} for token, value in pairs)]
        written = sum(len(choice["token_ids"]) for choice in choices)
        return {"choices": choices, "usage": {"prompt_tokens": len(prompt), "completion_tokens": written}}

    def logprobs(self, model: Any, ids: list[int], temperature: float) -> torch.Tensor:
        """(len(ids) - 1, V), of what comes after each of the ids but the last."""
        return (model(torch.tensor([ids])).logits[0, :-1].float() / temperature).log_softmax(-1)

    def sample(self, model: Any, prompt: list[int], body: dict[str, Any], index: int) -> dict[str, Any]:
        random = torch.Generator().manual_seed(body.get("seed", 0) + index)
        temperature, ids, steps, tops = body.get("temperature", 1.0), list[int](), list[float](), list[dict]()
        while len(ids) < body["max_tokens"] and not (ids and ids[-1] in body.get("stop_token_ids", ())):
            logprobs = self.logprobs(model, [*prompt, *ids, 0], temperature or 1.0)[-1]
            drawn = torch.multinomial(logprobs.exp(), 1, generator=random)
            ids.append(int(drawn if temperature else logprobs.argmax()))
            steps.append(float(logprobs[ids[-1]]))
            likeliest = logprobs.topk(body.get("logprobs", 1))
            tops.append({str(int(i)): float(v) for v, i in zip(*likeliest, strict=True)})
        stopped = bool(ids) and ids[-1] in body.get("stop_token_ids", ())
        return {
            "index": index,
            "text": "",
            "finish_reason": "stop" if stopped else "length",
            "token_ids": ids,
            "prompt_token_ids": prompt,
            "logprobs": {"token_logprobs": steps, "top_logprobs": tops, "tokens": [str(one) for one in ids]},
        }


def vllm_server(folder: Path, **manners: Any) -> AbstractContextManager[VllmServer]:
    return closing(VllmServer(folder, **manners))


def write_program(folder: Path) -> Path:
    """A folder for PATH with this file as the program `vllm`."""
    program = folder / "vllm"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(TESTS)!r})\n"
        "from support.vllm_server import main\nmain(sys.argv[1:])\n"
    )
    program.chmod(0o755)
    return folder


def main(arguments: list[str]) -> None:
    """vllm serve FOLDER --flags. A model in a folder called `hungry` does not fit."""
    verb, folder, *rest = arguments
    assert verb == "serve", verb
    if Path(folder).name == "hungry":
        raise RuntimeError("Engine core failed. See root cause above.") from MemoryError("CUDA out\n  of memory")
    flags: dict[str, str] = {}
    for one in rest:
        if one.startswith("--"):
            name = one[2:]
            flags[name] = ""
        else:
            flags[name] = one
    torch.set_num_threads(1)
    VllmServer(
        Path(folder),
        updates=os.environ.get("VLLM_ALLOW_RUNTIME_LORA_UPDATING") == "1" and "enable-lora" in flags,
        most_rank=int(flags.get("max-lora-rank", 0)),
        model=flags["served-model-name"],
        key=os.environ.get("VLLM_API_KEY", ""),
        context=int(flags["max-model-len"]),
        port=int(flags["port"]),
    )
    while True:
        time.sleep(60)
