"""`toolrl:` as problems: the contract, files, the generator's sets, feedback, what is listed."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from evo.plugins.text_tasks.toolrl.tools import PARAMETER, TOOLS
from evo.testing import ProblemContract
from problems import BadAddress, describe_sets, resolve

SETS = [f"toolrl:synthetic{level}{split}" for level in ("", "-easy", "-medium") for split in ("", "-train")]
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


@pytest.mark.parametrize(
    "address",
    ["toolrl:hf", "toolrl:other", "toolrl:synthetic/100", "toolrl:synthetic?short=1", "toolrl:", "toolrl:a?b?c"],
)
def test_addresses_that_name_nothing_say_so_in_one_line(address):
    with pytest.raises(BadAddress) as raised:
        resolve(address)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("address", SETS)
def test_references_of_generated_dialogues_earn_everything_and_name_offered_tools(address):
    for problem in resolve(address, 60):
        assert problem.score(problem.canonical(problem.reference)).rewards == (1, 1, 1, 1)
        for call in problem.wanted:
            line = problem.statement().split(f"Name: {call.name}\n")[1].split("Parameters: ")[1].split("\n")[0]
            assert call.parameters.keys() == json.loads(line).keys()


def test_the_distribution_is_that_of_the_published_split():
    found = resolve("toolrl:synthetic-train", 400)
    calls = Counter(len(problem.wanted) for problem in found)
    for number, share in enumerate((9, 36, 23, 8, 3, 1)):
        assert abs(calls[number] / 400 - share / 80) < 0.07
    masked = sum("Name: func_" in problem.statement() for problem in found)
    assert 90 < masked < 180
    offered = [problem.statement().count("\nDescription: ") for problem in found]
    assert min(offered) == 3 and max(offered) == 8
    assert any("<obs>" in problem.statement() for problem in found)


def test_values_of_a_call_stand_in_its_dialogue():
    for problem in resolve("toolrl:synthetic", 60):
        said = problem.statement().split("**Dialogue**")[1]
        for call in problem.wanted:
            for value in call.parameters.values():
                pieces = value if isinstance(value, list) else [value] if not isinstance(value, bool) else []
                assert all(str(piece) in said for piece in pieces)


@pytest.mark.parametrize("level", ["", "-easy", "-medium"])
def test_training_and_test_share_no_dialogue(level):
    train, test = (
        {problem.statement() for problem in resolve(f"toolrl:synthetic{level}{split}")} for split in ("-train", "")
    )
    assert len(train) > 950 and len(test) > 95 and not train & test


def test_no_tool_has_two_parameters_of_one_kind():
    assert len(TOOLS) == 60 and len({tool.name for tool in TOOLS}) == 60 and len({t.domain for t in TOOLS}) == 10
    for tool in TOOLS:
        slots = [slot for _, slot in PARAMETER.findall(tool.request)]
        assert slots and len(slots) == len(set(slots)), tool.name


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


def test_the_sets_are_listed():
    listed = {told["name"]: told for told in describe_sets()}
    assert [listed[name]["count"] for name in SETS] == [100, 1000] * 3
    assert listed["toolrl:synthetic"]["objectives"] == ["format", "tool_name", "arg_key", "arg_value"]
    assert listed["toolrl:synthetic"]["licence"] == "Apache-2.0"


@pytest.mark.skipif("EVO_DATA" not in os.environ, reason="EVO_DATA names no folder with toolrl_test.parquet")
def test_the_published_split_loads():
    found = resolve(f"toolrl:{Path(os.environ['EVO_DATA'], 'toolrl_test.parquet')}")
    assert Counter(len(problem.wanted) for problem in found) == {1: 36, 2: 23, 0: 9, 3: 8, 4: 3, 5: 1}
    assert all(problem.score(problem.canonical(problem.reference)).fitness == 1 for problem in found)
