"""What people mistype: one line that says what would work, and exit code 2."""

import shlex
from pathlib import Path

import pytest
import yaml
from support.command_line import evo, refused

from evo.cli import invoke

SCORER = "def score(answer):\n    return 1.0\n"
PRICE = "max_cost 1 would never be reached: no policy has a price, as in openai:MODEL@URL?price=0.15/0.60"
LOCAL = ("--policy", "scripted:random-route", "--limit", "1")


@pytest.fixture
def here(here, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    for file in ("set/one.py", "set/two.py", "alone/one.py", "scorer.py"):
        (here / file).parent.mkdir(exist_ok=True)
        (here / file).write_text(SCORER)
    (here / "tasks").mkdir()
    (here / "tasks" / "easy.jsonl").write_text("{}\n")
    (here / "empty").mkdir()
    (here / "broken").mkdir()
    (here / "mine").mkdir()
    (here / "mine" / "config.json").write_text("{}")
    (here / "broken" / "half.py").write_text("def score(answer\n")
    (here / "run.yaml").write_text("iteratoins: 5\n")
    (here / "inner.yaml").write_text("population: {island: 2}\n")
    (here / "old.yaml").write_text("max_tokens: 400\n")
    (here / "lr.yaml").write_text("train: {lr: 0.1}\n")
    return here


@pytest.mark.parametrize(
    ("typed", "said"), yaml.safe_load(Path(__file__).with_name("mistyped.yaml").read_text(encoding="utf-8"))
)
def test_one_line_says_what_would_work(here, capsys, monkeypatch, typed, said):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    before = set(here.iterdir())
    assert said in refused(capsys, *shlex.split(typed))
    assert set(here.iterdir()) == before


def test_a_directory_of_many_scorers_is_named_by_a_pattern(here, capsys):
    for name in "abc":
        (here / "set" / f"{name}.py").write_text(SCORER)
    assert "5 scorers; name them all: set/*.py" in evo(capsys, "problems", "set")[2]


def test_a_run_that_is_there_is_named_for_one_that_is_not(here, capsys):
    assert invoke(["run", "maze:test", *LOCAL, "--iterations", "1", "--name", "first", "--plain"]) == 0
    capsys.readouterr()
    for command in (["show"], ["best"], ["report"], ["resume"], ["export", "-o", "x.jsonl"]):
        assert "did you mean first?" in refused(capsys, command[0], "frist", *command[1:])
    assert "first" in refused(capsys, "run", "maze:test", *LOCAL, "--name", "first")
    code, _, error = evo(capsys, "resume", "first", "--max-cost", "1")
    assert code == 2 and PRICE in error
