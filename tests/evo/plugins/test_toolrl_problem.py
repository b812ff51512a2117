"""`toolrl:` as problems: the contract, files and feedback."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from evo.testing import ProblemContract
from problems import BadAddress, resolve

SYSTEM = 'Tools:\n1. Name: find\nParameters: {"word": {"type": "string"}}'


def row(truth, user="<user> Find the sea. </user>"):
    turns = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": user}]
    return {"data_source": "rlla", "prompt": turns, "reward_model": {"style": "rule", "ground_truth": truth}}


CALL = '<think>t</think><tool_call>{"name": "find", "parameters": {"word": "sea"}}</tool_call>'


class TestTools(ProblemContract):
    answers = (CALL, "<think>x</think><response>no</response>", "<tool_call>[[[</tool_call>", "<think>" * 9000)

    @property
    def solution(self):
        return self.problem().reference

    def problem(self):
        return resolve("toolrl:synthetic/0")[0]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_files_are_read(tmp_path, suffix):
    rows = [row(CALL), row("<think>t</think><response>no</response>")]
    file = tmp_path / f"rows{suffix}"
    if suffix == ".parquet":
        table, write = pytest.importorskip("pyarrow").Table, pytest.importorskip("pyarrow.parquet").write_table
        write(table.from_pylist(rows), file)
    else:
        file.write_text("\n".join(map(json.dumps, rows)))
    found = resolve(f"toolrl:{file}")
    assert [problem.name for problem in found] == [f"toolrl:{file}/{i}" for i in range(2)]
    assert [problem.score(CALL).rewards for problem in found] == [(1, 1, 1, 1), (0, 0, 0, 0)]
    assert found[0].statement() == f"{SYSTEM}\n\n<user> Find the sea. </user>"
    assert found[0].fingerprint() != found[1].fingerprint()
    assert resolve(f"toolrl:{file}/1")[0].name == found[1].name


@pytest.mark.parametrize(
    "wrong, told",
    [
        ({**row(CALL), "prompt": "x"}, "prompt is a str, not a list"),
        ({**row(CALL), "reward_model": {}}, "ground_truth is missing"),
        (row("<tool_call>find the sea</tool_call>"), "the calls of the reference cannot be read"),
        ([1], "a list, not an object"),
    ],
)
def test_rows_of_another_kind_are_named(tmp_path, wrong, told):
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(row(CALL)) + "\n" + json.dumps(wrong) + "\n")
    with pytest.raises(BadAddress, match=told):
        resolve(f"toolrl:{file}")


def test_feedback_says_what_is_wrong_and_not_what_is_right(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(row(CALL)))
    (problem,) = resolve(f"toolrl:{file}")
    told = problem.score('<tool_call>{"name": "find", "parameters": {"word": "lake", "deep": 1}}</tool_call>').feedback
    assert told == (
        "There is no <think>...</think>; find is given parameters that it should not be given: deep; "
        'find has wrong values: word = "lake".'
    )
    assert problem.score(CALL).feedback == ""
    assert "needs a tool" in problem.score("<think>t</think>sea").feedback
    assert "'seek' is not the tool" in problem.score(CALL.replace("find", "seek")).feedback


@pytest.mark.skipif("EVO_DATA" not in os.environ, reason="EVO_DATA names no folder with toolrl_test.parquet")
def test_the_published_split_loads():
    found = resolve(f"toolrl:{Path(os.environ['EVO_DATA'], 'toolrl_test.parquet')}")
    assert Counter(len(problem.wanted) for problem in found) == {1: 36, 2: 23, 0: 9, 3: 8, 4: 3, 5: 1}
    assert all(problem.score(problem.canonical(problem.reference)).fitness == 1 for problem in found)
