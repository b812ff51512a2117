"""Programs that want all the memory, all the disk, or to say more than anyone can hear."""

from table import Hostile, refused

_SMALL = {"memory": 192 << 20}
PROGRAMS = [
    Hostile("huge list", "def f(): return len([0] * 10**10)\n", ("memory",)),
    Hostile(
        "growing bytes",
        "def f():\n    b = bytearray()\n    while True: b += bytes(1 << 24)\n",
        ("memory",),
        limits=_SMALL,
    ),
    Hostile("huge array", "import numpy\ndef f(): return float(numpy.ones(10**10).sum())\n", ("memory",)),
    Hostile("huge while loading", "x = [0] * 10**10\n", ("memory",), cases=("1", "2")),
    Hostile(
        "holds what it got",
        "held = []\n"
        "def f():\n"
        "    try:\n        while True: held.append(bytearray(1 << 20))\n"
        "    except MemoryError: return 100 < len(held) < 200\n",
        value=True,
        limits=_SMALL,
    ),
    Hostile(
        "holds what it got to the last byte",
        "held = []\ndef f():\n"
        "    for size in (1 << 24, 1 << 20, 1 << 16, 1 << 12, 512):\n"
        "        try:\n            while True: held.append(bytearray(size))\n"
        "        except MemoryError: pass\n",
        ("ok", "memory", "error", "crash"),
        limits={"memory": 64 << 20},
    ),
    Hostile(
        "shared anonymous memory",
        "import mmap\nheld = []\ndef f():\n"
        "    try:\n        while len(held) < 4096: held.append(mmap.mmap(-1, 1 << 20))\n"
        "    except OSError: pass\n"
        "    return len(held) < 1100\n",
        value=True,
    ),
    refused("memory as a file", "def f(): return attempt(os.memfd_create, 'x')\n"),
    Hostile("pipes without end", "def f():\n    while True: os.pipe()\n", ("error",), message="Too many open files"),
    Hostile("recursion", "def f(): return f()\n", ("error",), message="RecursionError"),
    Hostile(
        "recursion without a limit",
        "sys.setrecursionlimit(10**9)\ndef f(): return [f()]\n",
        ("memory", "crash", "error", "timeout"),
        limits={"memory": 128 << 20, "wall_seconds": 2.0},
    ),
    Hostile(
        "recursion in C",
        "sys.setrecursionlimit(10**9)\ndef f():\n    x = []\n    for _ in range(2 * 10**5): x = [x]\n"
        "    return repr(x)\n",
        ("crash", "error", "memory"),
    ),
    Hostile("deeply nested source", "def f(): return eval('-' * 10**6 + '1')\n", ("error", "memory", "crash")),
    Hostile("null pointer", "def f(): return ctypes.string_at(0)\n", ("crash",), message="SIGSEGV"),
    Hostile("abort", "def f(): os.abort()\n", ("crash",), message="SIGABRT"),
    Hostile("kills itself", "def f(): os.kill(os.getpid(), signal.SIGKILL)\n", ("memory",)),
    Hostile("huge number", "def f(): return 1 << 10**8\n", ("output", "memory")),
    Hostile("number that decimal refuses", "def f(): return (1 << 20000) - 1\n", value=(1 << 20000) - 1),
    Hostile("huge text", "def f(): return 'x' * 10**7\n", ("output",)),
    Hostile("huge bytes", "def f(): return bytes(10**7)\n", ("output", "memory")),
    Hostile("nested result", "def f():\n    x = 0\n    for _ in range(10**5): x = [x]\n    return x\n", ("error",)),
    Hostile("result inside itself", "def f():\n    x = []\n    x.append(x)\n    return x\n", ("error",)),
    Hostile("dict inside itself", "def f():\n    x = {}\n    x[0] = x\n    return x\n", ("error",)),
    Hostile("floods its output", "def f():\n    while True: print('x' * 1000)\n", ("output",)),
    Hostile(
        "floods its output and will not hear",
        "def f():\n    while True:\n        try: print('x' * 1000)\n        except BaseException: pass\n",
        ("output",),
    ),
    Hostile("floods while loading", "while True: print('x' * 1000)\n", ("output",), cases=("1", "2")),
    Hostile(
        "floods the descriptor",
        "import os\nwhile True: os.write(1, bytes(65536))\n",
        ("output",),
        mode="stdin",
        cases=("",),
    ),
    Hostile(
        "floods standard error",
        "def f():\n    for _ in range(2000): os.write(2, bytes(65536)); sys.stderr.write('x')\n    return 'done'\n",
        value="done",
    ),
    Hostile(
        "a file larger than allowed",
        "def f():\n"
        "    with open('big', 'wb') as target:\n"
        "        try:\n            for _ in range(100): target.write(bytes(1 << 20)); target.flush()\n"
        "        except OSError as error: return errno.errorcode[error.errno]\n",
        value="EFBIG",
    ),
    Hostile(
        "a sparse file larger than allowed",
        "def f():\n"
        "    with open('sparse', 'wb') as target:\n"
        "        try: target.truncate(1 << 40)\n"
        "        except OSError as error: return errno.errorcode[error.errno]\n",
        value="EFBIG",
    ),
    Hostile(
        "fills the disk",
        "def f():\n"
        "    try:\n"
        "        for i in range(1000):\n"
        "            with open(f'file{i}', 'wb') as target: target.write(bytes(15 << 20))\n"
        "            time.sleep(0.02)\n"
        "    except OSError as error: return errno.errorcode[error.errno]\n",
        values=("ENOSPC", None),
        landlock=("output",),
    ),
    Hostile(
        "thousands of files",
        "def f():\n"
        "    try:\n"
        "        for i in range(4000): open(f'file{i}', 'w').close()\n"
        "    except OSError as error: return errno.errorcode[error.errno]\n"
        "    return 'all'\n",
        values=("ENOSPC", "all"),
    ),
    Hostile(
        "thousands of folders, one in another",
        "def f():\n    for _ in range(1200):\n        os.mkdir('d'); os.chdir('d')\n    return 'deep'\n",
        value="deep",
    ),
    Hostile(
        "leaves modules for the next program",
        "def f():\n"
        "    for name in ('json', 'numpy', 'heapq', 'sitecustomize', 'usercustomize', 'os', 'fractions'):\n"
        "        with open(name + '.py', 'w') as target: target.write('raise SystemExit(3)')\n"
        "    return 'left'\n",
        value="left",
    ),
    Hostile("leaves a link", "def f(): os.symlink('/', 'root'); return 'left'\n", value="left"),
    Hostile("leaves a hidden file", "def f(): open('.x', 'w').close(); return 'left'\n", value="left"),
]
