"""Scorers that take many answers at once: what they are given, and whose fault a failure is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.stored_rows import stored_answers

import evo
from evo.errors import BadInput
from problems.contract import Problem, Score, ScorerFault
from problems.registry import resolve
from problems.scoring import Scorer

FILE = """
from pathlib import Path
isolated = False
statement, seed_answer, target = "Write a long word.", "a", 100
CALLS = Path(__file__).with_name("calls.txt")

def batch_scorer(answers):
    with CALLS.open("a") as calls:
        calls.write(f"{len(answers)}\\n")
    return [BODY for answer in answers]
"""
GOOD = '{"long": len(answer), "vowels": sum(c in "aeiou" for c in answer)}'


def written(folder: Path, body: str = GOOD, text: str = FILE) -> Path:
    file = folder / "scorer.py"
    file.write_text(text.replace("BODY", body))
    return file


def opened(file: Path) -> Problem:
    (problem,) = resolve(str(file))
    return problem


def scored(problem: Problem, *lists: list[str], workers: int = 2) -> list[list[Score]]:
    async def run() -> list[list[Score]]:
        scorer = Scorer(workers)
        try:
            found = await asyncio.gather(*(scorer.score(problem, answers) for answers in lists))
            assert scorer.queued == 0 and scorer.scored == sum(map(len, lists))
        finally:
            scorer.close()
        return [[score for score, _ in one] for one in found]

    return asyncio.run(run())


def test_answers_of_several_callers_share_a_call(tmp_path):
    problem = opened(written(tmp_path))
    assert problem.batched and problem.objectives == ("long", "vowels")
    before = len((tmp_path / "calls.txt").read_text().split())
    first, second = scored(problem, ["ab", "abc"], ["eee", "x", ""])
    assert [score.rewards for score in first + second] == [(2, 1), (3, 1), (3, 3), (1, 0), (0, 0)]
    assert (tmp_path / "calls.txt").read_text().split()[before:] == ["5"]


def test_a_score_may_fail_one_answer(tmp_path):
    body = '{"error": "no word"} if answer == "x" else ' + GOOD
    ((bad, good),) = scored(opened(written(tmp_path, body)), ["x", "ab"])
    assert bad.error == "no word" and good.error is None and good.rewards == (2, 1)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"long": float("nan") if answer == "x" else 1}', "must be a finite number"),
        ('{"long": 1, "other": 2} if answer == "x" else {"long": 1}', "the objectives are long"),
        ('{"long": 1 / (answer != "x")}', "ZeroDivisionError: division by zero for 2 answers"),
        ('{"long": exit(3) if answer == "x" else 1}', "SystemExit: 3"),
    ],
)
def test_a_fault_is_raised_and_is_no_answers_score(tmp_path, body, said):
    problem = opened(written(tmp_path, body))
    with pytest.raises(ScorerFault, match=said):
        scored(problem, ["ab", "x"])


def test_too_few_scores_are_a_fault(tmp_path):
    text = FILE.replace("for answer in answers]", "for answer in answers[:1]]")
    problem = opened(written(tmp_path, text=text))
    with pytest.raises(ScorerFault, match="gave 1 scores for 2 answers"):
        scored(problem, ["ab", "x"])


def test_two_problems_of_one_name_are_each_scored_by_themselves(tmp_path):
    long = opened(written(tmp_path, '{"long": len(answer)}'))
    short = opened(written(tmp_path, '{"long": -len(answer)}'))
    assert long.name == short.name

    async def run() -> list[float]:
        scorer = Scorer(2)
        try:
            return [(await scorer.score(problem, ["ab"]))[0][0].fitness for problem in (long, short)]
        finally:
            scorer.close()

    assert asyncio.run(run()) == [2.0, -2.0]


def test_it_must_be_said_to_be_trusted(tmp_path):
    problem = opened(written(tmp_path, text=FILE.replace("isolated = False", "")))
    assert problem.fault is not None and "isolated = False" in str(problem.fault)


def test_a_search_is_the_one_that_a_plain_scorer_gives(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def one(answer: str) -> dict[str, float]:
        return {"long": float(len(answer)), "vowels": float(sum(c in "aeiou" for c in answer))}

    def many(answers: list[str]) -> list[dict[str, float]]:
        return [{"long": float(len(a)), "vowels": float(sum(c in "aeiou" for c in a))} for a in answers]

    settings = {"statement": "Write a word.", "seed_answer": "word", "policy": "scripted:mutate", "iterations": 8}
    for db, scorer in (("one", {"score": one}), ("many", {"batch_scorer": many})):
        found = evo.run(**scorer, **settings, rollouts=3, db=f"sqlite:///{db}.db", name="r", progress=False)
        assert found.frame is not None

    def rows(db: str) -> list[tuple]:
        return [(*row[:1], *row[2:]) for row in stored_answers(f"sqlite:///{db}.db", "r")]

    assert rows("one") == rows("many")
    again = evo.resume("r", score=many, iterations=10, db="sqlite:///many.db", progress=False)
    assert again.name == "r" and len(rows("many")) > len(rows("one"))


def test_one_of_the_two_is_given():
    with pytest.raises(BadInput, match="score= or batch_scorer=, not both"):
        evo.run(score=len, batch_scorer=lambda answers: [], progress=False)
