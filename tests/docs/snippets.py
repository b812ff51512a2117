"""The fenced blocks of the documentation, how each is tested, and whether its commands could be given.

A comment before a block says it; a block without one is a fault of the page, unless its language is `text`.

    <!-- test: run -->                       run here, offline, in the page's folder, after the blocks before it
    <!-- test: run with --iterations 2 -->   the same, with these flags added to every command that has them; in Python
                                             with `iterations=2` in the place of that argument's value
    <!-- test: run exit 1 -->  <!-- test: run exit 1 with ... -->    the same; every command ends with that exit code
    <!-- test: long -->  <!-- test: long with ... -->    the same, among the long tests
    <!-- test: check: needs a server -->     not run, for the reason given; every command, flag and value is parsed
    <!-- test: file scorer.py -->            written to the page's folder, for the commands after it
    <!-- test: file arms.yaml as compare -->   the same, and read as that command's settings
    <!-- test: settings run -->              settings of that command, or a `pipeline`
"""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import yaml

from evo.cli import evo
from evo.cli.flags import collect_given
from evo.config.compare import parse_arm
from evo.config.run import load_config
from evo.config.train import TrainRun
from evo.pipelines.file import read_pipeline, read_settings
from vpo.policies.address import parse_addresses
from vpo.policies.registry import check_policy

ROOT = Path(__file__).resolve().parents[2]
_MARKER = re.compile(r"<!-- test: (.+?) -->")
_FENCE = re.compile(r"(`{3,})(\w*)\s*$")
_EXIT = re.compile(r"exit (\d)\s*")
KINDS = ("run", "long", "check", "file", "settings")


@dataclass(frozen=True)
class Snippet:
    """language: of the fence; kind: one of KINDS, "" without a marker; detail: the rest of the marker"""

    page: Path
    line: int
    language: str
    kind: str
    detail: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def changes(self) -> list[str]:
        """What a marker adds to the commands of a block."""
        detail = _EXIT.sub("", self.detail).removeprefix("with ")
        return shlex.split(detail) if self.kind in ("run", "long") else []

    @property
    def exit_code(self) -> int:
        """What its commands end with."""
        found = _EXIT.match(self.detail)
        return int(found[1]) if found else 0


def pages() -> list[Path]:
    """Everything that is written for readers and holds commands. Results tell what was run, by the commit that ran."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    return [*found, *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]


def read_snippets(page: Path) -> list[Snippet]:
    """The blocks of a page in their order. Raises ValueError where a fence is not closed."""
    found: list[Snippet] = []
    marker, block, fence, start, language = "", list[str](), "", 0, ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if fence:
            if line.strip() == fence:
                kind, _, detail = marker.partition(" ")
                text = "\n".join(block) + "\n"
                found.append(Snippet(page, start, language, kind.rstrip(":"), detail.strip(), text))
                marker, fence = "", ""
            else:
                block.append(line)
        elif opened := _FENCE.match(line):
            fence, language, block, start = opened[1], opened[2], [], number
        elif said := _MARKER.fullmatch(line.strip()):
            marker = said[1]
        elif line.strip():
            marker = ""
    if fence:
        raise ValueError(f"{page}:{start}: the block is not closed")
    return found


def commands_of(text: str) -> list[list[str]]:
    """The commands of a shell block, as words: comments left out, continued lines joined, `;` and `&&` between them,
    `NAME=VALUE` before them."""
    found: list[list[str]] = []
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
        lexer.whitespace_split, lexer.commenters = True, "#"
        words: list[str] = []
        for word in [*lexer, ";"]:
            if set(word) <= set(";&|"):
                while words and re.fullmatch(r"[A-Z][A-Z0-9_]*=.*", words[0]):
                    words = words[1:]
                if words:
                    found.append(words)
                words = []
            else:
                words.append(word)
    return found


def evo_arguments(words: list[str]) -> list[str] | None:
    """What follows `evo`, called by its name, by `-m evo` of python and of launchers, or by docker compose; None for
    another program."""
    if words[0] == "evo":
        return words[1:]
    if words[:3] in (["docker", "compose", "run"], ["docker", "compose", "exec"]) and "evo" in words:
        return words[words.index("evo") + 1 :]
    for place in range(len(words) - 1):
        if words[place : place + 2] == ["-m", "evo"]:
            return words[place + 2 :]
    return None


# -- whether a command could be given


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
        raise KeyError(f"{words[0]} is no program that tests/docs/snippets.py knows")
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
