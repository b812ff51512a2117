"""A policy over a server that misbehaves: what it makes of each fault, and that it loses nothing that was paid for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from support.completion_server import FAULTS, CompletionServer, hosted_server, mixed, program_of, scripted

from problems.types import Prompt, Rollout, ScoredRollout, Unanswered, prompt_tokens
from vpo.policies.contract import PolicyUnavailable
from vpo.policies.registry import load_policy
from vpo.servers.policy import ServedPolicy

PROMPT = Prompt("Write a line.", "Be brief.", stream=4)


def sampling(server: CompletionServer, options: str, work: Callable[[ServedPolicy], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        policy = load_policy(f"{server.address}?n=off&{options}", max_tokens=400)
        assert isinstance(policy, ServedPolicy)
        try:
            return await work(policy)
        finally:
            await policy.close()

    return asyncio.run(run())


def group(server: CompletionServer, options: str = "", rollouts: int = 1) -> list[Rollout]:
    async def work(policy: ServedPolicy) -> list[Rollout]:
        (found,) = await policy.sample([PROMPT], rollouts=rollouts, answers=1, seed=3)
        return found

    return sampling(server, options, work)


def spent(groups: list[list[Rollout]]) -> tuple[int, int]:
    rollouts = [rollout for one in groups for rollout in one]
    return sum(prompt_tokens(one) for one in groups), sum(rollout.tokens for rollout in rollouts)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("cut", Unanswered.CUT), ("empty", Unanswered.EMPTY), ("reasoning", Unanswered.REASONING), ("parts", None)],
)
def test_a_reply_says_why_it_holds_no_answer(fault: str, reason: Unanswered | None) -> None:
    with hosted_server(scripted(fault)) as server:
        (rollout,) = group(server)
        assert spent([[rollout]]) == (server.books.prompt_tokens, server.books.completion_tokens)
    assert ScoredRollout(rollout, ()).unanswered is reason
    if fault == "parts":
        assert rollout.text == program_of({}, 0), "content in parts is read"


def test_tokens_are_estimated_if_a_server_reports_no_usage() -> None:
    with hosted_server(scripted("no usage")) as server:
        with pytest.warns(UserWarning, match="reports no usage: tokens and cost are estimates"):
            (rollout,) = group(server, "price=1/2")
        assert rollout.usage is not None and rollout.usage.estimated
        assert spent([[rollout]]) == (server.books.prompt_tokens, server.books.completion_tokens)
        assert rollout.usage.cost == pytest.approx(server.books.cost(1, 2))


def test_what_an_unreadable_reply_cost_counts() -> None:
    with hosted_server(scripted("garbled", "")) as server:
        (rollout,) = group(server)
        assert len(server.books.charges) == 2 and rollout.text
        assert spent([[rollout]]) == (server.books.prompt_tokens, server.books.completion_tokens)
    with hosted_server(scripted(after="garbled")) as server, pytest.raises(PolicyUnavailable, match="2 times: a mal"):
        group(server, "retries=1")


def test_a_request_that_hangs_takes_no_paid_answer_along() -> None:
    with hosted_server(scripted("", "hang", "hang", ""), hang=30) as server:
        found = group(server, "timeout=1&retries=0&concurrency=1", rollouts=4)
    assert [bool(one.text) for one in found] == [True, False, False, True]
    assert [ScoredRollout(one, ()).unanswered is Unanswered.FAILED for one in found] == [False, True, True, False]
    assert "no answer within 1 s, asked once" in found[1].fault
    assert spent([found]) == (server.books.prompt_tokens, server.books.completion_tokens)


def test_a_group_that_gets_nothing_fails_if_the_server_is_gone_and_not_if_it_answers_others() -> None:
    with hosted_server(scripted(after=500)) as server, pytest.raises(PolicyUnavailable, match="asked 2 times"):
        group(server, "retries=1", rollouts=2)

    async def two(policy: ServedPolicy) -> list[list[Rollout]]:
        slow = asyncio.create_task(policy.sample([PROMPT], rollouts=1, answers=1, seed=3))
        while not server.requests:
            await asyncio.sleep(0.01)
        return [*await policy.sample([Prompt("another")], rollouts=1, answers=1, seed=3), *await slow]

    with hosted_server(scripted("hang", ""), hang=30) as server:
        (answered,), (failed,) = sampling(server, "timeout=1&retries=0", two)
    assert answered.text and not answered.fault and failed.fault


def test_sampling_can_be_cancelled_in_its_retries() -> None:
    async def work(policy: ServedPolicy) -> None:
        task = asyncio.create_task(policy.sample([PROMPT], rollouts=2, answers=1, seed=3))
        while len(server.requests) < 2:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 2.0)

    with hosted_server(scripted(after=429)) as server:
        sampling(server, "retries=50", work)


def test_all_faults_mixed_every_token_that_is_charged_is_counted() -> None:
    async def work(policy: ServedPolicy) -> list[Any]:
        prompts = [Prompt(f"Write line {number}.", stream=number) for number in range(60)]
        tasks = [policy.sample([prompt], rollouts=2, answers=1, seed=3) for prompt in prompts]
        return await asyncio.gather(*tasks, return_exceptions=True)

    with hosted_server(mixed(0.5), hang=0.2) as server:
        with pytest.warns(UserWarning, match="reports no usage"):
            found = sampling(server, "retries=2&price=1/4", work)
        groups = [one[0] for one in found if isinstance(one, list)]
        assert len(groups) == len(found), "a server that answers others fails no group as a whole"
        cost = sum(one.usage.cost for group in groups for one in group if one.usage)
        assert spent(groups) == (server.books.prompt_tokens, server.books.completion_tokens)
        assert cost == pytest.approx(server.books.cost(1, 4))
    assert len(groups) > 50 and set(server.played) == {"", *FAULTS}
