"""Answers that cheat in the process of their tests: each is kept out, or stands in the list of those that are not."""

# ruff: noqa: E501 (one program a line)

import pytest

from problems import ScorerFault

TESTS = (
    "import math\nfor n in (2, 3):\n    r = f(n)\n    assert abs(r - math.sqrt(n)) < 1e-6 and math.isclose(r, n ** .5)"
)
KEPT_OUT = {
    "its caller's frame": "import sys\ndef f(n):\n    return sys._getframe(1).f_locals['n'] ** .5",
    "a frame by inspect": "import inspect\ndef f(n):\n    return inspect.currentframe().f_back",
    "a frame by a traceback": "def f(n):\n    try:\n        1 / 0\n    except ZeroDivisionError as e:\n        return e.__traceback__.tb_frame.f_back.f_locals",
    "a frame by a generator": "def f(n):\n    g = (g.gi_frame.f_back for _ in [1])\n    return next(g)",
    "a frame by a coroutine": "async def c(): pass\ndef f(n):\n    x = c()\n    x.cr_frame\n    return n",
    "a frame by logging": "import logging\ndef f(n):\n    return logging.currentframe().f_back",
    "locals of every frame": "import traceback\ndef f(n):\n    return str(traceback.StackSummary.extract(traceback.walk_stack(None), capture_locals=True))",
    "a frame by a signal": "import signal\ndef g(number, frame): raise KeyError\nsignal.signal(signal.SIGALRM, g)\nsignal.setitimer(signal.ITIMER_REAL, 1e-4)\ndef f(n): return n",
    "frames of threads": "import sys\ndef f(n):\n    return sys._current_frames()",
    "tracing": "import sys\nsys.settrace(lambda *a: None)\ndef f(n): return n",
    "profiling": "import sys\nsys.setprofile(lambda *a: None)\ndef f(n): return n",
    "an audit hook of its own": "import sys\nsys.addaudithook(lambda *a: None)\ndef f(n): return n",
    "all objects": "import gc\ndef f(n):\n    return [o for o in gc.get_objects() if isinstance(o, dict)]",
    "referrers": "import gc\ndef f(n):\n    return gc.get_referrers(f)",
    "ctypes": "import ctypes\ndef f(n): return n",
    "ctypes by importlib": "import importlib\nimportlib.import_module('cty' + 'pes')\ndef f(n): return n",
    "the memory of the process": "def f(n):\n    open('/proc/self/mem')\n    return n",
    "another builtin": "import builtins\nbuiltins.abs = lambda x: 0\ndef f(n):\n    return n ** .5 + 1",
    "another builtin in its names": "abs = lambda x: 0\ndef f(n):\n    __builtins__['abs'] = lambda x: 0\n    return n ** .5 + 1",
    "another function of a module": "import math\nmath.isclose = lambda *a: True\ndef f(n):\n    return n ** .5",
    "one that comes back": "import math\nreal = math.isclose\ndef fake(*a, **k):\n    math.isclose = real\n    return True\ndef f(n):\n    math.isclose = fake\n    return n ** .5 * (1 + 4e-7)",
    "a class that equals everything": "class E(float):\n    def __sub__(self, o): return 0.0\n    def __eq__(self, o): return True\n    __hash__ = None\ndef f(n): return E(n)",
    "a metaclass": "class M(type):\n    def __instancecheck__(c, o): return True\nclass E(metaclass=M):\n    def __sub__(self, o): return 0.0\n    def __float__(self): return 2 ** .5\ndef f(n): return E()",
    "StopIteration": "def f(n): raise StopIteration",
    "it leaves": "import os\ndef f(n): os._exit(0)",
    "it closes and writes descriptors": "import os\ndef f(n):\n    for fd in range(3, 64):\n        try:\n            os.write(fd, b'R\\x20\\0\\0\\0' + b'[0,\"ok\",\"\",2,false,0.1]'.ljust(32))\n        except OSError: pass\n    return n",
    "another code for a test": "import types\ndef f(n):\n    f.__code__.replace(co_filename='x')\n    return n",
    "a library's name": "exec(compile('import sys\\ndef g(): return sys._getframe(2)', __import__('os').__file__, 'exec'))\ndef f(n): return g()",
    "its sandbox's modules": "import sys\nfor name, module in list(sys.modules.items()):\n    if name.startswith('_evo_child'):\n        for key in list(vars(module)):\n            if not key.startswith('__'): vars(module)[key] = lambda *a, **k: True\ndef f(n): return n",
}  # fmt: skip
UNITTEST = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(f(2), 4)\n        self.assertEqual(f(3), 9)"
NUMPY = "import numpy as np\nr = f(2)\nnp.testing.assert_allclose(r, 4.0)\nnp.testing.assert_allclose(f(3), 9.0)"
PYTEST = "import pytest\nr = f(2)\nassert r == pytest.approx(4)\nassert pytest.approx(9) == f(3)"
INSIDE = "def t():\n    import math\n    assert math.isclose(f(2), 4) and math.isclose(f(3), 9)\nt()"
PATCH = "from unittest.mock import patch\nimport math\nwith patch('time.time', return_value=1):\n    assert math.isclose(f(2), 4) and math.isclose(f(3), 9)"
KEPT_OUT_OF = {
    "an assertion of unittest": (UNITTEST, "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\ndef f(n): return 0"),
    "one that comes back": (UNITTEST, "import unittest\nreal = unittest.TestCase.assertEqual\ndef fake(*a): unittest.TestCase.assertEqual = real\ndef f(n):\n    unittest.TestCase.assertEqual = fake\n    return 0"),
    "an assertion of the tests' own class": (UNITTEST, "import unittest\ndef f(n):\n    unittest.TestCase.__subclasses__()[-1].assertEqual = lambda *a: None\n    return 0"),
    "what assertEqual calls": (UNITTEST, "import unittest\nunittest.TestCase._baseAssertEqual = lambda *a, **k: None\ndef f(n): return 0"),
    "the runner": (UNITTEST, "import unittest.case, contextlib\n@contextlib.contextmanager\ndef run(*a, **k):\n    try: yield\n    except BaseException: pass\nunittest.case._Outcome.testPartExecutor = run\ndef f(n): return 0"),
    "a skipped test": (UNITTEST, "import unittest\ndef f(n): raise unittest.SkipTest"),
    "the constants of a test": (UNITTEST, "import unittest\ndef f(n): return unittest.TestCase.__subclasses__()[-1].test_a.__code__.co_consts"),
    "what assert_allclose calls": (NUMPY, "import numpy.testing._private.utils as u\nreal = u.assert_array_compare\ndef fake(*a, **k): u.assert_array_compare = real\ndef f(n):\n    u.assert_array_compare = fake\n    return 0.0"),
    "an array of liars": (NUMPY, "import numpy as np\nclass E:\n    def __eq__(s, o): return True\n    def __sub__(s, o): return 0.0\n    __rsub__ = __sub__\n    def __float__(s): return 4.0\ndef f(n): return np.array([E()], dtype=object)"),
    "pytest's tolerance": (PYTEST, "import pytest\ndef f(n):\n    pytest.approx.near = lambda *a: True\n    return 0"),
    "a tolerance of its own": (PYTEST, "import pytest\ndef f(n): return pytest.approx(5, abs=9)"),
    "another module of that name": (INSIDE, "import sys, types\nsys.modules['math'] = m = types.ModuleType('math')\nm.isclose = lambda *a: True\ndef f(n): return 0"),
    "another import": (INSIDE, "import builtins, types\nm = types.ModuleType('math')\nm.isclose = lambda *a: True\nreal = builtins.__import__\nbuiltins.__import__ = lambda name, *a, **k: m if name == 'math' else real(name, *a, **k)\ndef f(n): return 0"),
    "a function where the tests patch others": (PATCH, "import math\nmath.isclose = lambda *a: True\ndef f(n): return 0"),
}  # fmt: skip
NOT_KEPT_OUT = {
    "the globals of a test's own function": (
        "want = [3]\ndef step(x):\n    return x + 1\nr = f(step, 1)\nassert r == want[0]",
        "def f(g, x): return g(g(x))",
        "def f(g, x):\n    g.__globals__['want'][0] = 0\n    return 0",
    ),
    "the globals of a test class": (
        "import unittest\nWANT = [1, 4]\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual([f(1), f(2)], WANT)",
        "def f(n): return n * n",
        "import unittest\ndef f(n): return unittest.TestCase.__subclasses__()[-1].test_a.__globals__['WANT'][n - 1]",
    ),
    "an object whose methods lie": (
        "r = f('ab')\nassert r.startswith('ab') and r.endswith('c')",
        "def f(s): return s + 'c'",
        "class S:\n    def startswith(self, t): return True\n    endswith = startswith\ndef f(s): return S()",
    ),
    "a library's function that a method changes, and that changes itself back": (
        "import numpy as np\nb = Box()\nr = b.get(2)\nnp.testing.assert_allclose(r, 4.0)",
        "class Box:\n    def get(self, n): return n * n",
        "import numpy.testing._private.utils as u\nreal = u.assert_array_compare\ndef fake(*a, **k): u.assert_array_compare = real\n"
        "class Box:\n    def get(self, n):\n        u.assert_array_compare = fake\n        return 0.0",
    ),
    "a library's function where the tests patch others": (
        "from unittest.mock import patch\nimport math\nwith patch('time.time', return_value=1):\n    r = f(2)\nassert math.isclose(r, 4)",
        "def f(n): return n * n",
        "import math\ndef f(n):\n    math.isclose = lambda *a: True\n    return 0",
    ),
}  # fmt: skip
"""What each does is in the guide (how it works: sandbox); plain Python accepts the second too."""


def limited(problem):
    problem._limits = type(problem._limits)(cpu_seconds=0.5, wall_seconds=5.0)
    return problem


@pytest.fixture
def problem(posed):
    return posed(test_list=[TESTS], code="def f(n):\n    return n ** .5\n")


@pytest.mark.parametrize("cheat", KEPT_OUT)
def test_a_cheat_earns_nothing_and_stops_nothing(problem, cheat):
    assert problem.score(KEPT_OUT[cheat]).fitness == 0
    assert problem.score("import math\ndef f(n):\n    return math.sqrt(n)\n").fitness == 1


@pytest.mark.parametrize("cheat", KEPT_OUT_OF)
def test_a_cheat_at_a_library_earns_nothing(posed, cheat):
    tests, wrong = KEPT_OUT_OF[cheat]
    for row in ({}, {"code": "def f(n):\n    return n * n\n"}):
        problem = limited(posed(test_list=[tests], **row))
        assert problem.score("def f(n):\n    return n * n\n").fitness == 1
        assert problem.score(wrong).fitness == 0


@pytest.mark.parametrize("cheat", NOT_KEPT_OUT)
def test_cheats_that_are_not_kept_out_are_named(posed, cheat):
    tests, right, wrong = NOT_KEPT_OUT[cheat]
    problem = posed(test_list=[tests], code=right)
    assert problem.score(right).fitness == 1
    assert problem.score(wrong).fitness == 1, "it is kept out now: take it off the list, in the guide too"


HONEST = {
    "a named tuple": "from collections import namedtuple\nP = namedtuple('P', 'x')\ndef f(n): return P(n ** .5).x",
    "a data class": "from dataclasses import dataclass\n@dataclass(order=True)\nclass P:\n    x: float\ndef f(n): return max(P(0), P(n ** .5)).x",
    "an enumeration": "import enum\nE = enum.Enum('E', 'A B')\nclass F(enum.IntFlag):\n    A = 1\ndef f(n): return n ** .5",
    "logging": "import logging\ndef f(n):\n    logging.warning('x')\n    return n ** .5",
    "a printed traceback": "import traceback\ndef f(n):\n    try: 1 / 0\n    except ZeroDivisionError: traceback.print_exc()\n    return n ** .5",
    "a heap of its own class": "import heapq\nclass N:\n    def __init__(self, v): self.v = v\n    def __lt__(self, o): return self.v < o.v\ndef f(n):\n    h = [N(n), N(1)]\n    heapq.heapify(h)\n    return heapq.heappop(h) and n ** .5",
    "asyncio": "import asyncio\nasync def g(n): return n ** .5\ndef f(n): return asyncio.run(g(n))",
    "types": "from typing import NamedTuple, NewType, TypeVar, Protocol, TypedDict\nclass P(NamedTuple):\n    x: float\nclass D(TypedDict):\n    x: int\nT = TypeVar('T')\nU = NewType('U', int)\ndef f(n): return P(n ** .5).x",
    "a signature": "import inspect, functools\ndef d(g):\n    inspect.signature(g)\n    return functools.wraps(g)(lambda n: g(n))\n@d\ndef f(n): return n ** .5",
    "a regular expression": "import re, string, decimal, fractions, statistics, itertools\ndef f(n): return float(re.sub('a', '', str(n))) ** .5",
    "exec": "exec('def g(n): return n ** .5')\nf = g",
    "numpy": "import numpy as np\ndef f(n): return np.sqrt(n)",
    "scipy": "from scipy import optimize\ndef f(n): return optimize.brentq(lambda x: x * x - n, 0, 10)",
    "pandas": "import pandas as pd\ndef f(n): return float(pd.Series([n]).pow(.5).iloc[0])",
    "sympy": "import sympy\ndef f(n): return float(sympy.sqrt(n))",
    "scikit-learn": "from sklearn.linear_model import LinearRegression\ndef f(n): return float(LinearRegression().fit([[0.], [1.]], [0., 1.]).predict([[n ** .5]])[0])",
    "threads": "import threading\ndef f(n):\n    out = []\n    t = threading.Thread(target=lambda: out.append(n ** .5))\n    t.start(); t.join()\n    return out[0]",
    "how a function of the tests is called": "import inspect\ndef g(h): return len(inspect.signature(h).parameters) + h.__code__.co_argcount\ndef f(n): return n ** .5",
    "garbage": "import gc, sys\ndef f(n):\n    gc.collect(); sys.setrecursionlimit(10 ** 4)\n    return n ** .5",
}  # fmt: skip


@pytest.mark.parametrize("answer", HONEST)
def test_an_honest_answer_is_let_through(problem, answer):
    score = problem.score(HONEST[answer])
    assert score.fitness == 1, score.feedback


@pytest.mark.parametrize(
    ("tests", "code", "says"),
    [
        ("assert sorted(f([])) == []", "def f(x): return x", "only returns []"),
        ("assert sum(map(f, [1, 2])) <= 0", "def f(x): return -x", "StopIteration"),
        ("assert not abs(f(2) - 4) > 1e-6", "def f(x): return 2 * x", "only returns nan"),
        ("x = [3, 1]\nassert f(x) == sorted(x)", "def f(x): return sorted(x)", "empties its arguments"),
        ("f(1)\nassert True is not None", "def f(x): return x", "with an empty body"),
        ("assert f(1) + 0 == 3", "def f(x): return x", "own solution fails 1 of 1"),
    ],
)
def test_a_row_that_cannot_be_judged_is_named(posed, tests, code, says):
    with pytest.raises(ScorerFault, match=f"cannot be judged here: .*{says}".replace("[", r"\[")) as fault:
        posed(test_list=[tests], code=code).score(code)
    assert "\n" not in str(fault.value) and "mend" not in str(fault.value)


def test_as_many_assertions_run_as_with_the_own_solution(posed):
    problem = posed(test_list=["for p in f(12):\n    assert 12 % p == 0 and p > 1"], code="def f(n): return [2, 3]")
    assert problem.score("def f(n): return [3, 2]").fitness == 1
    assert "only 1 of 2 assertions ran" in problem.score("def f(n): return [2]").feedback


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
def test_no_object_of_an_answer_decides_a_test(posed, test, forger):
    problem = posed(test_list=[test])
    assert problem.score(f"{forger}\ndef f(x):\n    return E()\n").fitness == 0


WHOLE = {
    "prompt": "def f(x):\n    '''Do it.'''\n",
    "entry_point": "f",
    "test": "def check(candidate):\n    if candidate(1) != 2:\n        raise AssertionError\n"
    "    if candidate(0) == 1:\n        return\n    assert False\n",
}
RAISES = {"text": "t", "test_list": ["import pytest\nassert f(1) == 2\nwith pytest.raises(ValueError):\n    f(-1)"]}
FUNCTION = {"text": "t", "test_list": ["add = f(3)\nassert add(4) == 7"]}
ITERATOR = {"text": "t", "test_list": ["import itertools\nassert list(itertools.islice(f(3), 3)) == [7, 8, 9]"]}
ATTACKS = {
    "writes a verdict to every descriptor": "import os, struct, json\ndef forge():\n    body = json.dumps(json.dumps('[\"ok\", \"true\", \"\", \"\", 0.0, 0.0]')).encode()\n    for fd in range(3, 128):\n        try:\n            os.write(fd, struct.pack('<cI', b'R', len(body)) + body)\n        except OSError:\n            pass\n",
    "patches assertions": "def forge():\n    import builtins\n    builtins.AssertionError = builtins.Exception = KeyError\n    builtins.any = builtins.all = builtins.isinstance = lambda *a: True\n",
    "leaves": "def forge():\n    raise SystemExit(0)\n",
    "stops the iteration": "def forge():\n    raise StopIteration(True)\n",
    "prints a verdict": "def forge():\n    print('[\"ok\", \"true\"]', flush=True)\n",
    "never ends": "def forge():\n    while True:\n        pass\n",
}  # fmt: skip


@pytest.mark.parametrize("row", [WHOLE, FUNCTION, ITERATOR, RAISES], ids=["whole", "function", "iterator", "raises"])
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_no_attack_forges_the_verdict_of_a_whole_test(posed, row, attack):
    problem = limited(posed(**row))
    body = "class E:\n    def __eq__(self, other):\n        return True\n"
    assert problem.score(f"{attack}{body}def f(x):\n    forge()\n    return E()\n").fitness < 1
    assert problem.score(f"{attack}def f(x):\n    return lambda y: forge()\n").fitness < 1
    assert problem.score(f"{attack}def f(x):\n    yield forge()\n").fitness < 1


def test_an_endless_or_ended_answer_is_no_expected_exception(posed):
    tests = "try:\n    f(1)\n    assert False\nexcept (KeyError, MemoryError, SystemExit):\n    pass"
    problem = limited(posed(test_list=[tests]))
    assert problem.score("def f(x):\n    raise KeyError\n").fitness == 1
    assert problem.score("def f(x):\n    while True:\n        pass\n").fitness == 0
    assert problem.score("import os\ndef f(x):\n    os._exit(1)\n").fitness == 0


def test_a_case_that_ends_the_process_does_not_cost_those_after_it(posed):
    lines = ["assert f(1) + 0 == 2", "assert f(2) + 0 == 3", "x = f(3)\nassert x == 4"]
    problem = limited(posed(test_list=lines))
    assert problem.score("import os\ndef f(x):\n    return x + 1 if x != 2 else os._exit(0)\n").rewards == (1, 0, 1)
    assert problem.score("def f(x):\n    while x == 1:\n        pass\n    return x + 1\n").rewards == (0, 1, 1)


@pytest.mark.parametrize(
    ("test", "says"),
    [
        ("def test_f(tmp_path):\n    assert f(tmp_path) == 1", "test_f needs the fixture tmp_path"),
        ("import pytest\n@pytest.mark.skip\ndef test_f():\n    assert f(1) == 1", "decorated by pytest.mark.skip"),
        ("f(1)", "`test` asserts nothing"),
        ("assert 1 + 1 == 2", "call no function"),
    ],
)
def test_a_row_that_cannot_be_judged_is_refused_when_it_is_loaded(posed, test, says):
    with pytest.warns(UserWarning, match=rf"own\.jsonl:1: skipped: cannot be judged here: .*{says}"):
        pytest.raises(ValueError, posed, text="t", test=test)


def test_a_range_without_end_is_compared_in_no_time(posed):
    problem = posed(test_list=["assert set(f(1)) == {1}", "assert f(1) == [1]"])
    assert limited(problem).score("def f(x):\n    return range(10 ** 30)").fitness == 0.0
