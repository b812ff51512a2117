"""A user's scorer file as a module of its worker: loaded before any answer is seen, then called in forks."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import types
from collections.abc import Callable
from typing import Any

from .channels import send
from .program import describe
from .wire import RESULT, TooLarge, Unplain, decode, encode


def home(scratch: str) -> dict[str, str]:
    """The home and the place for temporary files of a scorer that names no others: its user has neither."""
    return {"HOME": scratch, "TMPDIR": scratch}


class ChildScorer:
    """The user's file as a module of this worker."""

    def __init__(self, config: dict[str, Any]) -> None:
        """Execute the file. Whatever it raises goes to the parent."""
        self._hooked = False  # whether it has functions of its own called at a fork
        self._plain_fork = ctypes.PyDLL(None).fork
        path, environment = config["path"], config["environment"]
        os.environ.clear()
        os.environ.update({**home(config["scratch"]), **environment})
        sys.path[:0] = [os.path.dirname(path), *filter(None, environment.get("PYTHONPATH", "").split(":"))]
        sys.argv = [path]
        name = os.path.splitext(os.path.basename(path))[0]
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is not a Python file")
        self.module: types.ModuleType = importlib.util.module_from_spec(spec)
        sys.modules[name] = self.module
        register = os.register_at_fork
        os.register_at_fork = self._noticing(register)
        try:
            spec.loader.exec_module(self.module)
        finally:
            os.register_at_fork = register

    def _noticing(self, register: Callable[..., None]) -> Callable[..., None]:
        def register_at_fork(**hooks: Callable[[], object]) -> None:
            module = str(sys._getframe(1).f_globals.get("__name__"))
            self._hooked |= module.partition(".")[0] not in sys.stdlib_module_names
            register(**hooks)

        return register_at_fork

    def fork(self) -> int:
        """As os.fork, of the process that the scorer is loaded in; by the C library's fork if that will do.

        The interpreter's own fork renews locks that other threads might hold, over a hundred pages that every
        evaluation would copy. With one thread there are none; what is left of it is a new state for `random`.
        """
        if self._hooked or len(sys._current_frames()) > 1:
            return os.fork()
        pid: int = self._plain_fork()
        if pid < 0:
            raise OSError("no process can be started")
        if pid == 0 and "random" in sys.modules:
            sys.modules["random"].seed()
        return pid

    def call(self, task: dict[str, Any], scratch: str, results: int, limit: int) -> None:
        """In the evaluation, confined: call the function that the task names and send [status, value, message]."""
        status, value, message = "error", "null", ""
        try:
            arguments = [os.path.join(scratch, name) if file else decode(name) for file, name in task["arguments"]]
            function: Any = self.module
            for part in task["function"].split("."):
                function = getattr(function, part)
            value = encode(function(*arguments), limit, objects=True)
            status = "ok"
        except MemoryError:
            status, message = "memory", "more memory than allowed"
        except (Unplain, TooLarge) as error:
            message = f"the scorer returned {error}"
        except BaseException as error:
            message = describe(error)
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:
            pass  # the answer has replaced them
        send(results, RESULT, [status, value, message])
