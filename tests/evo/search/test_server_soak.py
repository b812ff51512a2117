"""Thousands of requests to a server with all faults mixed: every paid answer is stored or counted, and the cost is that
of the server's books. SOAK_REQUESTS=2000 makes it the long soak, of a minute and a half."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from run_one import shown
from support.completion_server import FAULTS, CompletionServer, hosted_server, mixed

from evo.cli import invoke
from islands.groups import read_groups
from islands.store import Store

READ, WRITTEN = 2.0, 8.0
SOUND = ("", "no usage", "parts")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("requests", [int(os.environ.get("SOAK_REQUESTS", "200"))])
def test_every_paid_answer_is_stored_or_counted_and_the_cost_is_the_servers(requests: int, capsys) -> None:
    written: dict[int, str] = {}

    def answer(body: dict[str, Any], number: int) -> str:
        written[number] = f"```python\ndef initials(name):\n    return name[{number}:]\n```"
        return written[number]

    with hosted_server(mixed(0.4, seed=1), hang=1.5, text=answer) as server:
        policy = f"{server.address}?n=off&timeout=1&retries=3&price={READ:g}/{WRITTEN:g}"
        settings = ["--answers", "1", "--rollouts", "2", "--parallel", "24", "--max-new-tokens", "400", "--plain"]
        plan = requests // 20  # iterations on each of four problems, of two rollouts, with some retries
        search = ["run", "programs:easy", "--limit", "4", "--name", "one", "--policy", policy, *settings]
        assert invoke([*search, "--iterations", str(plan)]) == 0
        assert_books(server, shown(capsys))
        while len(server.requests) < requests:
            plan += max(5, requests // 40)
            assert invoke(["resume", "one", "--iterations", str(plan), "--plain"]) == 0
        found = shown(capsys)
        assert_books(server, found)
        assert all(server.played.count(fault) > requests // 60 for fault in FAULTS), "every fault was met"
        errors = found["summary"]["errors"]
        for fault, kind in (("cut", "reply cut"), ("empty", "reply empty"), ("reasoning", "reply only reasoning")):
            assert errors[kind] == server.played.count(fault)
        sound = {written[number] for number, fault in enumerate(server.played) if fault in SOUND}
    with Store.open("sqlite:///evo.db", read_only=True) as store:
        groups = [group for _, group in read_groups(store, store.run("one").id)]
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    assert len(groups) == found["groups"] == 4 * plan and len(rollouts) == 2 * len(groups)
    assert sound == {one.rollout.text for one in rollouts if one.rollout.text in sound}, "no paid answer is lost"
    failed = [one for one in rollouts if str(one.format_error).startswith("no reply: ")]
    assert len(failed) == errors.get("reply failed", 0) and all(not one.answers for one in failed)


def assert_books(server: CompletionServer, found: dict[str, Any]) -> None:
    books, summary = server.books, found["summary"]
    assert (found["prompt_tokens"], found["tokens"]) == (books.prompt_tokens, books.completion_tokens)
    assert found["cost"] == pytest.approx(books.cost(READ, WRITTEN), abs=2e-6)
    assert summary["outcome"] == "done"
