"""A user's scorer file as a module of its worker, loaded before any answer is seen."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import types
from collections.abc import Callable
from typing import Any


def home(scratch: str) -> dict[str, str]:
    """What a scorer that names no others has as its home and for temporary files: the user it runs as has neither."""
    return {"HOME": scratch, "TMPDIR": scratch}


class Scorer:
    """The user's file as a module of this worker."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.path: str = config["path"]
        self._hooked = False  # whether it has functions of its own called at a fork
        self._plain_fork = ctypes.PyDLL(None).fork
        self.module = types.ModuleType("scorer")

    def load(self) -> None:
        """Execute the file. Whatever it raises goes to the parent."""
        environment = self.config["environment"]
        os.environ.clear()
        os.environ.update({**home(self.config["scratch"]), **environment})
        sys.path[:0] = [os.path.dirname(self.path), *filter(None, environment.get("PYTHONPATH", "").split(":"))]
        sys.argv = [self.path]
        name = os.path.splitext(os.path.basename(self.path))[0]
        spec = importlib.util.spec_from_file_location(name, self.path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{self.path} is not a Python file")
        self.module = importlib.util.module_from_spec(spec)
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
        """As os.fork, of the process that the scorer is loaded in; by the C library alone where that will do.

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

    def find(self, dotted: str) -> Any:
        found: Any = self.module
        for part in dotted.split("."):
            found = getattr(found, part)
        return found
