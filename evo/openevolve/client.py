"""Our policies as the language model of an OpenEvolve run, by address and inside its own processes.

    from evo.openevolve.client import policy_client
    config.llm.models = [LLMModelConfig(name="vllm:Qwen/Qwen2.5-Coder-0.5B-Instruct", init_client=policy_client)]

`init_client` is OpenEvolve's own hook (0.2.27 and later); nothing of it is changed. YAML cannot name a callable, so
`python -m evo.openevolve.client` is `openevolve-run` with the same arguments, in which the hook is given to models
whose `provider` is `evo`, or whose name is plainly an address (openai:, vllm:, embedded:, scripted:):

    llm:
      models:
        - {name: ./runs/code, provider: evo}        # a checkpoint that evo train wrote; a hub id would do as well

OpenEvolve evaluates in a pool of processes and asks its model there: each of them loads the policy when it first asks,
so a model in memory is in memory `evaluator.parallel_evaluations` times. Serve it (`vllm serve DIR`) to load it once.
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
"""A prompt in the language of the embedded policies (vpo.embedded.language), wherever a template puts it."""


def policy_client(model: LLMModelConfig) -> PolicyClient:
    """The `init_client` hook: a client for the policy whose address is the model's `name`."""
    return PolicyClient(model)


class PolicyClient(LLMInterface):
    """What OpenEvolve asks. The policy is loaded with the first question, in the process that asks it.

    model: the address; OpenEvolve logs it
    last_usage: tokens of the last answer, which OpenEvolve adds up
    temperature, top_p and max_tokens are the model's configuration; what single calls say of them is not heard. With a
    random_seed a run with one worker asks for the same samples again; which of several workers gets which question is
    not decided by any seed.
    """

    def __init__(self, model: LLMModelConfig) -> None:
        self.model = str(model.name)
        self.weight = model.weight
        self.system_message = model.system_message
        self.settings = (
            self.model,
            1.0 if model.temperature is None else float(model.temperature),
            1.0 if model.top_p is None else float(model.top_p),
            model.max_tokens,
        )
        self.seed = model.random_seed
        self.last_usage: dict[str, Any] | None = None

    async def generate(self, prompt: str, **kwargs: Any) -> str:
        """An answer to a bare question."""
        return await self.generate_with_context(self.system_message or "", [{"role": "user", "content": prompt}])

    async def generate_with_context(self, system_message: str, messages: list[dict[str, str]], **kwargs: Any) -> str:
        """An answer. Raises PolicyUnavailable, PromptTooLong, BadAddress; OpenEvolve counts the iteration as failed."""
        user = "\n\n".join(str(message.get("content") or "") for message in messages)
        answer, rollout = await home().answer(self.settings, system_message or "", user, self.seed)
        asked = prompt_tokens([rollout])
        self.last_usage = {
            "prompt_tokens": asked,
            "completion_tokens": rollout.tokens,
            "total_tokens": asked + rollout.tokens,
            "model": self.model,
        }
        return answer


class Home:
    """Where a process keeps its policies: a thread with an event loop that outlives the one OpenEvolve makes for each
    iteration, so that connections and engines do."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._policies: dict[tuple[Any, ...], Policy] = {}
        self._counts: Counter[bytes] = Counter()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="evo policies", daemon=True)
        self._thread.start()
        # runs at the end of a forked worker too, where atexit does not
        Finalize(None, self.close, exitpriority=10)

    async def answer(self, settings: tuple[Any, ...], system: str, user: str, seed: int | None) -> tuple[str, Rollout]:
        """(what OpenEvolve is told, the rollout)."""
        future = asyncio.run_coroutine_threadsafe(self._answer(settings, system, user, seed), self._loop)
        return await asyncio.wrap_future(future)

    async def _answer(self, settings: tuple[Any, ...], system: str, user: str, seed: int | None) -> tuple[str, Rollout]:
        policy = self._policy(settings)
        prompt = to_prompt(policy, system, user)
        place = hashlib.blake2b(f"{worker()}\0{prompt.system}\0{prompt.user}".encode(errors="replace"), digest_size=8)
        self._counts[place.digest()] += 1  # one question asked twice has two answers
        place.update(str(self._counts[place.digest()] if seed is not None else os.urandom(8)).encode())
        stream = int.from_bytes(place.digest(), "little") >> 1
        prompt = Prompt(prompt.user, prompt.system, stream)
        ((rollout,),) = await policy.sample([prompt], rollouts=1, answers=1, seed=seed or 0)
        return to_reply(policy, rollout, prompt), rollout

    def _policy(self, settings: tuple[Any, ...]) -> Policy:
        if settings not in self._policies:
            address, temperature, top_p, max_tokens = settings
            self._policies[settings] = load_policy(address, temperature=temperature, top_p=top_p, max_tokens=max_tokens)
        return self._policies[settings]

    def close(self) -> None:
        """Close the policies. Safe to call twice."""
        if self.process != os.getpid() or self._loop.is_closed() or not self._thread.is_alive():
            return
        try:
            asyncio.run_coroutine_threadsafe(self._leave(), self._loop).result(_CLOSE_SECONDS)
        except TimeoutError:
            return  # the process ends with it
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    async def _leave(self) -> None:
        while self._policies:
            _, policy = self._policies.popitem()
            await policy.close()


_home: Home | None = None
_making = threading.Lock()


def home() -> Home:
    """This process's; a fork does not inherit its parent's, whose thread is not there."""
    global _home
    with _making:
        if _home is None or _home.process != os.getpid():
            _home = Home()
        return _home


def worker() -> str:
    """Which of the pool's workers this is, alike in every run."""
    return multiprocessing.current_process().name


def to_prompt(policy: Policy, system: str, user: str) -> Prompt:
    """OpenEvolve's question as the policy is asked it. Raises PolicyUnavailable where they share no language."""
    if policy.prompt_format == "chat":
        return Prompt(user, system)
    board = _BOARD.search(user)
    if board is None:
        raise PolicyUnavailable(
            f"{policy.version} reads mazes in its own language alone, and the prompt holds none; name another model"
        )
    return Prompt(board[0])


def to_reply(policy: Policy, rollout: Rollout, prompt: Prompt) -> str:
    """What the policy wrote as OpenEvolve reads it: text as it is; of a chain of routes the first one's moves."""
    if policy.prompt_format == "chat":
        return rollout.text
    return f"```\n{next(iter(decode_chain(rollout.text, prompt.user)), '')}\n```"


def with_policies(config: Config) -> Config:
    """Give the hook to every model of the configuration that is one of ours."""
    for model in [*config.llm.models, *config.llm.evaluator_models]:
        if model.init_client is None and (
            model.provider == PROVIDER or parse_address(str(model.name)).kind != TRANSFORMERS
        ):
            model.init_client = policy_client
    return config


def check(config: Config) -> None:
    """Ask the servers that are named once, so that a wrong one ends the run before it begins. Models are not loaded:
    the pool forks from this process, which must not have used torch by then. Raises BadAddress."""
    for address in {str(model.name) for model in config.llm.models if model.init_client is policy_client}:
        if parse_address(address).kind in ("openai", "scripted"):
            with ThreadPoolExecutor(1) as elsewhere:  # a loop runs here
                elsewhere.submit(asyncio.run, load_policy(address).close()).result()


def main() -> int:
    """`openevolve-run`, with models that may be policies. Exit codes are its own; 2 for a wrong address."""
    import openevolve
    from openevolve import cli

    class WithPolicies(openevolve.OpenEvolve):
        """What the command line builds once all of its flags are in the configuration."""

        def __init__(self, *arguments: Any, config: Config, **rest: Any) -> None:
            try:
                check(with_policies(config))
            except BadAddress as error:
                print(f"evo: {error}", file=sys.stderr)
                raise SystemExit(2) from None
            super().__init__(*arguments, config=config, **rest)

    cli.OpenEvolve = WithPolicies
    return int(cli.main())


if __name__ == "__main__":
    from evo.openevolve.client import main as imported  # so that the hook has a name that other processes know

    sys.exit(imported())
