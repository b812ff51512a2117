"""`toolrl:`, `musique:` and `eureqa:`: vectors worked out by hand, one contract, sets, files, feedback, searches."""

import asyncio
import json
import re
from collections import Counter

import numpy as np
import pytest
from support.command_line import evo
from support.rows import yaml_rows
from support.training_samples import tiny_model, tiny_tokenizer

from evo.config.run import PromptConfig
from evo.plugins.text_tasks import family
from evo.plugins.text_tasks.eureqa import mix, parse_names, score_names
from evo.plugins.text_tasks.musique import drop_paragraphs, parse_cited, scalar, score_cited, stratify
from evo.plugins.text_tasks.problem import multiset_f1, normalise_text, token_f1
from evo.plugins.text_tasks.toolrl import ToolCall, align, match_value, parse_tool_answer, read_calls, score_tools
from evo.prompts.chat import ChatFormat
from evo.search.score import AnswerScores, score_rollouts
from evo.testing import ProblemContract
from islands.types import NOTHING_SHOWN, Candidate, Selection
from problems import BadAddress, describe_sets, resolve
from problems.scoring import Scorer
from problems.types import Rollout

TASKS = ("toolrl", "musique", "eureqa")
SYSTEM = 'Tools:\n1. Name: find\nParameters: {"word": {"type": "string"}}'
CALL = '<think>t</think><tool_call>{"name": "find", "parameters": {"word": "sea"}}</tool_call>'
RIDDLE = {
    "question": ["Person A was a chemist.", "Town B lies by the sea."],
    "entity_masks": ["Person A", "Town B", "Toy C", "City D", "River E", "Country F"],
    "entities": ["Marie_Curie", "The_Hague", "Rubik's_Cube", "Washington,_D.C.", "Danube", "Germany"],
}


def dialogue(truth):
    turns = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "<user> Find the sea. </user>"}]
    return {"data_source": "rlla", "prompt": turns, "reward_model": {"style": "rule", "ground_truth": truth}}


@pytest.fixture
def read(tmp_path):
    """read(task, row, ...) -> the problems of a file with these rows."""

    def write(task, *rows, options=""):
        (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
        return resolve(f"{task}:{tmp_path}/rows.jsonl{options}")

    return write


class TextContract(ProblemContract):
    task: str

    @property
    def solution(self):
        return self.problem().reference

    def problem(self):
        return resolve(f"{self.task}:synthetic/0")[0]


class TestToolrl(TextContract):
    task = "toolrl"
    answers = (CALL, "<think>x</think><response>no</response>", "<tool_call>[[[</tool_call>", "<think>" * 9000)


class TestMusique(TextContract):
    task = "musique"
    answers = ("<support>1</support><answer>New York</answer>", "<think>x</think><answer>y</answer>", "<answer>" * 7000)


class TestEureqa(TextContract):
    task = "eureqa"
    answers = ("<entity_A>x</entity_A>", "<think>x</think><entity_E>y</entity_E>", "<entity_A>" * 7000)


@pytest.mark.parametrize("task", TASKS)
def test_the_made_up_rows_are_listed_and_their_references_earn_everything(here, capsys, task):
    (row,) = [row for row in describe_sets() if row["name"].startswith(f"{task}:")]
    found = resolve(f"{task}:synthetic")
    assert (row["name"], row["count"], row["licence"]) == (f"{task}:synthetic", 60, "Apache-2.0")
    assert len(found) == 60 and resolve(f"{task}:synthetic/7")[0].row == found[7].row == resolve(row["name"], 8)[7].row
    for problem in found:
        score = problem.score(problem.canonical(problem.reference))
        assert score.rewards == (1,) * len(problem.objectives) and score.feedback == ""
    assert f"{task}:FILE" in " ".join(evo(capsys, "problems")[1].split())


@pytest.mark.parametrize(("address", "said"), yaml_rows(__file__, "addresses_that_name_nothing_say_so_in_one_line"))
def test_addresses_that_name_nothing_say_so_in_one_line(here, address, said):
    with pytest.raises(BadAddress, match=re.escape(said)) as raised:
        resolve(address)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("task", "change", "said"), yaml_rows(__file__, "rows_of_another_kind_are_named"))
def test_rows_of_another_kind_are_named(read, task, change, said):
    row = resolve(f"{task}:synthetic/0")[0].row
    with pytest.raises(BadAddress, match=said):
        read(task, row, [1] if change is None else row | change)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_files_are_read(read, tmp_path, suffix):
    rows = [dialogue(CALL), dialogue("<think>t</think><response>no</response>")]
    found = read("toolrl", *rows)
    if suffix == "parquet":
        arrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
        found = resolve(f"toolrl:{tmp_path}/rows.parquet")
    assert [problem.name for problem in found] == [f"toolrl:{tmp_path}/rows.{suffix}/{i}" for i in range(2)]
    assert [problem.score(CALL).rewards for problem in found] == [(1, 1, 1, 1), (0, 0, 0, 0)]
    assert found[0].statement() == f"{SYSTEM}\n\n<user> Find the sea. </user>"
    assert found[0].fingerprint() != found[1].fingerprint()
    assert resolve(found[1].name)[0].name == found[1].name


def test_feedback_says_what_is_wrong_and_not_what_is_right(read):
    (tool,), (riddle,) = read("toolrl", dialogue(CALL)), read("eureqa", RIDDLE)
    told = tool.score('<tool_call>{"name": "find", "parameters": {"word": "lake", "deep": 1}}</tool_call>').feedback
    assert told == (
        "There is no <think>...</think>; find is given parameters that it should not be given: deep; "
        'find has wrong values: word = "lake".'
    )
    assert "needs a tool" in tool.score("<think>t</think>sea").feedback
    assert "'seek' is not the tool" in tool.score(CALL.replace("find", "seek")).feedback
    question = next(one for one in resolve("musique:synthetic") if len(one.support) == 2)
    wrong = next(i for i in range(20) if i not in question.support)
    told = question.score(f"<support>{question.support[0]}, {wrong}</support><answer>Nobody</answer>").feedback
    assert told == f"The paragraph of step 2 of 2 is not cited; paragraph {wrong} is not needed; the answer is wrong."
    score = riddle.score("<entity_A>Marie Curie</entity_A><entity_B>Rome</entity_B><entity_E>the Danube</entity_E>")
    assert score.rewards == (1, 0, 0, 0, 1) and score.fitness == 0.4 and score.error is None
    assert score.features == {"filled": 3, "different": 3}
    assert score.feedback == "No name for Toy C, City D; Town B is not Rome."
    assert riddle.score("<entity_A> </entity_A>").error


def test_a_riddle_asks_for_five_names_and_shows_the_sixth(read):
    text = read("eureqa", RIDDLE)[0].statement()
    assert "Narrative:\nPerson A was a chemist.\nTown B lies by the sea.\n" in text
    assert "<entity_B>name</entity_B> (resolves Town B)" in text and "Country F" not in text
    told = text.replace("as in Marie_Curie", "")
    assert "All that is known" not in text and not any(name in told for name in RIDDLE["entities"][:5])


def test_the_hub_s_splits_are_read_and_the_paper_trains_on_the_normal_ones_and_half_of_the_hard_ones(monkeypatch):
    asked = []

    def read(data_set, split, instead):
        asked.append((data_set, split))
        return [RIDDLE] * (3 if split == "questions_hard_5" else 4)

    monkeypatch.setattr(family, "read_hub", read)
    for place, size in {"hf": 2, "hf-train": 5, "hf-normal": 4, "hf-hard": 3}.items():
        found = resolve(f"eureqa:{place}")
        assert len(found) == size and found[-1].name == f"eureqa:{place}/{size - 1}"
        assert found[0].licence == "CC BY-NC 4.0"
    assert asked[0] == ("vincentleebang/EUREQA", "questions_hard_5")
    normal, hard = [{"idx": i} for i in range(428)], [{"idx": i} for i in range(1000, 2363)]
    train, test = mix("hf-train", [normal, hard]), mix("hf", [hard])
    assert len(train) == 1109 and len(test) == 682
    assert {row["idx"] for row in train} | {row["idx"] for row in test} == {row["idx"] for row in normal + hard}
    assert mix("hf-hard", [hard]) == hard and test != hard[681:]


def test_the_short_variant_keeps_the_steps_and_k_others(read):
    rows = [problem.row for problem in resolve("musique:synthetic", 5)]
    found = read("musique", *rows, options="?distractors=3")
    for problem, row in zip(found, rows, strict=True):
        steps = len(row["question_decomposition"])
        assert [p["idx"] for p in problem.paragraphs] == list(range(steps + 3))
        texts = [row["paragraphs"][s["paragraph_support_idx"]]["paragraph_text"] for s in row["question_decomposition"]]
        assert [problem.paragraphs[index]["paragraph_text"] for index in problem.support] == texts
    assert found[2].name.endswith("rows.jsonl?distractors=3/2") and resolve(found[2].name)[0].row == found[2].row
    assert drop_paragraphs(rows[0], 99)["paragraphs"] == rows[0]["paragraphs"]


def test_the_stratified_selection_has_as_many_of_each_number_of_steps():
    rows = [problem.row for problem in resolve("musique:synthetic")]
    chosen = stratify(rows, 12, 42)
    assert Counter(len(row["question_decomposition"]) for row in chosen) == {2: 4, 3: 4, 4: 4}
    assert chosen == stratify(rows, 12, 42) != stratify(rows, 12, 43)
    assert [rows.index(row) for row in chosen] == sorted(rows.index(row) for row in chosen)


def test_the_prompt_asks_for_responses_and_shows_what_was_wrong():
    (problem,) = resolve("toolrl:synthetic/1")
    parent = Candidate(1, "<think>x</think>", (0.0,) * 4, 0.0, {}, "more calls are needed", None, 0, 0, None)
    style = ChatFormat(problem, PromptConfig(), 3)
    prompt = style.build(Selection(parent, (), ()), 0).user
    assert problem.statement() in prompt and "<response_3>" in prompt
    assert "Feedback: more calls are needed\n<think>x</think>" in prompt
    text = style.write(["<think>a</think>", "b", "c"], NOTHING_SHOWN)
    assert text is not None and text.count("</response_") == 3


def test_answers_of_equal_rewards_count_once_the_first_of_them():
    (problem,) = resolve("toolrl:synthetic/1")
    text = f"<response_1>no</response_1><response_2>{problem.reference}</response_2><response_3>nor this</response_3>"
    rollout = Rollout(text, np.zeros(0, np.int32), np.zeros(0, np.float32), np.zeros(0, np.int32))
    scorer, style = Scorer(1), ChatFormat(problem, PromptConfig(), 3)
    (found,) = asyncio.run(score_rollouts(style, [rollout], AnswerScores(problem, scorer)))
    scorer.close()
    assert [answer.text for answer in found.answers] == ["no", problem.reference]
    assert found.format_error == "repeated another's rewards"


@pytest.mark.parametrize("task", TASKS)
def test_a_search_runs_to_the_solution(here, capsys, task):
    (problem,) = resolve(f"{task}:synthetic/0")
    (here / "answers.jsonl").write_text(json.dumps(["nothing", problem.reference]) + "\n")
    given = ["--policy", "scripted:fixed=answers.jsonl", "--answers", "2", "--iterations", "2", "--plain", "--json"]
    code, out, err = evo(capsys, "run", problem.name, *given)
    assert code == 0, err
    assert json.loads(out.splitlines()[-1])["solved"] == 1


def test_a_training_step_is_taken_by_a_chat_model(here, capsys):
    tiny_model(max_position_embeddings=4096).save_pretrained(here / "tiny")
    tiny_tokenizer().save_pretrained(here / "tiny")
    code, out, err = evo(
        capsys, "train", "vpo", "toolrl:synthetic", "--policy", "./tiny", "--limit", "2", "--steps", "1",
        "--prompts", "1", "--rollouts", "2", "--answers", "2", "--max-new-tokens", "4", "-o", "trained", "--plain",
    )  # fmt: skip
    assert code == 0, err + out
    assert (here / "trained").is_dir()


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
