"""Families of hostile programs that go for resources: files, output, memory, time, and the end that is waited for."""

from __future__ import annotations

from collections.abc import Iterator

from table import ANY, Hostile

_SOON = {"wall_seconds": 0.6, "cpu_seconds": 0.5}


def generate() -> list[Hostile]:
    """All of them."""
    return [*_large_files(), *_races(), *_floods(), *_memory(), *_burns(), *_ends(), *_results()]


def _large_files() -> Iterator[Hostile]:
    ways = {
        "truncate": "t.truncate(SIZE)",
        "a write at the end": "(t.seek(SIZE), t.write(b'x'), t.flush())",
        "pwrite": "os.pwrite(t.fileno(), b'x', SIZE)",
        "posix_fallocate": "os.posix_fallocate(t.fileno(), 0, SIZE)",
        "copy_file_range": "(t.write(b'x' * 999), t.flush(), os.copy_file_range(t.fileno(), t.fileno(), 900, 0, SIZE))",
    }
    for name, call in ways.items():
        for bits in (28, 40, 62):
            code = f"SIZE = 1 << {bits}\ndef f():\n    with open('sparse', 'w+b') as t:\n        try: {call}\n"
            code += "        except OSError as error: return errno.errorcode[error.errno]\n    return 'made'\n"
            words = ("EFBIG", "EINVAL", "ENOSPC", "EOPNOTSUPP", "EPERM")
            yield Hostile(f"a file of 2^{bits} bytes by {name}", code, ("ok", "crash", "error", "output"), values=words)


def _races() -> Iterator[Hostile]:
    targets = {
        "a secret": "{secret}",
        "passwd": "/etc/passwd",
        "the repository": "{repository}/pyproject.toml",
        "/proc": "/proc/self/environ",
    }
    swaps = {
        "links": "os.symlink(TARGET, 'n'); os.replace('n', 'x'); open('n', 'w').close(); os.replace('n', 'x')",
        "folders": "os.symlink(os.path.dirname(TARGET), 'n'); os.replace('n', 'd'); os.unlink('d')",
        "descriptors": "d = os.open('.', os.O_RDONLY); os.symlink(TARGET, 'y', dir_fd=d); os.unlink('y'); os.close(d)",
    }
    for what, target in targets.items():
        for how, swap in swaps.items():
            code = f"TARGET = '{target}'\ndef swap():\n    while True:\n"
            code += f"        try: {swap}\n        except OSError: pass\n"
            code += "def f():\n    threading.Thread(target=swap, daemon=True).start()\n"
            code += "    end, got = time.time() + .2, set()\n"
            code += "    while time.time() < end:\n        for name in ('x', 'y', 'd/' + os.path.basename(TARGET)):\n"
            code += "            try: got.add(open(name, 'rb').read(4) or b'')\n            except OSError: pass\n"
            code += "    return sorted(got - {b''})\n"
            yield Hostile(f"races {how} against {what}", code, ("ok",), value=[])


def _floods() -> Iterator[Hostile]:
    ways = {
        "print": "print('x' * 99999)",
        "the descriptor": "os.write(1, bytes(1 << 16))",
        "standard error": "os.write(2, bytes(1 << 16))",
        "C's write": "c.write(1, b'x' * 65536, 65536)",
        "C's puts": "c.puts(b'x' * 60000)",
        "writev": "os.writev(1, [bytes(1 << 16)] * 9)",
        "sendfile": "os.sendfile(1, s.fileno(), 0, 1 << 20)",
        "a copy of the descriptor": "os.write(os.dup(1), bytes(1 << 16))",
        "several threads": "threading.Thread(target=os.write, args=(1, bytes(1 << 16))).start()",
    }
    for name, call in ways.items():
        for mode in ("calls", "stdin"):
            code = "c = ctypes.CDLL(None)\ns = open('s', 'w+b'); s.truncate(1 << 20)\ndef f():\n"
            code += (
                f"    for _ in range(10 << 14):\n        try: {call}\n        except (OSError, RuntimeError): pass\n"
            )
            head = "import ctypes, os, threading\n" if mode == "stdin" else ""
            cases = ("f()",) if mode == "calls" else ("",)
            tail = "f()\n" if mode == "stdin" else ""
            yield Hostile(f"10 GB by {name}, {mode}", head + code + tail, ANY, mode=mode, cases=cases, limits=_SOON)


def _memory() -> Iterator[Hostile]:
    ways = {
        "bytearrays": "bytearray(SIZE)",
        "strings": "'x' * SIZE",
        "C's malloc": "ctypes.memset(ctypes.CDLL(None).malloc(SIZE), 1, SIZE)",
        "mmap": "mmap.mmap(-1, SIZE).write(bytes(SIZE))",
        "private mmap": "mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)",
        "arrays": "numpy.ones(SIZE // 8)",
        "ctypes": "(ctypes.c_char * SIZE)()",
    }
    for name, call in ways.items():
        for size in (1 << 16, 1 << 26, 1 << 40):
            code = f"import mmap, numpy\nSIZE = {size}\nheld = []\n"
            code += f"def f():\n    for _ in range(1 << 22): held.append({call})\n"
            yield Hostile(f"memory by {name} of {size}", code, ANY, limits={"memory": 256 << 20, **_SOON})


def _burns() -> Iterator[Hostile]:
    ways = {
        "comparisons": "sorted([type('E', (), {'__lt__': lambda a, b: sum(range(10**7)) < 0})() for _ in range(99)])",
        "a power": "pow(7, 10**8)",
        "digits": "sys.set_int_max_str_digits(0) or str(1 << 10**8)",
        "colliding numbers": "{i * (2**61 - 1): 0 for i in range(10**5)}",
        "an expression": "__import__('re').match('(x+x+)+y', 'x' * 50)",
        "source": "compile('(' * 90 + ')' * 90 + '+1' * 10**6, 'x', 'eval')",
        "imports": "[__import__('importlib').reload(os) for _ in range(10**7)]",
        "garbage": "[__import__('gc').collect() for _ in range(10**7)]",
        "a matrix": "__import__('numpy').linalg.svd(__import__('numpy').ones((4000, 4000)))",
        "a format": "'%*d' % (10**9, 1)",
        "a product": "list(__import__('itertools').product(range(99), repeat=9))",
        "a finaliser": "type('D', (), {'__del__': lambda s: [0 for _ in iter(int, 1)]})() and None",
    }
    for name, call in ways.items():
        yield Hostile(
            f"burns on {name}", f"def f():\n    return bool({call})\n", ANY, limits={"memory": 256 << 20, **_SOON}
        )


def _ends() -> Iterator[Hostile]:
    for name in ("SystemExit", "KeyboardInterrupt", "GeneratorExit", "StopIteration", "MemoryError", "RecursionError"):
        yield Hostile(f"raises {name}", f"def f(): raise {name}(0)\n", ("error", "crash", "memory"))
        yield Hostile(f"raises {name} while loading", f"raise {name}(0)\n", ("error", "crash", "memory"), cases=("1",))
    for code in (0, 1, 2, 77, 137, 255):
        yield Hostile(f"leaves with {code}", f"def f(): os._exit({code})\n", ("crash",))


def _results() -> Iterator[Hostile]:
    methods = (
        "__repr__",
        "__str__",
        "__eq__",
        "__hash__",
        "__reduce__",
        "__len__",
        "__iter__",
        "__class__",
        "__getattribute__",
    )
    for name in methods:
        code = f"class E(list):\n    def {name}(self, *a, **k):\n        while True: pass\n"
        code += "def f(): return [E(), {1: E()}]\n"
        yield Hostile(
            f"a result whose {name} never ends",
            code,
            ("ok", "error", "timeout", "crash"),
            limits=_SOON,
            values=([[], {1: []}],),
        )
