"""`--set K`: the best set of stored answers, in a terminal, as JSON, in files, in Python and on the page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.command_line import evo as command
from support.command_line import refused

import evo
from evo.progress.answer_set import AnswerSet
from islands.types import Candidate, ProblemRecord
from problems.objectives import Objective

# two kinds of days that want opposite numbers, and held-out cases that want the opposite of that
SCORER = """
seed_answer = "0.5, 0.5"
directions = {"calm": "min", "rush": "min"}
weights = {"calm": 3, "rush": 1}
def score(answer, calm=(0, 1), rush=(1, 0)):
    given = [float(number) for number in answer.split(",")]
    if len(given) != 2:
        raise ValueError("two numbers")
    away = {"calm": calm, "rush": rush}
    return {name: 1 + sum((a - b) ** 2 for a, b in zip(given, goal)) for name, goal in away.items()}
"""
HELD_OUT = "def held_out(answer):\n    return score(answer, (1, 0), (0, 1))\n"
Capture = pytest.CaptureFixture[str]


def told(capsys: Capture, *arguments: str) -> str:
    """What the command prints; it succeeds."""
    capsys.readouterr()
    code, out, err = command(capsys, *arguments)
    assert code == 0, err
    return out


def search(capsys: Capture, name: str, *options: str) -> str:
    arguments = ("run", "days.py", "--policy", "scripted:mutate", "--iterations", "25", "--plain", "--name", name)
    return told(capsys, *arguments, *options)


@pytest.fixture(autouse=True)
def days(here: Path) -> None:
    Path("days.py").write_text(SCORER + HELD_OUT)


def test_a_set_is_shown_wherever_its_run_is(capsys: Capture) -> None:
    closing = search(capsys, "days", "--set", "2")
    (found,) = evo.load_run("days").sets()
    ids = [member.id for member in found.members]
    assert len(ids) == 2 and found.value > found.worth(found.single.rewards) and sorted(found.chosen) == [0, 1]
    assert "a set of 2 has value" in found.describe() and found.describe() in closing
    for member in found.members:
        assert f"\n{member.id}: {member.text}" in closing
    # the row of an objective: the members' own numbers, the better one marked, the set's, the best single answer's
    row = next(line for line in closing.splitlines() if line.startswith("calm ↓")).split()[2:]
    cells = [float(cell) for cell in row if cell != "*"]
    assert cells[2] == min(cells[:2]) <= cells[3] and row.index("*") == 1 + np.argmin(cells[:2])
    assert cells[4] > cells[2]  # the held-out cases want something else
    assert found.describe() in told(capsys, "show", "days")
    (shown,) = json.loads(told(capsys, "show", "days", "--json"))["sets"]
    assert shown["value"] == found.value and [member["candidate"] for member in shown["members"]] == ids
    page = evo.load_run("days").report("days.html").read_text()
    assert "Best set of answers" in page and all(f"<b>{id}</b>" in page for id in ids)


def test_any_run_has_sets_and_files_of_them(capsys: Capture) -> None:
    search(capsys, "plain")
    assert "a set of" not in told(capsys, "best", "plain") and evo.load_run("plain").sets() == []
    (pair,) = json.loads(told(capsys, "best", "plain", "--set", "2", "--json"))
    (single,) = json.loads(told(capsys, "best", "plain", "--set", "1", "--json"))
    assert pair["set"]["value"] > single["set"]["value"] == pytest.approx(pair["fitness"])  # weighted as the fitness is
    assert "2 answers, one file each" in told(capsys, "best", "plain", "--set", "2", "-o", "rules/")
    texts = {member["answer"] for member in pair["set"]["members"]}
    assert {file.read_text().strip() for file in Path("rules").iterdir()} == texts
    (most,) = evo.load_run("plain").sets(32)
    assert len(most.members) == 2 and "a further answer adds nothing" in most.describe()
    assert "--set" in refused(capsys, "best", "plain", "--set", "0") + refused(capsys, "run", "days.py", "--set", "-1")
    with pytest.raises(ValueError, match="at least one answer"):
        evo.load_run("plain").sets(0)


def test_held_out_scores_choose_nothing(capsys: Capture) -> None:
    search(capsys, "with")
    with_cases = json.loads(told(capsys, "best", "with", "--set", "2", "--json"))[0]["set"]
    Path("days.py").write_text(SCORER)
    search(capsys, "without")
    without = json.loads(told(capsys, "best", "without", "--set", "2", "--json"))[0]["set"]
    for one in (with_cases, without):
        one["members"] = [member["answer"] for member in one["members"]]
    assert with_cases["members"] == without["members"] and with_cases["value"] == without["value"]
    assert with_cases["held_out_value"] < with_cases["value"] and without["held_out_value"] is None


def test_a_fault_on_held_out_cases_is_that_of_one_member(capsys: Capture) -> None:
    refused = "def held_out(answer):\n    return score(answer) if float(answer.split(',')[0]) > 0.5 else 1 / 0\n"
    Path("days.py").write_text(SCORER + refused)
    search(capsys, "faulty")
    (found,) = evo.load_run("faulty").sets(2)
    errors = [score.error or "" for score in found.held_out]
    assert "" in errors and any("division by zero" in error for error in errors)


def test_one_objective_has_its_best_answer_and_a_line_says_so(capsys: Capture) -> None:
    Path("days.py").write_text("seed_answer = '1'\ndef score(answer):\n    return float(answer)\n")
    arguments = ("run", "days.py", "--policy", "scripted:mutate", "--iterations", "8", "--set", "3", "--plain")
    with pytest.warns(match="has one objective, so the best set is its best answer"):
        assert "with one objective the best set is the best answer" in told(capsys, *arguments)


def test_values_have_a_mean_only_where_their_scales_are_alike() -> None:
    def mean(*metrics: Objective) -> float | None:
        names = tuple(one.name for one in metrics)
        record = ProblemRecord(1, 1, 0, "p", "p", names, None, "text", "done", "", None, None, 1, 1.0, None, metrics)
        only = Candidate(1, "x", (0.5, 0.5), 0.5, {}, "", None, 0, 0, None, (10.0, 20.0))
        return AnswerSet(record, 1, (only,), only).mean((10.0, 20.0))

    assert mean(Objective("a", True, 10), Objective("b", True, 40)) == 15
    assert mean(Objective("a", True, 10), Objective("b", True, 60)) is None
    assert mean(Objective("a", True, 10), Objective("b")) is None


def test_arms_are_compared_by_the_value_of_their_sets(capsys: Capture) -> None:
    arms = ("--arm", "mutate=scripted:mutate", "--baseline", "best-of-n", "--seeds", "2", "--iterations", "8")
    out = told(capsys, "compare", "days.py", *arms, "--name", "arms", "--set", "2", "--plain")
    assert "Mean value of the best set after 8 of 8 iterations" in out
    shown = json.loads(told(capsys, "show", "arms", "--json"))
    for arm in ("mutate", "best-of-n"):
        values = [evo.load_run(f"arms/{arm}/s{seed}").sets()[0].value for seed in (0, 1)]
        assert shown["arms"][arm]["set_value"]["mean"] == pytest.approx(np.mean(values))
    told(capsys, "compare", "days.py", *arms, "--name", "one", "--set", "1", "--plain")
    assert json.loads(told(capsys, "show", "one", "--json"))["arms"]["mutate"]["set_value"] is None
