"""Which tokens wrote which answer, in every way answers are written."""

from __future__ import annotations

import numpy as np
import pytest

from problems.contract import Score
from problems.types import Rollout, ScoredAnswer, ScoredRollout
from vpo.embedded.checkpoint import build_tokenizer
from vpo.training.examples import answer_of_tokens


class Letters:
    """A tokenizer of one character a token; 0 ends a text and is skipped."""

    def encode(self, text: str) -> np.ndarray:
        return np.array([ord(character) for character in text], np.int32)

    def decode(self, ids, **_) -> str:
        return "".join(chr(i) for i in ids if i)


def rollout(tokenizer, ids: np.ndarray, text: str, answers: list[str]) -> ScoredRollout:
    zero = Score((0.0,), 0.0)
    scored = tuple(ScoredAnswer(answer, answer.encode(), zero) for answer in answers)
    return ScoredRollout(Rollout(text, ids, np.zeros(len(ids), np.float32), np.zeros(1, np.int32)), scored)


def owners(text: str, answers: list[str]) -> list[tuple[int, str]]:
    """(owner, the stretch of text it owns), one character a token, with an end token behind."""
    ids = np.append(Letters().encode(text), 0).astype(np.int32)
    owner = answer_of_tokens(rollout(Letters(), ids, text, answers), Letters())
    assert owner.shape == ids.shape
    stretches: list[tuple[int, str]] = []
    for character, who in zip(text, owner, strict=False):
        if stretches and stretches[-1][0] == who:
            stretches[-1] = (who, stretches[-1][1] + character)
        else:
            stretches.append((int(who), character))
    last = [who for who, _ in stretches if who >= 0][-1:]
    assert owner[-1] == (last[0] if last else -1), "the end token goes with the last answer"
    return stretches


def compact(text: str, answers: list[str]) -> list[int]:
    tokenizer = build_tokenizer()
    ids = np.array(tokenizer(text + " <eos>").input_ids, np.int32)
    assert len(ids) == len(text.split()) + 1
    return answer_of_tokens(rollout(tokenizer, ids, text, answers), tokenizer, "maze-compact").tolist()


def test_routes_of_the_compact_language() -> None:
    assert compact(">00 10 20 >00 01 >00 01 02", ["DD", "R", "RR"]) == [0] * 3 + [1] * 2 + [2] * 3 + [2]
    assert compact(">00 10", ["D"]) == [0, 0, 0]
    # a repeat, an opening without moves, and tokens before the first answer belong to nobody
    assert compact("m2 >00 10 >00 10 >00 >00 01", ["D", "R"]) == [-1, 0, 0, -1, -1, -1, 1, 1, 1]
    # a bump is a move too
    assert compact(">00 ^U 10 >00 ^U", ["UD", "U"]) == [0, 0, 0, 1, 1, 1]
    assert compact(">00 10 20", []) == [-1] * 4


def test_tagged_routes() -> None:
    one, two = "Here: <route_1>RRDD</route_1>", "\n<route_2>D, D, R, R</route_2>"
    assert owners(one + two, ["RRDD", "DDRR"]) == [(0, one), (1, two)]
    repeat = "\n<route_2>RRDD</route_2>"
    assert owners(one + repeat + two, ["RRDD", "DDRR"]) == [(0, one), (-1, repeat), (1, two)]
    # what is not a route in between, words and arrows for moves, small letters, an unclosed last one
    broken = "\n<route_2>no idea</route_2>"
    words, arrows, small = "<route_3>right down</route_3>", "<route_4>↓ →</route_4>", "<route_5>rrr"
    assert owners(one + broken + words + arrows + small, ["RRDD", "RD", "DR", "RRR"]) == [
        (0, one),
        (-1, broken),
        (1, words),
        (2, arrows),
        (3, small),
    ]


@pytest.mark.parametrize("between", ["\n---\n", "\n\nOr:\n\n"])
def test_fenced_programs(between: str) -> None:
    one, two = "```python\ndef f(x):\n    return x\n```", "```python\ndef f(x):\n    return x + 1\n```"
    answers = ["def f(x):\n    return x", "def f(x):\n    return x + 1"]
    assert owners(one + between + two, answers) == [(0, one), (1, between + two)]
    # `return x` stands in the second program too, but the first section took the first answer
    tail = "\nThat is all."
    assert owners(one + between + two + tail, answers) == [(0, one), (1, between + two), (-1, tail)]


def test_a_program_stored_inside_the_code_around_it() -> None:
    written = "```python\ndef f(x):\n    return 2 * x\n```"
    stored = "import os\n# EVOLVE-BLOCK-START\ndef f(x):\n    return 2 * x\n# EVOLVE-BLOCK-END\nprint(f(2))\n"
    assert owners("Look:\n" + written, [stored]) == [(0, "Look:\n" + written)]


def test_tagged_texts() -> None:
    one, two = "<answer_1>the first</answer_1>", " <answer_2>\nthe second one\n</answer_2>"
    assert owners(one + two, ["the first", "the second one"]) == [(0, one), (1, two)]


def test_nothing_sampled() -> None:
    assert answer_of_tokens(rollout(Letters(), np.zeros(0, np.int32), "", []), Letters()).shape == (0,)


def test_what_a_prefill_wrote_is_no_token() -> None:
    tokenizer = build_tokenizer()
    ids = np.array(tokenizer("20 >00 01 <eos>").input_ids, np.int32)
    begun = rollout(tokenizer, ids, ">00 10 20 >00 01", ["DD", "R"])
    assert answer_of_tokens(begun, tokenizer, "maze-compact").tolist() == [0, 1, 1, 1]
