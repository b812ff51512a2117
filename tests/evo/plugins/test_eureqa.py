"""`eureqa:`: the reward's rules by hand, files of the published schema, the split, and the generator's proofs."""

import json
import random
from collections import Counter

import pytest

from evo.plugins.text_tasks import family
from evo.plugins.text_tasks.eureqa.generator import prove
from evo.plugins.text_tasks.eureqa.known import draw_known_walk, known
from evo.plugins.text_tasks.eureqa.problem import OBJECTIVES, mix, parse_names, score_names
from evo.plugins.text_tasks.tasks import TASKS
from evo.plugins.text_tasks.world import RELATIONS, Fact, read_facts
from evo.testing import ProblemContract
from problems import BadAddress, describe_sets, resolve

LEVELS = ("", "-easy", "-hard", "-closed")
SETS = [f"eureqa:synthetic{level}{split}" for level in LEVELS for split in ("", "-train")]
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


@pytest.mark.parametrize("address", SETS)
def test_references_of_generated_riddles_earn_everything(address):
    for problem in resolve(address, 30):
        assert problem.score(problem.reference).rewards == (1,) * 5
        row = problem.row
        assert len(row["entities"]) == len(row["entity_masks"]) == len(set(row["entities"])) == 6
        assert row["entities"][5].replace("_", " ") in row["question"][-1]
        hidden = [name.replace("_", " ") for name in row["entities"][:5]]
        told = " ".join(row["question"])
        assert not any(f"{name} " in told or f"{name}." in told for name in hidden)
        assert all(f"{mask} " in sentence for mask, sentence in zip(row["entity_masks"], row["question"], strict=False))


@pytest.mark.parametrize("level, beside", [("", 12), ("-easy", 3)])
def test_an_open_riddle_is_solved_by_reading_alone(level, beside):
    for problem in resolve(f"eureqa:synthetic{level}", 20):
        facts = [fact for text in problem.facts for fact in read_facts(text)]
        assert len(facts) == 5 + beside
        name = problem.row["entities"][5].replace("_", " ")
        for entity, sentence in reversed(list(zip(problem.entities, problem.narrative, strict=True))):
            (related,) = (fact.relation for fact in read_facts(sentence))
            (name,) = (f.subjects[0] for f in facts if (f.relation, f.value) == (related, name))
            assert name.replace(" ", "_") == entity


def test_the_hard_ones_have_a_better_known_look_alike_for_each_mask():
    for problem in resolve("eureqa:synthetic-hard", 20):
        named = Counter(f.subjects[0] for text in problem.facts for f in read_facts(text))
        for entity, sentence in zip(problem.entities, problem.narrative, strict=True):
            trait = sentence.split(". ")[0].split(" ", 2)[2]
            own = entity.replace("_", " ")
            alike = {text.removesuffix(f" {trait}.") for text in problem.facts if text.endswith(f" {trait}.")} - {own}
            kind = problem.masks[problem.narrative.index(sentence)].split()[0]
            # a river is in one relation alone, a town in two
            assert max(named[name] for name in alike) >= (1 if kind == "River" else 2)


def test_the_proof_refuses_two_that_fit():
    walk = [Fact("seat", ("Oak Mills",), "Elm")]
    prove(walk, ["Oak Mills has its seat in Elm.", "Fir Mills has its seat in Ash."])
    with pytest.raises(RuntimeError, match="leaves 2"):
        prove(walk, ["Oak Mills has its seat in Elm.", "Fir Mills has its seat in Elm."])
    with pytest.raises(RuntimeError, match="leaves 0"):
        prove(walk, ["Fir Mills has its seat in Ash."])


def test_what_is_known_leaves_one_entity_to_a_relation():
    facts = known()
    assert sum(map(len, facts.leads.values())) > 200
    for leads in facts.leads.values():
        assert max(Counter(relation for relation, _ in leads).values()) == 1
        assert all(entity in facts.kinds for _, entity in leads)


def test_training_and_test_share_nothing():
    walks = [{tuple(draw_known_walk(random.Random(i), split)[0]) for i in range(200)} for split in ("train", "test")]
    assert min(map(len, walks)) > 30 and not walks[0] & walks[1]
    names = [{name for p in resolve(f"eureqa:synthetic{s}", 50) for name in p.row["entities"]} for s in ("", "-train")]
    assert not names[0] & names[1]


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


def test_what_is_published_elsewhere_is_told_in_one_line():
    for place in TASKS["toolrl"].published.splits:
        with pytest.raises(BadAddress, match="name them toolrl:FILE.parquet") as raised:
            resolve(f"toolrl:{place}")
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("address", ["eureqa:other", "eureqa:synthetic/100", "eureqa:synthetic?k=1", "eureqa:"])
def test_addresses_that_name_nothing_say_so_in_one_line(address):
    with pytest.raises(BadAddress) as raised:
        resolve(address)
    assert "\n" not in str(raised.value)


def test_the_sets_are_listed():
    listed = {told["name"]: told["count"] for told in describe_sets()}
    assert [listed[name] for name in SETS] == [100, 1000] * 4
    assert len(RELATIONS) == 12
