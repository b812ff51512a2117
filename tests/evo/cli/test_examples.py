"""Problems of examples/ that no page runs, as they stand there."""

import itertools
import json
from pathlib import Path

import pytest
from support.completion_server import completion_server

from evo.cli import invoke
from problems import resolve

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("example", ["valley", "scorers/short_primes.py", "two_files"])
def test_examples_run(here, capsys, example):
    path = str(ROOT / "examples" / example)
    assert invoke(["run", path, "--policy", "scripted:mutate", "--answers", "1", "--iterations", "4", "--plain"]) == 0
    assert "4/4" in capsys.readouterr().out


GRID = "[((i % 6 + .5) / 6, (i // 6 + .5) / 6, 1 / 12{}) for i in range(26)]"
LATTICE = "[[sign * (1 << 59) * (i == k) for i in range(11)] for k in range(11) for sign in (-1, 1)]"


@pytest.mark.parametrize(
    ("example", "body", "value"),
    [
        ("circles", f"def pack(): return {GRID.format('')}", 26 / 12),
        ("circles", f"def pack(): return {GRID.format(' + 1e-6')}", 26 / 12),  # shrunk until none overlap
        ("points", "def construct(): return [(i, i * i) for i in range(13)]", 1 / 286),
        ("points", "def construct(): return [(1e-170 * i, 1e-170 * i * i) for i in range(13)]", 1 / 286),
        ("steps", "def heights(): return [1.0] * 50", 2),
        ("steps", "def heights(): return [1e-300] * 49 + [-30.0]", 100 / 49),  # a negative height counts as 0
        ("kissing", f"def vectors(): return {LATTICE}", 22),  # their squares do not fit 64 bits
        ("kissing", "def vectors(): return [[2] * 11, [2] * 11, [0] * 11, [2] * 10 + [1]]", 1),
    ],
)
def test_a_construction_is_measured_exactly(example, body, value):
    (problem,) = resolve(str(ROOT / "examples" / "maths" / f"{example}.py"))
    found = problem.score(body)
    measured = (found.values or found.rewards)[0]
    assert found.error is None and measured == pytest.approx(value, rel=1e-9)
    assert example != "circles" or measured <= value


@pytest.mark.parametrize("number", ["float('nan')", "float('inf')", "None", "1j"])
@pytest.mark.parametrize("example, name", [("circles", "pack"), ("points", "construct"), ("steps", "heights")])
def test_what_is_no_number_fails_the_answer(example, name, number):
    (problem,) = resolve(str(ROOT / "examples" / "maths" / f"{example}.py"))
    assert problem.score(f"def {name}(): return [({number},) * 3] * 26").error


def test_a_prompt_evolves_by_what_the_model_that_it_instructs_replies(here, capsys, monkeypatch):
    """One stub is both models: the one that writes prompts, and the one that knows the labels that its prompt names."""
    words = {"refund": "charge billed money", "delivery": "parcel courier", "other": "? !"}

    asked = itertools.count(1)  # not the server's number: the scorer's questions come in any order

    def reply(body, number):
        system, message = body["messages"][0]["content"], body["messages"][-1]["content"]
        if "customer of a shop" in message:
            return f"<answer_1>One word. {' '.join(list(words)[: 1 + next(asked) % 3])}</answer_1>"
        known = [label for label in words if label in system and any(word in message for word in words[label].split())]
        return known[0] if known else "account"

    with completion_server(text=reply) as server:
        monkeypatch.setenv("TICKETS_URL", server.url)
        monkeypatch.setenv("TICKETS_MODEL", "tiny")
        arguments = ["run", str(ROOT / "examples/prompt/tickets.py"), "--policy", server.address, "--name", "tickets"]
        assert invoke([*arguments, "--answers", "1", "--iterations", "12", "--parallel", "1", "--plain"]) == 0
        capsys.readouterr()
        assert invoke(["best", "tickets", "--json"]) == 0
        (best,) = json.loads(capsys.readouterr().out)
        prompts = [body["messages"][-1]["content"] for body in server.requests]
    assert best["fitness"] == 1 > best["held_out"]["fitness"] > 0.5
    assert any("is other; the model replied 'account'\n<answer_1>\nOne word. refund" in text for text in prompts)
