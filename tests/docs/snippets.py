"""The fenced blocks of the documentation, and how each is tested.

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

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

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
