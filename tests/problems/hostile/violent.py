"""Programs that go for other processes, and for the rights that would let them."""

from table import Hostile, denied, refused

PROGRAMS = [
    refused("kills everything", "def f(): return attempt(os.kill, -1, signal.SIGKILL)\n"),
    refused("kills its group", "def f(): return attempt(os.kill, 0, signal.SIGKILL)\n"),
    refused("kills a group by number", "def f(): return attempt(os.killpg, os.getpgrp() or 1, signal.SIGKILL)\n"),
    refused("kills its parent", "def f(): return attempt(os.kill, os.getppid(), signal.SIGKILL)\n"),
    refused("stops its parent", "def f(): return attempt(os.kill, os.getppid(), signal.SIGSTOP)\n"),
    refused("kills the first process", "def f(): return attempt(os.kill, 1, signal.SIGKILL)\n"),
    Hostile(
        "kills by counting",
        "def f():\n"
        "    me = os.getpid()\n"
        "    return {attempt(os.kill, pid, signal.SIGKILL) for pid in range(1, me + 2000) if pid != me}\n",
        value={"PermissionError"},
    ),
    denied("kills a thread of its parent", "raw({tgkill}, os.getppid(), os.getppid(), 9)"),
    denied("kills by thread", "raw({tkill}, os.getppid(), 9)"),
    denied("queues a signal", "raw({rt_sigqueueinfo}, os.getppid(), 9, ctypes.create_string_buffer(128))"),
    denied("a handle on its parent", "raw({pidfd_open}, os.getppid(), 0)"),
    denied("a signal by handle", "raw({pidfd_send_signal}, 0, 9, None, 0)"),
    denied("a descriptor of another's", "raw({pidfd_getfd}, 0, 0, 0)"),
    denied("traces its parent", "raw({ptrace}, 16, os.getppid(), 0, 0)"),
    denied("traces itself", "raw({ptrace}, 0, 0, 0, 0)"),
    denied("reads its parent's memory", "raw({process_vm_readv}, os.getppid(), None, 0, None, 0, 0)"),
    denied("writes its parent's memory", "raw({process_vm_writev}, os.getppid(), None, 0, None, 0, 0)"),
    denied("compares with its parent", "raw({kcmp}, os.getppid(), os.getpid(), 0, 0, 0)"),
    Hostile(
        "signals through its pipes",
        "import fcntl\n"
        "def f():\n    r, w = os.pipe()\n    return {attempt(fcntl.fcntl, r, c, os.getppid()) for c in (8, 10, 15)}\n",
        value={"PermissionError"},
    ),
    Hostile(
        "types for a terminal",
        "import fcntl\n"
        "def f(): return [attempt(fcntl.ioctl, fd, c, b'x') for fd in (0, 1) for c in (0x5412, 0x5452)]\n",
        value=["OSError"] * 4,
    ),
    Hostile(
        "limits its parent",
        "import resource\ndef f(): return attempt(resource.prlimit, os.getppid(), resource.RLIMIT_CPU, (0, 0))\n",
        value="PermissionError",
    ),
    Hostile(
        "raises its own limits",
        "import resource\n"
        "def up(what):\n    resource.setrlimit(what, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "def f(): return {attempt(up, w) for w in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE)}\n",
        value={"ValueError"},
    ),
    refused("slows its parent", "def f(): return attempt(os.setpriority, os.PRIO_PROCESS, os.getppid(), 19)\n"),
    refused("goes first", "def f(): return attempt(os.nice, -5)\n"),
    refused("real time", "def f(): return attempt(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))\n"),
    refused("moves its parent", "def f(): return attempt(os.sched_setaffinity, os.getppid(), {0})\n"),
    refused("becomes root", "def f(): return attempt(os.setresuid, 0, 0, 0)\n"),
    refused("joins groups", "def f(): return attempt(os.setgroups, [0])\n"),
    Hostile("is nobody in particular", "def f(): return os.getgroups() in ([], [os.getgid()])\n", value=True),
    denied("lets itself be dumped", "raw({prctl}, 4, 1, 0, 0, 0)"),
    denied("forgets to die with its parent", "raw({prctl}, 1, 0, 0, 0, 0)"),
    denied("a subreaper", "raw({prctl}, 36, 1, 0, 0, 0)"),
    denied("a filter of its own", "raw({seccomp}, 1, 0, None)"),
    denied("a ruleset of its own", "raw({landlock_restrict_self}, 0, 0)"),
    denied("another personality", "raw({personality}, 0x0040000)"),
    denied("reboots", "raw({reboot}, 0, 0, 0)"),
    denied("sets the clock", "raw({clock_settime}, 0, ctypes.create_string_buffer(16))"),
    denied("names the host", "raw({sethostname}, b'evil', 4)"),
    denied("loads a module", "raw({init_module}, None, 0, b'')"),
]
