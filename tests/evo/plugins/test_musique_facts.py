"""The language of made-up questions: prompts, chains, lessons, and a policy that is made, trained and searched with."""

import json
import random
from collections import Counter

import numpy as np
import pytest
import torch
from command_line import evo

from evo.config.run import PromptConfig
from evo.errors import BadInput
from evo.plugins.text_tasks.facts.dialect import DIALECT as LANGUAGE
from evo.plugins.text_tasks.facts.dialect import MUSIQUE_FORMAT
from evo.plugins.text_tasks.facts.language import decode_chain, facts_of, question_of
from evo.plugins.text_tasks.facts.lessons import FactLessons, Reading, read, read_again, rewards_of
from evo.plugins.text_tasks.facts.words import PARAGRAPHS, WORDS, stem_of
from evo.plugins.text_tasks.musique.facts import Lookup, read_question, say, steps_of
from evo.prompts.registry import open_format
from problems import resolve
from vpo.chain import default_max_tokens, parse
from vpo.embedded.checkpoint import build_model
from vpo.embedded.dialects import all_dialects
from vpo.embedded.pretrain import pretrain
from vpo.embedded.pretrain_config import make_config

PROMPT = "Galham seat p0 Norbask Norbask mayor p1 Ulneck Galham Feldell branch p2 Corgorn q Galham : seat mayor m2"


def readings(count, level=""):
    problems = resolve(f"musique:synthetic{level}", count)
    return [(p, Reading(tuple(question_of(p)), tuple(facts_of(p)), p.support)) for p in problems]


def short(problem):
    """Its reference with the stem of its answer."""
    return problem.reference.replace(problem.answers[0], stem_of(problem.answers[0]))


def test_questions_are_read_back_as_they_are_said():
    asked = Lookup("branch", (Lookup("publisher", ("Song of Xa",)), Lookup("birthplace", ("Ada Ib in Oc",))))
    question = Lookup("teacher", (Lookup("branch", (Lookup("founder", ("Ul Mills",)), "Ysund")),))
    assert read_question(f"Who is {say(question)}?") == question
    assert steps_of(question) == ["Ul Mills", "founder", "Ysund", "branch", "teacher"]
    assert say(asked).count(" in ") > 1
    with pytest.raises(ValueError, match="no question"):
        read_question("Who was the first to climb it?")


@pytest.mark.parametrize("level", ["", "-medium", "-easy"])
def test_a_prompt_says_what_the_text_says_and_a_chain_is_read_as_it_is_written(level):
    for problem in resolve(f"musique:synthetic{level}", 20):
        prompt = LANGUAGE.prompt(problem, "", None, 2)
        assert set(prompt.split()) <= set(WORDS) and prompt.endswith(" m2")
        assert sum(word in PARAGRAPHS for word in prompt.split()) == len(problem.paragraphs)
        wrong = f"<support>0</support>\n<answer>{facts_of(problem)[0].value}</answer>"
        text = LANGUAGE.write(problem, [short(problem), wrong], prompt)
        assert LANGUAGE.read(text, prompt) == [short(problem), wrong]
        assert problem.score(short(problem)).fitness == 1
        again = LANGUAGE.prompt(problem, short(problem), problem.score(short(problem)).rewards, 3)
        assert again.startswith(prompt[:-3]) and again.endswith("ok ok ok ok a2 m3")
        assert LANGUAGE.read(text, again) == [short(problem), wrong]
        begun = LANGUAGE.prefill(problem, short(problem), np.random.default_rng(0))
        assert text.startswith(begun) and begun.startswith("> ") and len(begun) > 4


@pytest.mark.parametrize(
    "text, expected",
    [
        ("> p0 p1 > p2", [("0, 1", "Ulneck"), ("2", "Corgorn")]),
        ("> p1 > p1", [("1", "Ulneck")] * 2),
        ("p0 > p1 p1", [("1, 1", "Ulneck")]),  # what stands before the first answer is passed over
        ("> Galham seat p0 Norbask mayor p1 Corgorn >", [("0, 1", "Ulneck")]),  # the paragraph says its value
        (">", []),
        ("> p9 m3 par", []),  # a paragraph that is not there
        ("> p9 p0", [("0", "Norbask")]),
        ("> p0 par p1 ☃", [("0, 1", "Ulneck")]),
        ("", []),
    ],
)
def test_chains_are_read_whatever_they_hold(text, expected):
    told = [f"<support>{cited}</support>\n<answer>{name}</answer>" for cited, name in expected]
    assert decode_chain(text, PROMPT) == decode_chain(text, PROMPT[:-2] + "par p1 no no ok ok a0 m2") == told
    assert list(parse(text, "tagged", 5, prompt_format=MUSIQUE_FORMAT, prompt=PROMPT).answers) == list(
        dict.fromkeys(told)
    )


def test_what_the_language_has_no_words_for(tmp_path):
    config = PromptConfig()
    with pytest.raises(BadInput, match="only understands made-up questions"):
        open_format(resolve("toolrl:synthetic/0")[0], MUSIQUE_FORMAT, config, 3)
    (problem,) = resolve("musique:synthetic/0")
    for answers in (0, 6):
        with pytest.raises(BadInput, match="1 to 5 answers"):
            open_format(problem, MUSIQUE_FORMAT, config, answers)
    assert LANGUAGE.write(problem, ["<support>0</support>\n<answer>Nobody</answer>"], PROMPT) is None
    problem.question = "When was the river named?"
    with pytest.raises(BadInput, match="no question over relations"):
        open_format(problem, MUSIQUE_FORMAT, config, 3)
    assert default_max_tokens("tagged", 3, MUSIQUE_FORMAT) < 50


def test_every_language_has_each_word_once_and_its_end_token():
    for dialect in all_dialects().values():
        words = dialect.vocabulary()
        assert len(set(words)) == len(words) and words[:3] == ("<pad>", "<unk>", "<eos>")


def test_a_hasty_reader_is_right_more_often_than_chance_and_less_than_always():
    rng, right, chance, steps = random.Random(0), 0.0, 0.0, 0
    for problem, reading in readings(40, "-medium"):
        for _ in range(10):
            marks = rewards_of(reading, read(reading, rng))[: len(problem.support)]
            right, steps, chance = right + sum(marks), steps + len(marks), chance + len(marks) ** 2 / 10
    assert 1.2 * chance < right < 0.8 * steps


def test_a_second_reading_keeps_what_was_right():
    rng, before, after = random.Random(1), 0.0, 0.0
    for problem, reading in readings(40, "-medium"):
        for _ in range(10):
            parent = read(reading, rng)
            before += sum(rewards_of(reading, parent)[: len(problem.support)])
            after += sum(rewards_of(reading, read_again(reading, parent, rng))[: len(problem.support)])
    assert after > 1.1 * before


def test_lessons_are_the_same_for_a_seed_and_speak_the_language():
    first, again, other = (FactLessons(seed).batch(90) for seed in (1, 1, 2))
    assert first == again != other
    drills = [lesson for lesson in first if lesson.given]
    lessons = [lesson for lesson in first if not lesson.given]
    asked = Counter()
    for lesson in lessons:
        assert set(lesson.prompt + lesson.chain) <= set(WORDS)
        count = int(lesson.prompt[-1][1:])
        asked[count] += 1
        assert len(LANGUAGE.read(" ".join(lesson.chain), " ".join(lesson.prompt))) == count
    assert set(asked) == {1, 2, 3, 4, 5} and 5 < sum("par" in lesson.prompt for lesson in lessons) < 35
    for lesson in drills:
        learned = [word for place, word in enumerate(lesson.chain) if place not in lesson.given]
        assert "q" not in learned and "q" in lesson.chain and learned[-1] == "<eos>"
        stated = " ".join(lesson.prompt)
        for answer in " ".join(learned[:-1]).split("> ")[1:]:
            assert answer.strip() in stated
    assert 10 < len(drills) < 50


def test_what_it_may_start_from():
    with pytest.raises(ValueError, match="speaks maze-compact"):
        make_config("musique", "embedded:base")
    assert make_config("musique").width < make_config("maze").width


def test_a_fresh_policy_looks_up_what_stands_after_two_words():
    model = build_model(96, 3, 4, 0, MUSIQUE_FORMAT)
    ids = {word: i for i, word in enumerate(WORDS)}
    right = total = 0
    for lesson in (lesson for lesson in FactLessons(5).batch(40) if lesson.given):
        words = lesson.prompt + lesson.chain
        with torch.no_grad():
            guessed = model(torch.tensor([[ids[word] for word in words]])).logits[0].argmax(-1)
        for place in range(len(lesson.prompt), len(words)):
            if words[place] in PARAGRAPHS:
                right, total = right + (WORDS[guessed[place - 1]] == words[place]), total + 1
    assert total > 30 and right / total > 0.5  # by chance about .2


def test_the_policy_that_ships_reads(tmp_path, monkeypatch, capsys):
    """At its likeliest it finds nearly every paragraph; citing at random earns .35."""
    monkeypatch.chdir(tmp_path)
    code, out, err = evo(
        capsys, "evaluate", "musique:synthetic-medium", "--policy", "embedded:musique", "--limit", "10",
        "--answers", "1", "--answers-total", "1", "--temperature", "0", "--plain", "--json",
    )  # fmt: skip
    assert code == 0, err
    assert json.loads(out)["best@1"] > 0.8


def test_a_policy_is_made_searches_evaluates_and_trains(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    small = {"steps": 2, "width": 32, "layers": 1, "heads": 2, "batch": 4, "sort_over": 1}
    done = pretrain("small", make_config("musique", **small))
    assert len(done.history) == 1 and not done.fidelity
    card = (tmp_path / "small" / "README.md").read_text()
    assert "`evo pretrain musique`" in card and "hasty reader" in card and "Fidelity" not in card
    common = ["--policy", "./small", "--limit", "2", "--plain", "--json"]
    code, _, err = evo(capsys, "run", "musique:synthetic-easy", "--iterations", "2", "--answers", "3", *common)
    assert code == 0, err
    code, _, err = evo(capsys, "evaluate", "musique:synthetic-easy", "--answers-total", "6", *common)
    assert code == 0, err
    code, out, err = evo(
        capsys, "train", "vpo", "musique:synthetic-easy-train", "--policy", "./small", "--limit", "2", "--steps", "1",
        "--prompts", "1", "--rollouts", "2", "--answers", "2", "-o", "trained", "--plain",
    )  # fmt: skip
    assert code == 0, err + out
    code, _, err = evo(capsys, "run", "maze:test", "--policy", "./small", "--limit", "1", "--plain")
    assert code == 2 and "only understands made-up questions" in err and err.count("\n") == 1
