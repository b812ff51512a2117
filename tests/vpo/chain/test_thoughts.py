"""Replies in the forms in which families of models think: the answer is read, the drafts in their thoughts are not."""

from __future__ import annotations

import pytest

from vpo.chain import parse

DRAFT, ANSWER = "I may write <answer_1>draft</answer_1> or more", "<answer_1>final</answer_1>"
CODE_DRAFT, CODE = (
    "```python\ndef f():\n    return 1\ndef g():\n    return 2\n```",
    "```python\ndef f():\n    return 3\n```",
)
FORMS = {
    "DeepSeek, Qwen": "<think>\n{}\n</think>\n{}",
    "opened in the prompt": "{}\n</think>\n\n{}",
    "thinking": "<thinking>{}</thinking>{}",
    "Seed-OSS": "<seed:think>{}</seed:think>{}",
    "Magistral": "[THINK]{}[/THINK]{}",
    "Kimi": "◁think▷{}◁/think▷{}",
    "Command A": "<|START_THINKING|>{}<|END_THINKING|>{}",
    "OpenThinker": "<|begin_of_thought|>\n{}\n<|end_of_thought|>\n{}",
    "Gemma 4": "<|channel>thought\n{}\n<channel|>{}",
    "EXAONE": "<thought>{}</thought>\n{}",
    "a prompt's own tag": "\n<reasoning>\n{}\n</reasoning>\n{}",
    "harmony": "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>{}<|return|>",
    "harmony, not ended": "<|channel|>analysis<|message|>{}<|start|>assistant<|channel|>final<|message|>{}",
    "harmony with a preamble": "<|channel|>analysis<|message|>{0}<|end|><|start|>assistant"
    "<|channel|>commentary<|message|>{0}<|end|><|start|>assistant<|channel|>final<|message|>{1}",
    "harmony, the answer in no channel": "<|channel|>analysis<|message|>{}<|end|>{}",
    "harmony, constrained": "<|channel|>analysis<|message|>{}<|end|><|channel|>final <|constrain|>json<|message|>{}",
    "harmony without its tokens": "analysis{}assistantfinal{}",
}


@pytest.mark.parametrize("form", FORMS)
def test_the_answer_is_read_and_no_draft(form):
    text = FORMS[form].format(DRAFT, ANSWER)
    assert parse(text, "text", 1).answers == ("final",)
    assert parse(FORMS[form].format(CODE_DRAFT, CODE), "python", 1).answers == ("def f():\n    return 3",)


@pytest.mark.parametrize("form", [name for name in FORMS if name not in ("opened in the prompt", "EXAONE")])
def test_thoughts_alone_are_no_answer(form):
    whole = FORMS[form].format(DRAFT, "\0")
    ended = whole[: whole.index("\0")]
    if "final" not in form and "a prompt's own" not in form:
        found = parse(ended, "text", 1)
        assert (found.answers, found.error) == ((), "it holds thoughts only")
    if "harmony without" not in form and "own tag" not in form:
        cut = ended[: ended.index("or more")]
        found = parse(cut, "text", 1, truncated=True)
        assert (found.answers, found.error) == ((), "the thinking never ended")


@pytest.mark.parametrize(
    "answer",
    [
        "a <reasoning> tag </reasoning> in a prompt",
        "use [think] here",
        "the analysis, then <analysis>\n</analysis>",
        "a thought </thought> ends",
        "the assistant, final",
    ],
)
def test_words_of_an_answer_are_no_thoughts(answer):
    assert parse(f"<answer_1>{answer}</answer_1>", "text", 1).answers == (answer,)


@pytest.mark.parametrize(
    ("written", "asked", "kept"),
    [
        ([("1", "a"), ("1", "b")], 1, ["b"]),  # the model improves on its draft
        ([("", "a"), ("", "b")], 1, ["b"]),
        ([("1", "a"), ("2", "b")], 1, ["a"]),
        ([("1", "a"), ("1", "b"), ("1", "c")], 3, ["a", "b", "c"]),  # small models count wrong
        ([("1", "a"), ("2", "b"), ("1", "c"), ("2", "d")], 2, ["c", "d"]),
        ([("1", "a"), ("2", "b"), ("3", "c")], 2, ["a", "b"]),
    ],
)
def test_the_last_complete_answer_of_a_number_counts(written, asked, kept):
    text = " Better: ".join(
        f"<answer{number and '_'}{number}>{content}</answer{number and '_'}{number}>" for number, content in written
    )
    assert list(parse(text, "text", asked).answers) == kept
    assert list(parse(text + " Better: <answer_1>half", "text", asked, truncated=True).answers) == kept


def test_the_last_readable_route_counts():
    assert parse("<route_1>U R</route_1> no: <route_1>D R</route_1>", "route", 1).answers == ("DR",)
    assert parse("<route_1>U R</route_1> no: <route_1>stay</route_1>", "route", 1).answers == ("UR",)
