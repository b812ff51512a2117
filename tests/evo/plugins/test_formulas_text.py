"""`formula-text`: the short prompts of formulas for language models that are trained to answer them."""

import json

import numpy as np
import pytest

from evo.api.load import load_policy
from evo.config.run import PromptConfig
from evo.errors import BadInput
from evo.prompts.registry import open_format
from islands.types import NOTHING_SHOWN, Candidate, Selection
from problems import resolve
from problems.contract import BadAddress
from problems.types import Prompt, Rollout

PARENT = "2.44*x1 + 1.85"


@pytest.fixture(scope="module")
def problem():
    return resolve("formula:train/2")[0]  # 2.0/x1 + x1**2 + 1.06


def opened(problem, answers=1, **config):
    return open_format(problem, "formula-text", PromptConfig(**config), answers)


def showing(problem, text):
    score = problem.score(text)
    parent = Candidate(1, text, score.rewards, score.fitness, score.features, score.feedback, score.error, 0, 0, None)
    return Selection(parent, (), (parent,))


def rollout(text, finish="stop"):
    none = np.zeros(0)
    return Rollout(text, none, none, none, finish)


def test_a_prompt_shows_the_parent_its_errors_and_the_terms_that_would_lower_them(problem):
    lines = opened(problem).build(showing(problem, PARENT), 3).user.splitlines()
    assert lines[0] == "formula of x1; positive: y, x1" and lines[1] == "parent: 2.4*x1 + 1.8"
    errors = [int(word) for word in lines[2].removeprefix("error by region: ").split()]
    assert len(errors) == 5 and all(0 < error <= 20 for error in errors)
    shares = [float(term.rsplit(" ", 1)[1]) for term in lines[3].split("; in turn")[0].split(",")]
    assert lines[3].startswith("terms: ") and shares == sorted(shares, reverse=True) and shares[0] > 90
    assert lines[-1] == "better:"
    exact = opened(problem).build(showing(problem, "2.0/x1 + x1**2 + 1.06"), 0).user
    assert "error by region: 0 0 0 0 0" in exact
    inner = resolve("formula:train/7")[0]
    assert "terms in sin(x1): " in opened(inner).build(showing(inner, "sin(x1)*x2 + 1.0"), 0).user


def test_without_a_parent_it_shows_terms_of_the_target_and_of_its_transforms(problem):
    form = opened(problem, answers=2)
    lines = form.build(NOTHING_SHOWN, 0).user.splitlines()
    assert lines[1].startswith("terms: ") and lines[-1] == "2 better:"
    assert any(line.startswith("terms of log(y): ") for line in lines)
    hidden = opened(problem, answers=2, show_parent=False).build(showing(problem, PARENT), 0)
    assert hidden.user.splitlines() == lines


def test_columns_have_their_own_names():
    problem = resolve("formula:feynman/1")[0]
    lines = opened(problem).build(NOTHING_SHOWN, 0).user.splitlines()
    named = {*problem.names, problem.output}
    assert lines[0].startswith(f"formula of {', '.join(problem.names)}; positive: ")
    assert set(lines[0].split("positive: ")[1].split(", ")) <= named and "x1" not in named
    assert any(line.startswith(f"terms of 1/{problem.output}: ") for line in lines)


def test_what_is_written_is_read_again(problem):
    form, shown = opened(problem, answers=2), showing(problem, PARENT)
    text = form.write(["2.0123/x1 + x1**2 + 1.06", "sqrt(x1) + 3.0"], shown)
    assert text == "2.0/x1 + x1**2 + 1.1\nsqrt(x1) + 3.0"
    assert form.parse(rollout(text), shown).answers == tuple(text.splitlines())
    assert form.write(["no formula"], shown) is None
    assert form.write(["2.01*x1", "2.02*x1"], shown) is None  # the same once its constants are rounded
    assert form.write([" + ".join(["x1**3"] * 20)], shown) is None  # too large to be taught


@pytest.mark.parametrize(
    ("text", "finish", "answers"),
    [
        ("  x1 + 1.0\n", "stop", ("x1 + 1.0",)),
        ("x1\nx1\nx1**2\nx1**3", "stop", ("x1", "x1**2")),
        ("x1\nx1 + sin(", "length", ("x1",)),
        ("", "stop", ()),
    ],
)
def test_an_answer_is_a_line(problem, text, finish, answers):
    chain = opened(problem, answers=2).parse(rollout(text, finish), NOTHING_SHOWN)
    assert chain.answers == answers and (chain.error is None) == (len(answers) == 2)


def test_what_it_cannot_show_is_one_line(problem):
    with pytest.raises(BadInput, match="is for formula: problems, not for maze:test/0"):
        opened(resolve("maze:test/0")[0])


def test_a_model_is_asked_in_the_format_of_its_address(tmp_path):
    plain = load_policy("embedded:base")
    asked = load_policy("embedded:base?format=formula-text")
    assert asked.prompt_format == "formula-text" and plain.prompt_format == "maze-compact"
    asked.model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["evo_dialect"] == "formula-text"
    assert list(asked.encode(Prompt("better:"))) == asked.tokenizer("better: ", add_special_tokens=False).input_ids
    with pytest.raises(BadAddress, match="klingon"):
        load_policy("embedded:base?format=klingon")
    with pytest.raises(BadAddress, match="option format is for a model that is loaded here"):
        load_policy("scripted:gp?format=formula-text")
