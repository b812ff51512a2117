"""From a prompt to the token ids that a model of ours is conditioned on, alike for every engine that runs it.

Chat models are asked through their chat template (thinking switched off where the template has that switch: a budget of
some hundred tokens would be spent before the first answer), base models in plain text. A checkpoint whose config says
`evo_dialect` (its prompt format) is asked in that token language, without a template.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from problems.contract import BadAddress
from problems.types import Prompt
from vpo.languages.contract import DIALECT_KEY, open_dialect
from vpo.policies.contract import PolicyUnavailable, PromptTooLong
from vpo.policies.prompt_formats import CHAT, default_max_tokens, is_known, is_token_format

if TYPE_CHECKING:
    from transformers import GenerationConfig, PreTrainedConfig, PreTrainedTokenizerBase

    from vpo.languages.contract import StartGrammar

LEAST_ANSWER = 64
"""A prompt that leaves fewer tokens than this (or than the limit) is too long."""
_END_TOKENS = ("<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>", "<|end_of_turn|>", "<|endoftext|>", "</s>")


def read_prompt_format(config: PreTrainedConfig, name: str) -> str:
    """The prompt format that a model's config names, chat where it names none. Raises BadAddress on an unknown one."""
    return check_prompt_format(named_prompt_format(config), name)


def named_prompt_format(config: PreTrainedConfig) -> str:
    """The same, whether it is known or not."""
    return str(getattr(config, DIALECT_KEY, CHAT))


def check_prompt_format(prompt_format: str, name: str) -> str:
    """The prompt format of the policy `name`. Raises BadAddress on an unknown one."""
    if not is_known(prompt_format):
        raise BadAddress(f"policy {name!r} names an unknown prompt format, {prompt_format!r}")
    return prompt_format


def grammar_of(prompt_format: str) -> StartGrammar | None:
    """Begins the grammar of answers in a prompt format; None if any token may come next."""
    if not is_token_format(prompt_format):
        return None
    return open_dialect(prompt_format).grammar


def context_of(config: Any) -> int:
    """The most tokens, prompt and answer, that a model was made for; boundless where its config does not say."""
    return int(getattr(text_config(config), "max_position_embeddings", 0) or 1 << 30)


def text_config(config: Any) -> Any:
    """The part of a model's config that describes its decoder of text."""
    return config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config


def tokenize_prompt(tokenizer: PreTrainedTokenizerBase, prompt_format: str, prompt: Prompt) -> npt.NDArray[np.int32]:
    """The prompt's token ids (P,), as the model is conditioned on them."""
    if prompt_format != "chat":
        # the space before an answer: a token of its own to some tokenizers, which policies were trained with
        ids = tokenizer(f"{prompt.user} ", add_special_tokens=False).input_ids
    elif not tokenizer.chat_template:
        plain = "\n\n".join(part for part in (prompt.system, prompt.user, "") if part)
        ids = tokenizer(plain).input_ids
    else:
        ids = tokenizer(_chat(tokenizer, prompt), add_special_tokens=False).input_ids
    return np.asarray(ids, dtype=np.int32)


def _chat(tokenizer: PreTrainedTokenizerBase, prompt: Prompt) -> str:
    messages = [{"role": "user", "content": prompt.user}]
    if prompt.system:
        messages.insert(0, {"role": "system", "content": prompt.system})
    try:
        return _apply_template(tokenizer, messages)
    except Exception:
        if not prompt.system:
            raise
        # Some templates refuse a system message; what it says then opens the request
        return _apply_template(tokenizer, [{"role": "user", "content": f"{prompt.system}\n\n{prompt.user}"}])


def _apply_template(tokenizer: PreTrainedTokenizerBase, messages: list[dict[str, str]]) -> str:
    asked = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, enable_thinking=False)
    return str(asked)


def remaining_tokens(prompt: int, limit: int, context: int) -> int:
    """Most tokens of a rollout after a prompt of this length, up to `limit`. Raises PromptTooLong if few are left."""
    left = context - prompt
    if left < min(limit, LEAST_ANSWER):
        raise PromptTooLong(
            f"the prompt takes {prompt} tokens of a context of {context}, which leaves no room for an "
            "answer: show fewer or shorter inspirations, or use a model with a longer context"
        )
    return min(limit, left)


def default_limit(answers: int, prompt_format: str) -> int:
    """The limit of a rollout of this number of answers, unless the user sets one."""
    return default_max_tokens("python", answers, prompt_format)


def end_tokens(generation_config: GenerationConfig | None, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Tokens that end a rollout: the generation config's, the tokenizer's, the template's ends of turns."""
    configured = getattr(generation_config, "eos_token_id", None)
    ends = set(configured if isinstance(configured, list) else [configured]) | {tokenizer.eos_token_id}
    template = tokenizer.chat_template or ""
    named = [token for token in _END_TOKENS if isinstance(template, str) and token in template]
    # a name that the vocabulary lacks becomes the unknown token; that may be the end token itself, as in base models
    ends |= {tokenizer.convert_tokens_to_ids(token) for token in named} - {tokenizer.unk_token_id}
    return frozenset(int(end) for end in ends if end is not None)


def encode_answer(tokenizer: PreTrainedTokenizerBase, stops: frozenset[int], text: str) -> npt.NDArray[np.int32]:
    """An answer's token ids (T,) as they are taught, with the token that ends it: the tokenizer's, else one of `stops`.
    Raises PolicyUnavailable if there is none."""
    end = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else min(stops, default=None)
    if end is None:
        raise PolicyUnavailable("neither the tokenizer nor the generation config names a token that ends an answer")
    return np.array([*tokenizer(text, add_special_tokens=False).input_ids, end], dtype=np.int32)


def own_temperature(generation_config: GenerationConfig | None) -> float | None:
    """The sampling temperature that a model's generation_config.json recommends."""
    return getattr(generation_config, "temperature", None) or None


def decode_rollout(tokenizer: PreTrainedTokenizerBase, ids: npt.NDArray[np.int32], stopped: bool) -> str:
    """The text of a rollout, without its end token and other special ones."""
    kept = ids[:-1] if stopped else ids
    return str(tokenizer.decode(kept, skip_special_tokens=True, clean_up_tokenization_spaces=False))
