"""Settings from defaults, files and flags, which are what the fields say."""

from typing import Annotated, Literal

import click
import pytest
from click.testing import CliRunner
from pydantic import BaseModel, Field
from support.rows import yaml_rows

from evo.cli.flags import collect_given, flags
from evo.config.parse import parse
from evo.config.run import RunConfig, load_config
from evo.errors import BadInput
from evo.runs.resume import config_of
from evo.search.resources import to_stored
from islands.store import Store


def test_defaults_are_valid_and_survive_storage():
    config = RunConfig()
    assert RunConfig.model_validate(config.model_dump(mode="json")) == config
    assert (config.rollouts, config.answers, config.population.resolve(1).islands) == (1, 3, 5)


def test_flags_override_the_file_and_reach_into_sections(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("iterations: 7\nseed: 3\npopulation:\n  islands: 2\n  migration_interval: 9\n")
    config = load_config(
        str(path), {"iterations": 11, "population.islands": 4, "rollouts": None, "problems": ("a", "b")}
    )
    assert (config.iterations, config.seed, config.rollouts) == (11, 3, 1)
    assert (config.population.islands, config.population.migration_interval) == (4, 9)
    assert config.problems == ["a", "b"]


@pytest.mark.parametrize(("text", "named"), yaml_rows(__file__, "a_wrong_file_gives_one_line_that_names_the_key"))
def test_a_wrong_file_gives_one_line_that_names_the_key(tmp_path, text, named):
    path = tmp_path / "wrong.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(BadInput) as raised:
        load_config(str(path), {"population.islands": 2} if "section" in named else {})
    message = str(raised.value)
    assert named in message and "wrong.yaml" in message and "\n" not in message


def test_a_run_stores_the_defaults_of_its_population_and_keeps_them():
    stored = to_stored(load_config(None, {"policy": "embedded:base"}), ["maze:test/0"])
    named = {"strategy": "auto", "pareto_pool": 8, "climb": 1.0}
    assert stored["population"] == {**named, "islands": 0}
    again = parse(RunConfig, stored, "run again").population
    assert (again.strategy, again.islands, again.climb) == ("auto", 0, 1)


def test_a_run_with_settings_of_another_version_is_refused_by_name(tmp_path):
    config = {
        **to_stored(load_config(None, {"policy": "embedded:base"}), ["maze:test/0"]),
        "reflect": "always",
        "unset": None,
    }
    with Store.open(f"sqlite:///{tmp_path}/evo.db") as store:
        run = store.create_run("old", config, command="", seed=0, commit="")
        with pytest.raises(BadInput, match="^run old has settings of another version of evo.*: reflect$"):
            config_of(run)
        labelled = {**config, "reflect": None, "note": "a try", "tags": ["slow"]}
        run = store.create_run("labelled", labelled, command="", seed=0, commit="")
        assert config_of(run).policy == "embedded:base"


class Inner(BaseModel):
    share: float = Field(0.5, gt=0.0, lt=1.0, description="of all")


class Settings(BaseModel):
    count: Annotated[int, Field(ge=1, le=9)] | None = Field(None, description="how many")
    kind: Literal["a", "b"] = Field("a", description="which")
    names: list[str] = Field(default_factory=list)
    pair: tuple[float, float] = (0.5, 2.0)
    thrifty: bool = Field(True, description="saves")
    inner: Inner | None = None


KEYS = ("count", "kind", "names", "pair", "thrifty", "inner.share")


@click.command()
@flags(Settings, KEYS)
def command(**options):
    click.echo(repr(collect_given(options)))


def called(*arguments):
    return CliRunner().invoke(command, arguments)


def test_what_was_not_named_is_not_given():
    assert called().output == "{}\n"


def test_every_kind_of_field_is_read():
    named = "--count 3 --kind b --names x --names y --pair 1 2 --no-thrifty --share 0.25"
    assert called(*named.split()).output.strip() == repr(
        {"count": 3, "kind": "b", "names": ["x", "y"], "pair": [1.0, 2.0], "thrifty": False, "inner.share": 0.25}
    )


@pytest.mark.parametrize("wrong", ["--count 0", "--count 10", "--kind c", "--share 1", "--share 0", "--count x"])
def test_the_fields_bounds_are_the_flags(wrong):
    assert called(*wrong.split()).exit_code == 2


def test_help_says_description_default_and_bounds():
    text = " ".join(called("--help").output.split())
    assert "how many [1<=x<=9]" in text
    assert "--kind [a|b] which [default: a]" in text
    assert "saves [default: on]" in text
    assert "[default: 0.5 2.0]" in text
    assert "of all [default: 0.5] [0.0<x<1.0]" in text
