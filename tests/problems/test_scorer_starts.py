"""Scorers that are coroutine functions, and scorers with several starting answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from problems import ScorerFault, resolve
from problems.contract import Problem

ASYNC = """
import asyncio
seed_answer = "ab"

async def length(answer):
    await asyncio.sleep(0)
    if answer == "wrong":
        raise KeyError("wrong")
    return len(answer)

async def score(answer):
    first, second = await asyncio.gather(length(answer), length(answer + "c"))
    return {"first": first, "second": second}
"""


def opened(tmp_path: Path, text: str) -> Problem:
    (tmp_path / "scorer.py").write_text(text)
    (problem,) = resolve(str(tmp_path / "scorer.py"))
    return problem


def test_score_may_be_a_coroutine_function(tmp_path: Path) -> None:
    problem = opened(tmp_path, ASYNC)
    assert problem.fault is None and problem.score("abcd").rewards == (4, 5)
    with pytest.raises(ScorerFault, match=r"scorer\.py.*line 8.*KeyError"):
        problem.score("wrong")


def test_a_batch_scorer_may_be_one_too(tmp_path: Path) -> None:
    problem = opened(
        tmp_path,
        "isolated = False\nseed_answer = 'a'\nasync def batch_scorer(answers):\n    return [len(a) for a in answers]\n",
    )
    assert [score.fitness for score in problem.score_batch(["a", "abc"])] == [1, 3]


def test_a_list_of_seeds_is_where_the_search_starts(tmp_path: Path) -> None:
    problem = opened(tmp_path, "seed_answer = ['a', 'bb', 'ccc']\ndef score(answer):\n    return len(answer)\n")
    assert problem.seed_answer() == "a" and problem.further_seeds() == ["bb", "ccc"]
    assert opened(tmp_path, "seed_answer = 'a'\ndef score(answer):\n    return 1\n").further_seeds() == []
    assert "not text" in str(opened(tmp_path, "seed_answer = ['a', 5]\ndef score(answer):\n    return 1\n").fault)
