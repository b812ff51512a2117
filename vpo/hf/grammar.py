"""Grammars of token languages: the tokens that may come next, in sampling and in the log-probabilities of a training.

A policy of a language with a grammar (vpo.embedded.dialects) is a distribution over its legal texts: the softmax over
the tokens that may come next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from vpo.policies.encoding import named_prompt_format
from vpo.policies.prompt_formats import is_token_format

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from vpo.embedded.dialects import AnswerGrammar, StartGrammar


def grammar_of(prompt_format: str) -> StartGrammar | None:
    """Begins the grammar of a prompt format; None if any token may come next."""
    if not is_token_format(prompt_format):
        return None
    from vpo.embedded.dialects import open_dialect

    return open_dialect(prompt_format).grammar


def start_grammar(
    model: PreTrainedModel, prompts: Sequence[npt.NDArray[np.int32]], row: torch.Tensor
) -> AnswerGrammar | None:
    """The grammar of rows that answer these prompts; None if the model's language has none. row: (rows,) the prompt of
    each row"""
    start = grammar_of(named_prompt_format(model.config))
    return None if start is None else start(prompts, row)


def mask_forbidden(logits: torch.Tensor, grammar: AnswerGrammar, completions: torch.Tensor) -> torch.Tensor:
    """logits (rows, T, vocabulary) with -inf where a token may not come next. completions: (rows, T), whose own tokens
    are kept, also where they break the rules"""
    allowed = []
    for tokens in completions.unbind(1):
        allowed.append(grammar.allowed().scatter(1, tokens[:, None], True))
        grammar.advance(tokens)
    return logits.masked_fill(~torch.stack(allowed, 1), float("-inf"))
