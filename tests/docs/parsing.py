"""Whether a command of the documentation could be given, without doing it."""

from __future__ import annotations

import ast
import importlib.util
import re
import tomllib
from collections.abc import Sequence
from typing import Any

import click
import yaml
from snippets import ROOT, Snippet, evo_arguments

from evo.cli import evo
from evo.cli.flags import collect_given
from evo.config.compare import parse_arm
from evo.config.run import load_config
from evo.config.train import TrainRun
from evo.pipelines.file import read_pipeline, read_settings
from vpo.policies.address import parse_addresses
from vpo.policies.registry import check_policy

FOREIGN = (
    *("pip", "pytest", "ruff", "mypy", "lint-imports", "mkdocs", "accelerate", "git", "docker", "nvidia-smi", "ray"),
    *("tensorboard", "vllm", "openevolve-run", "python", "ssh", "export", "echo", "createdb", ".ci/run", "pip-audit"),
)
"""Programs that are not ours. Of `pip install` and `python -m` what is ours is checked."""


NOT_HERE = ("vllm",)
"""Packages that `python -m` runs in the guides and the tests do not install."""
OURS = ("evo", "vpo", "islands", "problems")
_EXTRAS = re.compile(r"(?:\.|evo)\[([\w,-]+)\]")


def parse_command(arguments: Sequence[str]) -> tuple[click.Command, dict[str, Any]]:
    """The command and the values that click reads. Raises click.ClickException for what it does not know."""
    command: click.Command = evo
    context = click.Context(evo, info_name="evo")
    rest = list(arguments)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name, *rest = rest
        found = command.get_command(context, name)
        if found is None:
            raise click.UsageError(f"no such command {name}")
        if isinstance(found, click.Group) and not (rest and found.get_command(context, rest[0])):
            return found, found.make_context(name, rest, parent=context).params  # a group that does something by itself
        command, context = found, click.Context(found, info_name=name, parent=context)
    if isinstance(command, click.Group):
        return command, {}
    return command, command.make_context(command.name, rest, parent=context.parent).params


def check_arguments(arguments: Sequence[str]) -> None:
    """Raises for a command, flag or value that `evo` refuses, as far as the settings and addresses tell."""
    command, values = parse_command(arguments)
    policies = [values.get("policy") or ""] + [parse_arm(arm)[1]["policy"] for arm in values.get("arms") or ()]
    for policy in policies:
        for address in parse_addresses(policy):
            address.common  # noqa: B018  the options that every address may have
            if address.kind in ("embedded", "scripted"):
                check_policy(address)
    if command.name == "run" and not values.get("config_path"):
        given = {
            key: values[key] for key in values if key not in ("config_path", "name", "db", "ray", "plain", "as_json")
        }
        load_config(None, collect_given(given))
    if command.name == "train" and values.get("method") and not values.get("config_file"):
        named = collect_given({key: values[key] for key in TrainRun.model_fields if key in values})
        read_settings("train", {**named, "method": values["method"]}, "the options")


def check_words(words: Sequence[str]) -> None:
    """One command of a block. Raises for what is wrong with it, KeyError for a program that nobody has named."""
    arguments = evo_arguments(list(words))
    if arguments is not None:
        check_arguments(arguments)
        return
    if words[0] not in FOREIGN:
        raise KeyError(f"{words[0]} is no program that tests/docs/parsing.py knows")
    if "-m" in words and words[0] == "python":
        module = words[list(words).index("-m") + 1]
        package = module.split(".")[0]
        if package not in NOT_HERE and importlib.util.find_spec(module) is None:
            raise KeyError(f"there is no module {module}")
    elif words[0] == "python" and len(words) > 1 and not (ROOT / words[1]).is_file():
        raise KeyError(f"there is no file {words[1]}")
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for word in words:
        for extra in (_EXTRAS.search(word) or ("", ""))[1].split(","):
            if extra and extra not in known:
                raise KeyError(f"pyproject.toml has no extra {extra}")


def check_settings(kind: str, text: str, path: str) -> None:
    """YAML as that kind of settings. Raises BadInput. path: of a file that holds it, for a pipeline"""
    if kind == "pipeline":
        read_pipeline(path)
    else:
        read_settings({"run": "search"}.get(kind, kind), yaml.safe_load(text), "the page")


def check_python(snippet: Snippet) -> None:
    """That it compiles, and that what it imports of ours is there."""
    for node in ast.walk(ast.parse(snippet.text, snippet.place)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OURS:
            module = importlib.import_module(str(node.module))
            for one in node.names:
                getattr(module, one.name)
