"""A served model that a trainer beside the search changes: `openai:MODEL@URL?weights=ID&adapters=DIR`.

The trainer keeps a copy of the model and a LoRA adapter over it. The adapter is written into a directory that this
machine and the servers see under one path, every server loads it under a name of its own, and is asked by that name
from then on. The servers' weights never move, so nobody else who asks them notices.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from problems.contract import BadAddress
from problems.types import Prompt, Rollout
from vpo.openai.adapters import ServedAdapter
from vpo.openai.policy import OpenAIPolicy
from vpo.openai.server import Server
from vpo.policies.checkpoint import without_bars
from vpo.policies.contract import PolicyUnavailable, T
from vpo.policies.encoding import context_of, encode_prompt, rows_to_score
from vpo.policies.spread import Gone
from vpo.policies.turns import Turns, gather_available

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class AdaptedPolicy(OpenAIPolicy):
    """A TrainablePolicy that takes only adapters.

    weights: hub id or directory of what the servers serve; folder: for adapters
    device: of the trainer's copy; None takes a GPU where there is one
    """

    def __init__(self, *given: Any, weights: str, folder: Path, device: str | None = None, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self._weights, self._folder, self._device = weights, folder, device
        self.traits = replace(self.traits, weights="adapter")
        self._turns = Turns()
        self._worker = ThreadPoolExecutor(1, "policy")
        self._adapter: ServedAdapter | None = None
        self._names = (f"evo-{secrets.token_hex(4)}-{number}" for number in itertools.count(1))

    @functools.cached_property
    def tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        with without_bars():
            return AutoTokenizer.from_pretrained(self._weights)

    @functools.cached_property
    def context(self) -> int:
        """The most tokens of a prompt and its answer: the servers' where they say it."""
        from transformers import AutoConfig

        told = [one.context for one in self._servers if one.context is not None]
        return min(told) if told else context_of(AutoConfig.from_pretrained(self._weights))

    async def sample(self, prompts: Sequence[Prompt], *, rollouts: int, answers: int, seed: int) -> list[list[Rollout]]:
        async with self._turns.shared():
            return await super().sample(prompts, rollouts=rollouts, answers=answers, seed=seed)

    def encode(self, prompt: Prompt) -> npt.NDArray[np.int32]:
        """The prompt's token ids (P,), by the copy's chat template."""
        return encode_prompt(self.tokenizer, self.prompt_format, prompt)

    def learner(self) -> PreTrainedModel:
        """The copy, in float32. Raises BadAddress where it cannot be loaded."""
        import torch
        from transformers import AutoModelForCausalLM

        try:
            with without_bars():
                model = AutoModelForCausalLM.from_pretrained(self._weights, dtype=torch.float32)
        except (OSError, ValueError) as error:
            why = " ".join(str(error).split())[:200]
            raise BadAddress(f"?weights={self._weights} cannot be loaded: {why}") from None
        device = self._device or ("cuda" if torch.cuda.is_available() else "cpu")
        moved: PreTrainedModel = torch.nn.Module.to(model, device)
        return moved

    async def between(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread while nothing is sampled for this policy."""
        async with self._turns.alone():
            return await self._run(work)

    async def update(self, weights: Mapping[str, Any] | Path, version: str) -> None:
        """Sample with this adapter from now on. weights: its directory, as peft writes it; ValueError on anything else

        Servers that do not answer load it before they are asked again. Raises PolicyUnavailable where one that answers
        refuses it, or none does; the adapter before stays then.
        """
        if not isinstance(weights, Path):
            raise ValueError(f"{version}: {self.place.version} takes only LoRA adapters")
        async with self._turns.alone():
            folder = self._folder / next(self._names)
            before, now = self._adapter, ServedAdapter(folder.name, str(folder))
            try:
                await self._run(functools.partial(shutil.copytree, weights, folder))
                await gather_available([one.take_adapter(now) for one in self._servers], Gone)
            except BaseException:
                for one in self._servers:
                    one.adapter = before
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
                raise
            self._adapter = now
            if before is not None:
                await self._let_go(before)
        self.version = version

    async def logprobs(self, rollouts: Sequence[Rollout]) -> list[list[npt.NDArray[np.float32]]]:
        """(T,) nats for each rollout's tokens, at temperature 1, by every server that answers."""
        rows = rows_to_score(rollouts)
        async with self._turns.alone():
            return await gather_available([one.logprobs(rows) for one in self._servers], Gone)

    async def close(self) -> None:
        """Let go of the adapter and close the connections. Safe to call twice."""
        if not self._closed and self._adapter is not None:
            await self._let_go(self._adapter)
            self._adapter = None
        await super().close()
        await asyncio.to_thread(self._worker.shutdown, cancel_futures=True)

    @property
    def _servers(self) -> list[Server]:
        one = self.server
        return [one] if isinstance(one, Server) else [member.place for member in one.members]

    async def _run(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise PolicyUnavailable(f"{self.version} is closed")
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)

    async def _let_go(self, adapter: ServedAdapter) -> None:
        await asyncio.gather(*(one.drop_adapter(adapter) for one in self._servers))
        await asyncio.to_thread(shutil.rmtree, adapter.folder, ignore_errors=True)
