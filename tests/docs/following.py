"""The blocks of a page done in their order, as a reader would. Needs no library of the tests:

python tests/docs/following.py README.md      in an environment that has what its reader installed
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from snippets import (
    Snippet,
    check_arguments,
    check_python,
    check_settings,
    commands_of,
    evo_arguments,
    parse_command,
    read_snippets,
)

from evo.cli import invoke

ALWAYS = ("--plain", "--processes", "1")
"""Added to the commands that have them: the screen is tested elsewhere, and processes take longer to start than these
searches last."""


def follow(blocks: Iterable[Snippet]) -> None:
    """Does the blocks in the current folder. Raises AssertionError where one is wrong."""
    for block in blocks:
        if block.kind == "file":
            write_file(block)
        elif block.kind in ("run", "long") and block.language == "python":
            run_python(block)
        elif block.kind in ("run", "long"):
            for words in commands_of(block.text):
                run_command(block, words)


def write_file(block: Snippet) -> None:
    name, _, kind = block.detail.partition(" as ")
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(block.text)
    if kind:
        checked(block, check_settings, kind, block.text, name)
    elif name.endswith(".py"):
        checked(block, check_python, block)


def run_command(block: Snippet, words: list[str]) -> None:
    arguments = evo_arguments(words)
    assert arguments is not None, f"{block.place}: {words[0]} cannot be run here; mark the block `check: ...`"
    command, _ = parse_command(arguments)
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    flags = [flag for flag in pairs([*block.changes, *ALWAYS]) if flag[0] in known]
    checked(block, check_arguments, arguments)
    code = invoke([*arguments, *(word for flag in flags for word in flag)])
    assert code == block.exit_code, f"{block.place}: {' '.join(words)} ended with {code}"


def pairs(words: list[str]) -> list[list[str]]:
    """Flags with their values: `--a 1 --b` -> [--a, 1], [--b]."""
    found: list[list[str]] = []
    for word in words:
        if word.startswith("--"):
            found.append([word])
        else:
            found[-1].append(word)
    return found


def run_python(block: Snippet) -> None:
    text = block.text
    for change in block.changes:
        name, _, value = change.partition("=")
        text, count = re.subn(rf"\b{name}=[\w.\"-]+", f"{name}={value}", text)
        assert count, f"{block.place}: nothing is called {name} here"
    exec(compile(text, block.place, "exec"), {"__name__": "__main__"})


def checked(block: Snippet, check, *arguments) -> None:
    """check(*arguments). Raises AssertionError with the block's place for what it raises."""
    try:
        check(*arguments)
    except Exception as error:
        raise AssertionError(f"{block.place}: {type(error).__name__}: {error}") from error


if __name__ == "__main__":
    for page in sys.argv[1:]:
        follow(read_snippets(Path(page).resolve()))
