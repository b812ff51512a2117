"""The pages that are made from the code hold all of it; the README keeps to its length."""

from __future__ import annotations

import sys

import click
import pytest
from snippets import ROOT

from evo.cli import COMMANDS, evo
from evo.config.compare import ArmConfig, CompareOptions
from evo.config.run import PromptConfig, RunConfig
from evo.config.train import TrainRun
from islands.population.config import PopulationConfig
from islands.schema import METADATA


@pytest.fixture(scope="module")
def made():
    """The generated pages by path."""
    sys.path.insert(0, str(ROOT / "docs" / "generate"))
    try:
        from pages import generated_pages
    finally:
        sys.path.pop(0)
    return generated_pages(ROOT)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_flag_is_there(made, name):
    section = made[f"reference/commands/{name}.md"].partition("\n## ")[0]
    command = evo.get_command(click.Context(evo), name)
    assert section.startswith(f"# evo {name}\n") and f"({name}.md)" in made["reference/commands/index.md"]
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.opts[-1] in section


@pytest.mark.parametrize("model", [RunConfig, TrainRun, CompareOptions, ArmConfig, PromptConfig, PopulationConfig])
def test_every_key_is_there(made, model):
    for key in model.model_fields:
        assert f"| `{key}` |" in made["reference/settings.md"]


def test_every_column_is_there(made):
    for table in METADATA.tables.values():
        section = made["reference/database.md"].partition(f"## {table.name}\n")[2].partition("\n## ")[0]
        assert all(f"| `{column.name}` |" in section for column in table.columns)


def test_results_lead_to_the_pages_of_results(made):
    assert "](search.md)" in made["results/index.md"]
    assert ".json)" not in made["results/index.md"]
    assert "](results/mutation.md)" in made["index.md"]
    assert "](docs/" not in made["index.md"]


def test_the_readme_is_short_and_begins_with_its_two_commands():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    assert "\npip install -e . && evo demo " in text
    assert '\npip install -e ".[test]" && pytest -n 2 ' in text
