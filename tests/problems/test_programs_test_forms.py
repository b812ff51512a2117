"""Unusual but honest forms of tests: a right answer passes and a wrong one does not, or the row is refused."""

# ruff: noqa: E501 (one program a line)

import json
import warnings

import pytest

from problems import resolve

RAISES = "def f(x):\n    if x < 0:\n        raise ValueError('negative')\n    return x + 1\n"
NO_RAISE = "def f(x):\n    return x + 1\n"
APPEND = "def f(a):\n    return a + [1]\n"
APPEND_IN_PLACE = "def f(a):\n    a.append(1)\n    return a\n"
SORT = "def s(x):\n    x.sort()\n"
STACK = (
    "class Stack:\n    def __init__(self):\n        self.items = []\n    def push(self, x):\n        self.items.append(x)\n"
    "    def pop(self):\n        return self.items.pop()\n    def __len__(self):\n        return len(self.items)\n"
)
QUEUE = STACK.replace("self.items.pop()", "self.items.pop(0)")
POINT = (
    "class Point:\n    def __init__(self, x, y):\n        self.x, self.y = x, y\n    def __eq__(self, other):\n"
    "        return (self.x, self.y) == (other.x, other.y)\n"
    "    def __add__(self, other):\n        return Point(self.x + other.x, self.y + other.y)\n"
)
WRONG_POINT = POINT.replace("self.x + other.x", "self.x - other.x")


def check(*lines):
    return "def check(candidate):\n" + "".join(f"    {line}\n" for text in lines for line in text.splitlines())


def humaneval(test, header="def f(x):"):
    return {"prompt": f"{header}\n    '''Do it.'''\n", "entry_point": header[4 : header.index("(")], "test": test}


def mbpp(*tests, **more):
    return {"text": "Do it.", "test_list": list(tests), **more}


FALSELY_ACCEPTED = {
    "pytest.raises": (
        mbpp("assert f(1)==2", "import pytest\nwith pytest.raises(ValueError):\n    f(-1)"),
        RAISES,
        NO_RAISE,
    ),
    "if and raise": (
        mbpp("assert f(1) == 2", "if f(5) != 6: raise AssertionError"),
        NO_RAISE,
        "def f(x):\n    return 2\n",
    ),
    "try, except, else": (
        mbpp("assert f(1) == 2", "try:\n    f(-1)\nexcept ValueError:\n    pass\nelse:\n    raise AssertionError"),
        RAISES,
        NO_RAISE,
    ),
    "numpy.testing": (
        mbpp("assert f(1) == 2", "import numpy as np\nnp.testing.assert_allclose(f(2.5), 3.5)"),
        NO_RAISE,
        "def f(x):\n    return 2\n",
    ),
    "numpy.testing in check": (
        humaneval(check("import numpy as np", "assert candidate(1) == 2", "np.testing.assert_equal(candidate(4), 5)")),
        NO_RAISE,
        "def f(x):\n    return 2\n",
    ),
    "unittest assertions": (
        humaneval(
            check(
                "import unittest",
                "case = unittest.TestCase()",
                "assert candidate(1) == 2",
                "case.assertEqual(candidate(4), 5)",
            )
        ),
        NO_RAISE,
        "def f(x):\n    return 2\n",
    ),
    "a nested function": (
        humaneval(check("def t():\n    assert candidate(4) == 5", "assert candidate(1) == 2", "t()")),
        NO_RAISE,
        "def f(x):\n    return 2\n",
    ),
    "an argument that must not change": (
        humaneval(check("a=[0]", "b=candidate(a)", "assert b==[0,1]", "assert a==[0]"), "def f(a):"),
        APPEND,
        APPEND_IN_PLACE,
    ),
    "assertRaises": (
        humaneval(
            check(
                "import unittest",
                "t = unittest.TestCase()",
                "assert candidate(1) == 2",
                "with t.assertRaises(ValueError):\n    candidate(-1)",
            )
        ),
        RAISES,
        NO_RAISE,
    ),
    "an assertion outside of check": (
        humaneval(check("assert candidate(1) == 2") + "\ncheck(f)\nassert f(4) == 5\n"),
        NO_RAISE,
        "def f(x):\n    return 2\n",
    ),
}
FALSELY_REJECTED = {
    "an expected exception": (
        mbpp("assert d(4, 2) == 2", "try:\n    d(1, 0)\n    assert False\nexcept ValueError:\n    pass"),
        "def d(a, b):\n    if b == 0:\n        raise ValueError\n    return a / b\n",
        "def d(a, b):\n    return a / b\n",
    ),
    "a change in place": (mbpp("x = [3, 1, 2]\ns(x)\nassert x==[1,2,3]"), SORT, "def s(x):\n    return sorted(x)\n"),
    "a generator": (
        mbpp("assert list(g(4)) == [0, 1, 2, 3]"),
        "def g(n):\n    for i in range(n):\n        yield i\n",
        "def g(n):\n    for i in range(1, n):\n        yield i\n",
    ),
    "a map": (
        mbpp("assert list(g([1, 2])) == [2, 4]"),
        "def g(a):\n    return map(lambda x: 2 * x, a)\n",
        "def g(a):\n    return map(lambda x: x, a)\n",
    ),
    "a date": (
        mbpp("from datetime import date\nassert day(2024, 60) == date(2024, 2, 29)"),
        "import datetime\ndef day(y, n):\n    return datetime.date(y, 1, 1) + datetime.timedelta(n - 1)\n",
        "import datetime\ndef day(y, n):\n    return datetime.date(y, 1, 1) + datetime.timedelta(n)\n",
    ),
    "a range": (
        mbpp("assert r(3) == range(1, 4)"),
        "def r(n):\n    return range(1, n + 1)\n",
        "def r(n):\n    return range(n)\n",
    ),
    "a returned function": (
        mbpp("add = adder(3)\nassert add(4) == 7"),
        "def adder(n):\n    return lambda x: x + n\n",
        "def adder(n):\n    return lambda x: n\n",
    ),
    "a function held in a variable": (
        mbpp("double = lambda v: 2 * v\nassert apply(double, 5) == 10"),
        "def apply(g, v):\n    return g(v)\n",
        "def apply(g, v):\n    return v\n",
    ),
    "an exception with its text": (
        mbpp(
            "import pytest\nwith pytest.raises(ValueError, match='negative') as e:\n    f(-1)\nassert 'neg' in str(e.value)"
        ),
        RAISES,
        RAISES.replace("negative", "wrong"),
    ),
    "an exception of the answer's own": (
        mbpp(
            "try:\n    f(-1)\n    assert False\nexcept Negative as e:\n    assert e.args == (-1,)",
            code="class Negative(Exception):\n    pass\ndef f(x):\n    if x < 0:\n        raise Negative(x)\n",
        ),
        "class Negative(Exception):\n    pass\ndef f(x):\n    if x < 0:\n        raise Negative(x)\n",
        "class Negative(Exception):\n    pass\ndef f(x):\n    if x < 0:\n        raise ValueError(x)\n",
    ),
}
OTHER = {
    "the same object": (mbpp("x = [1]\nassert f(x) is x"), "def f(x):\n    return x\n", "def f(x):\n    return list(x)\n"),
    "nested lists change": (
        mbpp("m = [[1, 2], [3, 4]]\nt(m)\nassert m == [[1, 3], [2, 4]]"),
        "def t(m):\n    m[0][1], m[1][0] = m[1][0], m[0][1]\n",
        "def t(m):\n    m = [[1, 3], [2, 4]]\n",
    ),
    "a dict changes": (
        mbpp("d = {'a': 1}\nput(d, 'b')\nassert d == {'a': 1, 'b': 1}"),
        "def put(d, k):\n    d[k] = 1\n",
        "def put(d, k):\n    return {**d, k: 1}\n",
    ),
    "methods and state": (
        mbpp("s = Stack()\ns.push(1)\ns.push(2)\nassert s.pop() == 2", "assert len(s) == 1"),
        STACK,
        QUEUE,
    ),
    "objects that are equal": (
        mbpp("assert Point(1, 2) + Point(1, 1) == Point(2, 3)", code=POINT),
        POINT,
        WRONG_POINT,
    ),
    "isinstance of a class of the answer": (
        mbpp("assert isinstance(make(), Point)", "assert make().x == 1", code=POINT + "def make():\n    return Point(1, 1)\n"),
        POINT + "def make():\n    return Point(1, 1)\n",
        POINT + "class Other(Point):\n    pass\ndef make():\n    return Other(2, 1)\n",
    ),
    "a factory": (
        mbpp("c = counter()\nassert c() == 1", "assert c() == 2"),
        "def counter():\n    n = 0\n    def step():\n        nonlocal n\n        n += 1\n        return n\n    return step\n",
        "def counter():\n    return lambda: 1\n",
    ),
    "a context manager": (
        mbpp("with opened('a') as o:\n    assert o == 'a'"),
        "import contextlib\n@contextlib.contextmanager\ndef opened(x):\n    yield x\n",
        "import contextlib\n@contextlib.contextmanager\ndef opened(x):\n    yield None\n",
    ),
    "a coroutine": (
        mbpp("import asyncio\nassert asyncio.run(f(1)) == 2"),
        "async def f(x):\n    return x + 1\n",
        "async def f(x):\n    return x\n",
    ),
    "printed text": (
        mbpp("import io, contextlib\nout = io.StringIO()\nwith contextlib.redirect_stdout(out):\n    f(3)\nassert out.getvalue() == '3\\n'"),
        "def f(x):\n    print(x)\n",
        "def f(x):\n    print(x + 1)\n",
    ),
    "a call that must not fail": (
        humaneval(check("assert candidate(1) == 2", "candidate(-1)")),
        NO_RAISE,
        RAISES,
    ),
    "a call between assertions that must not fail": (
        humaneval(check("candidate(-1)", "assert candidate(1) == 2")),
        NO_RAISE,
        RAISES,
    ),
    "a loop with a flag": (
        humaneval(check("ok = True", "for n in range(5):\n    ok = ok and candidate(n) == n + 1", "assert ok")),
        NO_RAISE,
        "def f(x):\n    return x + (x != 4)\n",
    ),
    "a list of errors": (
        humaneval(check("errors = []", "for n in range(5):\n    if candidate(n) != n + 1:\n        errors.append(n)", "if errors:\n    raise ValueError(errors)")),
        NO_RAISE,
        "def f(x):\n    return x + (x != 4)\n",
    ),
    "an early return": (
        humaneval(check("if candidate(1) != 2:\n    raise AssertionError", "if candidate(0) == 1:\n    return", "assert False")),
        NO_RAISE,
        "def f(x):\n    return 2\n",
    ),
    "test functions of a script": (
        {"text": "t", "test": "def test_one():\n    assert f(1) == 2\n\ndef test_two():\n    assert f(4) == 5\n", "code": NO_RAISE},
        NO_RAISE,
        "def f(x):\n    return 2\n",
    ),
    "a TestCase": (
        {
            "text": "t",
            "code": NO_RAISE,
            "test": "import unittest\nclass TestF(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(f(1), 2)\n"
            "    def test_b(self):\n        self.assertEqual(f(4), 5)\nif __name__ == '__main__':\n    unittest.main()\n",
        },
        NO_RAISE,
        "def f(x):\n    return 2\n",
    ),
    "approx": (
        mbpp("import pytest\nassert f(0.1) == pytest.approx(1.1)"),
        "def f(x):\n    return x + 1 + 1e-9\n",
        "def f(x):\n    return x + 1.01\n",
    ),
    "a helper of the script in the arguments": (
        {"text": "t", "code": NO_RAISE, "test": "def one():\n    return 1\nassert f(one()) == 2\nassert f(4) == 5\n"},
        NO_RAISE,
        "def f(x):\n    return 2\n",
    ),
    "a helper that raises": (
        {"text": "t", "code": NO_RAISE, "test": "def same(a, b):\n    if a != b:\n        raise ValueError((a, b))\nsame(f(1), 2)\nsame(f(4), 5)\n"},
        NO_RAISE,
        "def f(x):\n    return 2\n",
    ),
    "a matching object is true": (
        mbpp("assert m('ab')", "assert not m('b')"),
        "import re\ndef m(s):\n    return re.match('a', s)\n",
        "import re\ndef m(s):\n    return re.match('b', s)\n",
    ),
    "groups of a match": (
        mbpp("assert m('ab').group(1) == 'b'"),
        "import re\ndef m(s):\n    return re.match('a(.)', s)\n",
        "import re\ndef m(s):\n    return re.match('(a).', s)\n",
    ),
    "calls that are recorded": (
        mbpp("seen = []\neach([1, 2], seen.append)\nassert seen == [1, 2]"),
        "def each(a, g):\n    for x in a:\n        g(x)\n",
        "def each(a, g):\n    return a\n",
    ),
    "an iterator of the test": (
        mbpp("assert total(iter([1, 2, 3])) == 6", "assert total(x for x in range(5)) == 10", "it = iter([1, 2])\nassert total(it) == 3"),
        "def total(a):\n    return sum(a)\n",
        "def total(a):\n    return len(list(a))\n",
    ),
    "an object of the test": (
        mbpp("class Duck:\n    def speak(self):\n        return 'quack'\nassert hear(Duck()) == 'quack!'"),
        "def hear(d):\n    return d.speak() + '!'\n",
        "def hear(d):\n    return 'moo'\n",
    ),
    "linked lists of the prompt": (
        {
            "prompt": "class Node:\n    def __init__(self, v, n=None):\n        self.v, self.n = v, n\n\ndef rev(head):\n    '''Reverse.'''\n",
            "entry_point": "rev",
            "test": check("h = candidate(Node(1, Node(2, Node(3))))", "out = []", "while h:\n    out.append(h.v)\n    h = h.n", "assert out == [3, 2, 1]"),
        },
        "def rev(head):\n    last = None\n    while head:\n        head.n, last, head = last, head, head.n\n    return last\n",
        "def rev(head):\n    return head\n",
    ),
    "a named tuple": (
        mbpp("p = pair(1, 2)\nassert p.a == 1 and p == (1, 2)"),
        "import collections\nP = collections.namedtuple('P', 'a b')\ndef pair(a, b):\n    return P(a, b)\n",
        "import collections\nP = collections.namedtuple('P', 'b a')\ndef pair(a, b):\n    return P(a, b)\n",
    ),
    "the shape of an array": (
        mbpp("assert z(2).shape == (2, 2) and z(2).sum() == 0"),
        "import numpy\ndef z(n):\n    return numpy.zeros((n, n))\n",
        "import numpy\ndef z(n):\n    return numpy.zeros(n)\n",
    ),
    "equal up to order": (
        mbpp("from collections import Counter\nassert Counter(f('aab')) == Counter({'a': 2, 'b': 1})"),
        "def f(s):\n    return list(s)\n",
        "def f(s):\n    return list(set(s))\n",
    ),
    "a deque and a Counter": (
        mbpp("r = f('aab')\nassert r.most_common(1) == [('a', 2)]"),
        "from collections import Counter\ndef f(s):\n    return Counter(s)\n",
        "from collections import Counter\ndef f(s):\n    return Counter(set(s))\n",
    ),
    "a warning": (
        mbpp("import warnings\nwith warnings.catch_warnings():\n    warnings.simplefilter('error')\n    assert f(1) == 2"),
        NO_RAISE,
        "def f(x):\n    return 3\n",
    ),
}  # fmt: skip
FORMS = {**FALSELY_ACCEPTED, **FALSELY_REJECTED, **OTHER}


def posed(tmp_path, row):
    (tmp_path / "own.jsonl").write_text(json.dumps(row))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (problem,) = resolve(f"programs:{tmp_path / 'own.jsonl'}")
    return problem


@pytest.mark.parametrize(("row", "right", "wrong"), FORMS.values(), ids=FORMS)
def test_a_right_answer_passes_and_a_wrong_one_does_not(tmp_path, row, right, wrong):
    problem = posed(tmp_path, row)
    passed = problem.score(right)
    assert passed.fitness == 1, passed.feedback
    failed = problem.score(wrong)
    assert failed.fitness < 1


def test_a_fixture_is_refused_when_it_is_loaded(tmp_path):
    row = {"text": "t", "test": "def test_f(tmp_path):\n    assert f(tmp_path) == 1\n", "code": NO_RAISE}
    (tmp_path / "own.jsonl").write_text(json.dumps(row))
    with pytest.warns(UserWarning, match=r"own\.jsonl:1: skipped: "):
        assert resolve(f"programs:{tmp_path / 'own.jsonl'}") == []


def test_an_iterator_is_asked_for_no_more_than_a_test_wants(tmp_path):
    problem = posed(tmp_path, mbpp("it = f(3)\nassert next(it) == 0", "assert list(f(3))[:0] == []"))
    assert problem.score("def f(n):\n    yield 0\n    raise ValueError\n").rewards == (1, 0)


@pytest.mark.parametrize(
    "more",
    [
        "check(f)\nif f(4) != 5:\n    raise ValueError\n",
        "if __name__ == '__main__':\n    check(f)\n    assert f(4) == 5\n",
    ],
    ids=["at the top", "in the guard"],
)
def test_what_a_file_asserts_outside_of_check_counts(tmp_path, more):
    problem = posed(tmp_path, humaneval(check("assert candidate(1) == 2") + f"\n{more}"))
    assert problem.score(NO_RAISE).fitness == 1
    assert problem.score("def f(x):\n    return 2\n").fitness < 1
