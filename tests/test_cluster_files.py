"""What starts a cluster: docker-compose.yml and examples/cluster, as far as files can be wrong without an engine."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import Group

from evo.cli import COMMANDS
from evo.cli import evo as command_line

ROOT = Path(__file__).parents[1]
CLUSTER = ROOT / "examples" / "cluster"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())


def test_the_services_stand_on_what_is_there(compose):
    services, volumes = compose["services"], compose["volumes"]
    assert set(services) == {"postgres", "evo", "ray", "worker", "vllm"}
    for name, service in services.items():
        for mount in service.get("volumes", []):
            place = mount.partition(":")[0]
            assert place in volumes or (ROOT / place).exists(), f"{name} mounts {place}"
        for other, how in service.get("depends_on", {}).items():
            assert how["condition"] == "service_healthy" and "healthcheck" in services[other], (
                f"{name} waits for {other}"
            )
        for text in [*service.get("command", []), *service.get("entrypoint", [])]:
            assert "pip" not in text, f"{name} installs at its start"
    assert services["vllm"]["profiles"] == ["gpu"]
    assert "container_name" not in services["worker"] and "ports" not in services["worker"], "it is scaled"


def test_one_image_is_built_of_what_the_checkout_holds(compose):
    services = compose["services"]
    image = services["evo"]["image"]
    assert all(services[name]["image"] == image for name in ("ray", "worker"))
    assert services["ray"]["build"] == services["evo"]["build"] == services["worker"]["build"]
    lines = services["evo"]["build"]["dockerfile_inline"].strip().splitlines()
    assert lines[0].startswith("FROM python:3.1")
    copied: set[str] = set()
    for line in lines:
        if line.startswith("COPY"):
            *sources, _ = line.split()[1:]
            copied |= set(sources)
    ignored = set((ROOT / ".dockerignore").read_text().split())
    assert all((ROOT / source).exists() for source in copied) and not copied & ignored
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = {pattern.rstrip("*") for pattern in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    assert packages <= copied and {"pyproject.toml", "README.md", "LICENSE"} <= copied
    (extras,) = re.findall(r'-e "\.\[([a-z,]+)\]"', "\n".join(lines))
    assert set(extras.split(",")) <= set(project["project"]["optional-dependencies"])
    assert {"postgres", "ray", "sandbox"} <= set(extras.split(","))


def test_ports_and_passwords_agree(compose):
    services = compose["services"]
    assert "--port=6379" in services["ray"]["entrypoint"] and "--address=ray:6379" in services["worker"]["entrypoint"]
    url = services["evo"]["environment"]["EVO_DB"]
    assert url == services["worker"]["environment"]["EVO_DB"]
    password = services["postgres"]["environment"]["POSTGRES_PASSWORD"]
    assert url == f"postgresql+psycopg://evo:{password}@postgres:5432/evo"
    for service in services.values():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), "nothing is open to the network"


def test_docker_compose_takes_it():
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker compose is not here")
    done = subprocess.run([docker, "compose", "config", "-q"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("script", ["slurm.sh", "hosts.sh"])
def test_scripts_are_bash_and_name_commands_that_exist(script):
    path = CLUSTER / script
    assert os.access(path, os.X_OK)
    done = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    text = "\n".join(line for line in path.read_text().replace("\\\n", " ").splitlines() if not line.startswith("#"))
    called = re.findall(r"(?<![/\w])evo ([a-z]+)([^;&|>)\n]*)", text)
    assert called
    for name, rest in called:
        assert name in COMMANDS, name
        command = command_line.get_command(None, name)
        assert command is not None and not isinstance(command, Group)
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        flags = {word for word in rest.split() if word.startswith("--")} - {"--ray"}
        assert flags <= known, f"{name} {flags - known}"


def test_the_hosts_script_starts_and_stops_every_host(tmp_path):
    log, fake = tmp_path / "log", tmp_path / "ssh"
    fake.write_text(f'#!/bin/bash\necho "$3 $4" >> {shlex.quote(str(log))}\n')
    fake.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "EVO_DB": "postgresql://evo@db/evo"}
    for what in ("up", "down"):
        subprocess.run(["bash", str(CLUSTER / "hosts.sh"), what, "a", "b", "c"], env=environment, check=True)
    lines = log.read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["a", "b", "c", "a", "b", "c", "a"]
    assert "ray start --head" in lines[0] and "--address=a:6379" in lines[1] and "ray stop" in lines[-1]
    assert all("EVO_DB='postgresql://evo@db/evo'" in line for line in lines)
