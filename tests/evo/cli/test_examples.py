"""Problems of examples/ that no page runs, as they stand there."""

import itertools
import json
from pathlib import Path

import pytest
from support.completion_server import completion_server

from evo.cli import invoke

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("example", ["valley", "scorers/short_primes.py", "two_files"])
def test_examples_run(here, capsys, example):
    path = str(ROOT / "examples" / example)
    assert invoke(["run", path, "--policy", "scripted:mutate", "--answers", "1", "--iterations", "4", "--plain"]) == 0
    assert "4/4" in capsys.readouterr().out


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
