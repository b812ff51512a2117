"""The three JSONL shapes: what becomes of a line, and what a bad one says."""

import base64
import json
import pickle
import zlib

import pytest

from problems import BadAddress, resolve
from problems.programs.cases import CallCase, StdinCase, TestCase
from problems.programs.sets import read_tasks

HUMANEVAL = {
    "task_id": "own/0",
    "prompt": (
        "import math\n\n\ndef half(x):\n    return x / 2\n\n\n"
        'def area(r: float) -> float:\n    """Area of a circle."""\n'
    ),
    "entry_point": "area",
    "canonical_solution": "    return math.pi * half(2 * r) ** 2\n",
    "test": """
METADATA = {"author": "me"}


def check(candidate):
    assert True, "heading"
    assert candidate(0) == 0
    assert 0 == candidate(0.0), "the other way round"
    assert not candidate(0)
    assert abs(candidate(1) - math.pi) < 1e-9
    bound = half(20)
    for r in range(1, 5):
        assert candidate(r) < 9 * bound * r


check(area)
""",
}
MBPP = {
    "text": "Write a function to double a number.",
    "code": "import sys\r\ndef double(x, times=1):\r\n    return x * 2 ** times",
    "test_list": ["assert double(2) == 4", "assert double(1, 3) == 8", "assert double(0) == sys.maxsize - sys.maxsize"],
    "test_setup_code": "",
}
FUNCTIONAL = {
    "question_content": "Add two numbers.",
    "starter_code": "class Solution:\n    def add(self, a: int, b: List[int]) -> List[int]:\n",
    "public_test_cases": json.dumps([{"input": "1\n[2, 3]", "output": "[3, 4]", "testtype": "functional"}]),
    "private_test_cases": json.dumps([{"input": "0\n[]", "output": "[]", "testtype": "functional"}]),
    "metadata": json.dumps({"func_name": "add"}),
}
STDIN = {
    "question_content": "Print the sum.",
    "starter_code": "",
    "public_test_cases": json.dumps([{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]),
    "private_test_cases": "[]",
}


def written(tmp_path, *rows):
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def task(tmp_path, row):
    ((_, found),) = read_tasks(written(tmp_path, row))
    return found


def test_humaneval_asserts_are_calls_where_all_are_and_test_code_elsewhere(tmp_path):
    found = task(tmp_path, HUMANEVAL)
    assert [type(case) for case in found.cases] == [TestCase] * 5 and found.tests.count == 5
    assert "def half" in found.setup and "def area" not in found.setup
    assert "check" not in found.text and "pi" not in found.text
    calls = HUMANEVAL["test"][: HUMANEVAL["test"].index("    assert abs")]
    found = task(tmp_path, {**HUMANEVAL, "test": f"{calls}check(area)"})
    assert found.cases == (CallCase("area(0)", 0), CallCase("area(0.0)", 0), CallCase("area(0)", None, "false"))
    assert found.tests is None


def test_mbpp_shows_the_signature_and_one_example_and_hides_the_rest(tmp_path):
    found = task(tmp_path, MBPP)
    assert found.entry == "double"
    assert found.seed == "def double(x, times=1):\n    pass\n"
    assert "double(2) == 4" in found.text and "8" not in found.text
    assert [case.public for case in found.cases] == [True, False, False]
    assert isinstance(found.cases[2], TestCase) and "import sys" in found.tests.code


def test_mbpp_without_reference_guesses_the_signature_from_the_calls(tmp_path):
    found = task(tmp_path, {"prompt": "p", "test_list": ["assert set(f(1)) == {1}", "assert f(1, 2) == 3"]})
    assert found.seed == "def f(arg1, arg2):\n    pass\n"


def test_mbpp_entry_may_shadow_a_builtin(tmp_path):
    row = {"text": "t", "code": "def sum(a, b):\n    return a + b", "test_list": ["assert sum(1, 2) == 3"]}
    assert task(tmp_path, row).cases[0] == CallCase("sum(1, 2)", 3, "==", True)


def test_livecodebench_functional_and_stdin(tmp_path):
    functional = task(tmp_path, FUNCTIONAL)
    assert functional.cases[0].shown == "add(1, [2, 3])" and functional.cases[0].expected == [3, 4]
    assert functional.cases[0].public and not functional.cases[1].public
    assert functional.seed.endswith("List[int]:\n        pass\n")
    stdin = task(tmp_path, STDIN)
    assert stdin.cases == (StdinCase("1 2\n", "3\n", True),) and stdin.stdin


def test_only_the_sixteen_smallest_tests_are_kept_and_large_ones_dropped(tmp_path):
    tests = [{"input": f"{'x' * n}{n}\n", "output": "y", "testtype": "stdin"} for n in range(40, 0, -1)]
    tests.append({"input": "z" * 9000, "output": "y", "testtype": "stdin"})
    found = task(tmp_path, {**STDIN, "public_test_cases": "[]", "private_test_cases": json.dumps(tests)})
    assert len(found.cases) == 16
    assert {len(case.stdin.rstrip("\n0123456789")) for case in found.cases} == set(range(1, 17))


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


def test_packed_private_tests_are_read(tmp_path):
    tests = json.dumps([{"input": "4 5\n", "output": "9\n", "testtype": "stdin"}])
    for data in (pickle.dumps(tests), tests.encode()):
        found = task(tmp_path, {**STDIN, "private_test_cases": packed(data)})
        assert [case.stdin for case in found.cases] == ["1 2\n", "4 5\n"]


class Evil:
    """Unpickling it calls a function."""

    def __reduce__(self):
        return exec, ("raise SystemExit('unpickled code ran')",)


@pytest.mark.parametrize("value", [Evil(), [Evil()], len, {"not": "text"}])
def test_a_pickle_that_holds_more_than_text_is_refused_and_never_called(tmp_path, value):
    with pytest.raises(BadAddress, match=r"tasks\.jsonl:1: .*private_test_cases"):
        task(tmp_path, {**STDIN, "private_test_cases": packed(pickle.dumps(value))})


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("{", "not JSON"),
        ("[1]", "not an object"),
        ({"a": 1}, "neither HumanEval"),
        ({**MBPP, "test_list": ["assert double(2) =="]}, "does not parse"),
        ({**MBPP, "test_list": []}, "call no function"),
        ({**HUMANEVAL, "test": "x = 1"}, r"defines no check"),
        ({**HUMANEVAL, "entry_point": "other"}, "does not define the entry point"),
        ({**STDIN, "public_test_cases": "?"}, "neither JSON nor packed"),
        ({**FUNCTIONAL, "metadata": "{}"}, "without metadata.func_name"),
        ({**FUNCTIONAL, "metadata": '{"func_name": "f(); import os"}'}, "is no name"),
    ],
)
def test_a_bad_line_is_named_in_one_line(tmp_path, row, says):
    path = written(tmp_path, MBPP, row)
    with pytest.raises(BadAddress, match=says) as caught:
        list(read_tasks(path))
    assert str(caught.value).startswith(f"{path}:2: ") and "\n" not in str(caught.value)


def test_a_task_without_usable_tests_is_skipped_with_a_warning_and_keeps_its_index(tmp_path):
    huge = {**STDIN, "public_test_cases": json.dumps([{"input": "z" * 9000, "output": "", "testtype": "stdin"}])}
    path = written(tmp_path, huge, STDIN)
    with pytest.warns(UserWarning, match=r":1: skipped"):
        (problem,) = resolve(f"programs:{path}")
    assert problem.name == f"programs:{path}/1"


def test_an_empty_or_missing_file_is_a_bad_address(tmp_path):
    with pytest.raises(BadAddress, match="holds no rows"):
        list(read_tasks(written(tmp_path)))
    with pytest.raises(BadAddress, match="cannot read"):
        list(read_tasks(tmp_path / "none.jsonl"))
