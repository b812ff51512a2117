"""Flags are what the fields of the settings say."""

from typing import Annotated, Literal

import click
import pytest
from click.testing import CliRunner
from pydantic import BaseModel, Field

from evo.cli.flags import collect_given, flags


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
