"""What people mistype and files that are damaged: one line that says what would work, and exit code 2."""

import contextlib
import shlex
import shutil
import sqlite3
from pathlib import Path

import pytest
import yaml
from support.command_line import evo, refused

from bench.malformed import FILE_KINDS, try_all, try_one
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
    for command in (["show"], ["best"], ["report", "-o", "no/x.html"], ["resume"], ["export", "-o", "no/x.jsonl"]):
        assert "did you mean first?" in refused(capsys, command[0], "frist", *command[1:])
    assert "there is no directory no" in refused(capsys, "export", "first", "-o", "no/x.jsonl")
    assert "first" in refused(capsys, "run", "maze:test", *LOCAL, "--name", "first")
    code, _, error = evo(capsys, "resume", "first", "--max-cost", "1")
    assert code == 2 and PRICE in error


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "files"), [("problems", 70), ("settings", 84), ("checkpoints: policy", 70), ("scorers", 8)]
)
def test_damaged_files_are_never_a_traceback(kind, files) -> None:
    found = {name: (outcomes, faults) for name, outcomes, faults in try_all(files, 5, kind)}
    assert found and {name: faults for name, (_, faults) in found.items() if faults} == {}
    assert sum(outcomes["refused"] for outcomes, _ in found.values()) > files / 4


@pytest.mark.parametrize(
    "command",
    [
        ["problems", "~nobody-has-this-name/x"],
        ["problems", "programs:~nobody-has-this-name/x.jsonl"],
        ["run", "maze:test", "--policy", "~nobody-has-this-name/x", "--plain"],
        ["run", "maze:test", "--policy", "scripted:fixed?file=~nobody-has-this-name/x", "--plain"],
    ],
)
def test_a_home_that_nobody_has(here, command) -> None:
    assert try_one(command)[0] == "refused"


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:5000],
        lambda data: b"\xff" * len(data),
        lambda data: data[:100] + b"\x99" * 4000 + data[4100:],
        "UPDATE alembic_version SET version_num = '9999_later'",
        "UPDATE alembic_version SET version_num = '0001'",
        "DELETE FROM alembic_version",
        "DROP TABLE runs",
    ],
)
@pytest.mark.parametrize("command", [["runs"], ["show", "one"], ["watch", "one", "--once"]])
def test_a_database_that_is_none_of_ours_any_more(tmp_path, made, damage, command) -> None:
    file = tmp_path / "x.db"
    file.write_bytes(made if isinstance(damage, str) else damage(made))
    if isinstance(damage, str):
        with contextlib.closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(damage)
    outcome, said = try_one([*command, "--db", f"sqlite:///{file}"])
    assert outcome == "refused", said


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> bytes:
    folder = tmp_path_factory.mktemp("made")
    told = ["run", "maze:test", "--policy", "scripted:random-route", "--limit", "1", "--iterations", "2", "--plain"]
    assert try_one([*told, "--name", "one", "--db", f"sqlite:///{folder}/one.db"]) == ("accepted", "")
    with contextlib.closing(sqlite3.connect(folder / "one.db")) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    return (folder / "one.db").read_bytes()


@pytest.mark.parametrize("kind", [*FILE_KINDS, "list"])
@pytest.mark.parametrize(
    "data", [b"\0" * 9, b"\xef\xbb\xbf", b"\xff\xfe{\0", b"[" * 10**5, b'{"text": "' + b"x" * (1 << 22)]
)
def test_a_file_that_is_none(tmp_path, kind, data) -> None:
    (tmp_path / "x.jsonl").write_bytes(data)
    outcome, said = try_one(["problems", f"{kind}:{tmp_path}/x.jsonl"], longest=10**8)
    assert outcome == "refused" and len(said) < 700, said[:1000]


@pytest.mark.parametrize(
    ("example", "name", "data"),
    [
        ("valley", "initial_program.py", b"\xff\xfe"),
        ("two_files", "route.py", b"\xff\xfe"),
        ("two_files", "problem.yaml", b'command: "true"\nfiles: ["a\\0", "\\ud800"]\n'),
    ],
)
def test_programs_that_cannot_be_read(tmp_path, pytestconfig, example, name, data) -> None:
    shutil.copytree(pytestconfig.rootpath / "examples" / example, tmp_path / "d")
    (tmp_path / "d" / name).write_bytes(data)
    outcome, said = try_one(["problems", str(tmp_path / "d")])
    assert outcome == "refused" and "cannot read" in said
