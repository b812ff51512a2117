"""The warm worker: it starts once, confines itself, forks for each request, and reports how each fork ended.

It runs from code that the parent sends, in a bare interpreter. It has two lives: a program's (program.Programs) or a
scorer's (evaluation.Evaluations).
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import json
import os
import resource
import sys
import traceback
from typing import Any, NoReturn

from . import confinement
from .channels import Channels
from .evaluation import Evaluations
from .program import SPARE, Programs
from .wire import EXIT, KILL


def main(config: dict[str, Any]) -> NoReturn:
    channels = Channels(config["descriptors"])
    hello: dict[str, Any]
    try:
        runner = start(config, channels)
        hello = {"ok": True, "uid": os.getuid(), "pid": os.getpid()}
    except BaseException as error:
        hello = {"ok": False, "error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()[-4000:]}
    data = json.dumps(hello).encode()
    os.write(channels.control, len(data).to_bytes(4, "little") + data)
    if not hello["ok"]:
        os._exit(1)
    gc.disable()
    while (request := channels.next_request()) is not None:
        if request.operation == KILL:
            continue  # for a fork that has ended meanwhile
        for fd in (channels.feed, channels.results, channels.output):
            fcntl.fcntl(fd, fcntl.F_SETFL, 0)  # a candidate may have made the shared pipe non-blocking
        status, cpu_seconds, left = runner.run(request)
        os.write(channels.control, EXIT.pack(b"X", request.sequence, status, cpu_seconds, left))
    os._exit(0)


def start(config: dict[str, Any], channels: Channels) -> Programs | Evaluations:
    """Load what every fork shares, then confine this process."""
    sys.dont_write_bytecode = True
    sys.path += [path for path in config["site"] if path not in sys.path]
    os.chdir(config["scratch"])
    confinement.limit(resource.RLIMIT_CORE, 0)
    runner = Programs(config, channels) if config["profile"] == "program" else Evaluations(config, channels)
    runner.address_space = confinement.address_space_used() + SPARE
    atexit._clear()
    gc.collect()
    gc.freeze()
    return runner
