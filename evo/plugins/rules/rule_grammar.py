"""Which words may come next in an answer of `rule-edit`, for many rows at once, and a policy of the language before
training.

All that decides it is in the prompt's words: the features, the parent's nodes, the number of answers. So sampling and
training derive the same grammar from the same token ids, and the log-probabilities of a training are those of the
sampling.

An answer opens, names a node if there is a parent, and continues with prefix words until no argument is missing. A
word may come only if the rest can still end within MOST_WORDS words and the rule within MOST_RULE_NODES nodes. The node
itself may not be all that replaces it. The chain ends after as many answers as the prompt requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import numpy.typing as npt
import torch

from evo.plugins.formulas.grammar import arity
from evo.plugins.rules import language as w
from evo.plugins.rules.rule import MOST_RULE_NODES, RULE_FUNCTIONS
from vpo.languages.contract import LONGEST_CHAIN, PARENT, STOP, AnswerGrammar

_ID = {word: number for number, word in enumerate(w.RULE_WORDS)}
_REQUESTS = {f"m{answers}": answers for answers in range(1, LONGEST_CHAIN + 1)}
_ARITY = {word: arity(code) for word, code in w.CODE_OF.items()}
_NEVER = 10_000
"""The size of a word that no answer may have."""
_OPEN, _NODE, _PREFIX, _FREE = range(4)
"""What a row waits for: the opening of an answer or the end; a node of the parent; a prefix word; anything."""


@dataclass(frozen=True)
class _Read:
    """What a prompt's words say. sizes, nodes: by word, its nodes in an answer and the parent's node that it means (-1
    if none); parent: nodes"""

    sizes: Sequence[int]
    nodes: Sequence[int]
    parent: int
    answers: int


def _length_of_prefix(words: Sequence[str]) -> int:
    """How many words the formula has that `words` begins with. Raises ValueError if it does not end."""
    missing = 1
    for count, word in enumerate(words, 1):
        missing += _ARITY.get(word, 0) - 1
        if not missing:
            return count
    raise ValueError("a formula without an end")


def _read(ids: npt.NDArray[np.int32]) -> _Read:
    """Raises ValueError for what is no prompt of the language."""
    words = [w.RULE_WORDS[number] for number in ids]
    if not words or words[-1] not in _REQUESTS:
        raise ValueError("a prompt without a number of answers at its end")
    sizes, nodes = [_NEVER] * len(w.RULE_WORDS), [-1] * len(w.RULE_WORDS)
    features = takewhile(lambda word: word != PARENT, words)
    functions = [w.FUNCTION_WORDS[code] for code in RULE_FUNCTIONS]
    for word in (*functions, *w.NUMBERS, *w.CONSTANT_WORDS, *(word for word in features if word in w.VARIABLES)):
        sizes[_ID[word]] = 1
    parent = 0
    if PARENT in words:
        written = words[words.index(PARENT) + 2 : words.index(w.ERRORS) : 2]
        parent = len(written)
        for node, word in enumerate(w.NODES[:parent]):
            sizes[_ID[word]], nodes[_ID[word]] = _length_of_prefix(written[node:]), node
    return _Read(sizes, nodes, parent, _REQUESTS[words[-1]])


class RuleGrammar(AnswerGrammar):
    """The grammar of rows that are being written. A row whose prompt is not of the language, or that has left it, may
    have any word."""

    def __init__(self, prompts: Sequence[npt.NDArray[np.int32]], row: torch.Tensor) -> None:
        read: list[_Read] = []
        states: list[list[int]] = []
        for ids in prompts:
            try:
                read.append(_read(ids))
            except ValueError:
                read.append(_Read([0] * len(w.RULE_WORDS), [-1] * len(w.RULE_WORDS), 0, 0))
                states.append([_FREE, 0, 0, 0, 0, -1, 0])
            else:
                states.append([_OPEN, 0, 0, 0, read[-1].answers, -1, read[-1].parent])
        device = row.device
        self._arity = torch.tensor([_ARITY.get(word, 0) for word in w.RULE_WORDS], device=device)
        # Columns: what the row waits for; missing prefix words; words and nodes that are left; answers that are left;
        # the node that is being replaced, until its first word is there; nodes of the parent
        state = torch.tensor(states, device=device)[row]
        tables = ([prompt.sizes for prompt in read], [prompt.nodes for prompt in read])
        super().__init__([torch.tensor(table, device=device)[row] for table in tables], state)

    def _find_allowed(self) -> torch.Tensor:
        sizes, node_of = self._tables
        waits, missing, words, left, answers, node, _ = self._state[:, :, None].unbind(1)
        fits = (missing + self._arity <= words) & (sizes + missing - 1 + self._arity <= left)
        fits = fits & ((node < 0) | (node_of != node))
        allowed = torch.where(waits == _PREFIX, fits, waits == _FREE)
        allowed = torch.where(waits == _NODE, node_of >= 0, allowed)
        opens = waits[:, 0] == _OPEN
        allowed[:, _ID[w.ANSWER]] |= opens & (answers[:, 0] > 0)
        allowed[:, _ID[STOP]] |= opens & (answers[:, 0] <= 0)
        return allowed

    def advance(self, tokens: torch.Tensor) -> None:
        """Each row has this word next. tokens: (rows,)"""
        sizes, node_of = self._tables
        at = tokens[:, None]
        legal = self.allowed().gather(1, at).squeeze(1)
        waits, missing, words, left, answers, node, parent = self._state.unbind(1)
        opens, names, writes = waits == _OPEN, waits == _NODE, waits == _PREFIX
        size, meant = sizes.gather(1, at).squeeze(1), node_of.gather(1, at).squeeze(1)
        missing = torch.where(writes, missing - 1 + self._arity[tokens], 1)
        to_node = opens & (parent > 0)
        then = torch.where(to_node, _NODE, torch.where(writes & (missing == 0), _OPEN, _PREFIX))
        then = torch.where(~legal | (waits == _FREE) | (tokens == _ID[STOP]), _FREE, then)
        words = torch.where(writes, words - 1, w.MOST_WORDS)
        left = torch.where(names, MOST_RULE_NODES - parent + size, torch.where(writes, left - size, MOST_RULE_NODES))
        answers = answers - opens.long()
        node = torch.where(names, meant, -1)
        self._move_to(torch.stack([then, missing, words, left, answers, node, parent], dim=1))
