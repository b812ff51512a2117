"""`evo doctor`: what is well, what is not, the remedy, and the exit code."""

import importlib.metadata
import json
import os
import shutil
import sys
from types import SimpleNamespace

import pytest
from command_line import evo
from completion_server import CompletionServer
from misbehaving_server import misbehaving_server, scripted
from sqlalchemy import create_engine, text

from evo.doctor import machine, packages
from evo.doctor.database import _clock, check_database, file_system
from evo.doctor.engine import check_engine
from islands.db.health import examine_database
from islands.db.schema import REVISION
from islands.db.store import Store
from problems.sandbox.contract import SandboxUnavailable


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request, tmp_path):
    return f"sqlite:///{tmp_path}/evo.db" if request.param == "sqlite" else request.getfixturevalue("postgres_address")


def levels(lines):
    return [(line.check, line.level) for line in lines]


def test_a_machine_that_is_ready(capsys, here):
    code, out, err = evo(capsys, "doctor", "--policy", "scripted:mutate", "--json")
    found = json.loads(out)
    assert code == 0 and err == "" and found["ready"] is True
    checks = {line["check"]: line for line in found["checks"]}
    assert set(checks) == {"packages", "sandbox", "database", "gpu", "memory", "disk", "engine"}
    assert not (here / "evo.db").exists(), "a look makes no database"
    assert all(line["remedy"] for line in found["checks"] if line["level"] != "ok")


def test_what_fails_has_a_remedy_and_code_1(capsys, here):
    code, out, _ = evo(
        capsys, "doctor", "--db", "postgresql://me:secret@127.0.0.1:1/x", "--policy", "openai:tiny@http://127.0.0.1:9"
    )
    assert code == 1 and "not ready: 2 to fix" in out and "secret" not in out
    shown = out.splitlines()
    for check in ("database", "engine"):
        place = next(i for i, line in enumerate(shown) if line.startswith(f"fail {check} "))
        assert shown[place + 1].strip().startswith("-> "), out


def test_a_database_is_looked_at_and_left_as_it_is(address):
    empty = examine_database(address)
    assert empty.revision is None and empty.writable and empty.exists == address.startswith("postgresql")
    Store.open(address).close()
    engine = create_engine(address)
    assert ("schema", "ok") in levels(check_database(address))
    for revision, level in (("0001", "warn"), ("9999", "fail")):
        with engine.begin() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = :r"), {"r": revision})
        assert ("schema", level) in levels(check_database(address))
        with engine.connect() as connection:
            assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == revision
    engine.dispose()
    assert empty.wanted == REVISION


def test_the_clock_of_a_server_is_compared(postgres_address, monkeypatch):
    import islands.db.health as health

    assert ("clock", "ok") in levels(check_database(postgres_address))
    real = health.time.time
    monkeypatch.setattr(
        health, "time", SimpleNamespace(time=lambda: real() - 30, perf_counter=health.time.perf_counter)
    )
    assert ("clock", "warn") in levels(check_database(postgres_address))
    assert 25 < examine_database(postgres_address).clock_ahead < 35
    assert _clock(-90).level == "fail" and "behind" in _clock(-90).message


def test_a_server_on_which_nothing_may_be_made(postgres_address):
    engine = create_engine(postgres_address)
    with engine.begin() as connection:
        connection.execute(text("CREATE ROLE looker LOGIN"))
        connection.execute(text("REVOKE CREATE ON SCHEMA public FROM PUBLIC"))
    try:
        (line, *_) = check_database(str(engine.url.set(username="looker").render_as_string(hide_password=False)))
        assert line.level == "fail" and "GRANT CREATE" in line.remedy, line
    finally:
        with engine.begin() as connection:
            connection.execute(text("DROP ROLE looker"))
        engine.dispose()


def test_sqlite_on_a_network_file_system(tmp_path, monkeypatch):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\nhost:/x {tmp_path} nfs4 rw 0 0\n")
    assert file_system(tmp_path / "deeper", str(mounts)) == "nfs4"
    assert file_system(tmp_path.parent, str(mounts)) == "ext4"
    monkeypatch.setattr("evo.doctor.database.file_system", lambda folder: "nfs4")
    (line,) = check_database(f"sqlite:///{tmp_path}/evo.db")
    assert line.level == "warn" and "postgresql" in line.remedy


@pytest.mark.parametrize(
    "manners, level, told",
    [
        ({}, "ok", "with log-probabilities"),
        ({"processed": False}, "warn", "without log-probabilities"),
        ({"gives_ids": False}, "warn", "without log-probabilities"),
        ({"lists_models": 401}, "fail", "key"),
    ],
)
def test_a_server_answers_and_gives_logprobs(manners, level, told):
    server = CompletionServer(**manners)
    try:
        line = check_engine(server.address)
    finally:
        server.close()
    assert line.level == level and told in line.message, line
    assert bool(line.remedy) == (level != "ok")


@pytest.mark.parametrize(
    "fault, said, remedy",
    [
        ("empty", "an empty reply to a simple question", "send the server a request by hand"),
        ("reasoning", "only reasoning to a simple question", "let it think less"),
    ],
)
def test_a_server_that_answers_nothing_is_not_ready(fault, said, remedy):
    with misbehaving_server(scripted(after=fault)) as server:
        line = check_engine(server.address)
        assert max(body.get("max_tokens", 0) for body in server.requests) > 1000, "it may have to reason first"
    assert line.level == "fail" and said in line.message and remedy in line.remedy


def test_advice_is_for_the_server_that_answers():
    with misbehaving_server(scripted()) as server:
        line = check_engine(server.address)
    assert line.level == "warn" and "it can search, not train" in line.remedy and "--logprobs-mode" not in line.remedy


def test_an_embedded_policy_is_asked_in_its_own_language():
    line = check_engine("embedded:base")
    assert line.level == "ok" and "with log-probabilities" in line.message


def test_versions_against_what_is_asked_for(monkeypatch):
    asked = ["numpy>=99", "absent-package>=1", "click>=8.1", "peft>=99; extra == 'lora'", "nowhere>=1; extra == 'x'"]
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: asked)
    found = [(line.level, line.message.split()[0]) for line in packages.check_packages()]
    assert found == [("fail", "numpy"), ("fail", "absent-package"), ("warn", "peft")]
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: ["click>=8.1"])
    assert levels(packages.check_packages()) == [("packages", "ok")]
    monkeypatch.undo()
    monkeypatch.setattr(packages, "DISTRIBUTION", "not-installed")
    assert levels(packages.check_packages()) == [("packages", "warn")]


def test_cuda_builds_beside_a_cpu_torch(monkeypatch):
    versions = {"torch": "2.13.0+cpu", "torchvision": "0.28.0"}
    monkeypatch.setattr(packages, "version_of", lambda name: versions.get(name))
    (line,) = packages._cuda_beside_cpu()
    assert line.level == "fail" and line.remedy == "pip uninstall -y torchvision"
    versions["torch"] = "2.13.0"
    assert not list(packages._cuda_beside_cpu())


def test_gpus(monkeypatch, tmp_path):
    import torch

    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert machine.check_gpus(str(tmp_path / "none"))[0].level == "ok"
    (tmp_path / "version").write_text("NVRM")
    assert machine.check_gpus(str(tmp_path / "version"))[0].level == "warn", "a driver, and a torch that sees nothing"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number: "H200")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda number: ((140 - 100 * number) << 30, 140 << 30))
    assert [line.level for line in machine.check_gpus()] == ["ok", "warn"]


def test_disk_memory_and_sandbox(monkeypatch, tmp_path):
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda place: SimpleNamespace(free=int(0.1 * (1 << 30))))
    assert {line.level for line in machine.check_disk(tmp_path)} == {"fail"}
    for gib, level in ((0.1, "fail"), (1.0, "warn"), (8.0, "ok")):
        monkeypatch.setattr(machine, "free_memory", lambda gib=gib: int(gib * (1 << 30)))
        assert machine.check_memory().level == level
    monkeypatch.setattr(machine, "choose_mode", lambda: "landlock")
    assert machine.check_sandbox().level == "warn"

    def nothing():
        raise SandboxUnavailable("no isolation for candidates: bwrap: gone. To get it, pray")

    monkeypatch.setattr(machine, "choose_mode", nothing)
    assert machine.check_sandbox().level == "fail" and "pray" not in machine.check_sandbox().message


@pytest.mark.skipif(sys.platform != "linux", reason="cgroups")
def test_memory_is_that_of_the_container(monkeypatch, tmp_path):
    (tmp_path / "max").write_text("3000000000")
    (tmp_path / "current").write_text("2999990000")
    monkeypatch.setattr(machine, "_LIMITS", (str(tmp_path / "max"),))
    monkeypatch.setattr(machine, "_USED", (str(tmp_path / "current"),))
    assert machine.free_memory() == 10_000 < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
