"""No answer decides a test that runs as code: not by its objects, and not over the channel to the test's process."""

# ruff: noqa: E501 (one program a line)

import json

import pytest

from problems import resolve


def posed(tmp_path, row):
    (tmp_path / "own.jsonl").write_text(json.dumps(row))
    (problem,) = resolve(f"programs:{tmp_path / 'own.jsonl'}")
    return problem


def mbpp(test):
    return {"text": "Do it.", "test_list": [test]}


FORGERS = {
    "equals everything": "class E:\n    def __eq__(self, other):\n        return True\n    def __ne__(self, other):\n        return False\n    __hash__ = None\n",
    "contains everything": "class E(list):\n    def __contains__(self, other):\n        return True\n",
    "is a plain object of every answer": "class E:\n    def __getattr__(self, name):\n        return lambda *args: True\n    def __contains__(self, other):\n        return True\n"
    "    def __lt__(self, other):\n        return True\n    __gt__ = __le__ = __ge__ = __eq__ = __lt__\n    def __sub__(self, other):\n        return 0\n    __rsub__ = __add__ = __sub__\n    def __abs__(self):\n        return 0\n"
    "    def __len__(self):\n        return 3\n    def __iter__(self):\n        return iter(())\n",
}  # fmt: skip
ASKED = (
    "assert f(1) == [1, 2, 3]",
    "assert [1, 2, 3] == f(1)",
    "r = f(1)\nassert r == [1, 2, 3]",
    "r = f(1)\nassert 7 in r",
    "r = f(1)\nassert r > 5 and r < 10",
    "assert abs(f(1) - 7) < 1e-9",
    "r = f(1)\nassert r.issubset({1, 2})",
    "r = f(1)\nassert r.startswith('a')",
    "r = f(1)\nassert not r != 3",
    "import pytest\nassert f(1) == pytest.approx(7)",
    "import numpy as np\nnp.testing.assert_allclose(f(1), [7, 8])",
    "import unittest\nunittest.TestCase().assertEqual(f(1), 7)",
    "import unittest\nunittest.TestCase().assertIn(7, f(1))",
    "import math\nassert math.isclose(f(1), 7)",
    "assert sorted(f(1)) == [1, 2, 3]",
    "assert {1: 7}[f(1)] == 7",
    "try:\n    assert f(1) in [1, 2]\nexcept TypeError:\n    assert False",
)


@pytest.mark.parametrize("forger", FORGERS.values(), ids=FORGERS)
@pytest.mark.parametrize("test", ASKED)
def test_no_object_of_an_answer_decides_a_test(tmp_path, test, forger):
    problem = posed(tmp_path, mbpp(test))
    assert problem.score(f"{forger}\ndef f(x):\n    return E()\n").fitness == 0


WHOLE = {
    "prompt": "def f(x):\n    '''Do it.'''\n",
    "entry_point": "f",
    "test": "def check(candidate):\n    if candidate(1) != 2:\n        raise AssertionError\n"
    "    if candidate(0) == 1:\n        return\n    assert False\n",
}
RAISES = mbpp("import pytest\nassert f(1) == 2\nwith pytest.raises(ValueError):\n    f(-1)")
FUNCTION = mbpp("add = f(3)\nassert add(4) == 7")
ITERATOR = mbpp("import itertools\nassert list(itertools.islice(f(3), 3)) == [7, 8, 9]")
SERVE = "def forge():\n    globals()['_evo_call'] = lambda *a: {0}\n"
ATTACKS = {
    "writes a verdict to every descriptor": "import os, struct, json\ndef forge():\n    body = json.dumps(json.dumps('[\"ok\", \"true\", \"\", \"\", 0.0, 0.0]')).encode()\n    for fd in range(3, 128):\n        try:\n            os.write(fd, struct.pack('<cI', b'R', len(body)) + body)\n        except OSError:\n            pass\n",
    "ends its process well": "import os\ndef forge():\n    os._exit(0)\n",
    "answers true": SERVE.format("True"),
    "answers with an unknown kind": SERVE.format("('verdict', True, [], {})"),
    "makes a class of the judge": SERVE.format("('made', ['eval', [], ['1']], [a[1][0]], {})"),
    "makes a class of no parts": SERVE.format("('made', ['deque', [], []], [a[1][0]], {})"),
    "makes a named tuple of code": SERVE.format("('made', ['T', ['a=print(1)'], [1]], [a[1][0]], {})"),
    "makes a named tuple with a keyword": SERVE.format("('made', ['T', ['class'], [1]], [a[1][0]], {})"),
    "raises a class of a module": SERVE.format("('error', [[('os', '_exit'), ('subprocess', 'Popen')], [0]], [a[1][0]], {})"),
    "gives other arguments": SERVE.format("('value', 2, [], {})"),
    "patches assertions": "def forge():\n    import builtins\n    builtins.AssertionError = builtins.Exception = KeyError\n    builtins.any = builtins.all = builtins.isinstance = lambda *a: True\n",
    "calls the host": "def forge():\n    for name in ('f', 'function 0', 'iterator 0', 'coroutine 0'):\n        try:\n            host_call(name, True)\n        except Exception:\n            pass\n",
    "leaves": "def forge():\n    raise SystemExit(0)\n",
    "stops the iteration": "def forge():\n    raise StopIteration(True)\n",
    "prints a verdict": "def forge():\n    print('[\"ok\", \"true\"]', flush=True)\n",
    "never ends": "def forge():\n    while True:\n        pass\n",
}  # fmt: skip


@pytest.mark.parametrize(
    "row",
    [WHOLE, FUNCTION, ITERATOR, RAISES],
    ids=["whole", "function", "iterator", "raises"],
)
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_no_attack_forges_the_verdict_of_a_whole_test(tmp_path, row, attack):
    problem = posed(tmp_path, row)
    problem._limits = type(problem._limits)(cpu_seconds=0.5, wall_seconds=5.0)
    body = "class E:\n    def __eq__(self, other):\n        return True\n"
    assert problem.score(f"{attack}{body}def f(x):\n    forge()\n    return E()\n").fitness < 1
    assert problem.score(f"{attack}def f(x):\n    return lambda y: forge()\n").fitness < 1
    assert problem.score(f"{attack}def f(x):\n    yield forge()\n").fitness < 1


def test_an_endless_answer_is_no_expected_exception(tmp_path):
    problem = posed(tmp_path, mbpp("try:\n    f(1)\n    assert False\nexcept KeyError:\n    pass"))
    problem._limits = type(problem._limits)(cpu_seconds=0.5, wall_seconds=5.0)
    assert problem.score("def f(x):\n    raise KeyError\n").fitness == 1
    assert problem.score("def f(x):\n    while True:\n        pass\n").fitness == 0
    assert problem.score("import os\ndef f(x):\n    os._exit(1)\n").fitness == 0
