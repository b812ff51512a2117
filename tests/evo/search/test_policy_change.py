"""A run is resumed with other options of its models, which is on record, and with no other models."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from support.command_line import evo, refused
from support.completion_server import hosted_server, scripted
from support.stored_rows import stored_groups

from evo.cli import invoke

SEARCH = ["run", "programs:easy", "--limit", "1", "--answers", "1", "--name", "one", "--plain", "--iterations", "12"]
RESUME = ["resume", "one", "--plain", "--iterations", "24"]
pytestmark = [pytest.mark.usefixtures("here"), pytest.mark.filterwarnings("ignore::UserWarning")]


def shown(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return dict(json.loads(evo(capsys, "show", "one", "--json")[1].splitlines()[-1]))


def operators() -> Counter[tuple[int, str]]:
    """How many groups each (operator, version) wrote."""
    groups = stored_groups("sqlite:///evo.db", "one")
    return Counter((group.operator, group.policy_version.split("@")[0]) for group in groups)


def test_other_options_of_the_same_model_keep_its_place(capsys) -> None:
    with hosted_server(lambda number: "" if number < 6 else 429) as server:
        assert invoke([*SEARCH, "--policy", f"{server.address}?n=off&retries=0", "--parallel", "2"]) == 1
        server.manners.plan = scripted()
        assert invoke([*RESUME, "--policy", f"{server.address}?n=off&concurrency=30"]) == 0
        found = shown(capsys)
        assert found["groups"] == 24 and set(operators()) == {(0, "openai:tiny")}
        (change,) = found["policy_changes"]
        assert "retries=0" in change["before"] and "concurrency=30" in change["after"]
        assert found["config"]["policy"] == change["after"]
        assert invoke(["show", "one"]) == 0 and "the policy changed:" in capsys.readouterr().out
        assert invoke(["resume", "one", "--plain", "--iterations", "26"]) == 0, "it continues as changed"
        assert len(shown(capsys)["policy_changes"]) == 1


def test_a_wrong_policy_leaves_the_run_as_it_was(capsys) -> None:
    assert invoke([*SEARCH, "--policy", "scripted:mutate"]) == 0
    before = shown(capsys)
    for policy, said in (
        ("openai:tiny@nowhere", "the run keeps its models, scripted:mutate"),
        ("scripted:mutate,scripted:echo", "only their options can change. Start a new run with"),
        ("scripted:mutate?temperature=hot", "temperature"),
    ):
        assert said in refused(capsys, *RESUME, "--policy", policy)
    assert shown(capsys) == before


def test_failures_are_listed_by_reason_with_their_count_and_an_id(capsys) -> None:
    def broken(body: dict[str, Any], number: int) -> str:
        return f"```python\ndef initials(name):\n    return {'other' if number == 5 else 'missing'}({number})\n```"

    with hosted_server(scripted(), text=broken) as server:
        assert invoke([*SEARCH, "--policy", f"{server.address}?n=off"]) == 1  # no answer was scored
    failed = shown(capsys)["failed_candidates"]
    assert [failure["count"] for failure in failed] == [11, 1] and "'missing'" in failed[0]["error"]
    assert invoke(["show", "one"]) == 0
    out = capsys.readouterr().out
    assert f"  {failed[0]['id']}  programs:easy/0  11 x " in out
    assert invoke(["show", "one", str(failed[0]["id"])]) == 0 and "error: " in capsys.readouterr().out
