"""A search whose server misbehaves: nothing paid is lost, budgets hold, it ends when it should, and says why."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.completion_server import FAULTS, CompletionServer, hosted_server, mixed, quota, scripted
from support.stored_rows import stored_groups

from evo.cli import invoke
from problems.types import ScoredGroup

SEARCH = ["run", "programs:easy", "--limit", "1", "--answers", "1", "--name", "one", "--max-new-tokens", "400"]
pytestmark = [
    *(pytest.mark.long, pytest.mark.usefixtures("here")),
    pytest.mark.filterwarnings("ignore:a budget of", "ignore:.*reports no usage", "ignore:.*hold no answer"),
]


def search(server: CompletionServer, *arguments: str, options: str = "", code: int = 0) -> None:
    policy = f"{server.address}?n=off&price=1000/4000&{options}"
    assert invoke([*SEARCH, "--policy", policy, *arguments, "--plain"]) == code


def summary(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert invoke(["show", "one", "--json"]) == 0
    return dict(json.loads(capsys.readouterr().out)["summary"])


def groups() -> list[ScoredGroup]:
    return stored_groups("sqlite:///evo.db", "one")


def assert_books(server: CompletionServer, shown: dict[str, Any]) -> None:
    books = server.books
    assert (shown["prompt_tokens"], shown["tokens"]) == (books.prompt_tokens, books.completion_tokens)
    assert shown["cost"] == pytest.approx(books.cost(1000, 4000), abs=1e-5)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("cut", "20 replies in a row held no answer, most were cut at the token limit; raise --max-new-tokens"),
        ("empty", "20 replies in a row held no answer, most were empty"),
        ("reasoning", "most were only reasoning; raise --max-new-tokens so that the model can finish"),
    ],
)
def test_a_search_stops_with_exit_code_1_after_many_replies_without_an_answer(fault: str, said: str, capsys) -> None:
    with hosted_server(scripted(after=fault)) as server:
        with pytest.warns(UserWarning, match="3 replies hold no answer"):
            search(server, "--iterations", "400", code=1)
        out, err = capsys.readouterr()
        assert err.splitlines()[-1].startswith("evo: ") and said in err.splitlines()[-1]
        assert "replies without an answer (" in out
        shown = summary(capsys)
        assert 20 <= len(server.requests) < 40 and shown["outcome"] == "failed"
        assert_books(server, shown)


def test_a_server_that_dies_loses_no_paid_answer_and_resume_makes_the_others(capsys) -> None:
    with hosted_server(lambda number: "" if number in (0, 1, 3, 4, 5) else 500) as server:
        search(server, "--iterations", "12", "--parallel", "6", options="retries=1", code=1)
        shown = summary(capsys)
        assert shown["groups"] == 5 + shown["errors"]["reply failed"] < 12
        assert_books(server, shown)
        server.manners.plan = lambda number: ""
        assert invoke(["resume", "one", "--plain"]) == 0
        shown = summary(capsys)
        assert shown["groups"] == 12
        assert_books(server, shown)
    assert sorted(group.iteration for group in groups()) == list(range(12))


@pytest.mark.parametrize("usage", ["", "no usage"])
def test_a_budget_of_cost_is_exceeded_by_the_window_at_most(usage: str, capsys) -> None:
    with hosted_server(scripted(after=usage), delay=0.05) as server:
        search(server, "--iterations", "400", "--max-cost", "4", "--parallel", "16")
        shown = summary(capsys)
        dearest = max((1000 * prompt + 4000 * completion) / 1e6 for prompt, completion in server.books.charges)
        assert shown["reason"] == "budget of 4 of cost" and 4 <= shown["cost"] < 4 + 16 * dearest
        assert_books(server, shown)
        assert (shown["estimated_tokens"] > 0) is (usage == "no usage")


def test_a_budget_of_seconds_does_not_wait_for_retries(capsys) -> None:
    with hosted_server(lambda number: "" if number < 3 else 429) as server:
        began = time.monotonic()
        search(server, "--iterations", "400", "--max-seconds", "3", options="retries=50")
        assert time.monotonic() - began < 30, "50 retries take minutes"
        shown = summary(capsys)
        assert shown["reason"] == "budget of 3 seconds" and shown["groups"] >= 3
        assert_books(server, shown)


def test_one_failing_member_of_an_ensemble_is_left_alone_and_the_others_continue(monkeypatch, capsys) -> None:
    monkeypatch.setattr("evo.search.core._BACKOFF", (0.2, 0.4))
    with hosted_server(lambda number: 500 if number < 3 else "") as bad, hosted_server(scripted()) as good:
        policies = f"{bad.address}?retries=0&n=off,{good.address}?n=off&temperature=0.9"
        with pytest.warns(UserWarning, match=r"is not responding \(.*\). Continuing with the others; retrying in"):
            arguments = ["--iterations", "60", "--parallel", "2", "--plain"]
            assert invoke([*SEARCH, "--policy", policies, *arguments]) == 0
        assert len(bad.requests) > 3, "it is tried again"
    assert len(groups()) == 60 and {group.operator for group in groups()} == {0, 1}


def test_an_ensemble_ends_when_none_answers(capsys) -> None:
    with hosted_server(scripted(after=500)) as bad, hosted_server(scripted(after=quota)) as worse:
        policies = f"{bad.address}?retries=0&n=off,{worse.address}?n=off"
        with pytest.warns(UserWarning, match="is not responding"):
            assert invoke([*SEARCH, "--policy", policies, "--plain"]) == 1
    assert "cannot answer" in capsys.readouterr().err


def test_a_prompt_that_does_not_fit_is_made_shorter(capsys) -> None:
    def answer(body: dict[str, Any], number: int) -> str:
        return f"```python\ndef initials(name):\n    return name[:{number}] or '{'long ' * 60}'\n```"

    with hosted_server(scripted(), text=answer, context=1800) as server:
        search(server, "--iterations", "20", "--parallel", "2")
        lengths = [sum(len(one["content"]) for one in body["messages"]) for body in server.requests]
        assert_books(server, summary(capsys))
    assert max(lengths) > 1800 and len(lengths) > 20 and len(groups()) == 20
    assert any(group.parent is not None and group.inspirations for group in groups())


def test_a_problem_whose_prompt_never_fits_does_not_blame_its_scorer(capsys) -> None:
    with hosted_server(scripted(), context=100) as server:
        search(server, code=1)
    out, err = capsys.readouterr()
    assert "scorer" not in out + err and "the prompt does not fit the model for 1 problem" in out


@pytest.mark.parametrize("signal_sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_does_not_wait_for_retries_and_requests_that_hang(signal_sent: int, tmp_path: Path) -> None:
    with hosted_server(lambda number: "" if number < 3 else "hang" if number == 4 else 429, hang=60) as server:
        policy = f"{server.address}?n=off&retries=90"
        process = subprocess.Popen(
            [sys.executable, "-m", "evo", *SEARCH, "--policy", policy, "--plain"],
            stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=os.environ,
        )  # fmt: skip
        while len(server.requests) < 8 and process.poll() is None:
            time.sleep(0.05)
        began = time.monotonic()
        process.send_signal(signal_sent)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
        assert time.monotonic() - began < 30 and " answers in flight were dropped; evo resume makes them again" in err
    assert len(groups()) == 3


@pytest.mark.parametrize("requests", [int(os.environ.get("SOAK_REQUESTS", "200"))])
def test_every_paid_answer_is_stored_or_counted_and_the_cost_is_the_servers(requests: int, capsys) -> None:
    """All faults mixed. SOAK_REQUESTS=2000 makes it the long soak, of a minute and a half."""
    written: dict[int, str] = {}

    def answer(body: dict[str, Any], number: int) -> str:
        written[number] = f"```python\ndef initials(name):\n    return name[{number}:]\n```"
        return written[number]

    with hosted_server(mixed(0.4, seed=1), hang=1.5, text=answer) as server:
        policy = f"{server.address}?n=off&timeout=1&retries=3&price=1000/4000"
        settings = ["--answers", "1", "--rollouts", "2", "--parallel", "24", "--max-new-tokens", "400", "--plain"]
        plan = requests // 20  # iterations on each of four problems, of two rollouts, with some retries
        search = ["run", "programs:easy", "--limit", "4", "--name", "one", "--policy", policy, *settings]
        assert invoke([*search, "--iterations", str(plan)]) == 0
        assert_books(server, summary(capsys))
        while len(server.requests) < requests:
            plan += max(5, requests // 40)
            assert invoke(["resume", "one", "--iterations", str(plan), "--plain"]) == 0
        found = summary(capsys)
        assert_books(server, found)
        assert found["outcome"] == "done"
        assert all(server.played.count(fault) > requests // 60 for fault in FAULTS), "every fault was met"
        errors = found["errors"]
        for fault, kind in (("cut", "reply cut"), ("empty", "reply empty"), ("reasoning", "reply only reasoning")):
            assert errors[kind] == server.played.count(fault)
        sound = {written[number] for number, fault in enumerate(server.played) if fault in ("", "no usage", "parts")}
    rollouts = [rollout for group in groups() for rollout in group.rollouts]
    assert len(groups()) == found["groups"] == 4 * plan and len(rollouts) == 8 * plan
    assert sound == {one.rollout.text for one in rollouts if one.rollout.text in sound}, "no paid answer is lost"
    failed = [one for one in rollouts if str(one.format_error).startswith("no reply: ")]
    assert len(failed) == errors.get("reply failed", 0) and all(not one.answers for one in failed)
