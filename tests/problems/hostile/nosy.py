"""Programs that look around: the network, files, the environment, other processes."""

from table import Hostile, denied, refused

_HIDDEN = (
    *("/etc/passwd", "/etc/shadow", "/etc/hostname", "/proc/self/environ", "/proc/self/maps", "/proc/self/mem"),
    *("/proc/1/environ", "/proc/1/mem", "/proc/self/cmdline", "/proc/meminfo", "/proc/net/tcp", "/sys/kernel/notes"),
    *("/dev/mem", "/dev/kmsg", "/dev/tty", "/dev/ptmx", "/dev/vda", "/dev/sda", "/var/log/dpkg.log", "/root/.bashrc"),
    "/run/systemd/notify",
)
PROGRAMS = [
    refused("IPv4", "def f(): return attempt(socket.socket, socket.AF_INET, socket.SOCK_STREAM)\n"),
    refused("IPv6", "def f(): return attempt(socket.socket, socket.AF_INET6, socket.SOCK_STREAM)\n"),
    refused("UDP", "def f(): return attempt(socket.socket, socket.AF_INET, socket.SOCK_DGRAM)\n"),
    refused("UDP over IPv6", "def f(): return attempt(socket.socket, socket.AF_INET6, socket.SOCK_DGRAM)\n"),
    refused("ICMP", "def f(): return attempt(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)\n"),
    refused("netlink", "def f(): return attempt(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW)\n"),
    refused("packets", "def f(): return attempt(socket.socket, socket.AF_PACKET, socket.SOCK_RAW)\n"),
    refused("virtual machine sockets", "def f(): return attempt(socket.socket, 40, socket.SOCK_STREAM)\n"),
    refused(
        "unix socket",
        "def go():\n    s = socket.socket(socket.AF_UNIX)\n    s.connect('/run/dbus/system_bus_socket')\n"
        "def f(): return attempt(go)\n",
    ),
    refused(
        "abstract socket",
        "def go():\n    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n    s.connect('\\0abstract')\n"
        "def f(): return attempt(go)\n",
    ),
    refused("datagram pair", "def f(): return attempt(socket.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM)\n"),
    refused("packet pair", "def f(): return attempt(socket.socketpair, socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"),
    Hostile(
        "sends from a stream pair",
        "def f():\n    a, b = socket.socketpair()\n    return attempt(a.sendto, b'x', '\\0abstract')\n",
        values=("OSError", "PermissionError", "IsADirectoryError"),
    ),
    Hostile(
        "fetches a page",
        "def f():\n    import urllib.request\n"
        "    return attempt(urllib.request.urlopen, 'http://127.0.0.1:80/', timeout=2)\n",
        value="URLError",
    ),
    Hostile("asks for a name", "def f(): return attempt(socket.getaddrinfo, 'example.com', 80)\n", value="gaierror"),
    refused(
        "asynchronous connection",
        "import asyncio\ndef f(): return attempt(asyncio.run, asyncio.open_connection('127.0.0.1', 22))\n",
    ),
    denied("io_uring", "raw({io_uring_setup}, 8, ctypes.create_string_buffer(120))"),
    *(refused(f"reads {path}", f"def f(): return attempt(open, {path!r}, 'rb')\n") for path in _HIDDEN),
    refused("reads the repository", "def f(): return attempt(open, '{repository}/pyproject.toml')\n"),
    refused("reads the shipped answers", "def f(): return attempt(os.listdir, '{repository}/problems')\n"),
    refused("reads a secret of the user's", "def f(): return attempt(open, '{secret}')\n"),
    refused("writes over a file of the user's", "def f(): return attempt(open, '{secret}', 'a')\n"),
    refused("truncates a file of the user's", "def f(): return attempt(os.truncate, '{secret}', 0)\n"),
    refused("opens a file of the user's to the world", "def f(): return attempt(os.chmod, '{secret}', 0o777)\n"),
    refused("changes the times of a file", "def f(): return attempt(os.utime, '{secret}')\n"),
    refused("removes a file of the user's", "def f(): return attempt(os.unlink, '{secret}')\n"),
    refused("renames a file of the user's", "def f(): return attempt(os.rename, '{secret}', 'mine')\n"),
    refused("links a file of the user's", "def f(): return attempt(os.link, '{secret}', 'mine')\n"),
    refused("reads through a link", "def f():\n    os.symlink('{secret}', 'link')\n    return attempt(open, 'link')\n"),
    refused("reads the home folder", "def f(): return attempt(os.listdir, '{home}')\n"),
    refused("lists the processes", "def f(): return attempt(os.listdir, '/proc')\n"),
    Hostile("its environment", "def f(): return dict(os.environ)\n", value={}),
    Hostile(
        "the environment in C",
        "def f():\n    c = ctypes.CDLL(None)\n    c.getenv.restype = ctypes.c_char_p\n"
        "    return c.getenv(b'EVO_TEST_SECRET')\n",
        value=None,
    ),
    refused("writes into the interpreter", "def f(): return attempt(open, os.__file__, 'a')\n"),
    refused("adds a module", "def f(): return attempt(open, os.path.dirname(os.__file__) + '/evil.py', 'x')\n"),
    refused("changes the interpreter's modes", "def f(): return attempt(os.chmod, os.__file__, 0o666)\n"),
    refused("writes into shared memory", "def f(): return attempt(open, '/dev/shm/evil', 'x')\n"),
    refused("writes beside its scratch folder", "def f(): return attempt(open, '../evil', 'x')\n"),
    refused("writes into /var/tmp", "def f(): return attempt(open, '/var/tmp/evil', 'x')\n"),
    refused("makes a device", "def f(): return attempt(os.mknod, 'null', 0o20666, os.makedev(1, 3))\n"),
    refused("makes a pipe in the file system", "def f(): return attempt(os.mkfifo, 'fifo')\n"),
    refused("changes the root", "def f(): return attempt(os.chroot, '.')\n"),
    # an editable install leads an import to the checkout, which is there but shut; elsewhere nothing is found
    Hostile(
        "imports the project",
        "def f(): return attempt(__import__, 'problems') in ('ModuleNotFoundError', 'PermissionError')\n",
        value=True,
    ),
    denied("file handles", "raw({name_to_handle_at}, -100, b'/', None, None, 0)"),
    denied("opens by handle", "raw({open_by_handle_at}, -100, None, 0)"),
    denied("mounts", "raw({mount}, b'none', b'/', b'tmpfs', 0, None)"),
    denied("unmounts", "raw({umount2}, b'/', 2)"),
    denied("new mount calls", "raw({open_tree}, -100, b'/', 1)"),
    denied("keys of the kernel", "raw({keyctl}, 0, -3, 0, 0, 0)"),
    denied("BPF", "raw({bpf}, 0, None, 0)"),
    denied("performance events", "raw({perf_event_open}, None, 0, -1, -1, 0)"),
    denied("userfaultfd", "raw({userfaultfd}, 0)"),
    denied("the kernel's log", "raw({syslog}, 3, None, 0)"),
    denied("shared memory segments", "raw({shmget}, 0, 4096, 0o1600)"),
    denied("message queues", "raw({msgget}, 0, 0o1600)"),
    denied("semaphores", "raw({semget}, 0, 1, 0o1600)"),
    denied("named message queues", "raw({mq_open}, b'x', 64, 0o600, None)"),
]
