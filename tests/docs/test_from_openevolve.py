"""docs/tutorial/openevolve.md names the keys and flags of OpenEvolve and claims as read just those that are read."""

from __future__ import annotations

import re

from snippets import ROOT

import evo.prompts.openevolve  # noqa: F401 - openevolve.config without the rest of that package
from problems.openevolve.config import _HONOURED, OF_MODELS, OF_THE_SERVER

PAGE = (ROOT / "docs/tutorial/openevolve.md").read_text()
SECTIONS = ("llm", "prompt", "database", "evaluator", "evolution_trace")
OURS = {"target", "objectives", "directions", "readable"}


def rows(section: str) -> dict[str, str]:
    """Each key of a section's table, "" for the table of the file's top level, and its counterpart."""
    heading = f"### {section}" if section else "## Keys of config.yaml"
    text = PAGE.partition(f"\n{heading}\n")[2]
    cells = [line.split(" | ") for line in re.split(r"^##", text, flags=re.M)[0].splitlines() if line.startswith("| `")]
    return {key: right for left, right in cells for key in re.findall(r"`(\w+)`", left)}


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
