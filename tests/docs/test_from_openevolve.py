"""docs/tutorial/openevolve.md names the keys and flags of OpenEvolve and claims as read just those that are read."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Iterable
from pathlib import Path

import pytest
from snippets import ROOT

import evo.prompts.openevolve  # noqa: F401 - openevolve.config without the rest of that package
from problems.openevolve.config import _HONOURED, OF_MODELS, OF_THE_SERVER

PAGE = (ROOT / "docs/tutorial/openevolve.md").read_text()
SECTIONS = ("llm", "prompt", "database", "evaluator", "evolution_trace")
OURS = {"target", "objectives", "directions", "resources"}


def rows(section: str) -> dict[str, str]:
    """Each key of a section's table, "" for the table of the file's top level, and its counterpart."""
    heading = f"### {section}" if section else "## Keys of config.yaml"
    text = PAGE.partition(f"\n{heading}\n")[2]
    cells = [line.split(" | ") for line in re.split(r"^##", text, flags=re.M)[0].splitlines() if line.startswith("| `")]
    return {key: right for left, right in cells for key in re.findall(r"`(\w+)`", left)}


def say_what_is_new(names: Iterable[str], what: str) -> None:
    """Nothing of ours breaks where another release of OpenEvolve has other names: who keeps the page is told."""
    if names:
        warnings.warn(
            f"docs/tutorial/openevolve.md and the installed OpenEvolve differ in {what}: {sorted(names)}", stacklevel=2
        )


@pytest.mark.parametrize("section", ["", *SECTIONS])
def test_every_key_of_the_configuration_is_there(section):
    from openevolve.config import Config, LLMModelConfig

    part = getattr(Config(), section) if section else Config()
    names = {field.name for field in dataclasses.fields(part) if not field.name.startswith("_")}
    if section == "llm":
        names |= {field.name for field in dataclasses.fields(LLMModelConfig) if not field.name.startswith("_")}
    if not section:
        names -= set(SECTIONS)
    assert len(rows(section).keys() & names) > len(names) / 2
    say_what_is_new(rows(section).keys() ^ names, f"keys of {section or 'config.yaml'}")


def test_the_keys_that_are_read_are_those_that_the_page_claims():
    claimed = {
        f"{section}.{key}".removeprefix(".")
        for section in ("", *SECTIONS)
        for key, ours in rows(section).items()
        if ours.startswith(("the same", "read and", "only as"))
    }
    models = {f"llm.{key}" for key in (*OF_MODELS, *OF_THE_SERVER, "name", "weight")}
    assert claimed == _HONOURED.keys() - OURS | models
    assert all(f"`{key}`" in PAGE for key in OURS)


def test_every_flag_is_there():
    from openevolve import config

    flags = re.findall(r'"(--[a-z-]+)"', Path(config.__file__).with_name("cli.py").read_text())
    table = PAGE.partition("\n## Flags\n")[2].partition("\n## ")[0]
    assert len(flags) >= 9
    say_what_is_new([flag for flag in flags if f"`{flag}" not in table], "flags")
