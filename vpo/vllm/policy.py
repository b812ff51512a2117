"""vLLM as a policy: `vllm:ID`, sampled by an engine of our own in a process beside this one.

Calls overlap freely: every rollout of every group in flight is a request of its own in one continuously batched engine,
and groups whose prompts begin alike share that part's cache. The request of a rollout has its own seed, drawn from
(seed, prompt.stream, place in the group), so that its tokens do not depend on what shares its batch, save through
floating-point noise: some 1e-6 in float32, which hardly ever moves a draw, and some 1e-2 in bfloat16, which sooner or
later does in every second rollout. vLLM has random numbers of its own, so the tokens differ from those that the
transformers policy draws.

Proved on a CPU. What is for GPUs alone (sleep and wake around training, a fresh process for new weights, several GPUs)
is written from vLLM's documentation and source, and has not run yet.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from problems import temp_dirs
from problems.contract import BadAddress
from problems.types import Prompt, Rollout
from vpo.policies.address import PolicyAddress
from vpo.policies.checkpoint import without_bars
from vpo.policies.contract import Policy, PolicyTraits, PolicyUnavailable, T
from vpo.policies.encoding import check_prompt_format, default_limit, grammar_of, rows_to_score
from vpo.policies.fingerprint import fingerprint
from vpo.policies.registry import PolicySettings
from vpo.policies.spread import Gone, together
from vpo.policies.turns import Turns, gather_available
from vpo.vllm.address import EngineSettings, engine_settings
from vpo.vllm.engine import Engine
from vpo.vllm.leases import lease, release, reload_engine
from vpo.vllm.messages import DrawnRollout, EngineCall, Group, Row
from vpo.vllm.replicas import Replica, Replicas
from vpo.vllm.text import Description, load_tokenizer
from vpo.vllm.transfer import export_weights

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class VllmPolicy(Policy):
    """A TrainablePolicy over a leased engine.

    temperature, top_p, max_tokens: settable; None stands for what the prompt_format's answers need
    context: the most tokens of a prompt and its answer
    """

    def __init__(
        self,
        engine: Engine | Replicas,
        *,
        version: str,
        prompt_format: str,
        stops: frozenset[int],
        temperature: float = 1.0,
        top_p: float = 1.0,
        max_tokens: int | None = None,
        batch: int | None = None,
        own_temperature: float | None = None,
    ) -> None:
        self.version, self.prompt_format, self.stops = version, prompt_format, stops
        self.temperature, self.top_p, self.max_tokens = temperature, top_p, max_tokens
        self.batch = batch or 0
        # one less than the engine's: to tell the log-probability of a given last token it must draw one more
        self.context = engine.ready.context - 1
        self.transfers: bool = engine.ready.transfers
        takes = isinstance(engine, Engine) or engine.local  # not those of a cluster, which others ask too
        self.traits = PolicyTraits(
            logprobs=True,
            prefill=True,
            weights="model" if takes else "none",
            temperature=own_temperature,
            slots=engine.ready.slots,
        )
        self._start = engine.settings
        self._engine = engine
        self.spread = engine.spread() if isinstance(engine, Replicas) else None
        self._turns = Turns()
        self._worker = ThreadPoolExecutor(1, "policy")
        self._weights = ""  # the folder that a replica which is begun anew loads from; "" for the model's own
        self._closed = False

    async def sample(self, prompts: Sequence[Prompt], *, rollouts: int, answers: int, seed: int) -> list[list[Rollout]]:
        """One list per prompt of `rollouts` Rollouts, in order.

        Raises PromptTooLong (before anything is sampled), PolicyUnavailable where the engine is gone or gave
        log-probabilities that are not finite.
        """
        limit = self.max_tokens or default_limit(answers, self.prompt_format)
        limit = max((prompt.limit(limit) for prompt in prompts), default=limit)  # a call has one for all its prompts
        groups = tuple(
            Group(prompt, tuple(row_seed(seed, prompt.stream, place) for place in range(rollouts)))
            for prompt in prompts
        )
        call = EngineCall(groups, limit, self.context, self.temperature, self.top_p, tuple(sorted(self.stops)))
        async with self._turns.shared():
            drawn = await self._draw(call)
        rows = iter(drawn.rows)
        return [[self._rollout(ids, next(rows)) for _ in range(rollouts)] for ids in drawn.prompts]

    async def _draw(self, call: EngineCall) -> DrawnRollout:
        """The call's rollouts; of replicas each group by the one that it belongs to."""
        if self.spread is None:
            drawn: DrawnRollout = await self._ask("sample", call)
            return drawn
        alone = [dataclasses.replace(call, groups=(group,)) for group in call.groups]
        parts = await together([self._ask("sample", one, one.groups[0]) for one in alone])
        return DrawnRollout(
            [ids for part in parts for ids in part.prompts], [row for part in parts for row in part.rows]
        )

    async def _ask(self, kind: str, content: Any = None, group: Group | None = None) -> Any:
        if self._closed:
            raise PolicyUnavailable(f"{self.version} is closed")
        engine = self._engine
        try:
            if self.spread is None or isinstance(engine, Engine):
                assert isinstance(engine, Engine)
                return await asyncio.wrap_future(engine.ask(kind, content))
            prompt, choices = (group.prompt, len(group.seeds)) if group is not None else (Prompt(""), 1)
            return await self.spread.ask(prompt, choices, lambda replica: self._ask_one(replica, kind, content))
        except (PolicyUnavailable, BadAddress) as error:
            raise PolicyUnavailable(f"{self.version}: {error}") from None

    async def _ask_one(self, replica: Replica, kind: str, content: Any) -> Any:
        try:
            return await asyncio.wrap_future(replica.ask(kind, content))
        except PolicyUnavailable as error:
            raise Gone(f"{replica.name}: {error}") from None

    async def _ask_each(self, kind: str, content: Any = None) -> list[Any]:
        """What every engine says, of replicas those that answer. Raises PolicyUnavailable where none does, or one
        refuses."""
        if not isinstance(self._engine, Replicas):
            return [await self._ask(kind, content)]
        asked = [asyncio.wrap_future(replica.ask(kind, content)) for replica in self._engine.replicas]
        try:
            return await gather_available(asked, PolicyUnavailable)
        except Exception as error:
            raise PolicyUnavailable(f"{self.version}: {error}") from None

    def _rollout(self, prompt_ids: npt.NDArray[np.int32], row: Row) -> Rollout:
        if not np.isfinite(row.logprobs).all():
            raise PolicyUnavailable(f"{self.version}: the model's logits are not finite; try dtype float32")
        return Rollout(row.text, row.token_ids, row.logprobs, prompt_ids, "stop" if row.stopped else "length")

    @functools.cached_property
    def tokenizer(self) -> Any:
        """For a trainer: the engine has one of its own."""
        return load_tokenizer(self._start.model)

    def encode(self, prompt: Prompt) -> npt.NDArray[np.int32]:
        """The prompt's token ids (P,), as the model is conditioned on them. Waits for the engine's next step."""
        return self._engine.encode(prompt)

    async def close(self) -> None:
        """Let go of the engine; the last policy that does ends its process. Safe to call twice."""
        if not self._closed:
            self._closed = True
            if self.spread is not None:
                await self.spread.close()
            await asyncio.to_thread(self._worker.shutdown, cancel_futures=True)
            await asyncio.to_thread(release, self._engine)
            self._keep_weights("")

    def learner(self) -> PreTrainedModel:
        """The model as this policy was loaded, in float32, where the engine runs; read from its checkpoint. Raises
        BadAddress where the engines take no other weights."""
        if self.traits.weights == "none":
            raise BadAddress(f"{self.version} has its engines on a cluster, which take no other weights")
        return model_of(self._start, self._engine.ready.device)

    async def between(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread while nothing is sampled; on a GPU the engine sleeps meanwhile, and its memory is the
        work's."""
        async with self._turns.alone():
            if self._closed:
                raise PolicyUnavailable(f"{self.version} is closed")
            sleeps = self._engine.ready.sleeps
            if sleeps:
                await self._ask_each("sleep")
            try:
                return await asyncio.get_running_loop().run_in_executor(self._worker, work)
            finally:
                if sleeps:
                    await self._ask_each("wake")

    async def update(self, weights: Mapping[str, Any] | Path, version: str) -> None:
        """Sample from `weights` from now on. On one GPU they go into the running engine (vpo.vllm.transfer) while
        `transfers` is set and nobody else has the engine on lease; else it is built again over a checkpoint of them,
        and so are replicas. Raises ValueError where they are not this model's; PolicyUnavailable where the engine, or
        every replica, cannot take them."""
        async with self._turns.alone():
            if self._closed:
                raise PolicyUnavailable(f"{self.version} is closed")
            before = self._engine
            await asyncio.get_running_loop().run_in_executor(self._worker, self._replace, weights, version)
            if isinstance(self._engine, Replicas) and self._engine is not before:
                if self.spread is not None:
                    await self.spread.close()
                self.spread = self._engine.spread()
        self.version = version

    def _replace(self, weights: Mapping[str, Any] | Path, version: str) -> None:
        if isinstance(weights, Path):
            raise ValueError(f"{version}: {self.version} takes whole models")
        try:
            check_weights(weights, self._start)
        except ValueError as error:
            raise ValueError(f"{version}: {error}") from None
        if self.transfers and isinstance(self._engine, Engine) and self._engine.users == 1:
            update, kept = export_weights(weights, self._engine.ready.dtype)
            try:
                self._engine.ask("transfer", update).result()
            except (BadAddress, PolicyUnavailable) as error:
                self.transfers = False  # what it holds now nobody knows: it is built anew
                warnings.warn(f"weights are not put into the running engine any more: {error}", stacklevel=2)
            else:
                return
            finally:
                del kept
        folder = temp_dirs.make("weights")
        try:
            write_weights(weights, self._start, self._engine.ready.dtype, Path(folder))
            self._engine = reload_engine(self._engine, self._start.with_weights(folder))
        except BaseException:
            temp_dirs.release(folder)
            raise
        self._keep_weights(folder)
        if isinstance(self._engine, Engine):  # which has read them, and is never begun anew
            self._keep_weights("")

    def _keep_weights(self, folder: str) -> None:
        """This folder, and no longer the one before."""
        if self._weights:
            temp_dirs.release(self._weights)
        self._weights = folder

    async def logprobs(self, rollouts: Sequence[Rollout]) -> list[list[npt.NDArray[np.float32]]]:
        """Log-probabilities of these rollouts' tokens under the weights of every engine that answers, in nats, at the
        policy's temperature, by the passes that compute prompts."""
        async with self._turns.alone():
            return await self._ask_each("score", self._scored(rollouts))

    def _scored(self, rollouts: Sequence[Rollout]) -> tuple[list[tuple[npt.NDArray[np.int32], int]], float]:
        return rows_to_score(rollouts), self.temperature


def row_seed(seed: int, stream: int, place: int) -> int:
    """63 bits for the request of one rollout."""
    key = [number & (1 << 64) - 1 for number in (seed, stream, place)]
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))


def model_of(settings: EngineSettings, device: str) -> Any:
    """The model that an engine of these settings serves, in float32 on `device`, an adapter merged into it. Raises
    BadAddress where peft is missing for one."""
    import torch
    from transformers import AutoModelForCausalLM

    from vpo.hf.load import load_adapter

    with without_bars():
        model: Any = AutoModelForCausalLM.from_pretrained(settings.model, dtype=torch.float32)
        if settings.adapter is not None:
            model = load_adapter(model, settings.adapter.folder)
    return torch.nn.Module.to(model, device)


def _shape_of(settings: EngineSettings, dtype: str = "float32") -> Any:
    """The settings' model without weights: its shapes, at no cost of memory."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(settings.model), dtype=getattr(torch, dtype))


def check_weights(weights: Mapping[str, Any], settings: EngineSettings) -> None:
    """Raises ValueError where they are not those of the settings' model."""
    own = _shape_of(settings).state_dict()
    wrong = own.keys() ^ weights.keys()
    wrong |= {name for name in own.keys() & weights.keys() if own[name].shape != weights[name].shape}
    if wrong:
        raise ValueError(f"not this model's weights: {min(wrong)} and {len(wrong) - 1} more differ")


def write_weights(weights: Mapping[str, Any], settings: EngineSettings, dtype: str, folder: Path) -> None:
    """A checkpoint of the settings' model with other weights, in the engine's own precision."""
    import torch

    model, kind = _shape_of(settings, dtype), getattr(torch, dtype)
    model.load_state_dict({name: weights[name].detach().to("cpu", kind) for name in model.state_dict()}, assign=True)
    model.tie_weights()
    with without_bars():
        model.save_pretrained(folder)


def load_vllm(address: PolicyAddress, asked: PolicySettings) -> VllmPolicy:
    """The policy of an engine, which is loaded. Raises BadAddress in one line, PolicyUnavailable where the engine
    ends or runs out of memory as it loads."""
    settings, name = engine_settings(address, asked), address.plain
    engine = lease(settings)
    try:
        try:
            description = engine.describe()
            version = _version(settings, description, name)  # read while the engine loads
            engine.wait()
        except BadAddress as error:
            raise BadAddress(f"policy {name!r} cannot be loaded: {error}") from None
        except PolicyUnavailable as error:
            raise PolicyUnavailable(f"policy {name!r}: {error}") from None
        prompt_format = check_prompt_format(description.prompt_format, name)
        if grammar_of(prompt_format) is not None:
            raise BadAddress(f"policy {name!r} writes by a grammar, which vLLM does not apply: leave out vllm:")
        return VllmPolicy(
            engine,
            version=version,
            prompt_format=prompt_format,
            stops=description.stops,
            temperature=asked.temperature,
            top_p=asked.top_p,
            max_tokens=asked.max_tokens,
            batch=asked.batch,
            own_temperature=description.temperature,
        )
    except BaseException:
        release(engine)
        raise


def _version(settings: EngineSettings, description: Description, address: str) -> str:
    config = SimpleNamespace(_commit_hash=description.commit)
    parts = [fingerprint(settings.model, SimpleNamespace(config=config))]
    if settings.adapter is not None:
        parts.append(fingerprint(settings.adapter.folder, SimpleNamespace(config=None)))
    return f"{address}@{'+'.join(parts)}"
