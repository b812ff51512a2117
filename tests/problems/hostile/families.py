"""Families of hostile programs: those that go for the kernel (its calls and files, other programs, signals, machine
code), and those that go for resources (files, output, memory, time, and the end that is waited for)."""

from __future__ import annotations

from collections.abc import Iterator

from table import ANY, REFUSED, Hostile

_SOON = {"wall_seconds": 0.6, "cpu_seconds": 0.5}


def generate() -> list[Hostile]:
    """All of them."""
    kernel = (_kernel_calls, _proc, _executes, _multiplies, _waits_in_c, _signals, _machine_code)
    resources = (_large_files, _races, _floods, _memory, _burns, _ends, _results)
    return [hostile for family in (*kernel, *resources) for hostile in family()]


# -- resources


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


# -- the kernel


_ERRNOS = ((-1, 1), (-1, 13), (-1, 22), (-1, 38))
"""EPERM, EACCES, EINVAL and ENOSYS: all that a kernel call that is none of a program's business may say."""

_CALLS = (
    *("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "process_madvise", "mount", "umount2"),
    *("pivot_root", "chroot", "unshare", "setns", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick"),
    *("mount_setattr", "bpf", "keyctl", "add_key", "request_key", "perf_event_open", "userfaultfd", "io_uring_setup"),
    *("io_uring_enter", "io_uring_register", "open_by_handle_at", "name_to_handle_at", "kexec_load", "kexec_file_load"),
    *("init_module", "finit_module", "delete_module", "swapon", "swapoff", "acct", "quotactl", "iopl", "ioperm"),
    *("modify_ldt", "syslog", "fanotify_init", "personality", "vhangup", "settimeofday", "clock_settime", "adjtimex"),
    *("sched_setscheduler", "sched_setattr", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "mknod", "shmget", "msgget"),
    *("semget", "mq_open", "migrate_pages", "move_pages", "memfd_secret", "setuid", "setgid", "setresuid", "setgroups"),
    *("clone3", "execve", "socket", "connect", "tkill", "pidfd_send_signal", "landlock_create_ruleset", "memfd_create"),
    *("pidfd_open", "seccomp", "wait4", "fork", "vfork"),
)


def _kernel_calls() -> Iterator[Hostile]:
    for name in _CALLS:
        number = "{" + name + "}"
        zero = f"raw({number}, 0, 0, 0, 0, 0, 0)"
        yield Hostile(f"calls {name}", f"def f():\n    return {zero}\n", values=_ERRNOS)
        wild = f"raw({number} | 0x40000000, 0, 0, 0, 0, 0, 0)"
        yield Hostile(f"calls {name} by its x32 number", f"def f():\n    return {wild}\n", values=_ERRNOS)
    high = "raw({ptrace} | (1 << 32), 0, 0, 0, 0)"  # the kernel takes the low half alone, as the filter must
    yield Hostile("calls ptrace with a high half", f"def f():\n    return {high}\n", values=_ERRNOS)
    # a call that kernels since 6.14 let past every filter, and that ends whoever makes it outside of its trampoline
    yield Hostile("calls uretprobe", "def f():\n    return raw(335, 0)\n", ("ok", "crash"), values=_ERRNOS)
    for number in (423, 463, 511, 512, 547, 1000, 2**31 - 1):
        yield Hostile(f"calls number {number}", f"def f():\n    return raw({number}, 0, 0, 0)\n", values=_ERRNOS)


def _proc() -> Iterator[Hostile]:
    paths = ("/proc/self/root/etc/passwd", "/proc/self/fd/0", "/proc/self/exe", "/proc/self/task", "/proc/1/root")
    paths += (
        "/proc/sys/kernel/core_pattern",
        "/proc/self/ns/user",
        "/proc/sysrq-trigger",
        "/proc/kcore",
        "/proc/self/fd",
    )
    paths += (
        "/proc/thread-self/mem",
        "/proc/self/oom_score_adj",
        "/proc/self/setgroups",
        "/proc/kallsyms",
        "/proc/keys",
    )
    # of no use to it, and open in landlock mode: its own descriptor, the interpreter, the name of its namespace
    harmless = ("/proc/self/fd/0", "/proc/self/exe", "/proc/self/ns/user")
    for path in paths:
        values = (*REFUSED, "done") if path in harmless else REFUSED
        yield Hostile(f"opens {path}", f"def f(): return attempt(open, {path!r}, 'rb')\n", values=values)
    for path in ("/proc/self/oom_score_adj", "/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/self/mem"):
        yield Hostile(f"writes {path}", f"def f(): return attempt(open, {path!r}, 'r+b')\n", values=REFUSED)
    for path in ("/proc/self/cwd", "/proc/self/root", "/proc/1/exe", "/proc/self/fd/3"):
        code = f"def f():\n    try: return os.listdir({path!r} + '/../../..') and 'done'\n"
        code += "    except OSError as error: return type(error).__name__\n"
        yield Hostile(f"climbs from {path}", code, values=REFUSED)


def _executes() -> Iterator[Hostile]:
    ways = {
        "a shell": "subprocess.run(['/bin/sh', '-c', 'echo x'])",
        "an interpreter": "subprocess.run([sys.executable, '-c', '1'])",
        "through the loader": "os.execv('/lib64/ld-linux-x86-64.so.2', ['ld', sys.executable, '-c', '1'])",
        "itself": "os.execv(sys.executable, [sys.executable, '-c', '1'])",
        "a script of its own": "(open('x', 'w').write('#!/bin/sh\\n'), os.execv('./x', ['x']))",
        "by a descriptor": "os.execve(os.open(sys.executable, os.O_RDONLY), ['python'], {})",
        "by posix_spawn": "os.posix_spawn('/bin/sh', ['sh'], {})",
        "by a pty": "__import__('pty').spawn('/bin/sh')",
        "by multiprocessing": "__import__('multiprocessing').get_context('spawn').Process(target=print).start()",
        "by a memory file": "os.execve(os.memfd_create('x'), ['x'], {})",
    }
    for name, call in ways.items():
        yield Hostile(
            f"executes {name}", f"def f(): return attempt(lambda: {call})\n", values=(*REFUSED, "AttributeError")
        )
    for call in (b"system", b"popen", b"execvp", b"posix_spawnp"):
        code = "def f():\n    c = ctypes.CDLL(None)\n"
        code += f"    return getattr(c, {call.decode()!r})(b'/bin/sh', b'r', 0, 0, 0, 0)\n"
        yield Hostile(f"executes by C's {call.decode()}", code, ANY, values=(-1, 0, 1, 13, 38, 32512, 256, 22))


def _multiplies() -> Iterator[Hostile]:
    forks = {"fork": "os.fork()", "forkpty": "os.forkpty()", "C's fork": "ctypes.CDLL(None).fork()"}
    forks |= {"clone": "raw({clone}, 17, 0, 0, 0, 0)", "C's vfork": "ctypes.CDLL(None).vfork()"}
    for name, call in forks.items():
        for threads in (1, 40):
            code = f"def go():\n    for _ in range(50):\n        try: {call}\n        except OSError: pass\n"
            code += f"def f():\n    many = [threading.Thread(target=go, daemon=True) for _ in range({threads})]\n"
            code += "    for one in many: one.start()\n    for one in many: one.join()\n    return 'alone'\n"
            yield Hostile(f"{name} from {threads} threads", code, ("ok", "error", "crash", "timeout"), value="alone")
    code = "def go():\n    while True:\n        try: threading.Thread(target=go, daemon=True).start()\n"
    code += "        except (RuntimeError, MemoryError): time.sleep(.01)\ndef f():\n    go()\n"
    yield Hostile("threads that start threads", code, ANY, limits=_SOON)


def _waits_in_c() -> Iterator[Hostile]:
    waits = {
        "sleep": "c.sleep(1000)",
        "usleep": "[c.usleep(900000) for _ in range(999)]",
        "pause": "c.pause()",
        "select": "c.select(0, None, None, None, None)",
        "poll": "c.poll(None, 0, -1)",
        "sigsuspend": "c.sigsuspend(ctypes.create_string_buffer(128))",
        "nanosleep": "c.nanosleep((ctypes.c_long * 2)(1000, 0), None)",
        "futex": "raw({futex}, ctypes.addressof(ZERO), 0, 0, None, 0, 0)",
        "a lock that it holds": "(lambda l: (l.acquire(), l.acquire()))(threading.Lock())",
        "a pipe without a writer": "os.read(os.pipe()[0], 1)",
        "a busy loop in C": "c.qsort(ctypes.create_string_buffer(1 << 24), 1 << 24, 1, C(lambda a, b: 1))",
    }
    made = "ZERO = ctypes.c_int(0)\nC = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)\n"
    for name, call in waits.items():
        for blocked in (False, True):
            block = "    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n" if blocked else ""
            code = f"{made}def f():\n    c = ctypes.CDLL(None)\n{block}    {call}\n    return 'late'\n"
            name_now = f"waits in {name}{' with every signal blocked' if blocked else ''}"
            yield Hostile(name_now, code, ("timeout",), limits=_SOON)


def _signals() -> Iterator[Hostile]:
    for number in [*range(1, 32), 34, 50, 64]:
        code = f"def f():\n    os.kill(os.getpid(), {number})\n    time.sleep(.05)\n    return 'lived'\n"
        yield Hostile(f"sends itself signal {number}", code, ANY, limits=_SOON, value="lived")
    for number, timer in ((14, "ITIMER_REAL"), (26, "ITIMER_VIRTUAL"), (27, "ITIMER_PROF")):
        code = f"def f():\n    signal.signal({number}, lambda *_: None)\n"
        code += f"    signal.setitimer(signal.{timer}, 1e-6, 1e-6)\n"
        code += "    while True: pass\n"
        yield Hostile(f"storm of {timer}", code, ("timeout",), limits=_SOON)
    code = "def f():\n    signal.signal(10, lambda *_: os.kill(os.getpid(), 10))\n"
    code += "    os.kill(os.getpid(), 10)\n    return 'calm'\n"
    yield Hostile("a handler that signals itself", code, ANY, limits=_SOON)


def _machine_code() -> Iterator[Hostile]:
    codes = {
        "an endless loop": "eb fe",
        "halts": "f4",
        "breaks": "cc",
        "nonsense": "0f 0b",
        "an old system call": "b8 01 00 00 00 cd 80 c3",
        "the 32-bit fork": "b8 02 00 00 00 cd 80 c3",
        "ptrace": "b8 65 00 00 00 31 ff 31 f6 0f 05 c3",
        "a far jump to 32 bits": "6a 23 48 8d 05 03 00 00 00 50 48 cb cd 80 c3",
        "ports": "e4 64 c3",
        "the time stamp": "0f 31 c3",
    }
    for name, code in codes.items():
        text = f"import mmap\ndef f():\n    m = mmap.mmap(-1, 4096, prot=7)\n    m.write(bytes.fromhex({code!r}))\n"
        text += "    at = ctypes.addressof(ctypes.c_char.from_buffer(m))\n"
        text += "    ctypes.CFUNCTYPE(ctypes.c_long)(at)()\n    return 'ran'\n"
        yield Hostile(f"machine code: {name}", text, ANY, limits=_SOON, value="ran")
    for name in ("SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSYS", "SIGTRAP", "SIGXCPU"):
        yield Hostile(
            f"ends by {name}", f"def f(): signal.raise_signal(signal.{name})\n", ("crash", "error", "timeout")
        )
