"""`livecodebench:`: the data set's own files, by window, by the paper's rules; errata and hostile files refused."""

import base64
import json
import os
import pickle
import warnings
import zlib
from pathlib import Path

import pytest

from problems import BadAddress, resolve
from problems.programs.livecodebench import ERRATA, text_of_pickle

SAMPLE = Path(__file__).parents[2] / "examples" / "livecodebench"
MISSING = """class Solution:
    def smallestMissing(self, nums):
        n = 1
        while n in nums:
            n += 1
        return n
"""


def ids(address, **options):
    return [problem.name.rpartition("/")[2] for problem in resolve(f"livecodebench:{address}", **options)]


def row(**changes):
    private = json.dumps([{"input": f"{n}\n", "output": f"{n}\n", "testtype": "stdin"} for n in range(3, 6)])
    return {
        "question_id": "own_a",
        "question_title": "Echo",
        "question_content": "Print what you read.",
        "contest_date": "2025-02-01T00:00:00",
        "starter_code": "",
        "public_test_cases": json.dumps([{"input": "1\n", "output": "1\n", "testtype": "stdin"}]),
        "private_test_cases": packed(pickle.dumps(private)),
        "metadata": "{}",
    } | changes


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


def written(tmp_path, *rows):
    path = tmp_path / "test.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return path


def test_a_folder_of_the_official_files_is_one_set_named_by_question_ids():
    assert ids(SAMPLE) == [
        *("own001_a", "own001_b", "own002_a", "own002_c", "9001", "own003_a"),
        *("own003_d", "own004_c", "own005_e", "9002"),
    ]
    assert ids(SAMPLE, limit=2) == ["own001_a", "own001_b"]
    assert ids(f"{SAMPLE}/1-2") == ["own001_b", "own002_a"]
    assert ids(f"{SAMPLE / 'test2.jsonl'}/9002") == ["9002"] == ids(f"{SAMPLE}/9002")


def test_a_window_holds_its_first_day_and_not_its_last():
    assert ids(f"{SAMPLE}?to=2025-02-01") == ["own001_a", "own001_b", "own002_a", "own002_c", "9001"]
    assert ids(f"{SAMPLE}?from=2025-02-01&to=2025-04-12") == ["own003_a", "own003_d", "own004_c"]
    assert ids(f"{SAMPLE}?from=2025-02-01/0-1") == ["own003_a", "own003_d"]
    assert ids(f"{SAMPLE}?from=2025-02-01/9002") == ["9002"]


def test_a_question_has_one_name_whatever_window_it_was_chosen_by():
    (alone,) = resolve(f"livecodebench:{SAMPLE}/own003_d")
    assert alone.name in {problem.name for problem in resolve(f"livecodebench:{SAMPLE}?from=2025-02-01")}


def test_private_tests_alone_decide_and_public_ones_where_there_are_no_others(tmp_path):
    (problem,) = resolve(f"livecodebench:{written(tmp_path, row())}")
    assert [case.stdin for case in problem.task.cases] == ["3\n", "4\n", "5\n"]
    (problem,) = resolve(f"livecodebench:{written(tmp_path, row(private_test_cases='[]'))}")
    assert [case.stdin for case in problem.task.cases] == ["1\n"]
    (problem,) = resolve(f"programs:{written(tmp_path, row())}")
    assert [case.stdin for case in problem.task.cases] == ["1\n", "3\n", "4\n", "5\n"]


def test_both_forms_are_judged_by_what_the_answer_does():
    (stones,) = resolve(f"livecodebench:{SAMPLE}/own003_d")
    assert stones.score("print('Second' if int(input()) % 7 in (0, 2) else 'First')").fitness == 1
    assert stones.score("print('First')").fitness == 0.6
    (missing,) = resolve(f"livecodebench:{SAMPLE}/9002")
    assert missing.score(MISSING).fitness == 1
    assert 0 < missing.score("class Solution:\n    def smallestMissing(self, nums):\n        return 1\n").fitness < 1


@pytest.mark.parametrize("named", ["abc326_d", "abc337_e", "abc350_c"])
def test_errata_are_left_out_with_the_reason(tmp_path, named):
    path = written(tmp_path, row(), row(question_id=named))
    with pytest.warns(UserWarning, match=f":2: skipped: {named} is in the data set's errata: {ERRATA[named]}"):
        assert [p.name for p in resolve(f"livecodebench:{path}")] == [f"livecodebench:{path}/own_a"]
    with pytest.warns(UserWarning, match="errata"), pytest.raises(BadAddress, match="no question that can be posed"):
        resolve(f"livecodebench:{path}/{named}")


def test_errata_of_leetcode_go_by_title(tmp_path):
    path = written(tmp_path, row(question_id="3194", question_title="find-words-containing-character"), row())
    with pytest.warns(UserWarning, match="several outputs are right"):
        assert len(resolve(f"livecodebench:{path}")) == 1


class Evil:
    def __reduce__(self):
        return exec, ("raise SystemExit('unpickled code ran')",)


HOSTILE = {
    "a call": pickle.dumps(Evil()),
    "a call of protocol 0": b"\x80\x00" + pickle.dumps(Evil(), protocol=0),
    "a list": pickle.dumps(["[]"]),
    "a dict": pickle.dumps({"a": "[]"}),
    "bytes": pickle.dumps(b"[]"),
    "a number": pickle.dumps(7),
    "a persistent id": b"\x80\x04Pother\n.",
    "an extension": b"\x80\x02\x82\x01.",
    "two texts": b"\x80\x02X\x02\x00\x00\x00[]X\x02\x00\x00\x00[].",
    "no end": pickle.dumps("[]")[:-1],
    "nothing": b"\x80\x04.",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_pickle_of_anything_but_one_text_is_refused_in_one_line(tmp_path, data):
    path = written(tmp_path, row(private_test_cases=packed(data)))
    with pytest.raises(BadAddress, match=r"test\.jsonl:1: `private_test_cases` is neither JSON nor packed") as caught:
        resolve(f"livecodebench:{path}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickled_text_of_every_protocol_is_read(protocol):
    for text in ("[]", '[{"input": "é\\n"}]' * 50_000):
        assert text_of_pickle(pickle.dumps(text, protocol=protocol)) == text


@pytest.mark.parametrize(
    ("rest", "says"),
    [
        ("{sample}?from=2025-2", "from must be a date like 2024-08-01, not '2025-2'"),
        ("{sample}?since=2025-02-01", "unknown option since; there are from, to"),
        ("{sample}?from=2030-01-01", "holds no task from 2030-01-01 to its last"),
        ("{sample}/own999_a", "no question that can be posed"),
        ("nowhere", "no such file or folder; livecodebench:hf takes it from the hub"),
        ("{empty}", r"holds no \.jsonl files"),
        ("{other}", "not LiveCodeBench"),
        ("{undated}?from=2025-02-01", ":1: has no contest_date"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(tmp_path, rest, says):
    (tmp_path / "empty").mkdir()
    (tmp_path / "other.jsonl").write_text('{"text": "t", "test_list": ["assert f(1) == 1"]}')
    (tmp_path / "undated.jsonl").write_text(json.dumps(row(contest_date="")))
    places = {name: tmp_path / f"{name}.jsonl" for name in ("other", "undated")}
    with pytest.raises(BadAddress, match=says) as caught:
        resolve("livecodebench:" + rest.format(sample=SAMPLE, empty=tmp_path / "empty", **places))
    assert "\n" not in str(caught.value)


def test_the_hub_out_of_reach_is_one_line_with_a_remedy(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(BadAddress, match=r"(needs the package datasets|cannot be loaded).*name their folder") as caught:
        resolve("livecodebench:hf?from=2025-02-01")
    assert "\n" not in str(caught.value)


DATA = pytest.mark.skipif("EVO_DATA" not in os.environ, reason="EVO_DATA names no folder with lcb_public_tests.json")


@DATA
def test_programs_that_the_benchmark_graded_correct_pass_here(tmp_path):
    """Of the 219 stdin problems whose public tests are at hand, o1-preview's program was graded correct on 109."""
    folder = Path(os.environ["EVO_DATA"])
    submitted = {one["question_id"]: one for one in json.loads((folder / "lcb_o1_preview_880.json").read_text())}
    tests = {one["question_id"]: one["tests"] for one in json.loads((folder / "lcb_public_tests.json").read_text())}
    rows = [
        {**submitted[name], "metadata": "{}", "private_test_cases": packed(pickle.dumps(json.dumps(own)))}
        for name, own in tests.items()
    ]
    with warnings.catch_warnings(record=True) as skipped:
        warnings.simplefilter("always")
        problems = resolve(f"livecodebench:{written(tmp_path, *rows)}")
    correct = [one for one in problems if submitted[one.task.extra["id"]]["graded_list"][0]]
    assert (len(tests), len(problems), len(skipped), len(correct)) == (219, 212, 7, 108)
    failing = [one.name for one in correct if one.score(submitted[one.task.extra["id"]]["code_list"][0]).fitness < 1]
    assert not failing
