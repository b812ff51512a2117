"""What was removed is refused in one line that names what replaces it."""

from __future__ import annotations

from pathlib import Path

import pytest

from evo.cli import invoke
from evo.config.parse import parse
from evo.config.run import RunConfig, complete_run
from evo.errors import BadInput
from problems import retired


@pytest.fixture(autouse=True)
def rows(monkeypatch):
    monkeypatch.setitem(retired.COMMANDS, "gone", "use evo run")
    monkeypatch.setitem(retired.FLAGS, "--gone", "use --seed")
    monkeypatch.setitem(retired.KEYS, "gone", ("use seed", (None, 0)))
    monkeypatch.setitem(retired.KEYS, "prompt.gone", ("use fresh", (None,)))


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["gone"], "evo: gone was removed; use evo run (see evo --help)"),
        (
            ["runs", "note", "r"],
            "evo: runs note was removed; give the run a telling name: evo runs rename RUN NAME (see evo runs --help)",
        ),
        (["run", "maze:test/0", "--gone", "3"], "evo: --gone was removed; use --seed"),
    ],
)
def test_a_removed_command_or_flag_names_its_replacement(argv, line, capsys):
    assert invoke(argv) == 2
    assert capsys.readouterr().err.strip() == line


def test_a_removed_key_names_its_replacement():
    with pytest.raises(BadInput, match="^c.yaml: prompt.gone was removed; use fresh$"):
        parse(RunConfig, {"prompt": {"gone": 3}}, "c.yaml")


def test_a_stored_run_that_did_not_use_what_was_removed_is_read():
    stored = {"policy": "scripted:mutate", "gone": 0, "prompt": {"gone": None}}
    assert "gone" not in complete_run(stored)
    parse(RunConfig, complete_run(stored), "run r")
    with pytest.raises(BadInput, match="gone was removed"):
        parse(RunConfig, complete_run({**stored, "gone": 4}), "run r")


def test_every_row_is_a_sentence_that_says_what_to_do():
    rows = [*retired.COMMANDS.values(), *retired.FLAGS.values(), *retired.NAMES.values()]
    for line in [*rows, *(line for line, _ in retired.KEYS.values())]:
        assert line and not line.endswith(".") and "\n" not in line


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["run", "maze:test/0", "--reflect", "scripted:mutate"], "let the scorer's feedback call a model"),
        (["compare", "maze:test/0", "--arm", "a=scripted:mutate,reflect=x"], "let the scorer's feedback call a model"),
        (["run", "maze:test/0", "--config", "c.yaml"], "mixing = phase was removed; use mixing: bandit or turns"),
        (["run", "maze:test/0", "--config", "d.yaml"], "prompt.horizon was removed; leave it out"),
        (["run", "maze:test/0", "--dtype", "int8"], "int8 was removed; leave --dtype out"),
        (["run", "maze:test/0", "--policy", "embedded:base?horizon=true"], "horizon was removed; leave it out"),
    ],
)
def test_a_removed_setting_of_a_search_names_its_replacement(argv, line, capsys, here):
    Path("c.yaml").write_text("mixing: phase")
    Path("d.yaml").write_text("prompt: {horizon: true}")
    assert invoke(argv) == 2
    assert line in capsys.readouterr().err
