"""Options of hosted models: reasoning, extra fields and headers, prices, the length of a reply."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from completion_server import CompletionServer, completion_server

from problems.contract import BadAddress
from problems.types import Prompt
from vpo.openai.address import Endpoint, endpoint
from vpo.openai.prices import find_price
from vpo.openai.reasoning import fixes_temperature, reasons
from vpo.policies.address import parse_address, parse_addresses, split_policies
from vpo.policies.contract import PolicyUnavailable
from vpo.policies.registry import load_policy

HOST = "https://models.example.com/v1"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "EVO_PRICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MY_AZURE_KEY", "azure-secret-123456")


def place(rest: str) -> Endpoint:
    return endpoint(parse_address(f"openai:{rest}"))


def sampled(server: CompletionServer, options: str, needed: int | None = None, times: int = 1) -> list[dict]:
    """The requests of `times` prompts, one after the other."""

    async def run() -> None:
        policy = load_policy(f"{server.address}?{options}", max_tokens=None if needed else 40)
        server.requests.clear()
        server.headers.clear()
        if needed:
            policy.max_tokens = max(needed, policy.traits.room)
        try:
            for stream in range(times):
                await policy.sample([Prompt("Write.", stream=stream)], rollouts=1, answers=1, seed=1)
        finally:
            await policy.close()

    asyncio.run(run())
    return server.requests


def test_reasoning_effort_thinking_and_further_fields_are_sent() -> None:
    with completion_server() as server:
        options = 'reasoning_effort=high&thinking=on&body={"provider":{"order":["a","b"]},"top_k":5}'
        (request,) = sampled(server, options)
    assert request["reasoning_effort"] == "high" and request["provider"] == {"order": ["a", "b"]}
    assert request["chat_template_kwargs"] == {"enable_thinking": True} and request["top_k"] == 5
    with completion_server() as server:
        assert sampled(server, "")[0]["chat_template_kwargs"] == {"enable_thinking": False}, "as it always was"
        assert "reasoning_effort" not in sampled(server, "")[0]


def test_a_field_that_was_asked_for_is_not_left_out_when_it_is_refused() -> None:
    refuses = {"reasoning_effort": "unknown parameter: 'reasoning_effort'"}
    with completion_server(refuses=refuses) as server, pytest.raises(PolicyUnavailable, match="reasoning_effort"):
        sampled(server, "reasoning_effort=low")


def test_thinking_needs_a_server_whose_switch_is_known() -> None:
    with completion_server(engine="someone") as server, pytest.raises(BadAddress, match=r"\?body="):
        sampled(server, "thinking=off")


def test_headers_take_secrets_from_the_environment_and_the_url_a_query() -> None:
    with completion_server() as server:
        sampled(server, 'headers={"api-key":"$MY_AZURE_KEY","X-Title":"evo"}')
        headers = {name.lower(): value for name, value in server.headers[0].items()}
        assert headers["api-key"] == "azure-secret-123456" and headers["x-title"] == "evo"
        server.manners.text = "the secret is azure-secret-123456"
        with pytest.raises(PolicyUnavailable, match="not to be stored") as caught:
            sampled(server, 'retries=0&headers={"api-key":"$MY_AZURE_KEY"}')
    assert "azure-secret" not in str(caught.value)
    assert place('gpt@https://h/openai/deployments/d?query={"api-version":"2024-10-21"}').options.query == {
        "api-version": "2024-10-21"
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ('headers={"api-key":"abcdef"}', "environment variable"),
        ('headers={"api-key":"$NOT_SET_HERE"}', "NOT_SET_HERE: set it"),
        ("body=5", "JSON object"),
        ('body={"model":"other"}', "model cannot be set here"),
        ("reasoning_effort=extreme", "reasoning_effort"),
    ],
)
def test_wrong_options_are_one_line(options: str, said: str) -> None:
    with pytest.raises(BadAddress, match=said) as caught:
        place(f"m@{HOST}?{options}")
    assert "\n" not in str(caught.value) and "abcdef" not in str(caught.value)


def test_commas_in_braces_do_not_end_a_policy() -> None:
    text = 'openai:a@http://x,http://y?body={"p":{"q":[1,2]},"r":1}&weight=.8, scripted:mutate?weight=.2'
    assert len(split_policies(text)) == 2
    first, second = parse_addresses(text)
    assert (first.common.weight, second.common.weight) == (0.8, 0.2)
    assert endpoint(first).options.body == {"p": {"q": [1, 2]}, "r": 1} and len(endpoint(first).servers()) == 2


def test_public_models_have_prices_which_options_and_a_file_override(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert place("gpt-4o-mini").price == (0.15, 0.6, 0.075) == place("gpt-4o-mini-2024-07-18").price
    assert place("openai/gpt-4o-mini@https://openrouter.ai/api/v1").price == (0.15, 0.6, 0.075)
    assert place("gpt-4o-mini?price=1/2").price == (1, 2, 1)
    assert place("gpt-4o-mini@http://localhost:8000").price is None, "the same name at another server is no such model"
    file = tmp_path / "prices.yaml"
    file.write_text("api.openai.com: {gpt-4o-mini: 3/4/1}\nmodels.example.com: {mine: 5/6}\n")
    monkeypatch.setenv("EVO_PRICES", str(file))
    assert place("gpt-4o-mini").price == (3, 4, 1) and place("gpt-4o").price == (2.5, 10, 1.25)
    assert find_price("mine", HOST) == (5, 6, 5)


@pytest.mark.parametrize("text", ["a: {b: cheap}", "a: 5", "[1", "- a"])
def test_a_wrong_price_file_is_one_line(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(text)
    monkeypatch.setenv("EVO_PRICES", str(file))
    with pytest.raises(BadAddress, match="EVO_PRICES") as caught:
        find_price("b", "http://a")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rest", "does"),
    [
        ("o4-mini", True),
        ("gpt-5", True),
        ("gpt-5-chat-latest", False),
        ("gpt-4o", False),
        ("gpt-4.1", False),
        ("openai/o3@https://openrouter.ai/api/v1", True),
        ("google/gemini-2.5-flash-lite@https://openrouter.ai/api/v1", False),
        ("Qwen/Qwen3-4B-Thinking-2507@http://h", True),
        ("Qwen/Qwen2.5-Coder-7B-Instruct@http://h", False),
        ("gpt-4o?reasoning_effort=low", True),
        ("gpt-5.1?reasoning_effort=none", False),
        ("qwen@http://h?thinking=on", True),
    ],
)
def test_which_models_reason(rest: str, does: bool) -> None:
    assert reasons(place(rest)) is does


def test_openais_reasoning_models_fix_the_temperature() -> None:
    assert fixes_temperature(place("o3")) and not fixes_temperature(place("gpt-4o"))
    assert not fixes_temperature(place("qwq@http://h"))


def test_a_reply_has_room_for_a_whole_program_and_for_reasoning() -> None:
    with completion_server() as server:
        assert sampled(server, "", needed=1024)[0]["max_tokens"] == 4096
        assert sampled(server, "thinking=on", needed=1024)[0]["max_tokens"] == 32768
        assert sampled(server, "", needed=9000)[0]["max_tokens"] == 9000
    with completion_server(context=6000) as server:
        assert sampled(server, "", needed=1024)[0]["max_tokens"] == 3000, "half of the context is left for the prompt"


def test_a_model_that_turns_out_to_reason_gets_more_room() -> None:
    said = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    with completion_server(engine="someone", refuses={"max_tokens": said}) as server:
        requests = sampled(server, "", needed=1024, times=2)
    assert [one.get("max_completion_tokens") for one in requests] == [None, 4096, 32768]
