"""What the pages say of installing: the extras, torch for a CPU, the commands of containers."""

from __future__ import annotations

import re
import tomllib

import pytest
import yaml
from parsing import check_words
from snippets import ROOT, commands_of, pages, read_snippets

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SERVICES = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


def test_one_table_has_every_extra():
    """Another page may name an extra, but none has a table of them."""
    tables = {page: re.findall(r"^\| `([\w-]+)`", table_of_extras(page), re.M) for page in pages()}
    tables = {page.name: extras for page, extras in tables.items() if extras}
    assert {page: sorted(extras) for page, extras in tables.items()} == {
        "first-search.md": sorted(PROJECT["optional-dependencies"])
    }


def table_of_extras(page) -> str:
    return page.read_text().partition("| extra |")[2].partition("\n\n")[0]


def test_every_extra_that_is_named_exists():
    named = re.compile(r"(?:evo-search|pip install -e \"?\.)\[([\w,-]+)\]")
    sources = [
        *pages(),
        *(path for top in ("evo", "islands", "problems", "vpo") for path in (ROOT / top).rglob("*.py")),
    ]
    found = {extra for path in sources for extras in named.findall(path.read_text()) for extra in extras.split(",")}
    assert {"postgres", "ray", "rules", "tune"} <= found <= set(PROJECT["optional-dependencies"])


def composing() -> list[list[str]]:
    header = (ROOT / "docker-compose.yml").read_text().partition("\nname:")[0].replace("#   ", "")
    blocks = [block.text for page in pages() for block in read_snippets(page) if block.language == "sh"]
    return [words for text in (header, *blocks) for words in commands_of(text) if words[:2] == ["docker", "compose"]]


@pytest.mark.parametrize("words", composing(), ids=" ".join)
def test_commands_of_containers_name_services(words):
    check_words(words)
    action, *rest = (word for word in words[2:] if word not in ("--profile", "gpu"))
    service = [word for word in rest if not word.startswith("-")][:1]
    assert action in ("build", "run", "up", "exec", "down") and set(service) <= set(SERVICES)
    if action in ("up", "run") and "profiles" in SERVICES[service[0]]:
        assert action == "run" or SERVICES[service[0]]["profiles"][0] in words


def test_containers_are_named_in_several_places():
    assert len(composing()) >= 10 and "docker-compose.yml" in (ROOT / "README.md").read_text()
