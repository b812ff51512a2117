"""Hub ids: what a hub has, and what becomes of one that is out of reach."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest
from huggingface_hub import constants

from problems.contract import BadAddress
from vpo.policies.address import parse_address
from vpo.policies.checkpoint import only_cached
from vpo.policies.registry import check_policy, policy_at

REFUSED = "http://127.0.0.1:9"


def at(monkeypatch, endpoint: str) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    template = endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


@pytest.fixture(autouse=True)
def no_hub(monkeypatch, tmp_path):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    at(monkeypatch, REFUSED)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    only_cached.cache_clear()


@pytest.fixture
def hub(monkeypatch) -> Iterator[SimpleNamespace]:
    """A hub whose answer to every request is `status`; `asked` are the paths."""
    state = SimpleNamespace(status=404, asked=[])

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:  # noqa: N802 - the library's name
            state.asked.append(self.path)
            self.send_response(state.status)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    at(monkeypatch, f"http://127.0.0.1:{server.server_port}")
    yield state
    server.shutdown()
    server.server_close()


def cache(tmp_path, name: str) -> None:
    folder = tmp_path / "cache" / f"models--{name.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc")
    (folder / "snapshots" / "abc").mkdir(parents=True)
    (folder / "snapshots" / "abc" / "config.json").write_text("{}")


def test_a_hub_out_of_reach_is_one_line_that_names_what_works_without_it():
    with pytest.raises(BadAddress, match=r"(?s)127.0.0.1:9 cannot be reached.*scripted:mutate") as caught:
        check_policy(parse_address("Qwen/Some-Model"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("status", "said"), [(404, "has no such model"), (503, "cannot be reached .it answers 503")])
def test_a_model_that_is_not_there_is_asked_for_once(hub, status, said):
    hub.status = status
    for ask in (lambda: check_policy(parse_address("org/nothing")), lambda: check_policy(parse_address("vllm:org/no"))):
        hub.asked.clear()
        with pytest.raises(BadAddress, match=said):
            ask()
        assert len(hub.asked) == 1


def test_a_model_that_is_there_is_loaded_from_the_hub(hub):
    hub.status = 200
    assert only_cached("org/model") is False
    assert hub.asked == ["/org/model/resolve/main/config.json"]


def test_what_was_fetched_before_is_used_where_the_hub_is_out_of_reach(tmp_path):
    cache(tmp_path, "org/model")
    assert only_cached("org/model") is True


def test_loading_asks_an_unreachable_hub_no_second_time(tmp_path, hub):
    """The library itself would ask five times for each file."""
    cache(tmp_path, "org/model")
    hub.status = 500
    with pytest.raises(BadAddress, match="cannot be loaded"):  # its config.json holds nothing
        policy_at("org/model")
    assert len(hub.asked) == 1


@pytest.mark.parametrize("cached", [False, True])
def test_hf_hub_offline_is_obeyed(tmp_path, monkeypatch, hub, cached):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    if cached:
        cache(tmp_path, "org/model")
        assert only_cached("org/model") is True
    else:
        with pytest.raises(BadAddress, match="HF_HUB_OFFLINE is set"):
            only_cached("org/model")
    assert hub.asked == []


def test_what_is_no_hub_id_is_said_without_a_hub(hub):
    with pytest.raises(BadAddress, match="neither a directory here nor a hub id"):
        check_policy(parse_address("org/-model-"))
    assert hub.asked == []
