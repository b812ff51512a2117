"""A policy over a server: what it asks, what it survives, what it says when it cannot go on, what it counts; and that
it loses nothing that was paid for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from support.completion_server import (
    FAULTS,
    CompletionServer,
    completion_server,
    garbage,
    gone,
    half,
    hosted_server,
    limited,
    mixed,
    program_of,
    scripted,
    send,
)

from problems.types import Prompt, Rollout, ScoredRollout, Unanswered, prompt_tokens
from vpo.policies.contract import PolicyUnavailable, PromptTooLong
from vpo.policies.registry import policy_at
from vpo.servers.client import room_left
from vpo.servers.policy import ServedPolicy

PROMPT = Prompt("Write a line.", "Be brief.", stream=4)
REPLIES = yaml.safe_load(Path(__file__).with_name("replies.yaml").read_text(encoding="utf-8"))
FAULTS_BY_NAME = {"garbage": garbage, "gone": gone, "limited": limited(3600)}


def sampling(
    server: CompletionServer,
    options: str,
    work: Callable[[ServedPolicy], Awaitable[Any]],
    n: str = "off",
    **settings: Any,
) -> Any:
    """What `work` makes of the server's policy."""

    async def run() -> Any:
        policy = policy_at(f"{server.address}?n={n}&{options}", **{"max_tokens": 400, **settings})
        assert isinstance(policy, ServedPolicy)
        try:
            return await work(policy)
        finally:
            await policy.close()

    return asyncio.run(run())


def asked(
    server: CompletionServer,
    options: str = "",
    *,
    prompts: int | list[Prompt] = 1,
    rollouts: int = 1,
    times: int = 1,
    needed: int | None = None,
    once_open: Mapping[str, Any] = {},  # noqa: B006
    **settings: Any,
) -> list[list[Rollout]]:
    """The groups of some prompts, asked so many times. once_open: manners of the server after the policy was opened;
    needed: tokens of the answers, without a limit of the user's"""

    async def work(policy: ServedPolicy) -> list[list[Rollout]]:
        if needed:
            policy.max_tokens = max(needed, policy.traits.room)
        for kept in (server.requests, server.times, server.headers):
            kept.clear()
        for name, value in once_open.items():
            setattr(server.manners, name, value)
        some = prompts
        if isinstance(some, int):
            some = [Prompt(PROMPT.user, PROMPT.system, stream=4 + i) for i in range(some)]
        turns = [await policy.sample(some, rollouts=rollouts, answers=1, seed=3) for _ in range(times)]
        return [group for groups in turns for group in groups]

    n = "off" if "n=off" in options else "auto"
    return sampling(server, options, work, n, **({"max_tokens": None if needed else 40} | settings))


def test_what_a_request_holds() -> None:
    with completion_server() as server:
        ((rollout,),) = asked(server, temperature=0.7, top_p=0.9)
        (request,) = server.requests
    assert request["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Write a line."},
    ]
    assert (request["temperature"], request["top_p"], request["max_tokens"]) == (0.7, 0.9, 40)
    assert 0 <= request["seed"] < 1 << 31 and "n" not in request
    assert request["repetition_penalty"] == 1.0 and request["top_k"] == -1, "a checkpoint's defaults would truncate"
    assert rollout.token_ids.tolist() == [*rollout.text.encode(), 0] and rollout.finish == "stop"
    assert bytes(rollout.prompt_ids.tolist()).decode().startswith("Be brief.")


def test_a_group_is_one_request_or_one_for_each_place_and_the_same_either_way() -> None:
    with completion_server() as server:
        (whole,) = asked(server, rollouts=6)
        assert [one["n"] for one in server.requests] == [6]
        (single,) = asked(server, "n=off", rollouts=6)
        assert len(server.requests) == 6 and not any("n" in one for one in server.requests)
        server.manners.most_choices = 2
        (short,) = asked(server, rollouts=6)
        assert len(server.requests) == 5, "two came with the first"
        server.manners.refuses = {"n": "Only one completion choice is allowed"}
        (refused,) = asked(server, rollouts=6)
        assert len(server.requests) == 7
    texts = [[rollout.text for rollout in group] for group in (whole, single, short, refused)]
    assert texts[0] == texts[1] == texts[2] == texts[3] and len(set(texts[0])) > 1
    assert all(rollout.prompt_ids is short[0].prompt_ids for rollout in short)


def test_a_server_that_refused_n_once_is_not_asked_for_it_again() -> None:
    with completion_server(refuses={"n": "`n` must be 1"}) as server:
        asked(server, "concurrency=1", prompts=3, rollouts=2)
        assert sum("n" in one for one in server.requests) == 1


def test_requests_in_flight_are_bounded() -> None:
    with completion_server(delay=0.1) as server:
        asked(server, "concurrency=3", prompts=12)
        assert server.busiest == 3


@pytest.mark.parametrize("fault", [500, 503, 429, 408, garbage, half, gone])
def test_a_passing_fault_is_passed_over(fault: Any) -> None:
    with completion_server() as server:
        expected = asked(server)
        found = asked(server, once_open={"faults": [fault]})
        assert found[0][0].text == expected[0][0].text and not server.manners.faults


def test_retry_after_is_waited_for_and_a_long_one_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vpo.servers.client.LONG_PAUSE", 0.6)
    with completion_server() as server:
        with pytest.warns(UserWarning, match=r"is rate-limiting \(429\); retrying at \d\d:"):
            asked(server, once_open={"faults": [limited(0.7)]})
        refused, again = server.times
        assert again - refused >= 0.65


@pytest.mark.parametrize(("faults", "said"), REPLIES["lasting"])
def test_a_lasting_fault_is_one_line_that_says_what_to_do(faults: list[Any], said: str) -> None:
    with completion_server() as server, pytest.raises(PolicyUnavailable, match=said) as caught:
        asked(server, "retries=1", once_open={"faults": [FAULTS_BY_NAME.get(fault, fault) for fault in faults]})
    assert "\n" not in str(caught.value) and not server.manners.faults


def test_a_server_that_is_gone_or_slow_or_refuses_long_is_named() -> None:
    with completion_server() as server:
        with pytest.raises(PolicyUnavailable, match="no answer within 0.5 s, asked once; lower .concurrency="):
            asked(server, "retries=0&timeout=0.5", once_open={"delay": 60.0})
        server.manners.delay = 0.0

        async def left() -> None:
            policy = policy_at(f"{server.address}?retries=1", max_tokens=40)
            server.close()
            with pytest.raises(PolicyUnavailable, match="cannot be reached, tried 2 times"):
                await policy.sample([PROMPT, PROMPT], rollouts=2, answers=1, seed=3)
            await policy.close()
            with pytest.raises(PolicyUnavailable, match="is closed"):
                await policy.sample([PROMPT], rollouts=1, answers=1, seed=3)

        asyncio.run(left())


def test_cancelling_takes_the_requests_along() -> None:
    async def run(server: CompletionServer) -> None:
        policy = policy_at(f"{server.address}?concurrency=2", max_tokens=40)
        server.times.clear()
        server.manners.delay = 60.0
        task = asyncio.create_task(policy.sample([PROMPT] * 20, rollouts=1, answers=1, seed=0))
        while len(server.times) < 2:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.2)
        assert len(server.times) == 2
        await policy.close()

    with completion_server() as server:
        asyncio.run(run(server))


@pytest.mark.parametrize("shows", [True, False])
def test_a_prompt_beyond_the_context_is_too_long_and_one_that_leaves_some_room_gets_less(shows: bool) -> None:
    with completion_server(context=200, shows_context=shows) as server:

        def ask(characters: int) -> list[Rollout]:
            prompt = Prompt("x" * (characters - len("Be brief.")), "Be brief.")
            return asked(server, prompts=[prompt], rollouts=2, max_tokens=100)[0]

        assert ask(50)[0].text
        assert all(len(rollout.token_ids) <= 70 for rollout in ask(130))
        for characters in (150, 250):
            with pytest.raises(PromptTooLong, match="fewer or shorter inspirations"):
                ask(characters)


@pytest.mark.parametrize(("said", "room", "exact"), REPLIES["too_long"])
def test_a_prompt_that_is_too_long_costs_one_refusal_or_two(said: str, room: int, exact: bool) -> None:
    """Two where the server does not say how long the prompt is."""
    assert room_left(said, 500) == (room, exact)

    def refuse(server: CompletionServer, handler: Any, body: dict[str, Any]) -> bool:
        fits = room > 0 and body["max_tokens"] <= room
        if not fits:
            send(handler, 400, {"error": {"message": said}})
        return not fits

    with completion_server(refuse=refuse, engine="someone") as server:
        if exact and room >= 64:
            assert asked(server, max_tokens=500)[0][0].text
            assert [request["max_tokens"] for request in server.requests] == [500, room]
        elif exact:
            with pytest.raises(PromptTooLong, match="fewer or shorter inspirations"):
                asked(server, max_tokens=500)
            assert len(server.requests) == 1


@pytest.mark.parametrize(("room", "limits"), [(0, [500, 64]), (70, [500, 64, 250, 125, 64]), (300, [500, 64, 250])])
def test_a_refusal_without_a_count_is_followed_by_the_shortest_request_first(room: int, limits: list[int]) -> None:
    def refuse(server: CompletionServer, handler: Any, body: dict[str, Any]) -> bool:
        if body["max_tokens"] > room:
            send(handler, 400, {"error": {"message": "the input length exceeds the context length"}})
        return bool(body["max_tokens"] > room)

    with completion_server(refuse=refuse, engine="someone") as server:
        if room:
            assert asked(server, rollouts=3, max_tokens=500)[0][0].text
        else:
            with pytest.raises(PromptTooLong, match="fewer or shorter inspirations"):
                asked(server, rollouts=3, max_tokens=500)
        assert [request["max_tokens"] for request in server.requests] == limits


@pytest.mark.parametrize(("name", "said"), REPLIES["unknown"])
@pytest.mark.filterwarnings("ignore:.*takes no seed")
def test_parameters_that_a_server_does_not_know_are_left_out_from_then_on(name: str, said: str) -> None:
    with completion_server() as server:
        assert all(rollout.text for (rollout,) in asked(server, times=2, once_open={"refuses": {name: said}}))
        refused, *answered = server.requests
    assert len(answered) == 2
    for request in answered:
        assert name not in request
        if name == "max_tokens":
            assert request["max_completion_tokens"] == 40


@pytest.mark.parametrize(
    ("name", "said", "options", "temperature"),
    [
        ("temperature", "'temperature' does not support 0.7, only 1", "", 0.7),
        ("reasoning_effort", "unknown parameter: 'reasoning_effort'", "reasoning_effort=low", 1.0),
    ],
)
def test_what_was_asked_for_is_not_left_out_when_it_is_refused(
    name: str, said: str, options: str, temperature: float
) -> None:
    with completion_server(refuses={name: said}, engine="") as server:
        with pytest.raises(PolicyUnavailable, match=said):
            asked(server, options, temperature=temperature)
        assert name != "temperature" or asked(server, temperature=1.0)[0][0].text


@pytest.mark.parametrize("filtered", ["", "response", "system prompt"])
def test_what_a_filter_keeps_back_is_an_empty_rollout(filtered: str) -> None:
    with completion_server(engine="") as server:
        if filtered:
            server.manners.refuses = {"messages": f"The {filtered} was filtered by our content management policy"}
        else:
            server.manners.most_choices = 0
        (group,) = asked(server, rollouts=3)
        assert not filtered or len(server.requests) == 1
        assert [rollout.text for rollout in group] == [""] * 3
        assert all(len(rollout.token_ids) == 0 and rollout.finish == "stop" for rollout in group)
        server.manners.refuses, server.manners.most_choices = {}, 8
        server.manners.text, server.manners.finish = "half of a", "content_filter"
        assert [(one.text, one.finish) for one in asked(server)[0]] == [("half of a", "length")]


def test_tokens_and_their_price_are_counted_where_there_are_no_ids() -> None:
    with completion_server(engine="someone") as server:
        (group,) = asked(server, "price=2/10", rollouts=3)
        assert [one["n"] for one in server.requests] == [3]
    prompt = len("Be brief.Write a line.")
    written = sum(len(rollout.text.encode()) for rollout in group)
    assert all(len(rollout.token_ids) == len(rollout.logprobs) == len(rollout.prompt_ids) == 0 for rollout in group)
    assert sum(rollout.tokens for rollout in group) == written and prompt_tokens(group) == prompt
    assert sum(rollout.usage.cost for rollout in group if rollout.usage) == pytest.approx(
        (2 * prompt + 10 * written) / 1e6
    )


def test_a_server_that_does_not_sample_is_noticed() -> None:
    said = "2 rollouts of one prompt that are all alike.*does it sample"
    with completion_server(text="the same answer, always") as server, pytest.warns(UserWarning, match=said):
        asked(server, prompts=3, rollouts=2)


def test_log_probabilities_that_no_training_could_use_are_left_out() -> None:
    with completion_server(processed=False) as server:
        with pytest.warns(UserWarning, match="processed_logprobs"):
            ((rollout,),) = asked(server, temperature=0.5)
        assert len(rollout.token_ids) and not len(rollout.logprobs)
        ((greedy,),) = asked(server, temperature=0.0)
        assert np.array_equal(greedy.logprobs, np.zeros(len(greedy.token_ids), np.float32))


def requests(server: CompletionServer, options: str, needed: int | None = None, times: int = 1) -> list[dict[str, Any]]:
    asked(server, options, needed=needed, times=times)
    return server.requests


def test_reasoning_effort_and_further_fields_are_sent() -> None:
    with completion_server() as server:
        body = '{"provider":{"order":["a","b"]},"top_k":5,"chat_template_kwargs":{"enable_thinking":true}}'
        (request,) = requests(server, f"reasoning_effort=high&body={body}")
        assert request["reasoning_effort"] == "high" and request["provider"] == {"order": ["a", "b"]}
        assert request["chat_template_kwargs"] == {"enable_thinking": True} and request["top_k"] == 5
        (request,) = requests(server, "")
        assert request["chat_template_kwargs"] == {"enable_thinking": False} and "reasoning_effort" not in request


def test_headers_take_secrets_from_the_environment_and_no_reply_with_one_is_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_AZURE_KEY", "azure-secret-123456")
    with completion_server() as server:
        requests(server, 'headers={"api-key":"$MY_AZURE_KEY","X-Title":"evo"}')
        headers = {name.lower(): value for name, value in server.headers[0].items()}
        assert headers["api-key"] == "azure-secret-123456" and headers["x-title"] == "evo"
        server.manners.text = "the secret is azure-secret-123456"
        with pytest.raises(PolicyUnavailable, match="not to be stored") as caught:
            requests(server, 'retries=0&headers={"api-key":"$MY_AZURE_KEY"}')
    assert "azure-secret" not in str(caught.value)


def test_a_reply_has_room_for_a_whole_program_and_for_reasoning() -> None:
    with completion_server() as server:
        assert requests(server, "", needed=1024)[0]["max_tokens"] == 4096
        assert requests(server, "reasoning_effort=low", needed=1024)[0]["max_tokens"] == 32768
        assert requests(server, "reasoning_effort=none", needed=1024)[0]["max_tokens"] == 4096
        assert requests(server, "", needed=9000)[0]["max_tokens"] == 9000
    with completion_server(context=6000) as server:
        assert requests(server, "", needed=1024)[0]["max_tokens"] == 3000, "half of the context is for the prompt"


def test_a_model_that_turns_out_to_reason_gets_more_room() -> None:
    said = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    with completion_server(engine="someone", refuses={"max_tokens": said}) as server:
        sent = requests(server, "", needed=1024, times=2)
    assert [one.get("max_completion_tokens") for one in sent] == [None, 4096, 32768]


# -- replies that misbehave -------------------------------------------------------------------------------------------


def group(server: CompletionServer, options: str = "", rollouts: int = 1) -> list[Rollout]:
    return asked(server, f"n=off&{options}", rollouts=rollouts, max_tokens=400)[0]


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
        found = group(server, "timeout=0.5&retries=0&concurrency=1", rollouts=4)
    assert [bool(one.text) for one in found] == [True, False, False, True]
    assert [ScoredRollout(one, ()).unanswered is Unanswered.FAILED for one in found] == [False, True, True, False]
    assert "no answer within 0.5 s, asked once" in found[1].fault
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
        (answered,), (failed,) = sampling(server, "timeout=0.5&retries=0", two)
    assert answered.text and not answered.fault and failed.fault


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


@pytest.mark.parametrize(("choice", "reason", "text"), REPLIES["withheld"])
def test_what_a_server_withholds_is_named_with_its_text(choice: Any, reason: str | None, text: str) -> None:
    with hosted_server(scripted()) as server:
        server.manners.faults = [replies(choice)]
        (rollout,) = group(server)
    assert ScoredRollout(rollout, ()).unanswered is (reason and Unanswered[reason])
    assert rollout.text.replace('"', "'").startswith(text)


def test_an_answer_that_a_reasoning_parser_took_is_read_if_the_model_was_told_not_to_think() -> None:
    taken = {"message": {"content": None, "reasoning_content": "<answer_1>x</answer_1>"}}
    with completion_server(engine="vllm", gives_ids=False) as server:
        ((rollout,),) = asked(server, "logprobs=off", once_open={"faults": [replies(taken)]})
    assert server.requests[-1]["chat_template_kwargs"] == {"enable_thinking": False}
    assert rollout.text == "<answer_1>x</answer_1>" and rollout.withheld is None


@pytest.mark.parametrize(("code", "said", "requests"), REPLIES["inside"])
@pytest.mark.parametrize("inside", [True, False])
def test_an_error_inside_a_reply_is_handled_as_its_code_says(inside: bool, code: Any, said: str, requests: int) -> None:
    error = {"code": code, "message": "too much"}
    choice = {"message": {"content": "half"}, "finish_reason": "error", "error": error}
    fault = replies(choice) if inside else replies(choices=None, error=error)
    with hosted_server(scripted()) as server:
        with pytest.raises(PolicyUnavailable, match=said):
            asked(server, "retries=1", once_open={"plan": scripted(after=fault)})
        assert len(server.requests) == requests


def test_the_choices_beside_one_that_failed_are_kept() -> None:
    good, bad = (
        {"message": {"content": "good"}},
        {"message": {"content": ""}, "error": {"code": 502, "message": "idle"}},
    )
    with hosted_server(scripted()) as server:
        (found,) = asked(server, "retries=1", rollouts=3, once_open={"faults": [replies(good, bad, good)]})
        assert [one.get("n") for one in server.requests] == [3, None]
        asked(server, rollouts=3)
        assert [one.get("n") for one in server.requests] == [3]
    assert [rollout.text for rollout in found][:2] == ["good", "good"] and found[2].text.startswith("```python")


def test_the_tokens_of_a_reply_without_choices_are_counted() -> None:
    with hosted_server(scripted()) as server:
        server.manners.faults = [replies()]
        assert spent([group(server)]) == (100, 20)


@pytest.mark.parametrize(("status", "said"), REPLIES["system"])
def test_a_system_message_that_is_refused_goes_into_the_user_s_in_every_request_in_flight(
    status: int, said: str
) -> None:
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
