"""Verdicts on test code equal plain Python's: every pair of a right and a wrong answer is judged both ways.

A part of the table runs in the suite, all of it under `-m long`.
"""

# ruff: noqa: E501 (one pair a line)

from __future__ import annotations

import contextlib
import decimal
import io
import json
import os
import sys
import types
from pathlib import Path

import pytest

from problems import ScorerFault, resolve

# name: (test lines, a right answer, a wrong one). The body is that of `def f(...)` where it begins with a bracket.
PAIRS: dict[str, tuple[str, str, str]] = {
    "sorts in place": ("x = [3, 1]\nf(x)\nassert x == [1, 3]", "(a): a.sort()", "(a): return sorted(a)"),
    "deep copy": ("x=[[1],[2]]\ny=f(x)\ny[0].append(5)\nassert x==[[1],[2]]", "(x): return [list(r) for r in x]", "(x): return list(x)"),
    "grid of one row": ("m=f(2)\nm[0][0]=1\nassert m==[[1,0],[0,0]]", "(n): return [[0]*n for _ in range(n)]", "(n): return [[0]*n]*n"),
    "fromkeys": ("d=f(['a','b'])\nd['a'].append(1)\nassert d=={'a':[1],'b':[]}", "(k): return {i: [] for i in k}", "(k): return dict.fromkeys(k, [])"),
    "keyword argument returned": ("x=[1,2]\ny=f(x=x)\ny.append(3)\nassert x==[1,2] and y==[1,2,3]", "(x): return list(x)", "(x): return x"),
    "argument in a tuple": ("x=[1,2]\na,b=f(x)\na.append(3)\nassert x==[1,2]", "(x): return list(x), 0", "(x): return x, 0"),
    "cached list": ("a=f(3)\na.append(9)\nassert f(3)==[0,1,2]", "(n): return list(range(n))", "from functools import lru_cache\n@lru_cache\ndef f(n): return list(range(n))"),
    "one list for all": ("a=f(1)\nf(2)\nassert a==[1]", "(n): return [n]", "r = []\ndef f(n):\n    r[:] = [n]\n    return r"),
    "identity inside": ("x=[[1],[2]]\ny=f(x)\nassert y[0] is not x[0]", "(x): return [list(r) for r in x]", "(x): return list(x)"),
    "numpy for int": ("assert isinstance(f([1,2]), int)", "(a): return sum(a)", "import numpy as np\ndef f(a): return np.sum(a)"),
    "numpy for bool": ("r = f(3)\nassert type(r) is bool and r is True", "(n): return n > 1", "import numpy as np\ndef f(n): return np.bool_(n > 1)"),
    "json of numpy": ("import json\nassert json.dumps(f([1,2]))=='3'", "(a): return sum(a)", "import numpy as np\ndef f(a): return np.sum(a)"),
    "repr of numpy": ("assert repr(f([1.5,1.5]))=='3.0'", "(a): return sum(a)", "import numpy as np\ndef f(a): return np.float32(3)"),
    "subclass of str": ("assert type(f('a')) is str", "(s): return s", "class S(str): pass\ndef f(s): return S(s)"),
    "IntEnum for int": ("assert type(f(1)) is int", "(n): return n", "import enum\nE = enum.IntEnum('E', 'one')\ndef f(n): return E.one"),
    "bytearray": ("assert isinstance(f('a'), bytes)", "(s): return s.encode()", "(s): return bytearray(s.encode())"),
    "defaultdict": ("d=f()\ntry:\n    d['q']\n    assert False\nexcept KeyError:\n    pass", "(): return {}", "from collections import defaultdict\ndef f(): return defaultdict(int)"),
    "warns": ("import warnings\nwith warnings.catch_warnings():\n    warnings.simplefilter('error')\n    assert f(1) == 1", "(n): return n", "import warnings\ndef f(n):\n    warnings.warn('x')\n    return n"),
    "array argument": ("import numpy as np\nassert abs(f(np.array([1.,2.,3.])) - 2) < 1e-9", "(a): return a.mean()", "(a): return a.sum()"),
    "matrix argument": ("import numpy as np\nassert int(f(np.eye(2))) == 2", "(m): return m.trace()", "(m): return m.max()"),
    "Counter argument": ("from collections import Counter\nassert f(Counter('aab')) == [('a', 2)]", "(c): return c.most_common(1)", "(c): return list(c.items())"),
    "namedtuple argument": ("from collections import namedtuple\nP = namedtuple('P', 'x y')\nassert f(P(1, 2)) == 3", "(p): return p.x + p.y", "(p): return p.x"),
    "aliased arguments": ("r=[0]\nm=[r,r]\nf(m)\nassert m==[[1],[1]]", "(m): m[0][0] = 1", "(m): m[0] = [1]"),
    "iterators in a list": ("a, b = f([1,2])\nassert next(a) == 1 and list(b) == [1, 2]", "(x): return [iter(x), iter(x)]", "(x): i = iter(x); return [i, i]"),
    "tee": ("a, b = f(iter([1,2]))\nassert list(a) == list(b) == [1, 2]", "(x): import itertools; return itertools.tee(x)", "(x): return x, x"),
    "array.array": ("r = f(3)\nassert r.typecode == 'i' and list(r) == [0, 1, 2]", "(n): import array; return array.array('i', range(n))", "(n): import array; return array.array('l', range(n))"),
    "UserList": ("import collections\nr = f()\nr.append(1)\nassert list(r) == [1] and isinstance(r, collections.UserList)", "(): import collections; return collections.UserList()", "(): return [0]"),
    "class with getitem": ("r = f(3)\nassert [r[i] for i in range(3)] == [0, 1, 4]", "class R:\n    def __getitem__(self, i): return i * i\ndef f(n): return R()", "class R:\n    def __getitem__(self, i): return i\ndef f(n): return R()"),
    "ChainMap": ("r = f({'a': 1}, {'b': 2})\nassert r['a'] == 1 and r['b'] == 2", "(a, b): import collections; return collections.ChainMap(a, b)", "(a, b): return a"),
    "mappingproxy": ("r = f({'a': 1})\ntry:\n    r['b'] = 1\n    raise AssertionError\nexcept TypeError:\n    pass\nassert r['a'] == 1", "(d): import types; return types.MappingProxyType(d)", "(d): return d"),
    "state over lines": ("f(1)\nassert size() == 1", "s = set()\ndef f(x): s.add(x)\ndef size(): return len(s)", "s = []\ndef f(x): pass\ndef size(): return len(s)"),
    "numpy seed in the test": ("import numpy as np\nnp.random.seed(0)\na = f()\nnp.random.seed(0)\nassert 0 < a < 1 and a == f()", "(): import numpy as np; return float(np.random.rand())", "import numpy as np\ng = np.random.default_rng()\ndef f(): return float(g.random())"),
    "random seed in the test": ("import random\nrandom.seed(5)\na = f(5)\nrandom.seed(5)\nassert a == random.randrange(5)", "(n): import random; return random.randrange(n)", "(n): return n"),
    "environment": ("import os\nos.environ['EVO_X'] = '7'\nassert f() == '7'", "(): import os; return os.environ['EVO_X']", "(): return ''"),
    "a file": ("with open('t.txt', 'w') as s:\n    _ = s.write('a b')\nassert f('t.txt') == 2", "(p): return len(open(p).read().split())", "(p): return 1"),
    "recursion limit": ("import sys\nsys.setrecursionlimit(5000)\nassert f(3000) == 3000", "(n): return 0 if n == 0 else 1 + f(n - 1)", "(n): return n + 1"),
    "decimal context": ("import decimal\ndecimal.getcontext().prec = 5\nassert str(f()) == '0.33333'", "(): import decimal; return decimal.Decimal(1) / 3", "(): return 0.33333333"),
    "SystemExit": ("try:\n    f()\n    assert False\nexcept SystemExit as e:\n    assert e.code == 3", "(): raise SystemExit(3)", "(): raise SystemExit(4)"),
    "cause": ("try:\n    f()\n    assert False\nexcept ValueError as e:\n    assert isinstance(e.__cause__, KeyError)", "():\n    try: {}['a']\n    except KeyError as k: raise ValueError from k", "(): raise ValueError"),
    "except*": ("n = 0\ntry:\n    f()\nexcept* ValueError:\n    n = 1\nassert n == 1", "(): raise ExceptionGroup('g', [ValueError()])", "(): return None"),
    "aware datetime": ("from datetime import datetime, timezone\nassert f(0) == datetime(1970, 1, 1, tzinfo=timezone.utc)", "(t):\n    from datetime import datetime, timezone\n    return datetime.fromtimestamp(t, timezone.utc)", "(t):\n    from datetime import datetime\n    return datetime(1970, 1, 1)"),
    "Path": ("from pathlib import Path\nassert f('a') == Path('a') / 'b'", "(p): from pathlib import Path; return Path(p, 'b')", "(p): return p + '/b'"),
    "UUID": ("import uuid\nassert f(1) == uuid.UUID(int=1)", "(n): import uuid; return uuid.UUID(int=n)", "(n): return n"),
    "Enum member": ("c = f('RED')\nassert c.name == 'RED' and c.value == 1", "import enum\nclass C(enum.Enum):\n    RED = 1\ndef f(n): return C[n]", "import enum\nclass C(enum.Enum):\n    RED = 2\ndef f(n): return C[n]"),
    "returned class": ("k = f()\nassert k().go() == 1", "():\n    class K:\n        def go(self): return 1\n    return K", "():\n    class K:\n        def go(self): return 2\n    return K"),
    "send": ("g = f()\nnext(g)\nassert g.send(4) == 8", "():\n    x = yield\n    while True: x = yield 2 * x", "():\n    while True: yield 1"),
    "async generator": ("import asyncio\nasync def collect():\n    return [x async for x in f(3)]\nassert asyncio.run(collect()) == [0, 1, 2]", "async def f(n):\n    for i in range(n): yield i", "async def f(n):\n    for i in range(n): yield 0"),
    "awaited": ("import asyncio\nassert asyncio.run(f(2)) == 4", "async def f(n): return n * 2", "async def f(n): return n"),
    "function attribute": ("f(1)\nf(2)\nassert f.calls == 2", "(n): f.calls = getattr(f, 'calls', 0) + 1", "(n): f.calls = 1"),
    "cache_info": ("f(1)\nf(1)\nassert f.cache_info().hits == 1", "from functools import cache\n@cache\ndef f(n): return n", "(n): return n"),
    "stderr": ("import contextlib, io\ns = io.StringIO()\nwith contextlib.redirect_stderr(s):\n    f()\nassert s.getvalue() == 'x\\n'", "(): import sys; print('x', file=sys.stderr)", "(): print('x')"),
    "stdout": ("import contextlib, io\ns = io.StringIO()\nwith contextlib.redirect_stdout(s):\n    f()\nassert s.getvalue() == 'x\\n'", "(): print('x')", "(): return 'x'"),
    "logging": ("import logging\nr = []\nclass H(logging.Handler):\n    def emit(self, m): r.append(m.getMessage())\nlogging.getLogger('evo_x').addHandler(H())\nf()\nassert r == ['hi']", "(): import logging; logging.getLogger('evo_x').warning('hi')", "(): return 'hi'"),
    "live keys": ("d = {'a': 1}\nk = f(d)\nd['b'] = 2\nassert list(k) == ['a', 'b']", "(d): return d.keys()", "(d): return list(d)"),
    "same object": ("assert f() is f() is not None", "o = object()\ndef f(): return o", "(): return object()"),
    "executor": ("from concurrent.futures import Future\nassert list(map(f, [1, 2])) == [2, 3]", "(n): return n + 1", "(n): return n"),
    "partial": ("from functools import partial\nassert partial(f, 4)(2) == 6", "(a, b): return a + b", "(a, b): return a"),
    "callback": ("r = []\nf([1, 2], r.append)\nassert r == [1, 2]", "(x, g):\n    for i in x: g(i)", "(x, g): g(x[0])"),
    "object of the test": ("class P:\n    def __init__(self, n): self.n = n\nassert f(P(3)) == 3", "(p): return p.n", "(p): return p"),
    "namedtuple result": ("r = f('a,1')\nassert r.name == 'a' and r.age == 1", "from collections import namedtuple\nR = namedtuple('R', 'name age')\ndef f(s): n, a = s.split(','); return R(n, int(a))", "(s): return s.split(',')"),
    "dataclass result": ("r = f('a,1')\nassert r.name == 'a' and r.age == 1", "from dataclasses import dataclass\n@dataclass\nclass R:\n    name: str\n    age: int\ndef f(s): n, a = s.split(','); return R(n, int(a))", "from dataclasses import dataclass\n@dataclass\nclass R:\n    name: str\n    age: int\ndef f(s): n, a = s.split(','); return R(n, a)"),
    "closure": ("g = f(2)\nassert g(3) == 5", "(n): return lambda x: x + n", "(n): return lambda x: n"),
    "generator": ("assert list(f(3)) == [0, 1, 2]", "(n): yield from range(n)", "(n): yield from range(1, n)"),
    "deque": ("r = f([1, 2])\nr.rotate(1)\nassert list(r) == [2, 1]", "(x): import collections; return collections.deque(x)", "(x): return x"),
    "in-place numpy": ("import numpy as np\nu = np.zeros(3)\nf(u)\nassert u.tolist() == [1, 1, 1]", "(u): u += 1", "(u): u = u + 1"),
    "a class's methods": ("s = Stack()\ns.push(1)\nassert len(s) == 1 and s.pop() == 1", "class Stack:\n    def __init__(self): self.x = []\n    def push(self, v): self.x.append(v)\n    def pop(self): return self.x.pop()\n    def __len__(self): return len(self.x)", "class Stack:\n    def __init__(self): self.x = []\n    def push(self, v): self.x.append(v)\n    def pop(self): return self.x.pop()\n    def __len__(self): return 0"),
    "a class's equality": ("assert V(1) == V(1) and V(1) != V(2)", "class V:\n    def __init__(self, n): self.n = n\n    def __eq__(self, o): return self.n == o.n", "class V:\n    def __init__(self, n): self.n = n"),
    "own exception": ("try:\n    f()\n    assert False\nexcept Empty as e:\n    assert e.args == (1,)", "class Empty(Exception): pass\ndef f(): raise Empty(1)", "class Empty(Exception): pass\ndef f(): raise Empty(2)"),
    "pytest.raises": ("import pytest\nwith pytest.raises(ValueError, match='neg'):\n    f(-1)", "(n): raise ValueError('negative')", "(n): return n"),
    "numpy testing": ("import numpy as np\nr = f(2)\nassert isinstance(r, float)\nnp.testing.assert_allclose(r, 1.41421356, rtol=1e-6)", "(n): return n ** .5", "(n): return 1.4"),
    "unittest": ("import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(f(2), 4)\n        with self.assertRaises(TypeError):\n            f('a', 'b')", "(n): return n * 2", "(n): return n"),
    "a loop": ("for i in range(5):\n    assert f(i) == i * i", "(n): return n * n", "(n): return n"),
    "a global that is bound anew": ("f()\nf()\nassert N == 2", "N = 0\ndef f():\n    global N\n    N += 1", "N = 0\ndef f():\n    N = 1"),
    "own name of a builtin": ("x = sum(2, 3)\nassert x == 5", "def sum(a, b): return a + b", "def sum(a, b): return a - b"),
    "not, or": ("r = f(1)\nassert not (r != [1] or len(r) != 1)", "(n): return [n]", "(n): return [n, n]"),
    "module of the test patched": ("import time\nold = time.time\ntime.time = lambda: 5\nr = f()\ntime.time = old\nassert r == 5", "(): import time; return time.time()", "(): return 0"),
    "method on the result": ("assert f('ab').startswith('ab')", "(s): return s + 'c'", "(s): return 'c' + s"),
    "f-string": ("x = f(2)\nassert f'{x:.2f}' == '2.00' and f'{f(3)}' == '3'", "(n): return n", "(n): return n + 1"),
    "huge error text": ("try:\n    r = f(1)\nexcept ValueError:\n    r = 1\nassert r == 1", "(n): raise ValueError(10**5000)", "(n): return 10**5000"),
}  # fmt: skip
FAST = (
    "sorts in place",
    "grid of one row",
    "numpy for bool",
    "array argument",
    "state over lines",
    "SystemExit",
    "callback",
)


def code_of(answer: str) -> str:
    return f"def f{answer}\n" if answer.startswith("(") else answer


def plain_python(answer: str, tests: str) -> bool:
    """Whether a plain run of both, one after the other, comes to its end."""
    sys.modules["plain"] = module = types.ModuleType("plain")
    space = vars(module)
    before, limit, here = dict(os.environ), sys.getrecursionlimit(), Path.cwd()
    if "unittest" in tests:
        tests += "\nT('test_a').debug()"
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            exec(compile(answer, "<answer>", "exec"), space)
            exec(compile(tests, "<tests>", "exec"), space)
    except BaseException:
        return False
    finally:
        os.environ.clear()
        os.environ.update(before)
        sys.setrecursionlimit(limit)
        decimal.setcontext(decimal.Context())
        os.chdir(here)
    return True


def verdict(folder: Path, row: dict, answer: str) -> bool:
    (folder / "own.jsonl").write_text(json.dumps(row))
    (problem,) = resolve(f"programs:{folder / 'own.jsonl'}")
    return problem.score(answer).fitness == 1.0


@pytest.mark.parametrize("name", [*FAST, *(pytest.param(n, marks=pytest.mark.long) for n in PAIRS if n not in FAST)])
def test_a_pair_is_judged_as_plain_python_judges_it(name: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    tests, right, wrong = PAIRS[name]
    right, wrong = code_of(right), code_of(wrong)
    assert plain_python(right, tests) and not plain_python(wrong, tests), "the table"
    as_mbpp = {"text": "t", "test_list": [tests]}
    rows = [{**as_mbpp, "code": right}, as_mbpp]
    if "f(" in tests and right.startswith("def f("):
        body = "\n".join(f"    {line}" for line in tests.replace("f(", "candidate(").splitlines())
        if "class T(" not in tests and "candidate'" not in body and "sizef" not in body:
            rows.append({"prompt": "def f(*args):\n", "entry_point": "f", "test": f"def check(candidate):\n{body}\n"})
    for row in rows:
        assert verdict(tmp_path, row, right), f"right, {'own solution' if 'code' in row else 'none'}"
        try:
            assert not verdict(tmp_path, row, wrong), f"wrong, {'own solution' if 'code' in row else 'none'}"
        except ScorerFault as fault:
            raise AssertionError(str(fault)) from None
