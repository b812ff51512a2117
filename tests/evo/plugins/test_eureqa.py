"""`eureqa:`: the reward's rules by hand, files of the published schema, and the split."""

import json

import pytest

from evo.plugins.text_tasks import family
from evo.plugins.text_tasks.eureqa import OBJECTIVES, mix, parse_names, score_names
from evo.testing import ProblemContract
from problems import BadAddress, resolve

ENTITIES = ("Marie_Curie", "The_Hague", "Rubik's_Cube", "Washington,_D.C.", "Danube")
ROW = {
    "idx": 7,
    "question": ["Person A was a chemist.", "Town B lies by the sea."],
    "entity_masks": ["Person A", "Town B", "Toy C", "City D", "River E", "Country F"],
    "entities": [*ENTITIES, "Germany"],
}


def rewards(text):
    return score_names(parse_names(text), ENTITIES)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("<entity_A>Marie_Curie</entity_A>", (1, 0, 0, 0, 0)),
        ("<entity_A>\n marie curie. </entity_A>", (1, 0, 0, 0, 0)),  # underscores, case, punctuation, white space
        ("<ENTITY_a>Marie_Curie</Entity_A>", (1, 0, 0, 0, 0)),  # tags in any case
        ("<entity_B>Hague</entity_B><entity_C>Rubiks Cube</entity_C>", (0, 1, 1, 0, 0)),  # articles, apostrophes
        ("<entity_D>Washington DC</entity_D>", (0, 0, 0, 1, 0)),
        ("<entity_D>Washington D C</entity_D>", (0, 0, 0, 0, 0)),  # no blank comes or goes
        ("<entity_A>Curie</entity_A>", (0, 0, 0, 0, 0)),  # exact, no overlap of words
        ("<entity_A>Nobel</entity_A><entity_A>Marie_Curie</entity_A>", (0, 0, 0, 0, 0)),  # the first of a name
        ("<entity_A></entity_A><entity_A>Marie_Curie</entity_A>", (0, 0, 0, 0, 0)),
        ("<entity_A>Marie_\nCurie</entity_A>", (1, 0, 0, 0, 0)),  # over line ends
        ("<entity_A>Marie_Curie", (0, 0, 0, 0, 0)),
        ("<entity_E>Danube</entity_E>" * 2, (0, 0, 0, 0, 1)),
        ("<entity_E>Marie_Curie</entity_E>", (0, 0, 0, 0, 0)),  # in its own slot
        ("<entity_F>Germany</entity_F>", (0, 0, 0, 0, 0)),  # the sixth is not asked for
        ("Marie_Curie", (0, 0, 0, 0, 0)),
        ("", (0, 0, 0, 0, 0)),
    ],
)
def test_the_vector(text, expected):
    assert rewards(text) == expected


def test_an_empty_name_is_never_right():
    assert score_names(("", "the", "x"), ("", "The", "...")) == (0, 0, 0)


def test_the_scalar_is_the_mean_and_nothing_named_is_a_fault(tmp_path):
    (problem,) = written(tmp_path, ROW)
    score = problem.score("<entity_A>Marie Curie</entity_A><entity_B>Rome</entity_B><entity_E>the Danube</entity_E>")
    assert score.rewards == (1, 0, 0, 0, 1) and score.fitness == 0.4 and score.error is None
    assert score.features == {"filled": 3, "different": 3}
    assert score.feedback == "No name for Toy C, City D; Town B is not Rome."
    assert problem.score("<entity_A> </entity_A>").error and problem.objectives == OBJECTIVES
    assert problem.score(problem.canonical(f"<think>x</think>{problem.reference}")).fitness == 1


def test_the_prompt_asks_for_five_names_and_shows_the_sixth(tmp_path):
    text = written(tmp_path, ROW)[0].statement()
    assert "Narrative:\nPerson A was a chemist.\nTown B lies by the sea.\n" in text
    assert "<entity_B>name</entity_B> (resolves Town B)" in text and "Country F" not in text
    assert "All that is known" not in text and not any(
        name in text.replace("as in Marie_Curie", "") for name in ENTITIES
    )


def written(tmp_path, *rows):
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    return resolve(f"eureqa:{file}")


@pytest.mark.parametrize(
    "change, told",
    [
        ({"entities": ["Paris"]}, "entities is no list of 5"),
        ({"entity_masks": None}, "entity_masks is missing"),
        ({"question": []}, "question is no list of 1"),
        ({"question": [1]}, "question is no list of 1"),
        ({"facts": "x"}, "facts is a str"),
    ],
)
def test_rows_of_another_kind_are_named(tmp_path, change, told):
    with pytest.raises(BadAddress, match=told):
        written(tmp_path, ROW | change)


class TestEureqa(ProblemContract):
    answers = ("<entity_A>x</entity_A>", "<think>x</think><entity_E>y</entity_E>", "<entity_A>" * 7000)

    @property
    def solution(self):
        return self.problem().reference

    def problem(self):
        return resolve("eureqa:synthetic/0")[0]


def test_the_paper_trains_on_the_normal_ones_and_half_of_the_hard_ones():
    normal, hard = [{"idx": i} for i in range(428)], [{"idx": i} for i in range(1000, 2363)]
    train, test = mix("hf-train", [normal, hard]), mix("hf", [hard])
    assert len(train) == 1109 and len(test) == 682
    assert {row["idx"] for row in train} | {row["idx"] for row in test} == {row["idx"] for row in normal + hard}
    assert mix("hf-hard", [hard]) == hard and test != hard[681:]


def test_the_hub_s_splits_are_read(monkeypatch):
    asked = []

    def read(data_set, split, instead):
        asked.append((data_set, split))
        return [ROW] * (3 if split == "questions_hard_5" else 4)

    monkeypatch.setattr(family, "read_hub", read)
    for place, size in {"hf": 2, "hf-train": 5, "hf-normal": 4, "hf-hard": 3}.items():
        found = resolve(f"eureqa:{place}")
        assert len(found) == size and found[-1].name == f"eureqa:{place}/{size - 1}"
        assert found[0].licence == "CC BY-NC 4.0"
    assert asked[0] == ("vincentleebang/EUREQA", "questions_hard_5")
