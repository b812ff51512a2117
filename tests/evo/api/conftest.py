"""Scoring functions of a caller's, and a folder of its own for each test, without progress on the screen."""

import pytest

import evo


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EVO_DB", raising=False)
    return tmp_path


@pytest.fixture
def vowels():
    """A closure over plain data."""
    wanted = "aeiou"

    def vowels(answer):
        return {"vowels": sum(letter in wanted for letter in answer) / 20, "brief": 1 / (1 + len(answer))}

    return vowels


@pytest.fixture
def quick(vowels):
    """quick(name, **more) -> the result of a short run of `vowels`."""

    def run(name="quick", **more):
        given = {"policy": "scripted:mutate", "iterations": 4, "answers": 2, "isolated": False}
        given |= {"progress": False, **more}
        score = given.pop("score", vowels)
        return evo.run(score=score, statement="Write vowels.", seed_answer="one two", name=name, **given)

    return run
