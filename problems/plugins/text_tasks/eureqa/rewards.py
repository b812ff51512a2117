"""The reward vector of the VPO paper for EUREQA: [entity_A, ..., entity_E], each 1 or 0; its scalar is the mean."""

from __future__ import annotations

from collections.abc import Sequence

from problems.plugins.text_tasks.fields import first_field
from problems.plugins.text_tasks.words import normalise

LETTERS = "ABCDE"
OBJECTIVES = tuple(f"entity_{letter}" for letter in LETTERS)


def parse_names(text: str) -> tuple[str, ...]:
    """What stands in the first <entity_A> to <entity_E>, in any case of letters, without white space around it; ""
    where there is none."""
    return tuple((first_field(text, name, any_case=True) or "").strip() for name in OBJECTIVES)


def score_names(found: Sequence[str], wanted: Sequence[str]) -> tuple[float, ...]:
    """1 where a name is the wanted one as Wikipedia writes it (underscores are blanks, articles, case and punctuation
    do not count), 0 where either is empty."""
    return tuple(
        float(bool(name := _plain(one)) and name == _plain(gold)) for one, gold in zip(found, wanted, strict=True)
    )


def _plain(name: str) -> str:
    return normalise(name, articles=True, underscores=True)
