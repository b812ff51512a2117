"""A policy over a server that misbehaves: what it makes of each fault, and that it loses nothing that was paid for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any

import openai
import pytest
from support.completion_server import (
    FAULTS,
    CompletionServer,
    completion_server,
    hosted_server,
    mixed,
    program_of,
    scripted,
    send,
)

from problems.types import Prompt, Rollout, ScoredRollout, Unanswered, prompt_tokens
from vpo.policies.contract import PolicyUnavailable
from vpo.policies.registry import load_policy
from vpo.servers.client import retry_after
from vpo.servers.policy import ServedPolicy

PROMPT = Prompt("Write a line.", "Be brief.", stream=4)


def sampling(
    server: CompletionServer, options: str, work: Callable[[ServedPolicy], Awaitable[Any]], n: str = "off"
) -> Any:
    async def run() -> Any:
        policy = load_policy(f"{server.address}?n={n}&{options}", max_tokens=400)
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


def replies(*choices: dict[str, Any], status: int = 200, **body: Any) -> Callable[[Any], None]:
    """A fault: this reply in place of the server's own."""
    usage = {"prompt_tokens": 100, "completion_tokens": 20}
    numbered = [{"index": index, "finish_reason": "stop", **choice} for index, choice in enumerate(choices)]
    return lambda handler: send(handler, status, {"choices": numbered, "usage": usage, **body})


CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("choice", "reason", "text"),
    [
        ({"message": {"content": None, "reasoning_content": "So: x"}}, Unanswered.REASONING, "So: x"),
        ({"message": {"content": "", "reasoning": "So"}, "finish_reason": "length"}, Unanswered.CUT, "So"),
        ({"message": {"content": ""}, "finish_reason": "content_filter"}, Unanswered.FILTERED, ""),
        ({"message": {"content": "half"}, "finish_reason": "content_filter"}, Unanswered.FILTERED, "half"),
        ({"message": {"tool_calls": [CALL]}, "finish_reason": "tool_calls"}, Unanswered.CALL, "[{'name': 'f', '"),
        ({"message": {"content": None, "refusal": "I must not."}}, Unanswered.REFUSED, "I must not."),
        ({"message": {"content": "x", "refusal": None, "tool_calls": None}}, None, "x"),
        ({"message": {"content": "x", "tool_calls": [CALL]}, "finish_reason": "tool_calls"}, None, "x"),
    ],
)
def test_what_a_server_withholds_is_named_with_its_text(choice: Any, reason: Any, text: str) -> None:
    with hosted_server(scripted()) as server:
        server.manners.faults = [replies(choice)]
        (rollout,) = group(server)
    assert ScoredRollout(rollout, ()).unanswered is reason
    assert rollout.text.replace('"', "'").startswith(text)


def test_an_answer_that_a_reasoning_parser_took_is_read_if_the_model_was_told_not_to_think() -> None:
    taken = {"message": {"content": None, "reasoning_content": "<answer_1>x</answer_1>"}}
    with completion_server(engine="vllm", gives_ids=False) as server:

        async def work(policy: ServedPolicy) -> list[Rollout]:
            server.manners.faults = [replies(taken)]
            return (await policy.sample([PROMPT], rollouts=1, answers=1, seed=3))[0]

        (rollout,) = sampling(server, "logprobs=off", work)
    assert server.requests[-1]["chat_template_kwargs"] == {"enable_thinking": False}
    assert rollout.text == "<answer_1>x</answer_1>" and rollout.withheld is None


@pytest.mark.parametrize(
    ("code", "said", "requests"),
    [
        (429, "is rate-limiting .429.: too much; lower .concurrency=, or evo resume later", 2),
        (502, "failed, asked 2 times: 502 too much; look at the server", 2),
        ("529", "failed, asked 2 times: 529 too much", 2),
        (401, "refuses the key: too much; set OPENAI_API_KEY", 1),
        (400, "refuses the request: 400 too much", 1),
        ("model_error", "an unreadable reply 2 times: an error: too much", 2),
    ],
)
@pytest.mark.parametrize("inside", [True, False])
def test_an_error_inside_a_reply_is_handled_as_its_code_says(inside: bool, code: Any, said: str, requests: int) -> None:
    error = {"code": code, "message": "too much"}
    choice = {"message": {"content": "half"}, "finish_reason": "error", "error": error}
    with hosted_server(scripted()) as server:

        async def work(policy: ServedPolicy) -> Any:
            before = len(server.requests)
            server.manners.plan = scripted(after=replies(choice) if inside else replies(choices=None, error=error))
            with pytest.raises(PolicyUnavailable, match=said):
                await policy.sample([PROMPT], rollouts=1, answers=1, seed=3)
            return len(server.requests) - before

        assert sampling(server, "retries=1", work) == requests


def test_the_choices_beside_one_that_failed_are_kept() -> None:
    good, bad = (
        {"message": {"content": "good"}},
        {"message": {"content": ""}, "error": {"code": 502, "message": "idle"}},
    )
    with hosted_server(scripted()) as server:

        async def work(policy: ServedPolicy) -> list[Rollout]:
            server.manners.faults = [replies(good, bad, good)]
            (found,) = await policy.sample([PROMPT], rollouts=3, answers=1, seed=3)
            assert policy.server.takes_n
            return found

        found = sampling(server, "retries=1", work, n="auto")
    assert [rollout.text for rollout in found][:2] == ["good", "good"] and found[2].text.startswith("```python")


def test_the_tokens_of_a_reply_without_choices_are_counted() -> None:
    with hosted_server(scripted()) as server:
        server.manners.faults = [replies()]
        assert spent([group(server)]) == (100, 20)


REFUSALS = {
    "Gemma's template": (400, "System role not supported"),
    "as a fault of the template": (500, "System role not supported"),
    "OpenAI's": (400, "Unsupported value: 'messages[0].role' does not support 'system' with this model."),
    "Google's": (400, "Developer instruction is not enabled for models/gemma-3-27b-it"),
    "Mistral's template": (400, "Only user and assistant roles are supported!"),
    "alternating roles": (400, "Conversation roles must alternate user/assistant/user/assistant/..."),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_system_message_that_is_refused_goes_into_the_user_s_in_every_request_in_flight(refusal: str) -> None:
    status, said = REFUSALS[refusal]

    def refuse(server: CompletionServer, handler: Any, body: dict[str, Any]) -> bool:
        if body["messages"][0]["role"] != "system":
            return False
        time.sleep(0.1)  # so that all of them are in flight
        send(handler, status, {"error": {"message": said}})
        return True

    with hosted_server(scripted(), refuse=refuse) as server:

        async def work(policy: ServedPolicy) -> list[list[Rollout]]:
            groups = await policy.sample([PROMPT] * 4, rollouts=2, answers=1, seed=3)
            assert policy.server.takes_n
            return groups

        groups = sampling(server, "retries=0", work, n="auto")
    assert all(rollout.text and not rollout.fault for group in groups for rollout in group)
    folded = [{"role": "user", "content": "Be brief.\n\nWrite a line."}]
    assert [body["messages"] for body in server.requests].count(folded) == 4


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "70"}, 70.0),
        ({"retry-after": "1", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": formatdate(1_000_090, usegmt=True)}, 90.0),
        ({"retry-after": "soon"}, 0.0),
        ({}, 0.0),
    ],
)
def test_the_pause_that_a_server_asks_for(
    headers: dict[str, str], seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_000_000.0)
    client = openai.AsyncOpenAI(api_key="none")
    answer = SimpleNamespace(headers=headers)
    assert retry_after(answer) == seconds
    if seconds:
        assert client._parse_retry_after_header(answer.headers) == seconds  # type: ignore[arg-type]
