"""Texts compared as the VPO paper's text tasks do.

Lower case, articles out (MuSiQue and EUREQA), punctuation out, white space collapsed, in this order: the articles go
before the punctuation, so that "a-b" loses its "a", unlike in SQuAD's order.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Collection, Hashable, Iterable

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(text: str, *, articles: bool = False, underscores: bool = False) -> str:
    """articles: drop a, an, the; underscores: read them as blanks"""
    text = text.lower()
    if underscores:
        text = text.replace("_", " ")
    if articles:
        text = _ARTICLES.sub(" ", text)
    return " ".join(text.translate(_PUNCTUATION).split())


def token_f1(answered: str, wanted: str, *, articles: bool = False) -> float:
    """F1 of the normalised words, each as often as it occurs; 1 if both have none, 0 if one has none."""
    return multiset_f1(normalise(answered, articles=articles).split(), normalise(wanted, articles=articles).split())


def multiset_f1(answered: Iterable[Hashable], wanted: Iterable[Hashable]) -> float:
    """F1 of two multisets; 1 if both are empty, 0 if exactly one is."""
    have, want = Counter(answered), Counter(wanted)
    if not have or not want:
        return float(not have and not want)
    common = (have & want).total()
    return 2 * common / (have.total() + want.total())


def set_f1(answered: Collection[Hashable], wanted: Collection[Hashable]) -> float:
    """The same of two sets."""
    return multiset_f1(set(answered), set(wanted))
