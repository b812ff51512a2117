"""Words that a dialect's grammar allows, for tests of grammars."""

import numpy as np
import torch


def ids_of(text, words):
    """The token ids of a text; the unknown word for what is not among `words`."""
    return np.array([words.index(word) if word in words else 1 for word in text.split()], dtype=np.int32)


def words_after(dialect, prompt, chain):
    """The words that may come after the beginning of a chain."""
    words = dialect.vocabulary()
    grammar = dialect.grammar([ids_of(prompt, words)], torch.zeros(1, dtype=torch.long))
    for token in ids_of(chain, words).tolist():
        grammar.advance(torch.tensor([token]))
    return {words[place] for place in grammar.allowed()[0].nonzero().flatten().tolist()}
