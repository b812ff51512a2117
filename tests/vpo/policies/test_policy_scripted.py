"""Policies without a model."""

from __future__ import annotations

import asyncio

import pytest

from problems.contract import BadAddress
from problems.types import Prompt, Rollout
from vpo.chain import instructions, parse_chain
from vpo.policies.contract import PolicyUnavailable
from vpo.policies.registry import policy_at

PROGRAM = """import math

# EVOLVE-BLOCK-START
def f(x):
    return x * 2 + 17
# EVOLVE-BLOCK-END

LIMIT = 99
"""


def asked(answer_format: str, answers: int, *, diff: bool = False, parent: str = PROGRAM, stream: int = 0) -> Prompt:
    return Prompt(instructions(answer_format, answers, diff=diff), stream=stream, shown=(parent,))


def sample(name: str, prompt: Prompt, rollouts: int = 4, answers: int = 1, seed: int = 0) -> list[Rollout]:
    policy = policy_at(f"scripted:{name}")
    return asyncio.run(policy.sample([prompt], rollouts=rollouts, answers=answers, seed=seed))[0]


@pytest.mark.parametrize("answers", [1, 3])
@pytest.mark.parametrize(
    ("name", "answer_format"),
    [("mutate", "python"), ("mutate", "text"), ("random-route", "route")],
)
def test_chains_are_written_so_that_they_read_back(name: str, answer_format: str, answers: int) -> None:
    for rollout in sample(name, asked(answer_format, answers), 20, answers):
        chain = parse_chain(rollout.text, answer_format, answers)
        assert chain.error is None and len(chain.answers) == answers
        assert bytes(rollout.token_ids.tolist()).decode() == rollout.text


def test_echo_returns_the_parent() -> None:
    rollout = sample("echo", asked("python", 3), 1, 3)[0]
    chain = parse_chain(rollout.text, "python", 3)
    assert chain.answers == (PROGRAM.rstrip("\n"),) and chain.error == "1 of 3 answers found: 2 repeated"


def test_fixed_cycles_through_a_file(tmp_path) -> None:
    file = tmp_path / "answers.txt"
    file.write_text("a = 1\n---\na = 2\n---\na = 3\n")
    texts = {r.text for s in range(10) for r in sample(f"fixed={file}", asked("python", 1, stream=s))}
    assert {parse_chain(text, "python", 1).answers[0] for text in texts} == {"a = 1", "a = 2", "a = 3"}
    assert parse_chain(sample(f"fixed={file}", asked("python", 3), 1, 3)[0].text, "python", 3).error is None


@pytest.mark.parametrize("content", ["", "[1, 2]\n", "{broken\n", '{"other": 1}\n'])
def test_a_file_without_answers_is_a_bad_address(tmp_path, content: str) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(content)
    with pytest.raises(BadAddress, match="answers.jsonl"):
        policy_at(f"scripted:fixed={file}")


def test_broken_fails_at_once_or_after_some_calls() -> None:
    with pytest.raises(PolicyUnavailable, match="scripted:broken"):
        sample("broken", asked("python", 1))
    policy = policy_at("scripted:broken?after=2")

    async def run() -> None:
        for _ in range(2):
            await policy.sample([asked("python", 1)], rollouts=1, answers=1, seed=0)
        with pytest.raises(PolicyUnavailable):
            await policy.sample([asked("python", 1)], rollouts=1, answers=1, seed=0)

    asyncio.run(run())


def test_latency_overlaps(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = policy_at("scripted:mutate?latency=0.1")

    async def run() -> None:
        all_wait = asyncio.Barrier(10)
        monkeypatch.setattr(asyncio, "sleep", lambda seconds: all_wait.wait())
        calls = (policy.sample([asked("python", 1)], rollouts=1, answers=1, seed=i) for i in range(10))
        await asyncio.wait_for(asyncio.gather(*calls), 60)

    asyncio.run(run())
