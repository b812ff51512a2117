"""One iteration in five hops, as CONTRIBUTING.md promises: each hop's function is where it says, and calls the next."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
from modules import ROOT

from evo.search.core import SearchCore
from evo.search.iteration import Iteration, draft, score_group
from evo.search.loop import Learner, SearchLoop
from evo.search.sampler import Sampler
from evo.search.score import score_rollouts
from evo.search.window import Window
from islands.population.population import Population

HELPERS = 4
"""Methods of a hop's own class that may stand between it and the next, at most."""
HOPS: list[tuple[Callable[..., Any], str]] = [
    (SearchLoop.run, "SearchCore.ask"),
    (SearchCore.ask, "draft"),
    (draft, "Population.select"),
    (Iteration.__post_init__, "PromptFormat.build"),
    (SearchLoop.run, "Window.submit"),
    (Window.submit, "Sampler.submit"),
    (Sampler.submit, "Policy.sample"),
    (Window.submit, "score_group"),
    (score_group, "score_rollouts"),
    (score_rollouts, "PromptFormat.parse"),
    (score_rollouts, "AnswerScores.score"),
    (SearchLoop.run, "SearchCore.tell"),
    (SearchCore.tell, "Population.add"),
    (SearchLoop.run, "Learner.learn"),
]
IN_THE_TEXT = (
    SearchLoop.run, SearchCore.ask, draft, Window.submit, Sampler, score_group, SearchCore.tell, Population.add,
)  # fmt: skip


def names_in(function: Callable[..., Any]) -> set[str]:
    """What a function calls, or hands on to be called: the last part of every name."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return attributes | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def reach(function: Callable[..., Any]) -> set[str]:
    """The names in a function and in the methods of its class that it calls, at most HELPERS deep."""
    owner = function.__qualname__.rpartition(".")[0]
    members = vars(vars(inspect.getmodule(function))[owner]) if owner else {}
    found, fresh = set[str](), {function}
    for _ in range(HELPERS + 1):
        names = {name for each in fresh for name in names_in(each)} - found
        found |= names
        fresh = {members[name] for name in names if inspect.isfunction(members.get(name))}
    return found


@pytest.mark.parametrize(("function", "following"), HOPS, ids=lambda hop: getattr(hop, "__qualname__", hop))
def test_each_hop_calls_the_next(function: Callable[..., Any], following: str) -> None:
    assert following.rpartition(".")[2] in reach(function)


def test_the_learner_and_the_text_name_what_there_is() -> None:
    assert callable(Learner.learn)
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("## One iteration in five hops")[2].partition("\n## ")[0]
    places = dict(re.findall(r"`([\w.]+)`\s+in\s+`([\w/]+\.py)`", text))
    for each in IN_THE_TEXT:
        assert places[each.__qualname__] == inspect.getmodule(each).__name__.replace(".", "/") + ".py"
    assert len(places) == len(IN_THE_TEXT)
