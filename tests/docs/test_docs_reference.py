"""The pages that are made from the code hold all of it; the README keeps to its length."""

from __future__ import annotations

import re
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
def generator():
    """The module that makes the pages of the Python interface."""
    sys.path.insert(0, str(ROOT / "docs" / "generate"))
    import python_pages

    yield python_pages
    sys.path.pop(0)


@pytest.fixture(scope="module")
def made(generator):
    """The generated pages by path."""
    from pages import generated_pages

    return generated_pages(ROOT)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_flag_is_there(made, name):
    section = made[f"reference/commands/{name}.md"].partition("\n## ")[0]
    command = evo.get_command(click.Context(evo), name)
    assert section.startswith(f"# evo {name}\n") and f"({name}.md)" in made["reference/commands/index.md"]
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.opts[-1] in section


def test_every_key_and_column_is_there(made):
    for model in (RunConfig, TrainRun, CompareOptions, ArmConfig, PromptConfig, PopulationConfig):
        assert [key for key in model.model_fields if f"| `{key}` |" not in made["reference/settings.md"]] == []
    for table in METADATA.tables.values():
        section = made["reference/database.md"].partition(f"## {table.name}\n")[2].partition("\n## ")[0]
        assert [column.name for column in table.columns if f"| `{column.name}` |" not in section] == []


def test_modules_are_described_without_the_extras_that_they_need(generator, monkeypatch):
    for module, extra in (("vpo.trl", "trl"), ("evo.plugins.formulas.estimator", "sklearn")):
        monkeypatch.delitem(sys.modules, module, raising=False)
        monkeypatch.setitem(sys.modules, extra, None)  # its import raises
    described = "".join(generator.python_pages(ROOT).values())
    assert "::: vpo.trl\n" in described and "::: evo.plugins.formulas.estimator.FormulaRegressor\n" in described


@pytest.mark.parametrize("gone", ["vpo.nosuch", "vpo.trl.NoTrainer", "vpo.NoClass", "nosuch.module.name"])
def test_a_page_of_what_is_gone_is_not_made(generator, monkeypatch, gone):
    monkeypatch.setitem(generator.SECTIONS, "vpo", ("VPO", "About it.", (gone,)))
    with pytest.raises(LookupError, match=gone):
        generator.python_pages(ROOT)


def test_results_lead_to_the_pages_of_results(made):
    assert "](search.md)" in made["results/index.md"]
    assert ".json)" not in made["results/index.md"]
    assert "](results/mutation.md)" in made["index.md"]
    assert "](docs/" not in made["index.md"]


def test_the_readme_is_short_and_begins_with_its_two_commands():
    """Another command that installs needs its environment in .ci/run, which takes these by their order."""
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    found = [command.strip() for command in re.findall(r"\bpip install [^#`\n]*", text)]
    assert found == [
        "pip install -e . && evo demo",
        'pip install -e ".[test]" && pytest -n 3',
        "pip install -e . --extra-index-url https://download.pytorch.org/whl/cpu",
        'pip install -e ".[docs]" && mkdocs serve',
    ]
    assert all(f"\n{command} " in text for command in found[:2])
