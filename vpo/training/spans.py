"""Which tokens of a rollout wrote which of its answers: what per-answer credit needs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from problems.types import ScoredRollout
from vpo.chain import blocks, tags
from vpo.policies.prompt_formats import is_token_format

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_COMPACT_START = re.compile(r"(?:^|\s)>")  # with its space, which decodes as part of the token
_RESPONSE_END = re.compile(r"</\s*response[\s_#-]*\d+\s*>", re.IGNORECASE)
_END = re.compile(r"</\s*\w+[\s_#-]*\d*\s*>|^(?:`{3,}|~{3,})[ \t]*$", re.MULTILINE)


def answer_of_tokens(
    rollout: ScoredRollout, tokenizer: PreTrainedTokenizerBase, prompt_format: str = "chat"
) -> npt.NDArray[np.int64]:
    """(T,) for every token the place of its answer in rollout.answers, -1 where it belongs to none (a repeat, a part
    that could not be read).

    The text is cut where answers begin (a token language's `>`) or end (closing tags and fences); a section belongs to
    the first answer not yet placed that stands in it. The end token goes with the last answer.
    """
    ids = rollout.rollout.token_ids
    owner = np.full(len(ids), -1, dtype=np.int64)
    if not rollout.answers:
        return owner
    text = rollout.rollout.text
    starts = _token_starts(ids, tokenizer)
    starts += max(0, len(text) - len(_decoded(ids, tokenizer)))  # what a prefill put before them
    compact = is_token_format(prompt_format)
    prompt = _decoded(rollout.rollout.prompt_ids, tokenizer) if compact else ""
    if compact:
        cuts = [match.start() for match in _COMPACT_START.finditer(text)]
    else:  # numbered responses hold tags of their own
        cuts = [match.end() for match in (*_RESPONSE_END.finditer(text),) or _END.finditer(text)]
    edges = sorted({0, *cuts, len(text)})
    place = 0
    for begin, end in zip(edges, edges[1:], strict=False):
        if place < len(rollout.answers) and _holds(text[begin:end], rollout.answers[place].text, prompt_format, prompt):
            owner[(starts >= begin) & (starts < end)] = place
            place += 1
    owner[starts >= len(text)] = place - 1
    return owner


def _holds(section: str, answer: str, prompt_format: str, prompt: str) -> bool:
    if is_token_format(prompt_format):
        from vpo.embedded.dialects import open_dialect

        return open_dialect(prompt_format).read(section, prompt)[:1] == [answer]
    whole, written = _bare(answer), _bare(section)
    if whole in written:
        return True
    # an answer is stored in its canonical form: moves as letters, a program inside the code around it
    if any(tags.moves(one.content) == answer for one in tags.read_tags(section, "route")):
        return True
    return any(part and part in whole for part in map(_bare, blocks.programs(section, 1)[0]))


def _bare(text: str) -> str:
    """Letters and digits alone, of one case: routes are written with and without separators, programs laid out anew."""
    return "".join(character for character in text if character.isalnum()).casefold()


def _token_starts(ids: npt.NDArray[np.int32], tokenizer: PreTrainedTokenizerBase) -> npt.NDArray[np.int64]:
    """(T,) where in the decoded text each token begins."""
    return np.array([len(_decoded(ids[:i], tokenizer)) for i in range(len(ids))])


def _decoded(ids: npt.NDArray[np.int32], tokenizer: PreTrainedTokenizerBase) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))
