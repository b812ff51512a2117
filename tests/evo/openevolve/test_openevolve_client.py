"""Policies inside OpenEvolve: the hook, the process it lives in, and whole runs of an unmodified OpenEvolve."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from completion_server import completion_server
from openevolve.config import Config, LLMModelConfig
from openevolve.llm.ensemble import LLMEnsemble

from evo.openevolve import client as openevolve_client
from evo.openevolve.client import PolicyClient, add_policies, policy_client
from problems.registry import resolve
from vpo.embedded import prompt_text
from vpo.policies.contract import PolicyUnavailable

ROOT = Path(__file__).parents[3]
VALLEY = ROOT / "examples" / "valley"
QUESTION = [{"role": "user", "content": "Improve this:\n```python\nx = 1\ny = x + 2\n```"}]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch):
    """A process that has asked nothing yet."""
    yield
    if openevolve_client._host is not None:
        openevolve_client._host.close()
        openevolve_client._host = None


def model(name: str, **settings: Any) -> LLMModelConfig:
    given = {"init_client": policy_client, "temperature": 0.8, "max_tokens": 40, "random_seed": 7, **settings}
    return LLMModelConfig(name=name, **given)


def answer(ensemble: LLMEnsemble, system: str = "Be brief.", question: list[dict[str, str]] = QUESTION) -> str:
    """As OpenEvolve's workers ask: on an event loop made for the occasion."""
    return asyncio.run(ensemble.generate_with_context(system, question))


def test_an_ensemble_asks_a_policy_again_and_again_on_loops_of_its_own() -> None:
    with completion_server() as server:
        ensemble = LLMEnsemble([model(server.address)])
        assert isinstance(ensemble.models[0], PolicyClient)
        assert not server.requests, "nothing is loaded before the first question"
        first, second = answer(ensemble), answer(ensemble)
        assert first and second and first != second, "one question asked twice has two answers"
        request = server.requests[-1]
        assert request["temperature"] == 0.8 and request["max_tokens"] == 40
        assert [one["role"] for one in request["messages"]] == ["system", "user"]
        usage = ensemble.last_usage
        assert usage is not None and usage["model"] == server.address
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 40
        assert asyncio.run(ensemble.generate("Say something"))


def test_a_model_without_a_temperature_samples_at_its_own() -> None:
    client = policy_client(model("embedded:edit-improve", temperature=None))
    policy = openevolve_client.open_host()._load_policy(client.settings)
    assert policy.temperature == pytest.approx(0.8)


def test_one_seed_asks_for_the_same_samples_and_another_for_others() -> None:
    def answers(seed: int | None) -> list[str]:
        openevolve_client._host = None
        ensemble = LLMEnsemble([model("scripted:mutate", random_seed=seed)])
        return [answer(ensemble) for _ in range(4)]

    assert answers(1) == answers(1) != answers(2)
    assert answers(None) != answers(None)
    assert "```python" in answers(1)[0]


def test_clients_with_one_address_and_settings_share_a_policy() -> None:
    with completion_server() as server:
        for temperature in (0.8, 0.8, 0.9):
            answer(LLMEnsemble([model(server.address, temperature=temperature)]))
        assert len(openevolve_client.open_host()._policies) == 2


def test_an_embedded_policy_is_asked_the_maze_that_the_prompt_holds() -> None:
    maze = resolve("maze:test", limit=1)[0]
    ensemble = LLMEnsemble([model("embedded:vpo", max_tokens=None)])
    text = answer(ensemble, question=[{"role": "user", "content": f"# Board\n{prompt_text(maze, answers=1)}\n# End"}])
    fence, moves, end = text.splitlines()
    assert (fence, end) == ("```", "```") and set(moves) <= set("UDLR") and maze.score(moves).rewards[0] == 1.0
    with pytest.raises(PolicyUnavailable, match="mazes in its own language"):
        answer(ensemble)


def test_which_models_of_a_configuration_are_ours() -> None:
    config = Config.from_dict(
        {
            "llm": {
                "models": [
                    {"name": "gpt-4o"},
                    {"name": "scripted:mutate"},
                    {"name": "./runs/code", "provider": "evo"},
                    {"name": "Qwen/Qwen3-4B", "provider": "openai"},
                ]
            }
        }
    )
    hooks = [one.init_client is policy_client for one in add_policies(config).llm.models]
    assert hooks == [False, True, True, False]
    assert [one.init_client is policy_client for one in config.llm.evaluator_models] == hooks


def ran(*arguments: str, config: Path, output: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "evo.openevolve.client", str(VALLEY / "initial_program.py")]
    command += [str(VALLEY / "evaluator.py"), "--config", str(config), "--output", str(output), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, cwd=output.parent)


def valley_config(folder: Path, model: str) -> Path:
    """The example's configuration with a model."""
    config = folder / "config.yaml"
    text = (VALLEY / "config.yaml").read_text().replace("llm:\n", f"llm:\n  primary_model: {model}\n")
    config.write_text(text + "\ncheckpoint_interval: 8\n")
    return config


@pytest.mark.long
def test_a_whole_run_of_openevolve_is_led_by_a_policy(tmp_path: Path) -> None:
    config, output = valley_config(tmp_path, "scripted:mutate"), tmp_path / "out"
    done = ran("--iterations", "8", config=config, output=output)
    assert done.returncode == 0, done.stderr[-2000:]
    checkpoint = output / "checkpoints" / "checkpoint_8"
    programs = [json.loads(file.read_text()) for file in (checkpoint / "programs").iterdir()]
    assert len(programs) >= 7 and len({one["code"] for one in programs}) > 4
    assert "LLM generation failed" not in done.stderr


def test_a_wrong_address_ends_the_run_before_it_begins_in_one_line(tmp_path: Path) -> None:
    config = valley_config(tmp_path, "openai:any@http://127.0.0.1:9")
    done = ran(config=config, output=tmp_path / "out")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("evo: ")] == [
        done.stderr.splitlines()[-1]
    ] and "cannot be reached" in done.stderr
