"""What starts a cluster: docker-compose.yml and examples/cluster, as far as files can be wrong without an engine."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
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


FOLDER = "/srv/own files"
"""Where docker compose is called."""
OURS = ("evo", "ui", "ray", "worker")
PUBLISHED = {"postgres": 5432, "ui": 8080, "vllm": 8000}


def resolve(value: Any, names: dict[str, str]) -> Any:
    """The file's ${NAME}, ${NAME:-default} and ${NAME:?message} filled in. Raises KeyError for one that must be set."""
    if isinstance(value, dict):
        return {key: resolve(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [resolve(item, names) for item in value]

    def fill(found: re.Match[str]) -> str:
        name, default = found.groups()
        return names[name] if default is None else names.get(name) or default

    return re.sub(r"\$\{(\w+)(?::-([^}]*)|:\?[^}]*)?\}", fill, value) if isinstance(value, str) else value


def read_compose(**names: str) -> dict[str, Any]:
    return resolve(yaml.safe_load((ROOT / "docker-compose.yml").read_text()), {"PWD": FOLDER, **names})


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return read_compose()


@pytest.fixture(scope="module")
def recipe(compose) -> list[list[str]]:
    """The words of each instruction of the image."""
    text = compose["services"]["evo"]["build"]["dockerfile_inline"]
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def test_the_compose_specification_has_every_key():
    pytest.importorskip("check_jsonschema")  # holds the schema of the specification
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*command, str(ROOT / "docker-compose.yml")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_services_wait_for_healthy_ones(compose):
    services = compose["services"]
    assert set(services) == {"postgres", "vllm", *OURS}
    waits = {name: set(service.get("depends_on", {})) for name, service in services.items()}
    assert all("postgres" in waits[name] for name in OURS) and "ray" in waits["worker"]
    for name, service in services.items():
        for other, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"} and "healthcheck" in services[other], f"{name}, {other}"
        test = service.get("healthcheck", {}).get("test", ["CMD", "true"])
        assert test[0] == "CMD" or (test[0] == "CMD-SHELL" and len(test) == 2)
        if "-c" in test:
            compile(test[-1], name, "exec")
    assert {name for name in services if "profiles" in services[name]} == {"evo", "vllm"}, "`up` starts the others"
    assert "container_name" not in services["worker"] and "ports" not in services["worker"], "it can be scaled"


def test_every_service_sees_the_folder_of_the_caller_at_its_path(compose):
    services, volumes = compose["services"], compose["volumes"]
    for name in (*OURS, "vllm"):
        assert services[name]["working_dir"] == FOLDER
        bound = [mount for mount in services[name]["volumes"] if isinstance(mount, dict)]
        assert [(mount["type"], mount["source"], mount["target"]) for mount in bound] == [("bind", FOLDER, FOLDER)]
        assert bound[0].get("read_only", False) == (name == "vllm"), "what evo writes stays in the folder"
    for name, service in services.items():
        for mount in service.get("volumes", []):
            assert isinstance(mount, dict) or mount.partition(":")[0] in volumes, f"{name} mounts {mount}"
    assert "postgres:/var/lib/postgresql/data" in services["postgres"]["volumes"], "runs survive `down`"
    assert services["postgres"]["image"] == "postgres:17", "later images keep their data in another folder"
    with pytest.raises(KeyError, match="PWD"):
        resolve("${PWD:?call it from a shell}", {})


def test_files_are_of_the_caller_who_needs_no_account_in_the_image(compose, recipe):
    assert {compose["services"][name]["user"] for name in OURS} == {"1000:1000"}
    assert {read_compose(EVO_USER="4321:4322")["services"][name]["user"] for name in OURS} == {"4321:4322"}
    set_up = " ".join(word for line in recipe for word in line)
    assert "ENV HOME=/home/evo USER=evo" in set_up and "useradd" not in set_up
    for name in OURS:
        (cache,) = (mount.partition(":")[2] for mount in compose["services"][name]["volumes"] if isinstance(mount, str))
        assert f"mkdir -p {cache} && chmod -R 1777 /home/evo" in set_up and cache.startswith("/home/evo/")


def test_one_image_is_built_of_what_the_checkout_holds(compose, recipe):
    services = compose["services"]
    assert len({services[name]["image"] for name in OURS}) == 1
    assert all(services[name]["build"] == services["evo"]["build"] for name in OURS)
    assert recipe[0] == ["FROM", "python:3.11-slim"] and recipe[-1] == ["ENTRYPOINT", '["evo"]']
    copied = {source for line in recipe if line[0] == "COPY" for source in line[1:-1]}
    ignored = set((ROOT / ".dockerignore").read_text().split())
    assert all((ROOT / source).exists() for source in copied) and not copied & ignored
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = {pattern.rstrip("*") for pattern in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    assert packages <= copied and {"pyproject.toml", "README.md", "LICENSE"} <= copied
    (install,) = (line for line in recipe if "pip" in line)
    assert install[-3:-1] == ["--extra-index-url", "https://download.pytorch.org/whl/cpu"]
    extras = set(install[-1].strip('".[]').split(","))
    assert extras <= set(project["project"]["optional-dependencies"])
    assert extras >= {"postgres", "ray", "rules", "formulas", "tune"}
    for service in services.values():
        for text in [*service.get("command", []), *service.get("entrypoint", [])]:
            assert "pip" not in text.split(), "nothing is installed at start"


def test_commands_of_services_are_those_of_evo_and_ray(compose):
    services = compose["services"]
    for name in ("evo", "ui"):
        assert "entrypoint" not in services[name]
        called, *rest = services[name]["command"]
        assert called in COMMANDS
        command_line.get_command(None, called).make_context(called, rest)
    ray = pytest.importorskip("ray.scripts.scripts").cli
    healthy = services["ray"]["healthcheck"]["test"][1:]
    for program, name, *rest in (services["ray"]["entrypoint"], services["worker"]["entrypoint"], healthy):
        assert program == "ray"
        ray.commands[name].make_context(name, rest)


def test_ports_and_passwords_agree(compose):
    services = compose["services"]
    head, worker = services["ray"]["entrypoint"], services["worker"]["entrypoint"]
    assert "--port=6379" in head and "--address=ray:6379" in worker
    assert services["ray"]["healthcheck"]["test"][-1] == "--address=localhost:6379"
    settings = dict(zip(*[iter(services["ui"]["command"][1:])] * 2, strict=True))
    assert settings == {"--host": "0.0.0.0", "--port": "8080"}, "a published port reaches no loopback of the container"
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert published == {name: [f"127.0.0.1:{port}:{port}"] for name, port in PUBLISHED.items()}, "nothing to the net"
    for name in ("ui", "vllm"):
        assert str(PUBLISHED[name]) in services[name]["healthcheck"]["test"][-1]
    for password in ("evo", "p@/ss:?"):
        services = read_compose(EVO_POSTGRES_PASSWORD=password)["services"]
        made = services["postgres"]["environment"]
        for name in OURS:
            url, given = (services[name]["environment"][key] for key in ("EVO_DB", "PGPASSWORD"))
            assert url == f"postgresql+psycopg://{made['POSTGRES_USER']}@postgres:5432/{made['POSTGRES_DB']}"
            assert given == made["POSTGRES_PASSWORD"] == password


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
