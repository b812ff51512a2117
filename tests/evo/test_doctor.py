"""`evo doctor`: what is well, what is not, the remedy, and the exit code."""

import json
import shutil

import pytest
from support.command_line import evo
from support.completion_server import CompletionServer, hosted_server, scripted

from evo.cli import doctor
from islands.store import Store
from problems.sandbox.contract import SandboxUnavailable


def test_a_machine_that_is_ready(capsys, here):
    code, out, err = evo(capsys, "doctor", "--policy", "scripted:mutate", "--json")
    found = json.loads(out)
    assert code == 0 and err == "" and found["ready"] is True
    assert {finding["check"] for finding in found["checks"]} == {"sandbox", "database", "gpu", "policy"}
    assert not (here / "evo.db").exists(), "a look makes no database"
    assert all(finding["remedy"] for finding in found["checks"] if finding["level"] != "ok")


def test_what_fails_has_a_remedy_and_code_1(capsys, here):
    code, out, _ = evo(
        capsys, "doctor", "--db", "postgresql://me:secret@127.0.0.1:1/x", "--policy", "openai:tiny@http://127.0.0.1:9"
    )
    assert code == 1 and "not ready: 2 to fix" in out and "secret" not in out
    shown = out.splitlines()
    for check in ("database", "policy"):
        place = next(i for i, line in enumerate(shown) if line.startswith(f"fail {check} "))
        assert shown[place + 1].strip().startswith("-> "), out


def test_a_database_is_opened_and_left_as_it_is(tmp_path, monkeypatch):
    address = f"sqlite:///{tmp_path}/evo.db"
    assert "the first run creates it" in doctor.diagnose_database(address).message
    Store.open(address).close()
    before = (tmp_path / "evo.db").read_bytes()
    assert doctor.diagnose_database(address).level == "ok"
    assert (tmp_path / "evo.db").read_bytes() == before
    monkeypatch.setattr("os.access", lambda *_: False)
    assert doctor.diagnose_database(address).level == "fail"


@pytest.mark.parametrize(
    "manners, level, message",
    [
        ({}, "ok", "with log-probabilities"),
        ({"processed": False}, "warn", "without log-probabilities"),
        ({"gives_ids": False}, "warn", "without log-probabilities"),
        ({"lists_models": 401}, "fail", "key"),
    ],
)
def test_a_server_answers_and_gives_logprobs(manners, level, message):
    server = CompletionServer(**manners)
    try:
        found, said, remedy = doctor.diagnose_policy(server.address)
    finally:
        server.close()
    assert found == level and message in said
    assert bool(remedy) == (level != "ok")


@pytest.mark.parametrize("fault, message", [("empty", "an empty reply"), ("reasoning", "only reasoning")])
def test_a_server_that_answers_nothing_is_not_ready(fault, message):
    with hosted_server(scripted(after=fault)) as server:
        level, said, remedy = doctor.diagnose_policy(server.address)
        assert max(body.get("max_tokens", 0) for body in server.requests) > 1000, "it may have to reason first"
    assert level == "fail" and message in said and remedy


def test_an_embedded_policy_is_asked_in_its_own_language():
    level, message, _ = doctor.diagnose_policy("embedded:base")
    assert level == "ok" and "answered twice" in message and "with log-probabilities" in message


def test_gpus(monkeypatch, tmp_path):
    import torch

    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert doctor.diagnose_gpus(str(tmp_path / "none")).level == "ok"
    (tmp_path / "version").write_text("NVRM")
    assert doctor.diagnose_gpus(str(tmp_path / "version")).level == "warn", "a driver, and a torch that sees nothing"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number: f"H200-{number}")
    assert doctor.diagnose_gpus().message == "H200-0, H200-1"


def test_the_sandbox(monkeypatch):
    monkeypatch.setattr(doctor, "choose_mode", lambda: "landlock")
    assert doctor.diagnose_sandbox().level == "warn"

    def nothing():
        raise SandboxUnavailable("no isolation for candidates: bwrap: gone. To get it, pray")

    monkeypatch.setattr(doctor, "choose_mode", nothing)
    assert doctor.diagnose_sandbox().level == "fail" and "pray" not in doctor.diagnose_sandbox().message
