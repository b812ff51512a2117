"""One riddle of EUREQA as a Problem.

The reward vector is that of the VPO paper: [entity_A, ..., entity_E], each 1 or 0; its scalar is the mean. `mix` is the
paper's split: it trains on the normal riddles and half of the hard ones, and tests on the rest.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from evo.plugins.text_tasks.problem import TextProblem, first_field, normalise_text, sentence
from problems.contract import BadAddress, Score
from problems.rows import field_of

LETTERS = "ABCDE"
_OBJECTIVES = tuple(f"entity_{letter}" for letter in LETTERS)
_SEED = 0
"""The seed of the split."""
_TASK = """\
In the narrative below the names of {number} things are hidden behind masks. Each can be found from what is said of it \
and from the one that it leads to; the last of them leads to a name that is told.
{facts}
Narrative:
{narrative}

Find what these stand for: {masks}.

Write the names as Wikipedia titles, with underscores for blanks (as in Marie_Curie), in this form:
{form}"""
_FACTS = """
All that is known:
{facts}
"""


class EureqaProblem(TextProblem):
    """A narrative with five masks to resolve; a sixth entity is given.

    row: of the published schema: `question` = sentences, `entity_masks` and `entities` = five or more of each, the
        first five to be found. Our rows may also have `facts`: sentences that give the answer.
    """

    objectives = _OBJECTIVES
    rules = "eureqa 1"

    def __init__(self, name: str, row: Mapping[str, Any], where: str, source: str, licence: str) -> None:
        super().__init__(name, row, where, source, licence)
        question = row.get("question")
        self.narrative = (question,) if isinstance(question, str) else _texts(row, "question", where, 1)
        self.masks = _texts(row, "entity_masks", where, len(LETTERS))[: len(LETTERS)]
        self.entities = _texts(row, "entities", where, len(LETTERS))[: len(LETTERS)]
        self.facts = _texts(row, "facts", where, 0) if row.get("facts") is not None else ()

    @property
    def reference(self) -> str:
        """An answer that earns everything."""
        return "\n".join(f"<{slot}>{name}</{slot}>" for slot, name in zip(_OBJECTIVES, self.entities, strict=True))

    def statement(self) -> str:
        form = [f"<{slot}>name</{slot}> (resolves {mask})" for slot, mask in zip(_OBJECTIVES, self.masks, strict=True)]
        return _TASK.format(
            number=len(LETTERS),
            facts=_FACTS.format(facts="\n".join(self.facts)) if self.facts else "",
            narrative="\n".join(self.narrative),
            masks=", ".join(self.masks),
            form="\n".join(form),
        )

    def score(self, answer: str) -> Score:
        """Features: how many masks have a name, and how many different names there are."""
        names = parse_names(answer)
        filled = [name for name in names if name]
        if not filled:
            return Score.failure(len(_OBJECTIVES), "no name in any <entity_...>", "There is no name in any tag.")
        rewards = score_names(names, self.entities)
        features = {"filled": float(len(filled)), "different": float(len({name.casefold() for name in filled}))}
        return Score(rewards, sum(rewards) / len(rewards), features, self._feedback(names, rewards))

    def _feedback(self, names: tuple[str, ...], rewards: tuple[float, ...]) -> str:
        """The faults, without the right names; first those that others may depend on."""
        empty = [mask for mask, name in zip(self.masks, names, strict=True) if not name]
        marks = list(zip(self.masks, names, rewards, strict=True))
        wrong = [f"{mask} is not {name[:60]}" for mask, name, right in reversed(marks) if name and not right]
        lines = [f"no name for {', '.join(empty)}"] if empty else []
        return sentence([*lines, *wrong])


def _texts(row: Mapping[str, Any], name: str, where: str, fewest: int) -> tuple[str, ...]:
    texts = field_of(row, name, list, where)
    if len(texts) < fewest or not all(isinstance(text, str) for text in texts):
        raise BadAddress(f"{where}: {name} is no list of {fewest} texts or more")
    return tuple(texts)


def parse_names(text: str) -> tuple[str, ...]:
    """The contents of the first <entity_A> to <entity_E>, in any case of letters, without white space around them;
    "" if missing."""
    return tuple((first_field(text, name, any_case=True) or "").strip() for name in _OBJECTIVES)


def score_names(names: Sequence[str], wanted: Sequence[str]) -> tuple[float, ...]:
    """1 if a name is the wanted one as Wikipedia writes it (underscores are blanks, articles, case and punctuation
    do not count), 0 if either is empty."""
    return tuple(
        float(bool(name := _plain(answered)) and name == _plain(gold))
        for answered, gold in zip(names, wanted, strict=True)
    )


def _plain(name: str) -> str:
    return normalise_text(name, articles=True, underscores=True)


def mix(name: str, splits: Sequence[Sequence[Mapping[str, Any]]]) -> Sequence[Mapping[str, Any]]:
    """The rows of eureqa:`name`; of the hard riddles, the last of `splits`, the test has those in the second half of a
    shuffle (682 of 1,363). The paper does not name the random number generator of the shuffle, so ours may differ."""
    if name not in ("hf", "hf-train"):
        return splits[0]
    hard = list(splits[-1])
    random.Random(_SEED).shuffle(hard)
    half = len(hard) // 2
    return hard[half:] if name == "hf" else [*splits[0], *hard[:half]]
