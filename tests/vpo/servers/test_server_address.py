"""Addresses of servers, what is asked at their opening, and that keys stay out of everything."""

from __future__ import annotations

import asyncio
import warnings

import pytest
from support.completion_server import completion_server, send

from problems.contract import BadAddress
from vpo.policies.address import parse_address, parse_addresses
from vpo.policies.registry import policy_at
from vpo.servers.address import Endpoint, base_url, endpoint


def named(rest: str) -> Endpoint:
    return endpoint(parse_address(f"openai:{rest}"))


SECRET = "sk-very-secret-key-12345"


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("http://host:8000", "http://host:8000/v1"),
        ("http://host:8000/", "http://host:8000/v1"),
        ("http://host:8000/v1/", "http://host:8000/v1"),
        ("https://host/api/v3", "https://host/api/v3"),
        ("https://host/v1/chat/completions", "https://host/v1"),
        ("http://[::1]:8000", "http://[::1]:8000/v1"),
    ],
)
def test_a_url_stands_with_or_without_its_path(written: str, url: str) -> None:
    assert base_url(written) == url


def test_the_parts_of_an_address() -> None:
    place = named("@cf/meta/llama-3@https://host/v1?price=0.15/0.6&concurrency=4")
    assert (place.model, place.url) == ("@cf/meta/llama-3", "https://host/v1")
    assert place.options.price == (0.15, 0.6, 0.15) and place.options.concurrency == 4
    assert place.version == "openai:@cf/meta/llama-3@https://host/v1"


def test_commas_stand_between_policies_and_in_braces() -> None:
    text = 'openai:a@http://b:2/v1?body={"p":{"q":[1,2]},"r":1}&weight=.8, scripted:mutate?weight=.2'
    first, second = parse_addresses(text)
    assert (first.common.weight, second.common.weight) == (0.8, 0.2)
    place = endpoint(first)
    assert place.options.body == {"p": {"q": [1, 2]}, "r": 1}
    assert place.version == "openai:a@http://b:2/v1"


def test_without_a_url_the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    assert named("gpt-4o").url == "https://api.openai.com/v1" and named("gpt-4o").version == "openai:gpt-4o"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://proxy:4000")
    assert named("gpt-4o").url == "http://proxy:4000/v1"
    assert named("gpt-4o").version == "openai:gpt-4o@http://proxy:4000/v1"


def test_a_model_that_is_not_served_is_named_with_those_that_are() -> None:
    with completion_server(model="qwen") as server:
        with pytest.raises(BadAddress, match="serves no quen; it serves qwen"):
            policy_at(f"openai:quen@{server.url}")
        policy_at(f"openai:quen@{server.url}?check=off&logprobs=off")
        assert not server.requests, "asking for the list costs no tokens"


@pytest.mark.parametrize("lists", [404, 500])
def test_a_server_that_lists_nothing_is_asked_for_one_token(lists: int) -> None:
    with completion_server(model="qwen", lists_models=lists) as server:
        policy = policy_at(f"openai:qwen@{server.url}")
        assert not policy.traits.logprobs and [one["max_tokens"] for one in server.requests] == [1]
        with pytest.raises(BadAddress, match="does not exist"):
            policy_at(f"openai:quen@{server.url}")


def test_a_gateway_whose_server_is_gone_is_one_line() -> None:
    with completion_server(model="qwen", lists_models=502) as server:
        with pytest.raises(BadAddress, match="failed, asked .*: 502 "):
            policy_at(f"openai:qwen@{server.url}?retries=0")
        assert not server.requests


def test_a_refused_key_is_told_at_the_opening_and_never_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    with completion_server(key="right") as server:
        monkeypatch.setenv("OTHER_KEY", SECRET)
        with pytest.raises(BadAddress, match="refuses the key.*set OTHER_KEY") as caught:
            policy_at(f"{server.address}?key=OTHER_KEY")  # this server says the key that it refuses
        assert SECRET not in str(caught.value) and "***" in str(caught.value)
        monkeypatch.setenv("OPENAI_API_KEY", "right")
        assert "right" not in repr(vars(policy_at(server.address))["version"])


def test_what_is_no_such_server_is_one_line() -> None:
    with completion_server() as server:
        server.list_models = lambda handler: send(handler, 200, "<html>hello</html>")  # type: ignore[method-assign]
        with pytest.raises(BadAddress, match="does not speak the OpenAI protocol"):
            policy_at(server.address)


@pytest.mark.parametrize(
    ("manners", "settings", "has"),
    [
        ({}, {}, True),
        ({}, {"temperature": 0.7}, True),
        ({"processed": False}, {}, True),  # at temperature 1 there is nothing to process
        ({"processed": False}, {"temperature": 0.7}, False),
        ({"processed": False}, {"top_p": 0.9}, False),
        ({"gives_ids": False}, {}, False),
        ({"engine": "someone"}, {}, False),
    ],
)
def test_whether_log_probabilities_are_those_of_the_sampling(manners: dict, settings: dict, has: bool) -> None:
    with completion_server(**manners) as server, warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        policy = policy_at(server.address, **settings)
        assert policy.traits.logprobs is has
        raw = "processed" in manners and not has
        assert [("--logprobs-mode processed_logprobs" in str(one.message)) for one in heard] == [True] * raw
        asyncio.run(policy.close())
