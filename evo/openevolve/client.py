"""Our policies as the language model of an OpenEvolve run, named by address and run inside OpenEvolve's processes.

    from evo.openevolve.client import policy_client
    config.llm.models = [LLMModelConfig(name="vllm:Qwen/Qwen2.5-Coder-0.5B-Instruct", init_client=policy_client)]

`init_client` is a hook of OpenEvolve (0.2.27 and later), which is not changed. YAML cannot name a callable. Therefore
`python -m evo.openevolve.client` is `openevolve-run` with the same arguments, and sets the hook of models whose
`provider` is `evo`, or whose name begins with a kind of address (openai:, vllm:, embedded:, scripted:):

    llm:
      models:
        - {name: ./runs/code, provider: evo}        # a checkpoint of evo train, or a hub id

OpenEvolve samples from its model in a pool of processes. Each process loads the policy at its first sample, so a local
model is in memory `evaluator.parallel_evaluations` times. To load it once, serve it (`vllm serve DIR`).
"""

from __future__ import annotations

import asyncio
import hashlib
import multiprocessing
import os
import re
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING, Any

from openevolve.llm.base import LLMInterface

from problems.contract import BadAddress
from problems.types import Prompt, Rollout, prompt_tokens
from vpo.embedded.decoding import decode_chain
from vpo.policies.address import TRANSFORMERS, parse_address
from vpo.policies.contract import Policy, PolicyUnavailable
from vpo.policies.registry import load_policy

if TYPE_CHECKING:
    from openevolve.config import Config, LLMModelConfig

PROVIDER = "evo"
_CLOSE_SECONDS = 20.0
_BOARD = re.compile(r"\bS\w\w E\w\w t\d+ [^\n]*?\bm[1-5]\b")
"""A prompt in the language of the embedded policies (vpo.embedded.language), anywhere in a template."""


def policy_client(model: LLMModelConfig) -> PolicyClient:
    """The `init_client` hook: a client for the policy whose address is the model's `name`."""
    return PolicyClient(model)


class PolicyClient(LLMInterface):
    """The client that OpenEvolve calls. The policy is loaded at the first call, in the process that makes it.

    model: the address; OpenEvolve logs it
    last_usage: tokens of the last answer, which OpenEvolve adds up
    temperature, top_p and max_tokens come from the model's configuration; those of single calls are ignored. Where it
    has no temperature, the policy samples at the one that it recommends, else at 1. With a random_seed, a run with one
    worker is reproducible. With several workers it is not, because no seed decides which worker gets which prompt.
    """

    def __init__(self, model: LLMModelConfig) -> None:
        self.model = str(model.name)
        self.weight = model.weight
        self.system_message = model.system_message
        self.settings = (
            self.model,
            None if model.temperature is None else float(model.temperature),
            1.0 if model.top_p is None else float(model.top_p),
            model.max_tokens,
        )
        self.seed = model.random_seed
        self.last_usage: dict[str, Any] | None = None

    async def generate(self, prompt: str, **kwargs: Any) -> str:
        """An answer to a prompt without context."""
        return await self.generate_with_context(self.system_message or "", [{"role": "user", "content": prompt}])

    async def generate_with_context(self, system_message: str, messages: list[dict[str, str]], **kwargs: Any) -> str:
        """An answer. Raises PolicyUnavailable, PromptTooLong, BadAddress; OpenEvolve counts the iteration as failed."""
        user = "\n\n".join(str(message.get("content") or "") for message in messages)
        answer, rollout = await open_host().answer(self.settings, system_message or "", user, self.seed)
        read = prompt_tokens([rollout])
        self.last_usage = {
            "prompt_tokens": read,
            "completion_tokens": rollout.tokens,
            "total_tokens": read + rollout.tokens,
            "model": self.model,
        }
        return answer


class PolicyHost:
    """Holds the policies of a process, in a thread with an event loop. OpenEvolve makes a new loop for each iteration;
    this one continues, so that connections and engines stay open."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._policies: dict[tuple[Any, ...], Policy] = {}
        self._counts: Counter[bytes] = Counter()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="evo policies", daemon=True)
        self._thread.start()
        # this also runs at the end of a forked worker, unlike atexit
        Finalize(None, self.close, exitpriority=10)

    async def answer(self, settings: tuple[Any, ...], system: str, user: str, seed: int | None) -> tuple[str, Rollout]:
        """(the reply for OpenEvolve, the rollout)."""
        future = asyncio.run_coroutine_threadsafe(self._answer(settings, system, user, seed), self._loop)
        return await asyncio.wrap_future(future)

    async def _answer(self, settings: tuple[Any, ...], system: str, user: str, seed: int | None) -> tuple[str, Rollout]:
        policy = self._load_policy(settings)
        prompt = to_prompt(policy, system, user)
        key = f"{worker_name()}\0{prompt.system}\0{prompt.user}".encode(errors="replace")
        place = hashlib.blake2b(key, digest_size=8)
        self._counts[place.digest()] += 1  # the same prompt gets another answer each time
        place.update(str(self._counts[place.digest()] if seed is not None else os.urandom(8)).encode())
        stream = int.from_bytes(place.digest(), "little") >> 1
        prompt = Prompt(prompt.user, prompt.system, stream)
        ((rollout,),) = await policy.sample([prompt], rollouts=1, answers=1, seed=seed or 0)
        return to_reply(policy, rollout, prompt), rollout

    def _load_policy(self, settings: tuple[Any, ...]) -> Policy:
        if settings not in self._policies:
            address, temperature, top_p, max_tokens = settings
            self._policies[settings] = load_policy(address, temperature=temperature, top_p=top_p, max_tokens=max_tokens)
        return self._policies[settings]

    def close(self) -> None:
        """Close the policies. Safe to call twice."""
        if self.process != os.getpid() or self._loop.is_closed() or not self._thread.is_alive():
            return
        try:
            asyncio.run_coroutine_threadsafe(self._close_policies(), self._loop).result(_CLOSE_SECONDS)
        except TimeoutError:
            return  # the daemon thread ends with the process
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    async def _close_policies(self) -> None:
        while self._policies:
            _, policy = self._policies.popitem()
            await policy.close()


_host: PolicyHost | None = None
_making = threading.Lock()


def open_host() -> PolicyHost:
    """The host of this process. A fork makes a new one, because the thread of its parent's is not forked."""
    global _host
    with _making:
        if _host is None or _host.process != os.getpid():
            _host = PolicyHost()
        return _host


def worker_name() -> str:
    """The name of this worker of the pool, which is the same in every run."""
    return multiprocessing.current_process().name


def to_prompt(policy: Policy, system: str, user: str) -> Prompt:
    """OpenEvolve's prompt in the policy's format. Raises PolicyUnavailable if the policy cannot read it."""
    if policy.prompt_format == "chat":
        return Prompt(user, system)
    board = _BOARD.search(user)
    if board is None:
        raise PolicyUnavailable(
            f"{policy.version} reads only mazes in its own language, and the prompt holds none; name another model"
        )
    return Prompt(board[0])


def to_reply(policy: Policy, rollout: Rollout, prompt: Prompt) -> str:
    """The rollout as OpenEvolve reads it: text is unchanged; of a chain of routes, the moves of the first."""
    if policy.prompt_format == "chat":
        return rollout.text
    return f"```\n{next(iter(decode_chain(rollout.text, prompt.user)), '')}\n```"


def add_policies(config: Config) -> Config:
    """Set the hook of every model of the configuration that is a policy."""
    for model in [*config.llm.models, *config.llm.evaluator_models]:
        if model.init_client is None and (
            model.provider == PROVIDER or parse_address(str(model.name)).kind != TRANSFORMERS
        ):
            model.init_client = policy_client
    return config


def check_servers(config: Config) -> None:
    """Contact each named server once, so that a wrong one ends the run before it begins. Models are not loaded, because
    the pool forks from this process, which must not use torch before. Raises BadAddress."""
    for address in {str(model.name) for model in config.llm.models if model.init_client is policy_client}:
        if parse_address(address).kind in ("openai", "scripted"):
            with ThreadPoolExecutor(1) as thread:  # this thread runs a loop already
                thread.submit(asyncio.run, load_policy(address).close()).result()


def main() -> int:
    """Run `openevolve-run` with models that may be policies. Returns its exit code, or 2 for a wrong address."""
    import openevolve
    from openevolve import cli

    class WithPolicies(openevolve.OpenEvolve):
        """The class that the command line builds, after all of its flags are in the configuration."""

        def __init__(self, *arguments: Any, config: Config, **rest: Any) -> None:
            try:
                check_servers(add_policies(config))
            except BadAddress as error:
                print(f"evo: {error}", file=sys.stderr)
                raise SystemExit(2) from None
            super().__init__(*arguments, config=config, **rest)

    cli.OpenEvolve = WithPolicies
    return int(cli.main())


if __name__ == "__main__":
    from evo.openevolve.client import main as imported  # so that other processes can import the hook by its name

    sys.exit(imported())
