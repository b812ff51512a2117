"""Every page of the site that is not written by hand: its path and its Markdown."""

from __future__ import annotations

import re
from pathlib import Path

from command_pages import command_pages
from database_page import database_page
from python_pages import python_pages
from settings_pages import settings_page

OVERVIEW = "README.md"
LATER = "---\nsearch:\n  boost: 0.1\n---\n\n"
"""The head of a page that the site's search lists below those for users."""


def generated_pages(root: Path) -> dict[str, str]:
    """Path below docs/ -> Markdown."""
    return {
        "index.md": home(root / "README.md"),
        "contributing.md": LATER + home(root / "CONTRIBUTING.md"),
        "changelog.md": LATER + home(root / "CHANGELOG.md"),
        "reference/settings.md": settings_page(),
        "reference/database.md": database_page(),
        **command_pages(),
        **{path: LATER + page for path, page in (python_pages(root) | results(root)).items()},
    }


def home(path: Path) -> str:
    """A file of the root as a page of the site: links into docs/ and bench/results/ lead to the site's pages, and
    those to other files of the repository become their names."""
    names = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "README.md": "index.md"}

    def moved(link: str) -> str | None:
        if link.startswith("docs/"):
            return link.removeprefix("docs/")
        if link.startswith("bench/results/"):
            return "results/" + _result_name(link.removeprefix("bench/results/"))
        return names.get(link)

    return _with_links(path.read_text(encoding="utf-8"), moved)


def results(root: Path) -> dict[str, str]:
    """The pages of bench/results, the overview first. Other files in that folder are named, not linked."""
    folder = root / "bench" / "results"
    there = sorted(path.name for path in folder.glob("*.md"))

    def moved(link: str) -> str | None:
        name, _, anchor = link.partition("#")
        return _result_name(name) + (f"#{anchor}" if anchor else "") if name in there else None

    order = [OVERVIEW, *(name for name in there if name != OVERVIEW)]
    return {
        f"results/{_result_name(name)}": _with_links((folder / name).read_text(encoding="utf-8"), moved)
        for name in order
    }


def title_of(page: str) -> str:
    """The first heading of a page, as text."""
    return next(line for line in page.splitlines() if line.startswith("# "))[2:].replace("`", "")


def _result_name(name: str) -> str:
    return "index.md" if name == OVERVIEW else name


def _with_links(text: str, moved: object) -> str:
    """`text` with every link to a file replaced by the result of `moved`, and by its words if that is None."""
    assert callable(moved)

    def replace(match: re.Match[str]) -> str:
        words, link = match[1], match[2]
        if re.match(r"https?:|mailto:|#", link):
            return match[0]
        target = moved(link)
        return f"{words}({target})" if target else words.removeprefix("!")[1:-1]

    return re.sub(r"(!?\[(?:[^\]`]|`[^`]*`)*\])\(([^)\s]+)\)", replace, text)
