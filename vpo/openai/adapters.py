"""LoRA adapters on a server of vLLM, put there and taken away as it serves, and what they make of given tokens.

vLLM has the routes for it where it was started with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1. It reads an
adapter from a directory, which it must see under the path that it has here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import openai

from vpo.openai.address import Endpoint
from vpo.openai.errors import message, unavailable
from vpo.policies.contract import PolicyUnavailable

_LOADED = "already been loaded"
_SECONDS = 300.0
"""A server reads an adapter between two steps of its engine."""


@dataclass(frozen=True)
class ServedAdapter:
    """name: by which requests ask for it in the model's place; folder: with adapter_config.json and the weights"""

    name: str
    folder: str


async def load_adapter(client: openai.AsyncOpenAI, place: Endpoint, adapter: ServedAdapter) -> None:
    """Raises ServerGone where nobody answers, PolicyUnavailable where the server will not have it."""
    try:
        await _post(client, "/load_lora_adapter", {"lora_name": adapter.name, "lora_path": adapter.folder})
    except openai.APIStatusError as error:
        said = message(error)
        if _LOADED in said:  # by an attempt whose answer was lost
            return
        if said.strip().lower() == "not found":
            text = (
                f"{place.url} takes no LoRA adapters: start vLLM with --enable-lora, and with "
                "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 in its environment"
            )
        else:
            text = (
                f"{place.url} refuses the adapter in {adapter.folder}: {said}; does it see that directory, and is its "
                "--max-lora-rank large enough?"
            )
        raise PolicyUnavailable(place.hidden(text)) from None
    except openai.APIError as error:
        raise unavailable(error, place) from None


async def unload_adapter(client: openai.AsyncOpenAI, adapter: ServedAdapter) -> None:
    """Let go of it. A server that does not is left with it: nobody asks for it any more."""
    try:
        await _post(client, "/unload_lora_adapter", {"lora_name": adapter.name})
    except openai.APIError:
        return


async def token_logprobs(
    client: openai.AsyncOpenAI, place: Endpoint, model: str, rows: Sequence[tuple[npt.NDArray[np.int32], int]]
) -> list[npt.NDArray[np.float32]]:
    """(T,) nats, at temperature 1, of the last T of each row's token ids. rows: (token ids, T)

    Raises ServerGone, PolicyUnavailable.
    """
    found = []
    for ids, length in rows:
        asked = {"model": model, "prompt": ids.tolist(), "max_tokens": 1, "prompt_logprobs": 0}
        try:
            body = json.loads(await _post(client, "/completions", asked))
            told = body["choices"][0]["prompt_logprobs"][len(ids) - length :]
            values = [one[str(token)]["logprob"] for one, token in zip(told, ids[-length:].tolist(), strict=True)]
        except openai.APIError as error:
            raise unavailable(error, place) from None
        except (ValueError, KeyError, TypeError, IndexError) as error:
            text = (
                f"{place.url} gives no log-probabilities of a prompt ({type(error).__name__}), which prove new weights"
            )
            raise PolicyUnavailable(place.hidden(f"{text}; is it vLLM?")) from None
        found.append(np.array(values, dtype=np.float32))
    return found


async def _post(client: openai.AsyncOpenAI, path: str, body: dict[str, Any]) -> str:
    patient = client.with_options(timeout=_SECONDS, max_retries=1)
    return await patient.post(path, body=body, cast_to=str)
