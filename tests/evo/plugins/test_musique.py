"""`musique:`: the reward's rules by hand, files of the official schema, selections."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from evo.plugins.text_tasks.musique import parse_cited, scalar, score_cited, shorten, stratify
from evo.testing import ProblemContract
from problems import BadAddress, resolve


def rewards(text, support=(3, 7, 1), answers=("New York",)):
    return score_cited(parse_cited(text), support, answers)


def written(support, answer="New York"):
    return f"<support>{support}</support><answer>{answer}</answer>"


@pytest.mark.parametrize(
    "text, expected",
    [
        (written("3, 7, 1"), (1, 1, 1, 1, 1)),
        (written("1,3"), (1, 0, 1, 1, 1)),  # in any order
        (written("9, 8, 6, 5, 3"), (0, 0, 0, 1, 1)),  # only 4 citations count
        (written("3, 3, 3, 3, 3, 7"), (1, 1, 0, 1, 1)),  # distinct ones
        (written("[3], 7., #1"), (0, 0, 0, 1, 1)),  # digits alone
        (written("3 7 1"), (0, 0, 0, 1, 1)),  # commas between
        (written("3, x, ², 7"), (1, 1, 0, 1, 1)),
        (written("3") + "<support>7, 1</support>", (1, 0, 0, 1, 1)),  # the first block
        ("<answer>New York</answer>", (0, 0, 0, 1, 1)),
        (written("3, 7, 1", " "), (0, 0, 0, 0, 0)),  # no answer: nothing
        ("<support>3, 7, 1</support>", (0, 0, 0, 0, 0)),
        ("<support>3, 7, 1</support><answer>New York", (0, 0, 0, 0, 0)),
        (written("3", "the new york!"), (1, 0, 0, 1, 1)),
        (written("3", "York city"), (1, 0, 0, 1, 1 / 2)),
        (written("3", "Rome"), (1, 0, 0, 1, 0)),
        (written("3", "Rome") + "<answer>New York</answer>", (1, 0, 0, 1, 0)),
        ("", (0, 0, 0, 0, 0)),
    ],
)
def test_the_vector(text, expected):
    assert rewards(text) == pytest.approx(expected)


def test_the_best_alias_counts():
    assert rewards(written("3", "NYC"), answers=("New York", "NYC"))[4] == 1


def test_two_steps_leave_two_components_free():
    found = rewards(written("3", "Rome"), support=(3, 7))
    assert found == (1, 0, 1, 1, 0)
    assert scalar(found) == pytest.approx(3 / 7)
    assert scalar((1, 1, 1, 1, 1)) == 1 and scalar((0, 0, 0, 0, 1)) == pytest.approx(3 / 7)


class TestMusique(ProblemContract):
    answers = (written("1"), "<think>x</think>" + written("2"), "<answer>" * 7000)

    @property
    def solution(self):
        return self.problem().reference

    def problem(self):
        return resolve("musique:synthetic/0")[0]


def test_the_short_variant_keeps_the_steps_and_k_others(tmp_path):
    rows = [problem.row for problem in resolve("musique:synthetic", 5)]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    found = resolve(f"musique:{file}?distractors=3")
    assert found[2].name == f"musique:{file}?distractors=3/2"
    for problem, row in zip(found, rows, strict=True):
        steps = len(row["question_decomposition"])
        assert [p["idx"] for p in problem.paragraphs] == list(range(steps + 3))
        texts = [row["paragraphs"][s["paragraph_support_idx"]]["paragraph_text"] for s in row["question_decomposition"]]
        assert [problem.paragraphs[index]["paragraph_text"] for index in problem.support] == texts
    assert resolve(found[2].name)[0].row == found[2].row
    assert shorten(rows[0], 99)["paragraphs"] == rows[0]["paragraphs"]


def test_the_stratified_selection_has_as_many_of_each_number_of_steps():
    rows = [problem.row for problem in resolve("musique:synthetic")]
    chosen = stratify(rows, 12, 42)
    assert Counter(len(row["question_decomposition"]) for row in chosen) == {2: 4, 3: 4, 4: 4}
    assert chosen == stratify(rows, 12, 42) != stratify(rows, 12, 43)
    assert [rows.index(row) for row in chosen] == sorted(rows.index(row) for row in chosen)


@pytest.mark.parametrize(
    "address",
    ["musique:synthetic?stratified=10", "musique:synthetic?stratified=900", "musique:synthetic?seed=1", "musique:no",
     "musique:synthetic?k=3", "musique:synthetic?distractors=x", "musique:hf"],
)  # fmt: skip
def test_addresses_that_name_nothing_say_so_in_one_line(address):
    with pytest.raises(BadAddress) as raised:
        resolve(address)
    assert "\n" not in str(raised.value)
    if address.endswith("hf"):
        assert "StonyBrookNLP/musique" in str(raised.value)


@pytest.mark.parametrize(
    "change, told",
    [
        ({"question_decomposition": []}, "question_decomposition"),
        ({"question_decomposition": [{"paragraph_support_idx": 77}] * 2}, "not there"),
        ({"answerable": False}, "has no answer"),
        ({"paragraphs": None}, "paragraphs is missing"),
    ],
)
def test_rows_of_another_kind_are_named(tmp_path, change, told):
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(resolve("musique:synthetic/0")[0].row | change))
    with pytest.raises(BadAddress, match=told):
        resolve(f"musique:{file}")


def test_feedback_says_what_is_wrong_and_not_what_is_right():
    problem = next(p for p in resolve("musique:synthetic") if len(p.support) == 2)
    wrong = next(i for i in range(20) if i not in problem.support)
    told = problem.score(written(f"{problem.support[0]}, {wrong}", "Nobody")).feedback
    assert told == f"The paragraph of step 2 of 2 is not cited; paragraph {wrong} is not needed; the answer is wrong."


@pytest.mark.skipif("EVO_DATA" not in os.environ, reason="EVO_DATA names no folder with musique_migres_200.jsonl")
def test_published_questions_load():
    file = Path(os.environ["EVO_DATA"], "musique_migres_200.jsonl")
    found = resolve(f"musique:{file}")
    assert Counter(len(problem.support) for problem in found) == {2: 145, 3: 32, 4: 23}
    assert all(problem.score(problem.reference).fitness == 1 for problem in found)
    assert len(resolve(f"musique:{file}?stratified=60&distractors=4")) == 60
