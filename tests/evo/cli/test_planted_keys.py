"""Keys and passwords that are planted by every road, and looked for in all that is written: databases, files, both
streams, tracebacks, stored commands and settings."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from support.completion_server import completion_server, send

import evo as evo_api
from evo.cli import invoke
from islands.store import Store

PLANTED = "Zq7planted9vKx3w"
"""In the middle of every secret below, and of nothing else."""
KEY = f"sk-{PLANTED}-key"
SEARCH = ["run", "programs:easy", "--limit", "1", "--answers", "1", "--rollouts", "2", "--max-new-tokens", "60"]
SEARCH += ["--iterations", "2", "--plain"]
MAZES = ["maze:test/0", "--answers", "1", "--iterations", "2", "--plain", "--policy", "scripted:random-route"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("OPENAI_API_KEY", "HF_TOKEN", "GATEWAY_KEY"):
        monkeypatch.setenv(name, KEY)
    return folder


def assert_clean(folder: Path, *said: str) -> None:
    """The planted string stands in no file, no row of a database, and nothing that was said."""
    for text in said:
        assert PLANTED not in text, text
    for file in folder.rglob("*"):
        if file.is_file():
            assert PLANTED.encode() not in file.read_bytes(), f"{file.name} holds it"
    for database in folder.glob("*.db"):
        with sqlite3.connect(database) as connection:
            assert not [line for line in connection.iterdump() if PLANTED in line]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["evo", *arguments])  # what is stored as the command
        code = invoke(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out + captured.err


@pytest.mark.long
def test_a_search_and_all_that_is_made_of_it(here, capsys) -> None:
    with completion_server(key=KEY) as server:
        policy = f"{server.address}?price=1/3&key=GATEWAY_KEY"
        (here / "run.yaml").write_text("rollouts: 2\n")
        said = [run(capsys, *SEARCH, "--name", "one", "--policy", policy, "--config", "run.yaml")]
        said += [run(capsys, "resume", "one", "--iterations", "3", "--plain")]
        for command in (
            *(["runs"], ["runs", "--json"], ["show", "one"], ["show", "one", "--json"], ["best", "one"]),
            *(["watch", "one", "--once"], ["watch", "one", "--plain"]),
            ["export", "one", "-o", "traces.jsonl"],
            ["report", "one", "-o", "report.html"],
            ["evaluate", "programs:easy", "--limit", "1", "--answers-total", "2", "--policy", policy, "--json"],
            ["compare", "programs:easy", "--arm", f"one={policy}", "--arm", "two=scripted:mutate", "--baseline", "none"]
            + ["--limit", "1", "--iterations", "2", "--seeds", "1", "--plain", "--name", "two"],
            ["report", "two", "-o", "two.html"],
        ):
            said.append(run(capsys, *command))
        assert [code for code, _ in said] == [1, 1, *[0] * (len(said) - 2)], said  # no reply is a program
        assert server.requests and all(one.get("authorization") == f"Bearer {KEY}" for one in server.headers)
    assert {"evo.db", "traces.jsonl", "report.html"} <= {file.name for file in here.iterdir()}
    assert_clean(here, *(text for _, text in said))


@pytest.mark.parametrize(("status", "after"), [(400, 0), (401, 4), (500, 4)])
def test_a_server_that_repeats_the_key_as_it_refuses(here, capsys, status, after) -> None:
    """As the search begins, and in the middle of it, after more answers than a resume asks for by itself."""

    def refuse(handler) -> None:
        text = str(dict(handler.headers))
        send(handler, status, f"<html>{text}</html>" if after else json.dumps({"error": {"message": text}}))

    with completion_server(key=KEY) as server:
        policy = f"{server.address}?retries=0&check=off"
        assert run(capsys, *SEARCH, "--policy", policy, "--name", "one")[0] == 1  # no reply is a program
        server.manners.faults.extend([None] * after + [refuse] * 50)
        code, said = run(capsys, "resume", "one", "--iterations", "40", "--plain")
        assert code == (1 if after else 2) and "***" in said, said
        said += run(capsys, "show", "one")[1] + run(capsys, "watch", "one", "--once")[1]
    assert_clean(here, said)


POLICIES = [
    f"openai:tiny@http://user:{PLANTED}@HOST",
    f"openai:tiny@http://{PLANTED}@HOST/v1",
    f"openai:tiny@http://{PLANTED}:x@HOST/v1?speed=1",
    f"openai:tiny@http://HOST/v1?token={PLANTED}&speed=1",
    f"openai:tiny@http://HOST/v1?api-key=a,openai:b@http://u:{PLANTED}@HOST",
    f"vllm:tiny@http://user:{PLANTED}@HOST",
    f"http://user:{PLANTED}@HOST/v1",
]
DATABASES = [
    f"postgresql://user:{PLANTED}/b@127.0.0.1:1/x",
    f"postgresql://user:a%40{PLANTED}@127.0.0.1:1/x",
    f"postgresql://127.0.0.1:1/x?sslpassword={PLANTED}&connect_timeout=soon",
    f"postgresql://user:{PLANTED}@127.0.0.1:port/x",
    f"mysql://user:{PLANTED}@127.0.0.1/x",
    f"postgres:/user:{PLANTED}@127.0.0.1/x",
    f"sqlite://user:{PLANTED}@127.0.0.1/nowhere/x.db",
]


@pytest.mark.parametrize("address", [*POLICIES, *DATABASES])
def test_an_address_with_a_key_in_it_is_refused_without_it(here, capsys, address) -> None:
    address = address.replace("HOST", "127.0.0.1:1")
    (here.parent / "of.yaml").write_text(f"policy: '{address}'\n")
    commands = [
        *([*SEARCH, "--policy", address], [*SEARCH, "--config", str(here.parent / "of.yaml")]),
        ["evaluate", "programs:easy", "--limit", "1", "--policy", address],
        ["compare", "programs:easy", "--arm", address, "--arm", "scripted:mutate", "--plain"],
        ["run", address, "--policy", "scripted:mutate"],
    ]
    if address in DATABASES:
        commands = [["run", *MAZES, "--db", address], ["runs", "--db", address]]
        commands += [["train", "grpo", "--from-traces", address, "-o", "out"]]
    said = [run(capsys, *command) for command in commands]
    assert [code for code, _ in said] == [2] * len(said), said
    assert not any("Traceback" in text for _, text in said), said
    assert_clean(here, *(text for _, text in said))


@pytest.mark.long
def test_a_database_with_a_password(here, capsys, postgres_address) -> None:
    from sqlalchemy import make_url

    asked = {
        "plain": make_url(postgres_address).set(password=PLANTED).render_as_string(hide_password=False),
        "query": f"{postgres_address}{'&' if '?' in postgres_address else '?'}password={PLANTED}",
        "spaced": make_url(postgres_address).set(password=f"a @{PLANTED}").render_as_string(hide_password=False),
    }
    said = []
    for name, address in asked.items():
        said.append(run(capsys, "run", *MAZES, "--name", name, f"--db={address}"))
        said.append(run(capsys, "resume", name, "--iterations", "3", "--plain", "--db", address))
        (here / "p.yaml").write_text("stages: {a: {search: {problems: [maze:test/0], policy: scripted:random-route}}}")
        said.append(run(capsys, "pipeline", "p.yaml", "-o", f"of-{name}", "--db", address))
        for command in (["show"], ["show", "--json"], ["watch", "--once"], ["report", "-o", f"{name}.html"]):
            said.append(run(capsys, command[0], name, *command[1:], "--db", address))
        made = evo_api.run("maze:test/0", policy="scripted:random-route", iterations=1, db=address, name=f"{name}-api")
        said.append((0, repr(made)))
    assert [code for code, _ in said] == [0] * len(said), said
    with Store.open(postgres_address, read_only=True) as store:
        kept = json.dumps([[one.command, one.config, one.reason, one.summary] for one in store.runs()], default=str)
    assert "***" in kept
    assert_clean(here, kept, *(text for _, text in said))


def test_what_stands_in_the_environment(here, capsys, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://user:{PLANTED}@127.0.0.1:1/v1")
    said = [run(capsys, *SEARCH, "--policy", "openai:tiny")]
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://user:{PLANTED}@127.0.0.1:1")
    for server in ("", "@http://nowhere.invalid/v1"):
        said += [run(capsys, *SEARCH, "--policy", f"openai:tiny{server}?retries=0")]
    assert [code for code, _ in said] == [2, 2, 2], said
    assert_clean(here, *(text for _, text in said))


@pytest.mark.parametrize("isolated", [True, False])
def test_a_scorer_that_tells_its_environment(here, capsys, isolated) -> None:
    """One that is not isolated has the environment, and its own use for it; what it says of it is not kept."""
    (here / "scorer.py").write_text(
        f"import os\nisolated = {isolated}\nobjectives = ('length',)\nseed = 'x'\ndef score(answer):\n"
        "    return {'length': len(answer) / 100, 'feedback': str(dict(os.environ))}\n"
    )
    flags = ["--policy", "scripted:mutate", "--answers", "1", "--iterations", "2", "--plain", "--name", "one"]
    commands = (["run", "scorer.py", *flags], ["show", "one"], ["best", "one"], ["export", "one", "-o", "t.jsonl"])
    said = [run(capsys, *command) for command in commands]
    assert [code for code, _ in said] == [0] * 4
    assert_clean(here, *(text for _, text in said))


def test_a_bug_of_ours_is_a_traceback_without_it(here) -> None:
    script = (
        "import evo.cli, evo.cli.runs as room\n"
        "def fail(*a, **k): raise RuntimeError('at postgresql://u:%s@h/x with Bearer %s' % (P, K))\n"
        f"P, K = {PLANTED[:4]!r} + {PLANTED[4:]!r}, 'sk-' + {PLANTED[:4]!r} + {PLANTED[4:]!r} + '-key'\n"
        "room.Store.open = fail\n"
        "evo.cli.main(['runs', '--db', 'sqlite:///x.db'])\n"
    )
    for trace in ({}, {"EVO_TRACEBACK": "1"}):
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), **trace}
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 1 and "Traceback" in done.stderr and "RuntimeError: at postgresql" in done.stderr
        assert_clean(here, done.stdout, done.stderr)
