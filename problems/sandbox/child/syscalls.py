"""seccomp filters, assembled here for x86_64 and aarch64: three of them, each for one place.

worker for programs: nothing but an allow-list (what the interpreter and numpy need, plus what forking and confining a
    candidate takes). Installed once and inherited, so that a candidate pays nothing for its length.
candidate: a short second filter on top, which takes the forking and confining away and pins kill and tgkill to its own
    process id. It is small because every candidate pays for the kernel's check of it.
evaluation: a deny-list, for scorers need subprocesses, threads and odd libraries.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import platform
import struct

# name:x86_64:aarch64; "-" where that machine has none
_ORDINARY = """
read:0:63 write:1:64 close:3:57 fstat:5:80 newfstatat:262:79 stat:4:- lstat:6:- lseek:8:62 mmap:9:222 mprotect:10:226
munmap:11:215 brk:12:214 rt_sigaction:13:134 rt_sigprocmask:14:135 rt_sigreturn:15:139 pread64:17:67 pwrite64:18:68
readv:19:65 writev:20:66 access:21:- pipe:22:- select:23:- sched_yield:24:124 mremap:25:216 madvise:28:233
mincore:27:232 dup:32:23 dup2:33:- pause:34:- nanosleep:35:101 getitimer:36:102 alarm:37:- setitimer:38:103
getpid:39:172 sendfile:40:71 sendto:44:206 recvfrom:45:207 sendmsg:46:211 recvmsg:47:212 shutdown:48:210
getsockname:51:204 getpeername:52:205 setsockopt:54:208 getsockopt:55:209 exit:60:93 exit_group:231:94 uname:63:160
flock:73:32 fsync:74:82 fdatasync:75:83 ftruncate:77:46 getdents:78:- getdents64:217:61 getcwd:79:17 chdir:80:49
fchdir:81:50 rename:82:- mkdir:83:- rmdir:84:- creat:85:- link:86:- unlink:87:- symlink:88:- readlink:89:- umask:95:166
gettimeofday:96:169 getrlimit:97:163 getrusage:98:165 sysinfo:99:179 times:100:153 getuid:102:174 getgid:104:176
geteuid:107:175 getegid:108:177 getppid:110:173 getpgrp:111:- getpgid:121:155 getsid:124:156 getgroups:115:158
getresuid:118:148 getresgid:120:150 rt_sigpending:127:136 rt_sigtimedwait:128:137 rt_sigsuspend:130:133
sigaltstack:131:132 statfs:137:43 fstatfs:138:44 arch_prctl:158:- gettid:186:178 futex:202:98 sched_getaffinity:204:123
sched_getparam:143:121 sched_getscheduler:145:120 sched_get_priority_max:146:125 sched_get_priority_min:147:126
set_tid_address:218:96 restart_syscall:219:128 fadvise64:221:223 clock_gettime:228:113 clock_getres:229:114
clock_nanosleep:230:115 epoll_create1:291:20 epoll_create:213:- epoll_ctl:233:21 epoll_wait:232:- epoll_pwait:281:22
ppoll:271:73 pselect6:270:72 poll:7:- openat:257:56 open:2:- mkdirat:258:34 unlinkat:263:35 renameat:264:38
renameat2:316:276 linkat:265:37 symlinkat:266:36 readlinkat:267:78 faccessat:269:48 set_robust_list:273:99
get_robust_list:274:100 eventfd2:290:19 eventfd:284:- timerfd_create:283:85 timerfd_settime:286:86
timerfd_gettime:287:87 pipe2:293:59 dup3:292:24 preadv:295:69 pwritev:296:70 getcpu:309:168 getrandom:318:278
membarrier:324:283 rseq:334:293 statx:332:291 copy_file_range:326:285 fallocate:285:47 time:201:- faccessat2:439:439
close_range:436:436
"""
_ZYGOTE = """
clone:56:220 fork:57:- vfork:58:- wait4:61:260 waitid:247:95 kill:62:129 tgkill:234:131 pidfd_open:434:434
seccomp:317:277 prctl:157:167 landlock_restrict_self:446:446 memfd_create:319:279
"""
_CHECKED = "socketpair:53:199 fcntl:72:25 ioctl:16:29 prlimit64:302:261 sched_setaffinity:203:122"
# Landlock rules opening, writing and making, not changing the mode or times of a file that one may name
_METADATA = """
chmod:90:- fchmod:91:52 fchmodat:268:53 fchmodat2:452:452 chown:92:- fchown:93:55 lchown:94:- fchownat:260:54
utime:132:- utimes:235:- utimensat:280:88 futimesat:261:- setxattr:188:5 lsetxattr:189:6 fsetxattr:190:7
removexattr:197:14 lremovexattr:198:15 fremovexattr:199:16 truncate:76:45
"""
_DENIED = """
ptrace:101:117 process_vm_readv:310:270 process_vm_writev:311:271 kcmp:312:272 pidfd_getfd:438:438
process_madvise:440:440 mount:165:40 umount2:166:39 pivot_root:155:41 chroot:161:51 unshare:272:97 setns:308:268
open_tree:428:428 move_mount:429:429 fsopen:430:430 fsconfig:431:431 fsmount:432:432 fspick:433:433
mount_setattr:442:442 bpf:321:280 keyctl:250:219 add_key:248:217 request_key:249:218 perf_event_open:298:241
userfaultfd:323:282 io_uring_setup:425:425 io_uring_enter:426:426 io_uring_register:427:427 open_by_handle_at:304:265
name_to_handle_at:303:264 kexec_load:246:104 kexec_file_load:320:294 init_module:175:105 finit_module:313:273
delete_module:176:106 swapon:167:224 swapoff:168:225 reboot:169:142 sethostname:170:161 setdomainname:171:162
settimeofday:164:170 clock_settime:227:112 clock_adjtime:305:266 adjtimex:159:171 acct:163:89 quotactl:179:60
iopl:172:- ioperm:173:- modify_ldt:154:- syslog:103:116 fanotify_init:300:262 fanotify_mark:301:263
personality:135:92 vhangup:153:58 setpriority:141:140 ioprio_set:251:30 sched_setscheduler:144:119
sched_setattr:314:274 sched_setparam:142:118 rt_sigqueueinfo:129:138 rt_tgsigqueueinfo:297:240 mknod:133:-
mknodat:259:33 shmget:29:194 msgget:68:186 semget:64:190 mq_open:240:180 migrate_pages:256:238 move_pages:279:239
process_mrelease:448:448 memfd_secret:447:447 setuid:105:146 setgid:106:144 setreuid:113:145 setregid:114:143
setresuid:117:147 setresgid:119:149 setgroups:116:159
"""
_OTHERS = """
clone3:435:435 execve:59:221 socket:41:198 connect:42:203 tkill:200:130 pidfd_send_signal:424:424
landlock_create_ruleset:444:444 landlock_add_rule:445:445 capset:126:91
"""
_CONFINING = ("landlock_create_ruleset", "landlock_add_rule", "unshare", "mount", "capset") + (
    *("setgroups", "setresgid", "setresuid"),
)
"""Beyond those of _ZYGOTE, what a program's fork calls before it is a candidate."""

MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_PID = 0xFFFFFFFE  # stands for the candidate's process id until that is known
_CLONE_THREAD, _CLONE_NEW = 0x00010000, 0x7E020080  # every namespace flag
_FCNTL = (0, 1, 2, 3, 4, 5, 6, 7, 1030)  # duplicates, flags and locks; not F_SETOWN and F_SETSIG, which send signals
_IOCTL = (0x541B, 0x5421, 0x5450, 0x5451, 0x5401, 0x5413)  # what reading and isatty ask; not TIOCSTI, FIOASYNC


def is_supported() -> bool:
    return platform.machine() in MACHINES


def _numbers(table: str) -> dict[str, int]:
    column = 1 + MACHINES[platform.machine()][1]
    rows = (entry.split(":") for entry in table.split())
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}


@functools.cache
def _all_numbers() -> dict[str, int]:
    return _numbers(_ORDINARY + _ZYGOTE + _CHECKED + _METADATA + _DENIED + _OTHERS)


def number(name: str) -> int:
    """Of a system call. The tables are read once: every evaluation asks for some, in the time of its own."""
    return _all_numbers()[name]


class Filter:
    """A BPF program under construction: `code` is a list of (operation, if true, if false, operand)."""

    def __init__(self) -> None:
        arch = MACHINES[platform.machine()][0]
        self.code: list[tuple[int, int, int, int]] = [
            (_LOAD, 0, 0, 4),
            (_EQUAL, 1, 0, arch),
            (_RETURN, 0, 0, _KILL),
            (_LOAD, 0, 0, 0),
        ]

    def on(self, nr: int | None, block: list[tuple[int, int, int, int]]) -> None:
        """Where the call is `nr`, run `block`, whose every path must return."""
        if nr is not None:
            self.code += [(_EQUAL, 0, len(block), nr), *block]

    def argument(
        self, nr: int, index: int, values: tuple[int, ...], refused: int = errno.EPERM, listed: bool = True
    ) -> None:
        """Where the call is `nr`, allow it if the low word of one argument is (not, if not `listed`) among `values`."""
        tests = [(_EQUAL, len(values) - i, 0, value) for i, value in enumerate(values)]
        ends = [_refuse(refused), (_RETURN, 0, 0, _ALLOW)]
        self.on(nr, [_argument(index), *tests, *(ends if listed else reversed(ends))])

    def otherwise(self, result: int) -> bytes:
        return b"".join(struct.pack("<HBBI", *row) for row in [*self.code, (_RETURN, 0, 0, result)])


def _argument(index: int) -> tuple[int, int, int, int]:
    return (_LOAD, 0, 0, 16 + 8 * index)


def _refuse(number: int) -> tuple[int, int, int, int]:
    return (_RETURN, 0, 0, _ERRNO | number)


def _arguments_checked(filter: Filter, pairs: bool = False) -> None:
    """What a program and an evaluation have in common. pairs: of any sockets"""
    if not pairs:  # a stream pair alone: a datagram socket, even one of a pair, can be sent to any unix address
        stream = [_argument(1), (_AND, 0, 0, 0xF), (_EQUAL, 1, 0, 1), _refuse(errno.EPERM), (_RETURN, 0, 0, _ALLOW)]
        filter.on(number("socketpair"), [_argument(0), (_EQUAL, 1, 0, 1), _refuse(errno.EPERM), *stream])
    filter.argument(number("prlimit64"), 0, (0,))  # itself alone: the worker may have the same user
    filter.argument(number("sched_setaffinity"), 0, (0,))


def worker_filter() -> bytes:
    """What a worker for programs keeps for the rest of its life."""
    filter = Filter()
    _arguments_checked(filter)
    filter.argument(number("fcntl"), 1, _FCNTL)
    filter.argument(number("ioctl"), 1, _IOCTL, errno.ENOTTY)
    filter.code.append((_AT_LEAST, 0, 1, 0x40000000))  # the x32 numbers
    filter.code.append(_refuse(errno.ENOSYS))
    for nr in [*_numbers(_ORDINARY + _ZYGOTE).values(), *map(number, _CONFINING)]:
        filter.on(nr, [(_RETURN, 0, 0, _ALLOW)])
    # newer calls, clone3 first of all: "not there" makes the C library fall back to the older ones
    filter.code += [(_AT_LEAST, 0, 1, 424), _refuse(errno.ENOSYS)]
    return filter.otherwise(_ERRNO | errno.EPERM)


def candidate_filter() -> bytes:
    """What is taken from the candidate, whose process id `install` fills in."""
    calls = _numbers(_ZYGOTE)
    filter = Filter()
    filter.code = [(_LOAD, 0, 0, 0)]  # the worker's filter has already checked the machine
    filter.on(
        calls["clone"],
        [_argument(0), (_ANY_BIT, 0, 1, _CLONE_THREAD), (_RETURN, 0, 0, _ALLOW), _refuse(errno.EPERM)],
    )
    filter.argument(calls["kill"], 0, (_PID,))
    filter.argument(calls["tgkill"], 0, (_PID,))
    filter.argument(calls["prctl"], 0, (3, 15, 16))  # PR_GET_DUMPABLE and a thread's name
    for name in ("fork", "vfork", "wait4", "waitid", "pidfd_open", "seccomp", "landlock_restrict_self", "memfd_create"):
        filter.on(calls.get(name), [_refuse(errno.EPERM)])
    for name in _CONFINING:
        filter.on(number(name), [_refuse(errno.EPERM)])
    return filter.otherwise(_ALLOW)


def evaluation_filter(unix_sockets: bool, signals: bool, metadata: bool) -> bytes:
    """For a scorer and the answer it runs.

    unix_sockets: False where there is no network namespace to keep them in
    signals: False where the kernel cannot confine them to the evaluation
    metadata: False where there are no read-only mounts to keep the mode and times of files
    """
    filter = Filter()
    if unix_sockets:
        filter.argument(number("socket"), 0, (1,))
    else:
        filter.on(number("socket"), [_refuse(errno.EPERM)])
    _arguments_checked(filter, pairs=unix_sockets)
    # FIOASYNC, FIOSETOWN, SIOCSPGRP, TIOCSTI, TIOCLINUX: signals to others, input for a terminal
    filter.argument(number("ioctl"), 1, (0x5452, 0x8901, 0x8902, 0x5412, 0x541C), listed=False)
    filter.argument(number("fcntl"), 1, (8, 10, 15), listed=False)  # F_SETOWN, F_SETSIG, F_SETOWN_EX
    calls = _numbers(_ZYGOTE + _OTHERS)
    refused = [*_numbers(_DENIED).values()]
    if not signals:
        refused += [calls["kill"], calls["tkill"], calls["tgkill"], calls["pidfd_send_signal"]]
    if not metadata:
        refused += _numbers(_METADATA).values()
    filter.on(
        calls["clone"], [_argument(0), (_ANY_BIT, 0, 1, _CLONE_NEW), _refuse(errno.EPERM), (_RETURN, 0, 0, _ALLOW)]
    )
    filter.on(calls["clone3"], [_refuse(errno.ENOSYS)])  # its flags lie in memory, where a filter cannot look
    filter.code += [(_AT_LEAST, 0, 1, 0x40000000), _refuse(errno.ENOSYS)]
    for nr in refused:
        filter.on(nr, [_refuse(errno.EPERM)])
    return filter.otherwise(_ALLOW)


class Installer:
    """A program ready to be put in force: its buffer is made once, before the fork; `install` is one system call."""

    def __init__(self, program: bytes) -> None:
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._call.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_long, ctypes.c_void_p)
        self._number = number("seccomp")
        self._buffer = ctypes.create_string_buffer(program, len(program))
        place = struct.pack("<I", _PID)
        self._offsets = [at + 4 for at in range(0, len(program), 8) if program[at + 4 : at + 8] == place]
        header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(self._buffer))
        self._header = ctypes.create_string_buffer(header, len(header))
        self._address = ctypes.addressof(self._header)

    def install(self, pid: int = 0) -> None:
        for at in self._offsets:
            struct.pack_into("<I", self._buffer, at, pid)
        if self._call(self._number, 1, 0, self._address):
            code = ctypes.get_errno()
            raise OSError(code, f"seccomp: {os.strerror(code)}")
