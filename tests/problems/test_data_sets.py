"""The three JSONL shapes: what becomes of a line, and what a bad one says."""

from __future__ import annotations

import base64
import importlib.util
import json
import math
import pickle
import sys
import types
import zlib
from pathlib import Path

import pytest

from problems import BadAddress, resolve
from problems.programs.cases import Case
from problems.programs.livecodebench import ERRATA, text_of_pickle
from problems.programs.sets import read_task
from problems.rows import read_hub, rows_of

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
    assert abs(candidate(1) - 3.141592653589793) < 1e-9
    assert candidate(half(0)) == 0


check(area)
""",
}
MBPP = {
    "text": "Write a function to double a number.",
    "code": "import sys\r\ndef double(x, times=1):\r\n    return x * 2 ** times",
    "test_list": [
        "assert double(2) == 4",
        "assert double(1, 3) == 8",
        "import sys",
        "assert double(0, sys.maxsize - sys.maxsize) == 0",
    ],
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
    ((where, found),) = rows_of(written(tmp_path, row))
    return read_task(found, where)


def test_a_case_of_humaneval_is_an_assertion(tmp_path):
    found = task(tmp_path, HUMANEVAL)
    assert "def half" in found.setup and "def area" not in found.setup
    assert "check" not in found.text and "pi" not in found.text
    assert [case.source for case in found.cases] == ["area(0)", "area(0.0)", "not area(0)", "area(1)", "area(half(0))"]
    assert [case.expected for case in found.cases] == [0, 0, True, math.pi, 0]
    assert not any(case.public for case in found.cases)


def test_mbpp_shows_the_signature_and_one_example_and_hides_the_rest(tmp_path):
    found = task(tmp_path, MBPP)
    assert found.entry == "double"
    assert found.seed == "def double(x, times=1):\n    pass\n"
    assert "double(2) == 4" in found.text and "8" not in found.text
    assert [case.public for case in found.cases] == [True, False, False]
    assert found.epilogue == "import sys"


def test_mbpp_without_reference_guesses_the_signature_from_the_calls(tmp_path):
    found = task(tmp_path, {"prompt": "p", "test_list": ["assert f(1) == {1}", "assert f(1, 2) == 3"]})
    assert found.seed == "def f(arg1, arg2):\n    pass\n"


def test_mbpp_entry_may_shadow_a_builtin(tmp_path):
    row = {"text": "t", "code": "def sum(a, b):\n    return a + b", "test_list": ["assert sum(1, 2) == 3"]}
    assert task(tmp_path, row).cases[0] == Case("sum(1, 2)", 3, "==", True)


def test_livecodebench_functional_and_stdin(tmp_path):
    functional = task(tmp_path, FUNCTIONAL)
    assert functional.cases[0].shown == "add(1, [2, 3])" and functional.cases[0].expected == [3, 4]
    assert functional.cases[0].public and not functional.cases[1].public
    assert functional.seed.endswith("List[int]:\n        pass\n")
    stdin = task(tmp_path, STDIN)
    assert stdin.cases == (Case("1 2\n", "3\n", "printed", True),) and stdin.stdin


def test_only_the_sixteen_smallest_tests_are_kept_and_large_ones_dropped(tmp_path):
    tests = [{"input": f"{'x' * n}{n}\n", "output": "y", "testtype": "stdin"} for n in range(40, 0, -1)]
    tests.append({"input": "z" * 9000, "output": "y", "testtype": "stdin"})
    found = task(tmp_path, {**STDIN, "public_test_cases": "[]", "private_test_cases": json.dumps(tests)})
    assert len(found.cases) == 16
    assert {len(case.source.rstrip("\n0123456789")) for case in found.cases} == set(range(1, 17))


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


def test_packed_private_tests_are_read(tmp_path):
    tests = json.dumps([{"input": "4 5\n", "output": "9\n", "testtype": "stdin"}])
    for data in (pickle.dumps(tests), tests.encode()):
        found = task(tmp_path, {**STDIN, "private_test_cases": packed(data)})
        assert [case.source for case in found.cases] == ["1 2\n", "4 5\n"]


def test_a_task_without_usable_tests_is_skipped_with_a_warning_and_keeps_its_index(tmp_path):
    huge = {**STDIN, "public_test_cases": json.dumps([{"input": "z" * 9000, "output": "", "testtype": "stdin"}])}
    path = written(tmp_path, huge, STDIN)
    with pytest.warns(UserWarning, match=r":1: skipped"):
        (problem,) = resolve(f"programs:{path}")
    assert problem.name == f"programs:{path}/1"


def test_an_empty_file_is_a_bad_address(tmp_path):
    with pytest.raises(BadAddress, match="holds no rows"):
        resolve(f"programs:{written(tmp_path)}")


PROMPT = 'def root(x: float) -> float:\n    """The square root of x."""\n'


CODE, HEAD = "def f(x):\n    return 2 * x\n", "def f(x):\n    '''Twice.'''\n"
LINES = ["assert f(1) == 2", "assert f(0) == 0"]
CHECK = "def check(g):\n    assert g(1) == 2\n    assert g(0) == 0\n"


@pytest.mark.parametrize(
    "row",
    [
        {"text": "Twice.", "code": CODE, "test": "\n".join(LINES)},
        {"text": "Twice.", "code": CODE, "test": LINES},
        {"prompt": "Twice.", "canonical_solution": CODE, "test": "\n".join(LINES)},
        {"prompt": "def f(x):", "canonical_solution": "    return 2 * x", "test": "\n".join(LINES)},
        {"prompt": HEAD, "entry_point": "f", "test": "\n".join(LINES)},
        {"prompt": f"{HEAD}\ndef other(x):\n    return x\n", "entry_point": "f", "test": f"{CHECK}\ncheck(f)\n"},
    ],
)
def test_lines_with_test_or_without_entry_point(posed, row):
    problem = posed(**row)
    assert problem.task.entry == "f" and len(problem.objectives) == 2
    assert problem.score(CODE).fitness == 1
    assert problem.score("def f(x):\n    return x\n").fitness == 0.5
    assert problem.task.reference is None or problem.score(problem.task.reference).fitness == 1


@pytest.fixture
def converted(tmp_path, posed, capsys):
    """converted(ROW): the problem that examples/programs/convert.py makes of a published row."""
    script = Path(__file__).parents[2] / "examples" / "programs" / "convert.py"
    spec = importlib.util.spec_from_file_location("convert", script)
    convert = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(convert)

    def make(row):
        convert.main(str(written(tmp_path, row)))
        return posed(**json.loads(capsys.readouterr().out))

    return make


def test_rows_of_evalplus_are_converted(converted):
    row = {"task_id": "HumanEval/900", "prompt": PROMPT, "entry_point": "root", "atol": 0}
    row |= {"canonical_solution": "    return x ** 0.5\n", "base_input": [[1.0], [4.0]], "plus_input": [[float("inf")]]}
    problem = converted(row)
    assert len(problem.objectives) == 3
    assert problem.score(problem.task.reference).fitness == 1
    assert problem.score("def root(x):\n    return 1.00000001 if x == 1 else 5.0\n").rewards == (1, 0, 0)
    assert problem.score("def root(x):\n    return 1 if x == 1 else inf if x > 4 else 2\n").rewards == (1, 1, 1)
    assert problem.score("def root(x):\n    return 1e308\n").rewards == (0, 0, 0)  # infinity equals infinity only


@pytest.mark.parametrize(
    ("body", "atol", "answer", "passes"),
    [
        ("return x / 3", 0, "return x / 3 + 1e-7", True),
        ("return x / 3", 0, "return x / 3 + 1e-5", False),
        ("return x / 3", 0.1, "return x / 3 + 1e-2", True),
        ("return x / 3", 0, "import numpy\n    return numpy.float64(x / 3)", True),
        ("return inf", 0, "return inf", True),
        ("return inf", 0, "return 9.0", False),
    ],
)
def test_converted_floats_are_compared_with_a_tolerance(converted, body, atol, answer, passes):
    row = {
        "task_id": "HumanEval/901",
        "prompt": f"from math import inf\n{PROMPT}",
        "entry_point": "root",
        "atol": atol,
        "plus_input": [],
    }
    problem = converted(row | {"canonical_solution": f"    {body}\n", "base_input": [[1.0]]})
    assert problem.score(f"def root(x):\n    {answer}\n").fitness == passes


def test_rows_of_leetcode_dataset_are_converted(converted):
    starter = "class Solution:\n    def f(self, n: int) -> int:\n        "
    prompt = "class Node:\n    def __init__(self, v):\n        self.v = v\n"
    tests = {
        "    assert candidate(n = 1) == 2\n    assert candidate(n = 5) == 6\n": ("return n + 1", "return 2"),
        "    assert candidate(n = Node(1)) == 1\n": ("return n.v", "return n"),
    }
    for test, (right, wrong) in tests.items():
        row = {"task_id": "own", "prompt": prompt, "entry_point": "Solution().f"}
        asked = {"query": f"Do it.\n```python\n{starter}\n```\n"} if "5" in test else {"starter_code": starter}
        row |= {
            "test": f"def check(candidate):\n{test}",
            "completion": starter + right,
            **({"problem_description": "Do it."} | asked),
        }
        problem = converted(row)
        assert "def f(self, n: int) -> int:" in problem.statement()
        assert problem.score(problem.task.reference).fitness == 1
        assert problem.score(starter + wrong).fitness < 1


SAMPLE = Path(__file__).parents[2] / "examples" / "livecodebench"


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
    (alone,) = resolve(f"livecodebench:{SAMPLE}/own003_d")
    assert alone.name in {problem.name for problem in resolve(f"livecodebench:{SAMPLE}?from=2025-02-01")}


def test_private_tests_alone_decide_and_public_ones_where_there_are_no_others(tmp_path):
    (problem,) = resolve(f"livecodebench:{written(tmp_path, row())}")
    assert [case.source for case in problem.task.cases] == ["3\n", "4\n", "5\n"]
    (problem,) = resolve(f"livecodebench:{written(tmp_path, row(private_test_cases='[]'))}")
    assert [case.source for case in problem.task.cases] == ["1\n"]
    (problem,) = resolve(f"programs:{written(tmp_path, row())}")
    assert [case.source for case in problem.task.cases] == ["1\n", "3\n", "4\n", "5\n"]


def test_errata_are_left_out_with_the_reason(tmp_path):
    """Those of LeetCode go by title."""
    titled = row(question_id="3194", question_title="find-words-containing-character")
    with pytest.warns(UserWarning, match="several outputs are right"):
        assert len(resolve(f"livecodebench:{written(tmp_path, titled, row())}")) == 1
    named = "abc326_d"
    path = written(tmp_path, row(), row(question_id=named))
    with pytest.warns(UserWarning, match=f":2: skipped: {named} is in the data set's errata: {ERRATA[named]}"):
        assert [p.name for p in resolve(f"livecodebench:{path}")] == [f"livecodebench:{path}/own_a"]
    with (
        pytest.warns(UserWarning, match="errata"),
        pytest.raises(BadAddress, match="names no problem that can be posed"),
    ):
        resolve(f"livecodebench:{path}/{named}")


class Evil:
    """Unpickling it calls a function."""

    def __reduce__(self):
        return exec, ("raise SystemExit('unpickled code ran')",)


HOSTILE = {
    "a call": pickle.dumps(Evil()),
    "a call of protocol 0": b"\x80\x00" + pickle.dumps(Evil(), protocol=0),
    "a function": pickle.dumps(len),
    **{f"a {type(value).__name__}": pickle.dumps(value) for value in (["[]"], {"a": "[]"}, b"[]", 7)},
    "a persistent id": b"\x80\x04Pother\n.",
    "an extension": b"\x80\x02\x82\x01.",
    "two texts": b"\x80\x02X\x02\x00\x00\x00[]X\x02\x00\x00\x00[].",
    "no end": pickle.dumps("[]")[:-1],
    "nothing": b"\x80\x04.",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_pickle_of_anything_but_one_text_is_refused_in_one_line(tmp_path, data):
    path = written(tmp_path, row(private_test_cases=packed(data)))
    with pytest.raises(BadAddress, match=r"tasks\.jsonl:1: `private_test_cases` is neither JSON nor packed") as caught:
        resolve(f"livecodebench:{path}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickled_text_of_every_protocol_is_read(protocol):
    for text in ("[]", '[{"input": "é\\n"}]' * 50_000):
        assert text_of_pickle(pickle.dumps(text, protocol=protocol)) == text


def test_the_hub_out_of_reach_is_one_line_with_a_remedy(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=None))  # the real one takes seconds
    with pytest.raises(BadAddress, match=r"(needs the package datasets|cannot be loaded).*name its folder") as caught:
        read_hub("own/tasks", "test", "get test.jsonl and name its folder")
    assert "\n" not in str(caught.value)
