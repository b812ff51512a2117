"""One model on several servers: who is asked, what a dead server costs, and that nothing of it changes a rollout."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler

import pytest
from support.completion_server import CompletionServer, completion_server, send

from problems.contract import BadAddress
from problems.types import Prompt, Rollout
from vpo.policies.contract import PolicyUnavailable
from vpo.policies.registry import load_policy
from vpo.servers import router
from vpo.servers.policy import ServedPolicy

PROMPTS = [Prompt(f"Task {number}: " + "x" * 700 + f" step {number}", stream=number) for number in range(40)]
"""So many that none of three servers is without some, whatever its port."""


@pytest.fixture
def three() -> Iterator[list[CompletionServer]]:
    with ExitStack() as stack:
        yield [stack.enter_context(completion_server()) for _ in range(3)]


@pytest.fixture(autouse=True)
def quick_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router, "PROBE_SECONDS", (0.02, 0.1))


def named(servers: list[CompletionServer], options: str = "") -> str:
    return f"openai:tiny@{','.join(one.url for one in servers)}{options}"


def opened(servers: list[CompletionServer], options: str = "") -> ServedPolicy:
    policy = load_policy(named(servers, options))
    assert isinstance(policy, ServedPolicy)
    for one in servers:
        one.requests.clear()
    return policy


def texts(groups: list[list[Rollout]]) -> list[list[str]]:
    return [[one.text for one in group] for group in groups]


def sample(policy: ServedPolicy, prompts: list[Prompt] = PROMPTS, rollouts: int = 4) -> list[list[str]]:
    async def run() -> list[list[str]]:
        try:
            return texts(await policy.sample(prompts, rollouts=rollouts, answers=1, seed=3))
        finally:
            await policy.close()

    return asyncio.run(run())


def test_several_servers_give_what_one_gives(three: list[CompletionServer]) -> None:
    alone = sample(opened(three[:1]))
    assert sample(opened(three)) == alone
    assert sum(bool(one.requests) for one in three) >= 2


def test_a_problem_stays_on_one_server(three: list[CompletionServer]) -> None:
    policy = opened(three)
    task = "Task: " + "y" * 900

    async def run() -> None:
        for step in range(10):
            await policy.sample([Prompt(f"{task} parent {step}", stream=step)], rollouts=2, answers=1, seed=0)
        await policy.close()

    asyncio.run(run())
    assert sorted(len(one.requests) for one in three) == [0, 0, 10]


def test_a_full_server_leaves_prompts_to_the_least_loaded(three: list[CompletionServer]) -> None:
    policy = opened(three)
    for one in three:
        one.manners.delay = 0.1
    same = [Prompt("Task: " + "z" * 900, stream=stream) for stream in range(30)]
    sample(policy, same, rollouts=2)
    assert sum(len(one.requests) for one in three) == 30
    assert min(len(one.requests) for one in three) >= 6


def test_a_dead_server_costs_nothing_and_is_taken_back(three: list[CompletionServer]) -> None:
    alone = sample(opened(three[:1]))
    policy = opened(three, "?retries=2")
    replicas, victim = policy.router.replicas, three[1]

    async def run() -> list[list[list[str]]]:
        rounds = []
        victim.manners.dies_after = 0
        victim.manners.lists_models = 503
        with pytest.warns(UserWarning, match="Lost a server: .* Continuing with 2 of 3"):
            rounds.append(texts(await policy.sample(PROMPTS, rollouts=4, answers=1, seed=3)))
        assert [one.lost for one in replicas] == [False, True, False]
        asked = len(victim.requests)
        rounds.append(texts(await policy.sample(PROMPTS, rollouts=4, answers=1, seed=3)))
        assert len(victim.requests) == asked  # left alone meanwhile
        victim.manners.dies_after, victim.manners.lists_models = None, 200
        for _ in range(500):
            if not replicas[1].lost:
                break
            await asyncio.sleep(0.02)
        rounds.append(texts(await policy.sample(PROMPTS, rollouts=4, answers=1, seed=3)))
        assert len(victim.requests) > asked
        await policy.close()
        return rounds

    assert asyncio.run(run()) == [alone] * 3
    assert not replicas[1].lost


@pytest.mark.parametrize("status", [0, 502])
def test_one_that_is_not_up_yet_joins_later(three: list[CompletionServer], status: int) -> None:
    """Nobody answers at its URL, or a gateway before it, as nginx does."""
    late, original = three[2], three[2].list_models

    def drop(handler: BaseHTTPRequestHandler) -> None:
        if status:
            send(handler, status, "<html>Bad Gateway</html>")
        handler.close_connection = True

    late.list_models = drop  # type: ignore[method-assign]
    with pytest.warns(UserWarning, match="beginning with 2 of 3 servers"):
        policy = opened(three, "?retries=1")
    late.list_models = original  # type: ignore[method-assign]
    replicas = policy.router.replicas

    async def run() -> None:
        await policy.sample(PROMPTS[:1], rollouts=1, answers=1, seed=3)
        for _ in range(500):
            if not replicas[2].lost:
                break
            await asyncio.sleep(0.02)
        await policy.sample(PROMPTS, rollouts=1, answers=1, seed=3)
        await policy.close()

    asyncio.run(run())
    assert late.requests


def test_a_gateway_may_fail_at_the_first_question_too(three: list[CompletionServer]) -> None:
    """With the server behind it gone, and no list of models or one that the gateway keeps."""
    for status, kept in ((404, three[:1]), (200, three)):
        for one in three:
            one.manners.lists_models, one.manners.faults = status, []
        three[2].manners.faults = [lambda handler: send(handler, 502, "<html>Bad Gateway</html>")] * 100
        with pytest.warns(
            UserWarning, match="502.*beginning with 1 of 2" if status == 404 else "beginning with 2 of 3"
        ):
            policy = opened([*kept[:2], three[2]])
        assert [replica.lost for replica in policy.router.replicas] == [False] * (len(kept[:2])) + [True]


def test_the_search_ends_where_no_server_is_left(three: list[CompletionServer]) -> None:
    policy = opened(three, "?retries=1")
    for one in three:
        one.manners.dies_after, one.manners.lists_models = 0, 503
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(PolicyUnavailable, match="cannot be reached"):
            sample(policy)


def test_servers_of_two_kinds_are_refused(three: list[CompletionServer]) -> None:
    three[1].manners.engine = "llamacpp"
    with pytest.raises(BadAddress, match="of different kinds"):
        load_policy(named(three))


def test_an_overloaded_server_is_passed_over(three: list[CompletionServer]) -> None:
    policy = opened(three)
    three[0].manners.faults = [lambda handler: send(handler, 500, {"error": {"message": "out of memory"}})] * 100
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = sample(policy)
    three[0].manners.faults = []
    assert found == sample(opened(three[:1]))
