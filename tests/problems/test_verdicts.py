"""Verdicts on test code equal plain Python's: every pair of a right and a wrong answer is judged both ways.

A part of the table runs in the suite, all of it under `-m long`.
"""

# ruff: noqa: E501 (one pair a line)

from __future__ import annotations

import contextlib
import decimal
import io
import os
import sys
import types
from pathlib import Path

import pytest

from problems import ScorerFault

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
    "pytest.warns": ("import pytest\nwith pytest.warns(UserWarning, match='x'):\n    f(1)", "(n): import warnings; warnings.warn('x')", "(n): return n"),
    "pytest.approx": ("import pytest\nassert f(0.1) == pytest.approx(0.3)", "(n): return n + 0.2", "(n): return n"),
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
    'if and raise': ('assert f(1) == 2\nif f(5) != 6: raise AssertionError', 'def f(x):\n    return x + 1', 'def f(x):\n    return 2'),
    'try, except, else': ('assert f(1) == 2\ntry:\n    f(-1)\nexcept ValueError:\n    pass\nelse:\n    raise AssertionError', "def f(x):\n    if x < 0:\n        raise ValueError('negative')\n    return x + 1", 'def f(x):\n    return x + 1'),
    'numpy.testing': ('assert f(1) == 2\nimport numpy as np\nnp.testing.assert_allclose(f(2.5), 3.5)', 'def f(x):\n    return x + 1', 'def f(x):\n    return 2'),
    'an expected exception': ('assert d(4, 2) == 2\ntry:\n    d(1, 0)\n    assert False\nexcept ValueError:\n    pass', 'def d(a, b):\n    if b == 0:\n        raise ValueError\n    return a / b', 'def d(a, b):\n    return a / b'),
    'a map': ('assert list(g([1, 2])) == [2, 4]', 'def g(a):\n    return map(lambda x: 2 * x, a)', 'def g(a):\n    return map(lambda x: x, a)'),
    'a date': ('from datetime import date\nassert day(2024, 60) == date(2024, 2, 29)', 'import datetime\ndef day(y, n):\n    return datetime.date(y, 1, 1) + datetime.timedelta(n - 1)', 'import datetime\ndef day(y, n):\n    return datetime.date(y, 1, 1) + datetime.timedelta(n)'),
    'a range': ('assert r(3) == range(1, 4)', 'def r(n):\n    return range(1, n + 1)', 'def r(n):\n    return range(n)'),
    'an exception with its text': ("import pytest\nwith pytest.raises(ValueError, match='negative') as e:\n    f(-1)\nassert 'neg' in str(e.value)", "def f(x):\n    if x < 0:\n        raise ValueError('negative')\n    return x + 1", "def f(x):\n    if x < 0:\n        raise ValueError('wrong')\n    return x + 1"),
    'nested lists change': ('m = [[1, 2], [3, 4]]\nt(m)\nassert m == [[1, 3], [2, 4]]', 'def t(m):\n    m[0][1], m[1][0] = m[1][0], m[0][1]', 'def t(m):\n    m = [[1, 3], [2, 4]]'),
    'a dict changes': ("d = {'a': 1}\nput(d, 'b')\nassert d == {'a': 1, 'b': 1}", 'def put(d, k):\n    d[k] = 1', 'def put(d, k):\n    return {**d, k: 1}'),
    'a factory': ('c = counter()\nassert c() == 1\nassert c() == 2', 'def counter():\n    n = 0\n    def step():\n        nonlocal n\n        n += 1\n        return n\n    return step', 'def counter():\n    return lambda: 1'),
    'a context manager': ("with opened('a') as o:\n    assert o == 'a'", 'import contextlib\n@contextlib.contextmanager\ndef opened(x):\n    yield x', 'import contextlib\n@contextlib.contextmanager\ndef opened(x):\n    yield None'),
    'approx': ('import pytest\nassert f(0.1) == pytest.approx(1.1)', 'def f(x):\n    return x + 1 + 1e-9', 'def f(x):\n    return x + 1.01'),
    'a matching object is true': ("assert m('ab')\nassert not m('b')", "import re\ndef m(s):\n    return re.match('a', s)", "import re\ndef m(s):\n    return re.match('b', s)"),
    'groups of a match': ("assert m('ab').group(1) == 'b'", "import re\ndef m(s):\n    return re.match('a(.)', s)", "import re\ndef m(s):\n    return re.match('(a).', s)"),
    'an iterator of the test': ('assert total(iter([1, 2, 3])) == 6\nassert total(x for x in range(5)) == 10\nit = iter([1, 2])\nassert total(it) == 3', 'def total(a):\n    return sum(a)', 'def total(a):\n    return len(list(a))'),
    'the shape of an array': ('assert z(2).shape == (2, 2) and z(2).sum() == 0', 'import numpy\ndef z(n):\n    return numpy.zeros((n, n))', 'import numpy\ndef z(n):\n    return numpy.zeros(n)'),
    'equal up to order': ("from collections import Counter\nassert Counter(f('aab')) == Counter({'a': 2, 'b': 1})", 'def f(s):\n    return list(s)', 'def f(s):\n    return list(set(s))'),
    'all of a loop': ('for n in range(3):\n    assert f(n) == n + 1', 'def f(x):\n    return x + 1', 'def f(x):\n    return min(x + 1, 2)'),
    'a list that a loop fills': ('got = []\nfor n in range(3):\n    got.append(f(n))\nassert got == [1, 2, 3]', 'def f(x):\n    return x + 1', 'def f(x):\n    return x'),
    'a helper that asserts': ('def same(a, b):\n    if a != b:\n        raise AssertionError(a)\nsame(f(1), 2)', 'def f(x):\n    return x + 1', 'def f(x):\n    return x'),
    'a last call that may not raise': ("assert f(1) == 2\nf('a')", 'def f(x):\n    return 2', 'def f(x):\n    return x + 1'),
}  # fmt: skip
OTHER_ROWS: dict[str, tuple[dict, str, str]] = {
    'numpy.testing in check': ({'prompt': "def f(x):\n    '''Do it.'''\n", 'entry_point': 'f', 'test': 'def check(candidate):\n    import numpy as np\n    assert candidate(1) == 2\n    np.testing.assert_equal(candidate(4), 5)\n'}, 'def f(x):\n    return x + 1', 'def f(x):\n    return 2'),
    'unittest assertions': ({'prompt': "def f(x):\n    '''Do it.'''\n", 'entry_point': 'f', 'test': 'def check(candidate):\n    import unittest\n    case = unittest.TestCase()\n    assert candidate(1) == 2\n    case.assertEqual(candidate(4), 5)\n'}, 'def f(x):\n    return x + 1', 'def f(x):\n    return 2'),
    'a nested function': ({'prompt': "def f(x):\n    '''Do it.'''\n", 'entry_point': 'f', 'test': 'def check(candidate):\n    def t():\n        assert candidate(4) == 5\n    assert candidate(1) == 2\n    t()\n'}, 'def f(x):\n    return x + 1', 'def f(x):\n    return 2'),
    'an argument that must not change': ({'prompt': "def f(a):\n    '''Do it.'''\n", 'entry_point': 'f', 'test': 'def check(candidate):\n    a=[0]\n    b=candidate(a)\n    assert b==[0,1]\n    assert a==[0]\n'}, 'def f(a):\n    return a + [1]', 'def f(a):\n    a.append(1)\n    return a'),
    'assertRaises': ({'prompt': "def f(x):\n    '''Do it.'''\n", 'entry_point': 'f', 'test': 'def check(candidate):\n    import unittest\n    t = unittest.TestCase()\n    assert candidate(1) == 2\n    with t.assertRaises(ValueError):\n        candidate(-1)\n'}, "def f(x):\n    if x < 0:\n        raise ValueError('negative')\n    return x + 1", 'def f(x):\n    return x + 1'),
    'an assertion outside of check': ({'prompt': "def f(x):\n    '''Do it.'''\n", 'entry_point': 'f', 'test': 'def check(candidate):\n    assert candidate(1) == 2\n\ncheck(f)\nassert f(4) == 5\n'}, 'def f(x):\n    return x + 1', 'def f(x):\n    return 2'),
    'an assertion in the guard': ({'prompt': "def f(x):\n    '''Do it.'''\n", 'entry_point': 'f', 'test': "def check(candidate):\n    assert candidate(1) == 2\n\nif __name__ == '__main__':\n    check(f)\n    assert f(4) == 5\n"}, 'def f(x):\n    return x + 1', 'def f(x):\n    return 2'),
    "an exception of the answer's own": ({'text': 'Do it.', 'test_list': ['try:\n    f(-1)\n    assert False\nexcept Negative as e:\n    assert e.args == (-1,)'], 'code': 'class Negative(Exception):\n    pass\ndef f(x):\n    if x < 0:\n        raise Negative(x)\n'}, 'class Negative(Exception):\n    pass\ndef f(x):\n    if x < 0:\n        raise Negative(x)', 'class Negative(Exception):\n    pass\ndef f(x):\n    if x < 0:\n        raise ValueError(x)'),
    'objects that are equal': ({'text': 'Do it.', 'test_list': ['assert Point(1, 2) + Point(1, 1) == Point(2, 3)'], 'code': 'class Point:\n    def __init__(self, x, y):\n        self.x, self.y = x, y\n    def __eq__(self, other):\n        return (self.x, self.y) == (other.x, other.y)\n    def __add__(self, other):\n        return Point(self.x + other.x, self.y + other.y)\n'}, 'class Point:\n    def __init__(self, x, y):\n        self.x, self.y = x, y\n    def __eq__(self, other):\n        return (self.x, self.y) == (other.x, other.y)\n    def __add__(self, other):\n        return Point(self.x + other.x, self.y + other.y)', 'class Point:\n    def __init__(self, x, y):\n        self.x, self.y = x, y\n    def __eq__(self, other):\n        return (self.x, self.y) == (other.x, other.y)\n    def __add__(self, other):\n        return Point(self.x - other.x, self.y + other.y)'),
    'isinstance of a class of the answer': ({'text': 'Do it.', 'test_list': ['assert isinstance(make(), Point)', 'assert make().x == 1'], 'code': 'class Point:\n    def __init__(self, x, y):\n        self.x, self.y = x, y\n    def __eq__(self, other):\n        return (self.x, self.y) == (other.x, other.y)\n    def __add__(self, other):\n        return Point(self.x + other.x, self.y + other.y)\ndef make():\n    return Point(1, 1)\n'}, 'class Point:\n    def __init__(self, x, y):\n        self.x, self.y = x, y\n    def __eq__(self, other):\n        return (self.x, self.y) == (other.x, other.y)\n    def __add__(self, other):\n        return Point(self.x + other.x, self.y + other.y)\ndef make():\n    return Point(1, 1)', 'class Point:\n    def __init__(self, x, y):\n        self.x, self.y = x, y\n    def __eq__(self, other):\n        return (self.x, self.y) == (other.x, other.y)\n    def __add__(self, other):\n        return Point(self.x + other.x, self.y + other.y)\nclass Other(Point):\n    pass\ndef make():\n    return Other(2, 1)'),
    'a call that must not fail': ({'prompt': "def f(x):\n    '''Do it.'''\n", 'entry_point': 'f', 'test': 'def check(candidate):\n    assert candidate(1) == 2\n    candidate(-1)\n'}, 'def f(x):\n    return x + 1', "def f(x):\n    if x < 0:\n        raise ValueError('negative')\n    return x + 1"),
    'a call between assertions that must not fail': ({'prompt': "def f(x):\n    '''Do it.'''\n", 'entry_point': 'f', 'test': 'def check(candidate):\n    candidate(-1)\n    assert candidate(1) == 2\n'}, 'def f(x):\n    return x + 1', "def f(x):\n    if x < 0:\n        raise ValueError('negative')\n    return x + 1"),
    'a loop with a flag': ({'prompt': "def f(x):\n    '''Do it.'''\n", 'entry_point': 'f', 'test': 'def check(candidate):\n    ok = True\n    for n in range(5):\n        ok = ok and candidate(n) == n + 1\n    assert ok\n'}, 'def f(x):\n    return x + 1', 'def f(x):\n    return x + (x != 4)'),
    'a list of errors': ({'prompt': "def f(x):\n    '''Do it.'''\n", 'entry_point': 'f', 'test': 'def check(candidate):\n    errors = []\n    for n in range(5):\n        if candidate(n) != n + 1:\n            errors.append(n)\n    if errors:\n        raise ValueError(errors)\n'}, 'def f(x):\n    return x + 1', 'def f(x):\n    return x + (x != 4)'),
    'an early return': ({'prompt': "def f(x):\n    '''Do it.'''\n", 'entry_point': 'f', 'test': 'def check(candidate):\n    if candidate(1) != 2:\n        raise AssertionError\n    if candidate(0) == 1:\n        return\n    assert False\n'}, 'def f(x):\n    return x + 1', 'def f(x):\n    return 2'),
    'test functions of a script': ({'text': 't', 'test': 'def test_one():\n    assert f(1) == 2\n\ndef test_two():\n    assert f(4) == 5\n', 'code': 'def f(x):\n    return x + 1\n'}, 'def f(x):\n    return x + 1', 'def f(x):\n    return 2'),
    'a TestCase': ({'text': 't', 'code': 'def f(x):\n    return x + 1\n', 'test': "import unittest\nclass TestF(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(f(1), 2)\n    def test_b(self):\n        self.assertEqual(f(4), 5)\nif __name__ == '__main__':\n    unittest.main()\n"}, 'def f(x):\n    return x + 1', 'def f(x):\n    return 2'),
    'a helper of the script in the arguments': ({'text': 't', 'code': 'def f(x):\n    return x + 1\n', 'test': 'def one():\n    return 1\nassert f(one()) == 2\nassert f(4) == 5\n'}, 'def f(x):\n    return x + 1', 'def f(x):\n    return 2'),
    'a helper that raises': ({'text': 't', 'code': 'def f(x):\n    return x + 1\n', 'test': 'def same(a, b):\n    if a != b:\n        raise ValueError((a, b))\nsame(f(1), 2)\nsame(f(4), 5)\n'}, 'def f(x):\n    return x + 1', 'def f(x):\n    return 2'),
    'linked lists of the prompt': ({'prompt': "class Node:\n    def __init__(self, v, n=None):\n        self.v, self.n = v, n\n\ndef rev(head):\n    '''Reverse.'''\n", 'entry_point': 'rev', 'test': 'def check(candidate):\n    h = candidate(Node(1, Node(2, Node(3))))\n    out = []\n    while h:\n        out.append(h.v)\n        h = h.n\n    assert out == [3, 2, 1]\n'}, 'def rev(head):\n    last = None\n    while head:\n        head.n, last, head = last, head, head.n\n    return last', 'def rev(head):\n    return head'),
}  # fmt: skip
"""Rows of other forms: (row, a right answer, a wrong one)."""
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


@pytest.mark.parametrize("name", [*FAST, *(pytest.param(n, marks=pytest.mark.long) for n in PAIRS if n not in FAST)])
def test_a_pair_is_judged_as_plain_python_judges_it(name: str, tmp_path: Path, posed, monkeypatch) -> None:
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
        assert posed(**row).score(right).fitness == 1, f"right, {'own solution' if 'code' in row else 'none'}"
        try:
            assert posed(**row).score(wrong).fitness < 1, f"wrong, {'own solution' if 'code' in row else 'none'}"
        except ScorerFault as fault:
            raise AssertionError(str(fault)) from None


@pytest.mark.parametrize(("row", "right", "wrong"), OTHER_ROWS.values(), ids=OTHER_ROWS)
def test_rows_of_other_forms(row: dict, right: str, wrong: str, posed) -> None:
    assert posed(**row).score(right).fitness == 1
    assert posed(**row).score(wrong).fitness < 1
