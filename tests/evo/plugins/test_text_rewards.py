"""The reward vectors of the text tasks, each rule against a case worked out by hand."""

import json

import pytest
from support.rows import yaml_rows

from evo.plugins.text_tasks.eureqa import parse_names, score_names
from evo.plugins.text_tasks.musique import parse_cited, scalar, score_cited
from evo.plugins.text_tasks.problem import multiset_f1, normalise_text, token_f1
from evo.plugins.text_tasks.toolrl import ToolCall, align, match_value, parse_tool_answer, read_calls, score_tools

THINK = "<think>so</think>"

LONG = '{"name": "a", "parameters": {"x": ' + "9" * 5000 + "}}"
"""Python reads no whole number of that length."""


def written(*calls, think=THINK):
    return f"{think}\n<tool_call>\n" + "\n".join(json.dumps(call) for call in calls) + "\n</tool_call>"


def call(name, **parameters):
    return {"name": name, "parameters": parameters}


def rewards(text, *wanted):
    return score_tools(text, [ToolCall(name, parameters) for name, parameters in wanted]).rewards


@pytest.mark.parametrize("body, names", [*yaml_rows(__file__, "calls of bodies"), ("[" * 100_000, []), (LONG, [])])
def test_which_calls_a_body_holds(body, names):
    assert [one.name for one in read_calls(body)] == names


def test_arguments_stand_for_parameters_and_what_is_no_object_is_empty():
    found = list(read_calls('{"name": "a", "arguments": {"x": 1}} {"name": "b", "parameters": [1]}'))
    assert found == [ToolCall("a", {"x": 1}), ToolCall("b", {})]


def test_the_first_tag_of_each_name_counts():
    text = '<think>one</think><tool_call>{"name": "a"}</tool_call><tool_call>{"name": "b"}</tool_call><think>2</think>'
    found = parse_tool_answer(text)
    assert (found.thought, [one.name for one in found.calls], found.response) == ("one", ["a"], None)


@pytest.mark.parametrize("text, wants_calls, expected", yaml_rows(__file__, "format"))
def test_format(text, wants_calls, expected):
    assert rewards(text, *([("f", {})] if wants_calls else []))[0] == expected


@pytest.mark.parametrize("answer, wanted, expected", yaml_rows(__file__, "the_vector_of_toolrl"))
def test_the_vector_of_toolrl(answer, wanted, expected):
    """answer: its text, or the calls that it makes"""
    text = answer if isinstance(answer, str) else written(*(call(name, **given) for name, given in answer))
    assert rewards(text, *wanted) == pytest.approx(expected)


def test_alignment_is_greedy_by_name_then_by_shared_keys_then_by_place():
    f, g, h = ToolCall("f", {"x": 1}), ToolCall("g", {"x": 1, "y": 2}), ToolCall("F", {"x": 1, "y": 2})
    assert align([f], [g, h]) == ((f, h), (None, g))  # 101 against 1
    assert align([ToolCall("z", {"x": 0, "y": 0})], [f, g]) == ((ToolCall("z", {"x": 0, "y": 0}), g), (None, f))
    twin = ToolCall("f", {"x": 2})
    assert align([f], [twin, f])[0] == (f, twin)  # the first of equals
    assert align([f, g], [h]) == ((f, h), (g, None))


@pytest.mark.parametrize("found, wanted, expected", [*yaml_rows(__file__, "values"), (10**400, 3.5, 0)])
def test_values(found, wanted, expected):
    assert match_value(found, wanted) == pytest.approx(expected)


@pytest.mark.parametrize(
    "found, wanted, expected",
    [("", "", 1), ("a b", "", 0), ("", "b", 0), ("b b c", "b c c", 2 / 3), ("B, C!", "c b", 1)],
)
def test_words_are_a_multiset(found, wanted, expected):
    assert token_f1(found, wanted) == pytest.approx(expected)


def test_articles_go_before_the_punctuation():
    assert normalise_text("The A-Team, an hour", articles=True) == "team hour"
    assert normalise_text("th'e cat", articles=True) == "the cat"  # an article only once its punctuation is gone
    assert normalise_text("New_York", underscores=True) == "new york"
    assert normalise_text("New_York") == "newyork"
    assert multiset_f1([], []) == 1


def cited(support, answer="New York"):
    return f"<support>{support}</support><answer>{answer}</answer>"


def cited_rewards(text, support=(3, 7, 1), answers=("New York",)):
    return score_cited(parse_cited(text), support, answers)


def test_the_best_alias_counts_and_two_steps_leave_two_components_free():
    assert cited_rewards(cited("3", "NYC"), answers=("New York", "NYC"))[4] == 1
    found = cited_rewards(cited("3", "Rome"), support=(3, 7))
    assert found == (1, 0, 1, 1, 0) and scalar(found) == pytest.approx(3 / 7)
    assert scalar((1, 1, 1, 1, 1)) == 1 and scalar((0, 0, 0, 0, 1)) == pytest.approx(3 / 7)


@pytest.mark.parametrize("text, expected", yaml_rows(__file__, "the_vector_of_musique"))
def test_the_vector_of_musique(text, expected):
    assert cited_rewards(text) == pytest.approx(expected)


ENTITIES = ("Marie_Curie", "The_Hague", "Rubik's_Cube", "Washington,_D.C.", "Danube")


@pytest.mark.parametrize("text, expected", yaml_rows(__file__, "the_vector_of_eureqa"))
def test_the_vector_of_eureqa(text, expected):
    assert score_names(parse_names(text), ENTITIES) == tuple(expected)


def test_an_empty_name_is_never_right():
    assert score_names(("", "the", "x"), ("", "The", "...")) == (0, 0, 0)
