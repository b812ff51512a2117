"""Every command and every snippet of the README, of docs/, CONTRIBUTING.md and examples/: done, or at least read. The
pages that are made from the code, and what pages say of installing and of OpenEvolve's keys.

How a block is tested stands before it, in a comment (see snippets)."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import tomllib
from pathlib import Path

import click
import pytest
import yaml
from following import checked, follow, write_file
from snippets import (
    KINDS,
    ROOT,
    check_python,
    check_settings,
    check_words,
    commands_of,
    evo_arguments,
    pages,
    read_snippets,
)
from support.completion_server import completion_server

import evo.prompts.openevolve  # noqa: F401 - openevolve.config without the rest of that package
from evo.cli import COMMANDS, evo, invoke
from evo.config.compare import ArmConfig, CompareOptions
from evo.config.run import PromptConfig, RunConfig
from evo.config.train import TrainRun
from islands.population.config import PopulationConfig
from islands.schema import METADATA
from problems.openevolve.config import _HONOURED, OF_MODELS, OF_THE_SERVER

PAGES = {str(page.relative_to(ROOT)): read_snippets(page) for page in pages()}
WITH = {kind: [page for page, blocks in PAGES.items() if any(b.kind == kind for b in blocks)] for kind in KINDS}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where a page's blocks are done: the repository's root as far as they see it."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EVO_DB", raising=False)
    monkeypatch.setattr("evo.comparison.workers.cores", lambda: 1)  # as following.ALWAYS, for Python's blocks
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_every_block_says_how_it_is_tested(page):
    for block in PAGES[page]:
        if block.language != "text":
            assert block.kind in KINDS, f"{block.place}: a comment <!-- test: ... --> is missing before this block"
        if block.kind == "check":
            assert block.detail, f"{block.place}: why is this not run?"


@pytest.mark.parametrize("page", [page for page, blocks in PAGES.items() if blocks])
def test_commands_and_settings_can_be_read(page, folder):
    for block in PAGES[page]:
        if block.kind == "file":
            write_file(block)
        elif block.kind == "settings":
            path = f"{block.line}.yaml"
            Path(path).write_text(block.text)
            checked(block, check_settings, block.detail, block.text, path)
        elif block.language == "python":
            checked(block, check_python, block)
        elif block.language == "sh":
            for words in commands_of(block.text):
                checked(block, check_words, words)


@pytest.mark.long
@pytest.mark.parametrize("page", [page for page in PAGES if page in WITH["run"] or page in WITH["long"]])
def test_pages_can_be_followed(page, folder, one_thread):
    """CI follows the README in an environment of its reader."""
    follow(PAGES[page])


def test_blocks_and_their_commands_are_found():
    """Counts that fall where the reader of pages stops to find what is there."""
    blocks = [block for found in PAGES.values() for block in found]
    assert len(blocks) >= 60
    assert sum(block.kind == "run" for block in blocks) >= 20
    text = "a --x 'b;c' # d\nV=1 evo runs; evo show e \\\n  --json && pip install -e .\n"
    assert commands_of(text) == [
        ["a", "--x", "b;c"],
        ["evo", "runs"],
        ["evo", "show", "e", "--json"],
        ["pip", "install", "-e", "."],
    ]


@pytest.mark.parametrize(
    "words",
    ["evo run maze:test --iteratoins 3", "evo searhc", "evo run maze:test --policy scripted:nobody", "nosuch -x",
     "evo train ppo maze:train -o a", "evo compare maze:test --arm a=b,sped=3", "pip install -e '.[nosuch]'",
     "python -m nosuch", "docker compose run --rm evo nosuch", "docker compose exec ray evo runs --nosuch",
     "evo evaluate maze:test --policy 'embedded:base?temperature=hot'"],
)  # fmt: skip
def test_what_is_wrong_in_a_page_is_found(words):
    (found,) = commands_of(words)
    with pytest.raises(Exception, match=r"\w"):
        check_words(found)


# -- pages that are made from the code


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


# -- what pages say of installing


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


# -- the guide for hosted models, and the keys of OpenEvolve


@pytest.mark.long
def test_the_guide_for_hosted_models_leads_to_a_best_program(here, monkeypatch, capsys):
    """Its ten commands, with the server of the tests in place of the hosted model and fewer iterations."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-key-123456")
    program = (ROOT / "examples/valley/initial_program.py").read_text()
    reply = f"```python\n{program.replace('0.', '0.1', 1)}\n```"
    block = next(one for one in read_snippets(ROOT / "docs/guides/engines.md") if "evo doctor" in one.text)
    followed = 0
    with completion_server(engine="openai", text=reply) as server:
        for words in commands_of(block.text):
            arguments = evo_arguments(words)
            if arguments is None:
                continue
            line = shlex.join(arguments).replace("openai:gpt-4o-mini", server.address)
            line = line.replace("examples/valley", str(ROOT / "examples/valley"))
            line = line.replace("--iterations 20", "--iterations 3").replace("--iterations 200", "--iterations 5")
            arguments = shlex.split(line)
            code = invoke(arguments + (["--plain"] if arguments[0] in ("run", "resume") else []))
            assert code == 0, line
            followed += 1
        assert followed == 8 and server.requests[-1]["max_tokens"] >= 4096
    shown = capsys.readouterr().out
    assert "cost" in shown and "EVOLVE-BLOCK" in shown and Path("first.html").exists()


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
