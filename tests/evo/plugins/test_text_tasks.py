"""The text tasks through the commands: listed, searched, evaluated, trained on."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from support.command_line import evo
from support.training_samples import tiny_model, tiny_tokenizer

from bench.malformed import try_one
from evo.config.run import PromptConfig
from evo.prompts.chat import ChatFormat
from evo.search.score import AnswerScores, score_rollouts
from islands.types import Selection
from problems import BadAddress, describe_sets, resolve
from problems.scoring import Scorer
from problems.types import Rollout

TASKS = ("toolrl", "musique", "eureqa")


@pytest.mark.parametrize("task", TASKS)
def test_the_made_up_rows_are_listed_and_their_references_earn_everything(task):
    (row,) = [row for row in describe_sets() if row["name"].startswith(f"{task}:")]
    found = resolve(f"{task}:synthetic")
    assert (row["name"], row["count"], row["licence"]) == (f"{task}:synthetic", 60, "Apache-2.0")
    assert len(found) == 60 and resolve(f"{task}:synthetic/7")[0].row == found[7].row == resolve(row["name"], 8)[7].row
    for problem in found:
        score = problem.score(problem.canonical(problem.reference))
        assert score.rewards == (1,) * len(problem.objectives) and score.feedback == ""


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("toolrl:hf", "name them toolrl:FILE.parquet"),
        ("toolrl:other", "did you mean toolrl:synthetic"),
        ("toolrl:synthetic/60", "toolrl:synthetic/0 to toolrl:synthetic/59 do"),
        ("toolrl:synthetic?short=1", "short"),
        ("toolrl:", "names nothing"),
        ("eureqa:synthetic-closed-train", "was removed; use eureqa:synthetic"),
        ("musique:synthetic-easy/3", "was removed; use musique:synthetic"),
    ],
)
def test_addresses_that_name_nothing_say_so_in_one_line(here, address, said):
    with pytest.raises(BadAddress, match=re.escape(said)) as raised:
        resolve(address)
    assert "\n" not in str(raised.value)


def test_the_policy_of_made_up_questions_says_what_replaces_it(here, capsys):
    code, _, err = evo(capsys, "run", "musique:synthetic", "--policy", "embedded:musique", "--limit", "1")
    assert code == 2 and "embedded:musique was removed; name a chat model" in err and err.count("\n") == 1


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


def test_the_prompt_asks_for_responses_and_shows_what_was_wrong():
    (problem,) = resolve("toolrl:synthetic/1")
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

    (problem,) = resolve("toolrl:synthetic/1")
    text = f"<response_1>no</response_1><response_2>{problem.reference}</response_2><response_3>nor this</response_3>"
    found = asyncio.run(_scored(problem, text, 3))
    assert [answer.text for answer in found.answers] == ["no", problem.reference]
    assert found.format_error == "repeated another's rewards"


@pytest.mark.parametrize("task", TASKS)
def test_a_training_step_is_taken(here, capsys, task):
    tiny_model(max_position_embeddings=4096).save_pretrained(here / "tiny")
    tiny_tokenizer().save_pretrained(here / "tiny")
    code, out, err = evo(
        capsys, "train", "vpo", f"{task}:synthetic", "--policy", "./tiny", "--limit", "2", "--steps", "1",
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
