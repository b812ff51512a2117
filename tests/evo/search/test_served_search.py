"""A search whose policy is a server: bad input, counts and cost in every place, resume, and no training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import refused
from support.completion_server import completion_server
from support.stored_rows import stored_groups

from evo.cli import invoke

pytestmark = pytest.mark.usefixtures("here")
COUNTED = ("tokens", "prompt_tokens", "cost")
SEARCH = ["run", "programs:easy", "--limit", "2", "--answers", "1", "--rollouts", "2", "--max-new-tokens", "60"]


def told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict:
    assert invoke([*arguments, "--json"]) in (0, 1, 130)  # 1: no reply is a program
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("wrong", ["openai:other@URL", "openai:tiny@http://127.0.0.1:9", "openai:tiny@URL?speed=1"])
def test_a_wrong_address_is_one_line_before_anything_is_written(wrong: str, capsys, tmp_path: Path) -> None:
    with completion_server() as server:
        assert refused(capsys, *SEARCH, "--policy", wrong.replace("URL", server.url), "--plain")
    assert not (tmp_path / "evo.db").exists()


@pytest.mark.long
@pytest.mark.parametrize("engine", ["vllm", "someone"])
def test_tokens_and_cost_are_counted_stored_and_carried_over_a_resume(engine: str, capsys) -> None:
    with completion_server(engine=engine) as server:
        policy = f"{server.address}?price=1/3"
        first = told([*SEARCH, "--iterations", "3", "--name", "one", "--policy", policy], capsys)
        assert first["groups"] == 6 and first["tokens"] > 0 and first["prompt_tokens"] > first["tokens"]
        assert first["cost"] == pytest.approx((first["prompt_tokens"] + 3 * first["tokens"]) / 1e6, abs=1e-6)
        shown = told(["show", "one"], capsys)
        assert {key: shown[key] for key in COUNTED} == {key: first[key] for key in COUNTED}
        assert invoke(["show", "one"]) == 0
        assert f"{first['tokens']:,} tokens, {first['prompt_tokens']:,} of prompts, cost" in capsys.readouterr().out
        again = told(["resume", "one", "--iterations", "5"], capsys)
        assert again["groups"] == 10 and again["tokens"] > first["tokens"] and again["cost"] > first["cost"]
        assert again["cost"] == pytest.approx((again["prompt_tokens"] + 3 * again["tokens"]) / 1e6, abs=2e-6)
        assert again["prompt_tokens"] >= first["prompt_tokens"] + 4 * first["prompt_tokens"] / 6 * 0.5
    rollouts = [one.rollout for group in stored_groups("sqlite:///evo.db", "one") for one in group.rollouts]
    assert all(bool(len(one.token_ids)) is (engine == "vllm") for one in rollouts)


@pytest.mark.parametrize(
    ("engine", "said"), [("vllm", "--from-traces RUN can train"), ("x", "its traces cannot train")]
)
def test_training_beside_it_is_refused_in_words(engine: str, said: str, capsys) -> None:
    with completion_server(engine=engine) as server:
        assert invoke([*SEARCH, "--policy", server.address, "--train", "grpo", "--plain"]) == 2
    error = capsys.readouterr().err
    assert "can search and compare, not train" in error and said in error


def test_a_policy_on_a_server_may_be_one_of_several_operators(capsys) -> None:
    with completion_server() as server:
        policies = f"scripted:mutate,{server.address}?temperature=1.3&n=off"
        ended = told([*SEARCH, "--iterations", "6", "--policy", policies], capsys)
        assert ended["groups"] == 12 and any(one["temperature"] == 1.3 for one in server.requests)
