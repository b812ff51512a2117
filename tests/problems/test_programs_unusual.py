"""Tests of unusual but honest forms: each accepts the right answer and refuses a wrong one, or is refused at load."""

# ruff: noqa: E501 (one form a line)

import json
import warnings

import pytest

from problems import ScorerFault, resolve


def posed(tmp_path, tests, code=None, **more):
    row = {"text": "t", "test_list": tests if isinstance(tests, list) else [tests], **more}
    if code is not None:
        row["code"] = code
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps(row))
    (problem,) = resolve(f"programs:{path}")
    return problem


def checked(tmp_path, body, prompt="def f(x):\n", entry="f"):
    test = "def check(candidate):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    path = tmp_path / "check.jsonl"
    path.write_text(json.dumps({"prompt": prompt, "entry_point": entry, "test": test}))
    (problem,) = resolve(f"programs:{path}")
    return problem


PLUS_ONE = "def f(x):\n    return x + 1"
STRICT = "def f(x):\n    if x < 0:\n        raise ValueError('negative: ' + str(x))\n    return x + 1"
DIVIDE = "def d(a, b):\n    if b == 0:\n        raise ValueError('zero')\n    return a / b"
FORMS = {
    "pytest raises": (["assert f(1)==2", "import pytest\nwith pytest.raises(ValueError):\n    f(-1)"], STRICT, PLUS_ONE),
    "pytest raises with a match": (
        ["import pytest\nwith pytest.raises(ValueError, match='negative: -1'):\n    f(-1)"],
        STRICT,
        STRICT.replace("negative", "bad"),
    ),
    "pytest raises a call": (["import pytest", "pytest.raises(ValueError, f, -1)"], STRICT, PLUS_ONE),
    "raises of its own name": (
        ["from pytest import raises, approx\nwith raises(ValueError) as caught:\n    f(-1)\nassert '-1' in str(caught.value)"],
        STRICT,
        STRICT.replace("str(x)", "''"),
    ),
    "approx": (["import pytest\nassert f(.1) == pytest.approx(1.1)"], PLUS_ONE, "def f(x):\n    return x + 1.1"),
    "if and raise": (["if f(5) != 6: raise AssertionError"], PLUS_ONE, "def f(x):\n    return x"),
    "if and raise in a check": (["x = 5\nif f(x) != 6:\n    raise ValueError('no')"], PLUS_ONE, "def f(x):\n    return x"),
    "try and else raise": (
        ["try:\n    f(-1)\nexcept ValueError:\n    pass\nelse:\n    raise AssertionError"],
        STRICT,
        PLUS_ONE,
    ),
    "try and assert False": (
        ["try:\n    d(1, 0)\n    assert False\nexcept ValueError:\n    pass"],
        DIVIDE,
        "def d(a, b):\n    return a / b",
    ),
    "the text of an exception": (
        ["try:\n    d(1, 0)\nexcept ValueError as error:\n    assert error.args == ('zero',)\nelse:\n    assert False"],
        DIVIDE,
        DIVIDE.replace("'zero'", "'nought'"),
    ),
    "numpy's assertions": (
        ["import numpy as np\nnp.testing.assert_allclose([f(1.0), f(2.0)], [2.0, 3.0])"], PLUS_ONE, "def f(x):\n    return x"
    ),
    "numpy's array assertions": (
        ["import numpy as np", "np.testing.assert_array_equal(f([1, 2]), [2, 3])"],
        "def f(x):\n    return [n + 1 for n in x]",
        "def f(x):\n    return x",
    ),
    "unittest's assertions": (
        ["import unittest\nunittest.TestCase().assertEqual(f(1), 2)"], PLUS_ONE, "def f(x):\n    return x"
    ),
    "a test class": (
        ["import unittest\nclass T(unittest.TestCase):\n    def setUp(self):\n        self.x = 1\n"
         "    def test_one(self):\n        self.assertEqual(f(self.x), 2)\n"
         "    def test_raises(self):\n        with self.assertRaises(ValueError):\n            f(-1)\n"
         "if __name__ == '__main__':\n    unittest.main()"],
        STRICT,
        PLUS_ONE,
    ),
    "a test function": (["def test_f():\n    assert f(1) == 2"], PLUS_ONE, "def f(x):\n    return x"),
    "a test function that is called": (["def t():\n    assert f(1) == 2\nt()"], PLUS_ONE, "def f(x):\n    return x"),
    "a change in place": (["x = [3, 1, 2]\ns(x)\nassert x == [1, 2, 3]"], "def s(x):\n    x.sort()", "def s(x):\n    pass"),
    "a change of a dict": (["x = {}\ns(x, 1)\nassert x == {1: 2}"], "def s(x, k):\n    x[k] = 2", "def s(x, k):\n    x[k] = 3"),
    "a change by a call that is asserted": (
        ["x = [1, 2]\nassert s(x) == 2\nassert x == [1]"], "def s(x):\n    return x.pop()", "def s(x):\n    return x[-1]"
    ),
    "the object itself": (["x = [2, 1]\nassert s(x) is x"], "def s(x):\n    x.sort()\n    return x", "def s(x):\n    return sorted(x)"),
    "a generator": (["assert list(g(4)) == [0, 1, 2, 3]"], "def g(n):\n    yield from range(n)", "def g(n):\n    yield from range(n + 1)"),
    "an endless generator": (
        ["import itertools\nassert list(itertools.islice(g(), 3)) == [0, 1, 2]"],
        "import itertools\ndef g():\n    return itertools.count()",
        "import itertools\ndef g():\n    return itertools.count(1)",
    ),
    "a generator that raises": (
        ["it = g(1)\nassert next(it) == 0\ntry:\n    next(it)\n    assert False\nexcept StopIteration:\n    pass"],
        "def g(n):\n    yield from range(n)",
        "def g(n):\n    yield from range(n + 1)",
    ),
    "a map": (["assert sorted(g([3, 1])) == [2, 6]"], "def g(x):\n    return map(lambda n: 2 * n, x)", "def g(x):\n    return iter(x)"),
    "a date": (
        ["import datetime\nassert f(datetime.date(2020, 2, 28)) == datetime.date(2020, 2, 29)"],
        "import datetime\ndef f(d):\n    return d + datetime.timedelta(days=1)",
        "def f(d):\n    return d",
    ),
    "a range": (["assert f(3) == range(3)"], "def f(n):\n    return range(n)", "def f(n):\n    return list(range(n))"),
    "a returned function": (
        ["add = f(3)\nassert add(4) == 7", "assert f(1)(1) == 2"],
        "def f(n):\n    return lambda m: m + n",
        "def f(n):\n    return lambda m: m",
    ),
    "a function in a variable": (
        ["inc = lambda n: n + 1\nassert a(inc, 2) == 3"], "def a(g, n):\n    return g(n)", "def a(g, n):\n    return n"
    ),
    "a lambda in the call": (["assert a(lambda n: n + 1, 2) == 3"], "def a(g, n):\n    return g(n)", "def a(g, n):\n    return n"),
    "all of a loop": (
        ["for n in range(3):\n    assert f(n) == n + 1"], PLUS_ONE, "def f(x):\n    return min(x + 1, 2)"
    ),
    "a list that a loop fills": (
        ["got = []\nfor n in range(3):\n    got.append(f(n))\nassert got == [1, 2, 3]"], PLUS_ONE, "def f(x):\n    return x"
    ),
    "a helper that asserts": (
        ["def same(a, b):\n    if a != b:\n        raise AssertionError(a)", "same(f(1), 2)"], PLUS_ONE, "def f(x):\n    return x"
    ),
    "a last call that may not raise": (["assert f(1) == 2", "f('a')"], "def f(x):\n    return 2", PLUS_ONE),
    "an exception of the answer's own": (
        ["try:\n    f(-1)\n    assert False\nexcept Empty as error:\n    assert error.args == (-1,)"],
        "class Empty(ValueError):\n    pass\ndef f(x):\n    raise Empty(x)",
        "class Empty(ValueError):\n    pass\ndef f(x):\n    raise ValueError(x)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_the_right_answer_passes_and_a_wrong_one_fails(form, tmp_path):
    tests, right, wrong = FORMS[form]
    problem = posed(tmp_path, tests, code=right)
    assert problem.score(right).fitness == 1.0, problem.score(right).feedback
    assert problem.score(wrong).fitness < 1.0


CHECKS = {
    "a nested function": ("def t():\n    assert candidate(1) == 2\nt()", PLUS_ONE, "def f(x):\n    return x"),
    "an argument that is changed": (
        "a = [0]\nb = candidate(a)\nassert b == [0, 1]\nassert a == [0]",
        "def f(x):\n    return [*x, 1]",
        "def f(x):\n    x.append(1)\n    return x",
    ),
    "an argument that is changed by what is asserted": (
        "a = [0]\nassert candidate(a) == [0, 1]\nassert a == [0]",
        "def f(x):\n    return [*x, 1]",
        "def f(x):\n    x.append(1)\n    return x",
    ),
}


@pytest.mark.parametrize("form", CHECKS)
def test_forms_of_check(form, tmp_path):
    body, right, wrong = CHECKS[form]
    problem = checked(tmp_path, body)
    assert problem.score(right).fitness == 1.0, problem.score(right).feedback
    assert problem.score(wrong).fitness < 1.0


FORGED = {
    "it replaces what calls it": "def f(x):\n    return x\ndef _evo_call(*_):\n    return 'value', 6, [5], {}",
    "it answers nonsense": "def f(x):\n    return x\ndef _evo_call(*_):\n    return 'argument', 99, [], {}",
    "an exception whose class is a lie": (
        "class AssertionError(Exception):\n    __module__ = 'builtins'\ndef f(x):\n    raise AssertionError(x)"
    ),
    "an exception that cannot be made": "def f(x):\n    raise UnicodeDecodeError('utf-8', b'', 0, 1, 'x')",
    "it ends its process": "import os\ndef f(x):\n    os._exit(0)",
    "it leaves": "def f(x):\n    raise SystemExit(0)",
    "an object that equals everything": "class A:\n    def __eq__(self, other):\n        return True\ndef f(x):\n    return A()",
}  # fmt: skip


@pytest.mark.parametrize("form", FORGED)
def test_an_answer_cannot_forge_the_verdict_of_a_whole_test(form, tmp_path):
    """The first knows the expected value, which it could return as well; no other may pass."""
    problem = posed(
        tmp_path, ["if f(5) != 6: raise AssertionError", "try:\n    assert f(7) == 8\nexcept KeyError:\n    pass"]
    )
    assert problem.score(FORGED[form]).fitness < 1.0


def test_a_time_limit_cannot_be_expected(tmp_path):
    tests = ["try:\n    f(1)\n    ok = False\nexcept OSError:\n    ok = True\nassert ok"]
    problem = posed(tmp_path, tests)
    assert problem.score("def f(x):\n    raise OSError").fitness == 1.0
    assert problem.score("def f(x):\n    x = bytearray(1 << 40)").fitness == 0.0
    assert problem.score("def f(x):\n    return f").fitness == 0.0


def test_tests_that_fail_their_own_solution_or_pass_nothing_end_the_problem(tmp_path):
    problem = posed(tmp_path, ["assert f(1) == 3"], code=PLUS_ONE)
    with pytest.raises(ScorerFault, match="own solution fails 1 of 1 tests"):
        problem.score(PLUS_ONE)
    problem = posed(tmp_path, ["assert f(1) is None"], code="def f(x):\n    return None")
    with pytest.raises(ScorerFault, match="cannot be judged here: its tests pass an answer with an empty body"):
        problem.score(PLUS_ONE)


def test_a_range_without_end_is_compared_in_no_time(tmp_path):
    problem = posed(tmp_path, ["assert set(f(1)) == {1}", "assert f(1) == [1]"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert problem.score("def f(x):\n    return range(10 ** 30)").fitness == 0.0
