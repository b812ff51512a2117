"""The text tasks through the commands: listed, searched, evaluated, trained on."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import evo
from training_samples import tiny_model, tiny_tokenizer

from bench.malformed import try_one
from evo.config.run import PromptConfig
from evo.prompts.chat import ChatFormat
from evo.search.score import AnswerScores, score_rollouts
from islands.types import Selection
from problems import resolve
from problems.scoring import Scorer
from problems.types import Rollout
from vpo.training.examples import answer_of_tokens

TASKS = ("toolrl", "musique", "eureqa")


@pytest.mark.parametrize("task", TASKS)
def test_a_problem_is_shown(here, capsys, task):
    code, out, err = evo(capsys, "problems", f"{task}:synthetic/0")
    assert code == 0, err
    assert out.startswith(f"{task}:synthetic/0: objectives") and "source: our generator; licence: Apache-2.0" in out


@pytest.mark.parametrize("task", TASKS)
def test_a_search_runs_to_the_solution(here, capsys, task):
    (problem,) = resolve(f"{task}:synthetic/0")
    (here / "answers.jsonl").write_text(json.dumps(["nothing", problem.reference]) + "\n")
    code, out, err = evo(
        capsys, "run", problem.name, "--policy", "scripted:fixed=answers.jsonl", "--answers", "2", "--iterations", "2",
        "--plain", "--json",
    )  # fmt: skip
    assert code == 0, err
    assert json.loads(out.splitlines()[-1])["solved"] == 1


@pytest.mark.parametrize("task", TASKS)
def test_a_search_mutates_and_an_evaluation_measures(here, capsys, task):
    common = ["--limit", "2", "--policy", "scripted:mutate", "--plain", "--json"]
    code, out, err = evo(capsys, "run", f"{task}:synthetic-easy", "--iterations", "3", *common)
    assert code == 0, err
    code, out, err = evo(capsys, "evaluate", f"{task}:synthetic-easy", "--answers-total", "6", *common)
    assert code == 0, err
    assert json.loads(out)["problems"] == 2


def test_the_prompt_asks_for_responses_and_shows_what_was_wrong():
    (problem,) = resolve("toolrl:synthetic-easy/0")
    shown = SimpleNamespace(
        id=1,
        text="<think>x</think>",
        rewards=(0.0,) * 4,
        fitness=0.0,
        feedback="more calls are needed",
        error=None,
    )
    style = ChatFormat(problem, PromptConfig(), 3)
    prompt = style.build(Selection(shown, (), ()), 0).user
    assert problem.statement() in prompt and "<response_3>" in prompt
    assert "Feedback: more calls are needed\n<think>x</think>" in prompt
    text = style.write(["<think>a</think>", "b", "c"], Selection(None, (), ()))
    assert text is not None and text.count("</response_") == 3


async def _scored(problem, text, answers):
    rollout = Rollout(text, np.zeros(0, np.int32), np.zeros(0, np.float32), np.zeros(0, np.int32))
    scorer = Scorer(1)
    try:
        style = ChatFormat(problem, PromptConfig(), answers)
        return (await score_rollouts(style, [rollout], AnswerScores(problem, scorer)))[0]
    finally:
        scorer.close()


def test_answers_of_equal_rewards_count_once_the_first_of_them():
    import asyncio

    (problem,) = resolve("toolrl:synthetic-easy/0")
    text = f"<response_1>no</response_1><response_2>{problem.reference}</response_2><response_3>nor this</response_3>"
    found = asyncio.run(_scored(problem, text, 3))
    assert [answer.text for answer in found.answers] == ["no", problem.reference]
    assert found.format_error == "repeated another's rewards"


class Letters:
    """A tokenizer of a token a character."""

    def decode(self, ids, **_):
        return "".join(map(chr, ids))


def test_the_tokens_of_an_answer_are_those_of_its_numbered_block():
    import asyncio

    (problem,) = resolve("toolrl:synthetic-easy/0")
    text = f"<response_1>\n{problem.reference}\n</response_1>\n<response_2>other</response_2>"
    scored = asyncio.run(_scored(problem, text, 2))
    ids = np.array([ord(letter) for letter in text], np.int32)
    rollout = Rollout(text, ids, np.zeros(len(ids), np.float32), np.zeros(0, np.int32))
    owner = answer_of_tokens(type(scored)(rollout, scored.answers), Letters())
    edge = text.index("</response_1>") + len("</response_1>")
    assert set(owner[:edge]) == {0} and set(owner[edge:]) == {1}


@pytest.mark.parametrize("task", TASKS)
def test_a_training_step_is_taken(here, capsys, task):
    tiny_model(max_position_embeddings=4096).save_pretrained(here / "tiny")
    tiny_tokenizer().save_pretrained(here / "tiny")
    code, out, err = evo(
        capsys, "train", "vpo", f"{task}:synthetic-easy-train", "--policy", "./tiny", "--limit", "2", "--steps", "1",
        "--prompts", "1", "--rollouts", "2", "--answers", "2", "--max-new-tokens", "4", "-o", "trained", "--plain",
    )  # fmt: skip
    assert code == 0, err + out
    assert (here / "trained").is_dir()


def test_a_mistyped_set_is_answered_with_a_known_one(here, capsys):
    code, _, err = evo(capsys, "run", "musique:syntetic")
    assert code == 2 and "did you mean musique:synthetic" in err


def test_a_text_task_is_checked(capsys, here):
    code, out, _ = evo(capsys, "check", "toolrl:synthetic", "--limit", "1", "--plain", "--mutants", "16")
    assert code == 0 and out.count("no fault found") == 1 and "never executed" in out


def test_every_family_that_reads_files_is_named_in_the_list(here, capsys):
    code, out, _ = evo(capsys, "problems")
    assert code == 0 and all(f"{task}:FILE" in " ".join(out.split()) for task in TASKS)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('{"paragraphs": ["x"], "question": "q", "answer": "a", "question_decomposition": [STEP]}', "object"),
        ('{"paragraphs": [], "question": "q", "answer": "a", "answer_aliases": 5, "question_decomposition": []}', ""),
    ],
)
def test_rows_of_questions(tmp_path, row, said) -> None:
    (tmp_path / "x.jsonl").write_text(row.replace("STEP", '{"paragraph_support_idx": 0}'))
    outcome, told = try_one(["problems", f"musique:{tmp_path}/x.jsonl"])
    assert outcome == "refused" and said in told
