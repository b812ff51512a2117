"""Families of hostile programs that go for the kernel: its calls and files, other programs, signals, machine code."""

from __future__ import annotations

from collections.abc import Iterator

from table import ANY, REFUSED, Hostile

_SOON = {"wall_seconds": 0.6, "cpu_seconds": 0.5}
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


def generate() -> list[Hostile]:
    """All of them."""
    return [*_kernel_calls(), *_proc(), *_executes(), *_multiplies(), *_waits_in_c(), *_signals(), *_machine_code()]


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
