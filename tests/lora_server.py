"""A server with a model in it and vLLM's routes for LoRA adapters: what it samples, and what it tells of given tokens,
is what the adapter makes of them, which it reads from the directory that it is told."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import torch
from completion_server import CompletionServer
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from problems.types import Prompt
from vpo.policies.encoding import encode_prompt, end_tokens


class LoraServer(CompletionServer):
    """adapters: those that are loaded, by name. updates: whether it was started to take any; deaf: says that it has
    loaded one, and goes on with the model as it is; most_rank: of an adapter"""

    def __init__(self, folder: Path, *, updates: bool = True, deaf: bool = False, most_rank: int = 16) -> None:
        self.updates, self.deaf, self.most_rank = updates, deaf, most_rank
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.base: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.stops = end_tokens(self.base.generation_config, self.tokenizer)
        self.adapters: dict[str, Any] = {}
        super().__init__(context=2048)

    def models(self) -> list[str]:
        return [self.manners.model, *self.adapters]

    def answer(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self.lock, torch.inference_mode():
            if handler.path.endswith("_lora_adapter") and self.updates:
                return self._change(handler.path, body)
            if body.get("model") not in self.models():
                detail = f"The model `{body.get('model')}` does not exist."
                return (404, {"error": {"message": detail}}) if "model" in body else (404, {"detail": "Not Found"})
            model = self.adapters.get(body["model"], self.base)
            if handler.path == "/v1/completions":
                told = self._logprobs(model, body["prompt"], 1.0).gather(-1, torch.tensor(body["prompt"])[1:, None])
                pairs = zip(body["prompt"][1:], told[:, 0].tolist(), strict=True)
                said = [None, *({str(token): {"logprob": value}} for token, value in pairs)]
                return 200, {"choices": [{"index": 0, "text": "", "prompt_logprobs": said}]}
            return 200, self._chat(model, body)

    def _change(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        name = body["lora_name"]
        if path == "/v1/unload_lora_adapter":
            return (200, {}) if self.adapters.pop(name, None) else (404, {"error": {"message": "cannot be found"}})
        if name in self.adapters:
            return 400, {"error": {"message": f"The lora adapter '{name}' has already been loaded."}}
        settings = json.loads((Path(body["lora_path"]) / "adapter_config.json").read_text())
        if settings["r"] > self.most_rank:
            return 500, {"error": {"message": f"LoRA rank {settings['r']} is greater than max_lora_rank"}}
        with torch.inference_mode(False):
            whole = PeftModel.from_pretrained(copy.deepcopy(self.base), body["lora_path"]).merge_and_unload()
        self.adapters[name] = self.base if self.deaf else whole.eval()
        return 200, {}

    def _logprobs(self, model: Any, ids: list[int], temperature: float) -> torch.Tensor:
        """(len(ids) - 1, V), of what comes after each of the ids but the last."""
        return (model(torch.tensor([ids])).logits[0, :-1].float() / temperature).log_softmax(-1)

    def _chat(self, model: Any, body: dict[str, Any]) -> dict[str, Any]:
        said = {one["role"]: one["content"] for one in body["messages"]}
        prompt = encode_prompt(self.tokenizer, "chat", Prompt(said["user"], said.get("system", ""))).tolist()
        choices = [self._choice(model, prompt, body, index) for index in range(body.get("n", 1))]
        usage = {"prompt_tokens": len(prompt), "completion_tokens": sum(len(one["token_ids"]) for one in choices)}
        return {"choices": choices, "usage": usage, "prompt_token_ids": prompt}

    def _choice(self, model: Any, prompt: list[int], body: dict[str, Any], index: int) -> dict[str, Any]:
        random = torch.Generator().manual_seed(body.get("seed", 0) + index)
        ids: list[int] = []
        told: list[dict[str, Any]] = []
        while len(ids) < body["max_tokens"] and not (ids and ids[-1] in self.stops):
            logprobs = self._logprobs(model, [*prompt, *ids, 0], body["temperature"])[-1]
            ids.append(int(torch.multinomial(logprobs.exp(), 1, generator=random)))
            told.append({"token": "", "logprob": float(logprobs[ids[-1]]), "top_logprobs": []})
        stopped = ids[-1] in self.stops
        text = self.tokenizer.decode(ids[:-1] if stopped else ids, skip_special_tokens=True)
        return {
            "index": index,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop" if stopped else "length",
            "token_ids": ids,
            "logprobs": {"content": told},
        }


@contextmanager
def lora_server(folder: Path, **manners: Any) -> Iterator[LoraServer]:
    server = LoraServer(folder, **manners)
    try:
        yield server
    finally:
        server.close()
