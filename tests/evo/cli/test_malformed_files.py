"""Malformed files are refused in one line; `python -m bench.malformed` tries 10^4."""

import contextlib
import shutil
import sqlite3

import pytest

from bench.malformed import FILE_KINDS, try_all, try_one


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
