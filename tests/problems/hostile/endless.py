"""Programs that will not end, and programs that multiply."""

from table import Hostile, denied, refused

HALF = {"wall_seconds": 0.5}
PROGRAMS = [
    Hostile("busy loop", "def f():\n    while True: pass\n", ("timeout",), limits=HALF),
    Hostile("sleep", "import time\ndef f(): time.sleep(10**6)\n", ("timeout",), limits=HALF),
    Hostile(
        "ignores every signal",
        "for s in range(1, 65):\n"
        "    try: signal.signal(s, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\n"
        "def f():\n    while True: pass\n",
        ("timeout",),
        limits=HALF,
    ),
    Hostile(
        "swallows every exception",
        "def f():\n    while True:\n        try: time.sleep(1)\n        except BaseException: pass\n",
        ("timeout",),
        limits=HALF,
    ),
    Hostile(
        "regular expression", "import re\ndef f(): re.match('(a+)+$', 'a' * 60 + 'b')\n", ("timeout",), limits=HALF
    ),
    Hostile("endless sum", "import itertools\ndef f(): return sum(itertools.count())\n", ("timeout",), limits=HALF),
    Hostile("one long instruction", "def f(): return pow(3, 10**9) % 7\n", ("timeout",), limits=HALF),
    Hostile("hangs while loading", "while True: pass\n", ("timeout",), cases=("1", "2", "3"), limits=HALF),
    Hostile("stops itself", "def f(): os.kill(os.getpid(), signal.SIGSTOP)\n", ("timeout",), limits=HALF),
    Hostile(
        "times out in standard input mode", "while True: pass\n", ("timeout",), mode="stdin", cases=("",), limits=HALF
    ),
    Hostile(
        "endless exit handler",
        "import atexit\n@atexit.register\ndef stay():\n    while True: pass\n",
        ("timeout",),
        mode="stdin",
        cases=("",),
        limits=HALF,
    ),
    Hostile(
        "endless non-daemon thread",
        "def stay():\n    while True: time.sleep(1)\nthreading.Thread(target=stay).start()\n",
        ("timeout",),
        mode="stdin",
        cases=("",),
        limits=HALF,
    ),
    Hostile(
        "burns more CPU than allowed",
        "def f():\n    while True: pass\n",
        ("timeout",),
        message="CPU",
        limits={"wall_seconds": 8.0, "cpu_seconds": 0.2},
    ),
    Hostile(
        "ignores the CPU limit's signal",
        "signal.signal(signal.SIGXCPU, signal.SIG_IGN)\ndef f():\n    while True: pass\n",
        ("timeout",),
        limits={"wall_seconds": 3.0, "cpu_seconds": 0.2},
    ),
    Hostile(
        "threads that outlive it",
        "def stay():\n    while True: sum(range(1000))\n"
        "def f():\n    for _ in range(4): threading.Thread(target=stay).start()\n    return 'started'\n",
        value="started",
        limits={"wall_seconds": 4.0},
    ),
    Hostile(
        "daemon threads that outlive it",
        "def f():\n    threading.Thread(target=time.sleep, args=(10**6,), daemon=True).start()\n    return 'started'\n",
        value="started",
    ),
    Hostile(
        "as many threads as it can",
        "threading.stack_size(1 << 16)\n"
        "def f():\n    n = 0\n    stop = threading.Event()\n"
        "    try:\n"
        "        while n < 5000:\n            threading.Thread(target=stop.wait, daemon=True).start(); n += 1\n"
        "    except RuntimeError: pass\n"
        "    return n < 1500\n",
        value=True,
    ),
    refused("fork", "def f(): return attempt(os.fork)\n"),
    Hostile("fork bomb", "def f():\n    while True: os.fork()\n", ("error",), message="PermissionError"),
    refused("forkpty", "def f(): return attempt(os.forkpty)\n"),
    refused("starts a shell", "def f(): return attempt(subprocess.run, ['/bin/sh', '-c', 'sleep 1000 &'])\n"),
    Hostile("os.system", "def f(): return os.system('sleep 1000 &')\n", values=(-1, 127 << 8)),
    refused("posix_spawn", "def f(): return attempt(os.posix_spawn, '/bin/sleep', ['sleep', '9'], {})\n"),
    refused("exec", "def f(): return attempt(os.execv, sys.executable, ['python', '-c', '1'])\n"),
    refused("exec of a shell", "def f(): return attempt(os.execv, '/bin/sh', ['sh'])\n"),
    refused(
        "daemon by double fork",
        "def daemon():\n"
        "    if os.fork(): return\n    os.setsid()\n    if os.fork(): os._exit(0)\n    time.sleep(10**6)\n"
        "def f(): return attempt(daemon)\n",
    ),
    refused("its own session", "def f(): return attempt(os.setsid)\n"),
    refused("a process group", "def f(): return attempt(os.setpgid, 0, 0)\n"),
    refused(
        "multiprocessing",
        "def work():\n    import multiprocessing\n"
        "    multiprocessing.get_context('fork').Process(target=time.sleep, args=(9,)).start()\n"
        "def f(): return attempt(work)\n",
    ),
    Hostile("fork through the C library", "def f(): return ctypes.CDLL(None).fork()\n", value=-1),
    Hostile("vfork through the C library", "def f(): return ctypes.CDLL(None).vfork()\n", value=-1),
    denied("raw clone", "raw({clone}, 17, 0, 0, 0, 0)"),
    denied("raw clone into new namespaces", "raw({clone}, 0x10000000 | 0x20000000 | 17, 0, 0, 0, 0)"),
    denied("raw clone3", "raw({clone3}, ctypes.create_string_buffer(88), 88)"),
    denied("raw execve", "raw({execve}, b'/bin/sh', None, None)"),
    denied("unshare", "raw({unshare}, 0x10000000)"),
    denied("setns", "raw({setns}, 0, 0)"),
]
