"""Programs that go for the judge: its pipes, its modules, its clock, what it may be holding in memory."""

from table import Hostile

_FRAME = "def framed(kind, body): return kind + len(body).to_bytes(4, 'little') + body\n"
_TELL = "def tell(data):\n    for fd in range(3, 128):\n        try: os.write(fd, data)\n        except OSError: pass\n"
ANY = ("ok", "error", "crash", "output", "memory", "timeout")
_LATE = {"wall_seconds": 1.5}
PROGRAMS = [
    Hostile(
        "garbage on every descriptor",
        _TELL + "def f():\n    tell(b'\\xff' * 64)\n    return 1\n",
        ("crash",),
        message="result",
    ),
    Hostile(
        "a message that never ends", _TELL + "def f():\n    tell(b'R\\xff\\xff\\xff\\x7f')\n    return 1\n", ("crash",)
    ),
    Hostile(
        "half a message",
        _TELL + "def f():\n    tell(b'R\\x40')\n    os._exit(0)\n",
        ("crash",),
    ),
    Hostile(
        "more results than cases",
        _FRAME
        + _TELL
        + "def f():\n    for _ in range(50):\n"
        + '        tell(framed(b\'R\', b\'["ok", "1", "", "", 0.0, 0.0]\'))\n    return 1\n',
        ("ok", "crash"),
    ),
    Hostile(
        "an end of its own",
        _TELL + "import struct\ndef f():\n    tell(struct.pack('<cQidB', b'X', 1, 0, 0.0, 0))\n    return 1\n",
        ("crash",),
    ),
    Hostile(
        "a result of no type", _FRAME + _TELL + "def f():\n    tell(framed(b'R', b'{}'))\n    return 1\n", ("crash",)
    ),
    Hostile(
        "a result nested a million deep",
        _FRAME + _TELL + "def f():\n    tell(framed(b'R', b'[' * 10**6))\n    return 1\n",
        ("crash",),
        limits=_LATE,
    ),
    Hostile(
        "a result of colliding numbers",
        _FRAME
        + _TELL
        + "import json\n"
        + "def f():\n"
        + '    inner = json.dumps({"s": [{"i": hex(i * (2**61 - 1))} for i in range(40000)]})\n'
        + "    tell(framed(b'R', json.dumps(['ok', inner, '', '', 0.0, 0.0]).encode()))\n    return 1\n",
        ("crash",),
    ),
    Hostile(
        "a question to a parent who takes none",
        _FRAME + _TELL + 'def f():\n    tell(framed(b\'O\', b\'["a", "[]", "{}"]\'))\n    return 1\n',
        ("crash",),
    ),
    Hostile("closes every descriptor", "def f():\n    os.closerange(0, 128)\n    return 1\n", ("crash",)),
    Hostile(
        "no pipe waits",
        "def f():\n"
        "    for fd in range(128):\n"
        "        try: os.set_blocking(fd, False)\n"
        "        except OSError: pass\n"
        "    return 'x' * 500000\n",
        ("ok", "crash"),
    ),
    Hostile(
        "replaces its descriptors",
        "def f():\n    r, w = os.pipe()\n    for fd in range(3, 127):\n"
        "        if fd not in (r, w): os.dup2(w, fd)\n    return 1\n",
        ("crash",),
    ),
    Hostile("prints a protocol", "def f():\n    print('R\\x01\\0\\0\\0[\"ok\"]')\n    return 7\n", value=7),
    Hostile("leaves", "def f(): os._exit(0)\n", ("crash",), message="exit code 0"),
    Hostile("leaves while loading", "os._exit(0)\n", ("crash",), cases=("1", "2")),
    Hostile("asks to leave", "def f(): sys.exit(0)\n", ("error",), message="SystemExit"),
    Hostile("interrupts", "def f(): raise KeyboardInterrupt\n", ("error",), message="KeyboardInterrupt"),
    Hostile("cannot leave", "def f():\n    os._exit = lambda code: None\n    return 5\n", ("ok",), value=5),
    Hostile("another json", "import json\njson.dumps = lambda *a, **k: '[1]'\ndef f(): return 5\n", ANY),
    Hostile(
        "another json inside", "import json\njson.loads = json.JSONEncoder.encode = None\ndef f(): return 5\n", ANY
    ),
    Hostile(
        "other builtins",
        "import builtins\n"
        "for name in ('len', 'isinstance', 'type', 'eval', 'compile', 'exec', 'str', 'int', 'list', 'dict'):\n"
        "    setattr(builtins, name, lambda *a, **k: 42)\n"
        "def f(): return 5\n",
        ANY,
    ),
    Hostile("no builtins", "import builtins\nbuiltins.__dict__.clear()\ndef f(): return 5\n", ANY),
    Hostile("no modules", "import sys\nsys.modules.clear()\ndef f(): return 5\n", ANY),
    Hostile(
        "another clock",
        "import time\nwait = time.sleep\n"
        "time.time = time.perf_counter = time.process_time = time.monotonic = lambda: 0.0\n"
        "def f():\n    wait(0.2)\n    return 'slow'\n",
        value="slow",
    ),
    Hostile("another chance", "import random\nrandom.random = lambda: 4\ndef f(): return random.random()\n", value=4),
    Hostile(
        "another numpy",
        "import numpy\nnumpy.sum = numpy.arange = lambda *a: 'owned'\ndef f(): return numpy.sum(1)\n",
        value="owned",
    ),
    Hostile("no output", "sys.stdout = None\ndef f(): return 5\n", value=5),
    Hostile("closed output", "sys.stdout.close()\ndef f(): return 5\n", value=5),
    Hostile(
        "exit handlers",
        "import atexit\nat = atexit.register(lambda: (print('late'), time.sleep(100)))\ndef f(): return 5\n",
        value=5,
    ),
    Hostile(
        "a trace function",
        "def spy(frame, event, arg):\n    for name in list(frame.f_locals): frame.f_locals[name] = 0\n    return spy\n"
        "def f():\n    sys.settrace(spy)\n    return 5\n",
        ANY,
    ),
    Hostile(
        "an alarm that raises at any moment",
        "def ring(*_): raise RuntimeError('ring')\nsignal.signal(signal.SIGALRM, ring)\n"
        "def f():\n    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)\n    time.sleep(1)\n    return 5\n",
        ("error", "crash"),
        limits=_LATE,
    ),
    Hostile(
        "collects what there is",
        "import gc\n"
        "def f():\n"
        "    mark = '-'.join(['expected', 'elsewhere'])\n"
        "    found = [o for o in gc.get_objects() for t in (o if isinstance(o, (list, tuple)) else ()) if t == mark]\n"
        "    frame, seen = sys._getframe(), 0\n"
        "    while frame:\n"
        "        seen += sum(mark in repr(v) for k, v in frame.f_locals.items() if k not in ('mark', 'f', 'found'))\n"
        "        frame = frame.f_back\n"
        "    return len(found) + (seen if seen > 2 else 0)\n",
        value=0,
    ),
    Hostile(
        "equal to everything",
        "class All:\n    def __eq__(self, other): return True\n    def __hash__(self): return 0\n"
        "def f(): return All()\n",
        ("error",),
        message="All",
    ),
    Hostile(
        "text that is equal to everything",
        "class All(str):\n    def __eq__(self, other): return True\n    __hash__ = str.__hash__\n"
        "def f(): return All('me')\n",
        value="me",
    ),
    Hostile(
        "a number that lies",
        "class Lie(int):\n    def __eq__(self, other): return True\n    def __int__(self): return 99\n"
        "    __hash__ = int.__hash__\ndef f(): return Lie(3)\n",
        values=(3, 99),
    ),
    Hostile(
        "pretends to be a list",
        "class P:\n    @property\n    def __class__(self): return list\n    def __iter__(self): return iter([1])\n"
        "def f(): return P()\n",
        values=([1],),
    ),
    Hostile(
        "a text of itself without end",
        "class E(Exception):\n    def __str__(self):\n        while True: pass\ndef f(): raise E\n",
        ("timeout",),
        limits={"wall_seconds": 0.5},
    ),
    Hostile(
        "a text that raises",
        "class E(Exception):\n    def __str__(self): raise SystemExit\ndef f(): raise E\n",
        ("error",),
        message="E",
    ),
    Hostile(
        "a name of a million letters",
        "def f(): raise type('E' * 10**6, (Exception,), {})()\n",
        ("error",),
        message="EEE",
    ),
    Hostile("pickles", "class P:\n    def __reduce__(self): return os._exit, (1,)\ndef f(): return P()\n", ("error",)),
    Hostile("runs as the judge", "sys._getframe(3).f_locals['self'] = None\ndef f(): return 5\n", ANY),
    Hostile(
        "raises in the judge's thread",
        "def late():\n    ctypes.pythonapi.PyThreadState_SetAsyncExc(\n"
        "        ctypes.c_ulong(threading.main_thread().ident), ctypes.py_object(SystemExit))\n"
        "def f():\n    threading.Timer(0.05, late).start()\n    time.sleep(0.2)\n    return 5\n",
        ("error", "ok", "crash"),
    ),
]
