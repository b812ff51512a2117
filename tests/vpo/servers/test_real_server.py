"""A server that others wrote: transformers serve, in a process of its own, with a tiny model. (vLLM itself
is measured by bench/served.py.)"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from problems.types import Prompt, Rollout, prompt_tokens
from vpo.policies.registry import load_policy

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytestmark = pytest.mark.long
PROMPTS = [Prompt(f"Count to {i}.", "Be brief.", i) for i in range(3)]


@pytest.fixture(scope="module")
def server(qwen2: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """(URL, the model's folder, by which the server calls it)."""
    folder = tmp_path_factory.mktemp("served") / "model"
    shutil.copytree(qwen2, folder)
    config = json.loads((folder / "generation_config.json").read_text())
    # this server samples where the checkpoint says so, and cuts to its top_k, whatever the request asks for
    (folder / "generation_config.json").write_text(json.dumps({**config, "do_sample": True, "top_k": 0}))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(folder)]
    command += ["--port", str(port), "--device", "cpu"]
    log = folder.with_name("log.txt")
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, env={**os.environ, "HF_HUB_OFFLINE": "1"}
        )
    try:
        url, since = f"http://127.0.0.1:{port}", time.monotonic()
        while not _healthy(url):
            if process.poll() is not None or time.monotonic() - since > 300:
                pytest.fail(f"transformers serve did not start: {log.read_text()[-2000:]}")
            time.sleep(0.2)
        yield url, folder
    finally:
        process.kill()
        process.wait(20)


def _healthy(url: str) -> bool:
    try:
        return urllib.request.urlopen(f"{url}/health", timeout=2).status == 200
    except OSError:
        return False


def sampled(address: str, rollouts: int, **settings: float) -> list[list[Rollout]]:
    async def run() -> list[list[Rollout]]:
        policy = load_policy(address, max_tokens=24, **settings)  # type: ignore[arg-type]
        assert not policy.traits.logprobs
        try:
            return await policy.sample(PROMPTS, rollouts=rollouts, answers=1, seed=5)
        finally:
            await policy.close()

    return asyncio.run(run())


def test_it_gives_rollouts_and_their_counts_and_one_seed_samples_alike(server: tuple[str, Path]) -> None:
    url, folder = server
    address = f"openai:{folder}@{url}?concurrency=1"  # its seed is one for all that it does at a time
    groups = sampled(address, 3)
    assert [len(group) for group in groups] == [3, 3, 3], "it gives one choice whatever n asks for"
    for group in groups:
        assert prompt_tokens(group) > 3 * len("Be brief.")
        assert all(0 < rollout.tokens <= 24 and rollout.finish in ("stop", "length") for rollout in group)
    assert len({rollout.text for group in groups for rollout in group}) > 5
    again = sampled(address, 3)
    assert [[one.text for one in group] for group in again] == [[one.text for one in group] for group in groups]


def test_temperature_0_is_the_likeliest_text(server: tuple[str, Path]) -> None:
    url, folder = server
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        groups = sampled(f"openai:{folder}@{url}", 2, temperature=0.0)
    assert all(group[0].text == group[1].text for group in groups)
