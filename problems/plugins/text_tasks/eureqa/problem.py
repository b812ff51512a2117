"""One riddle of EUREQA as a Problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from problems.contract import BadAddress, Score
from problems.plugins.text_tasks.eureqa.rewards import LETTERS, OBJECTIVES, parse_names, score_names
from problems.plugins.text_tasks.problem import TextProblem
from problems.rows import field_of

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
    """A narrative with five masks to resolve; a sixth entity is told.

    row: of the published schema: `question` = sentences, `entity_masks` and `entities` = five or more of each, the
        first five to be found. Ours may have `facts` besides: sentences that the answer can be read from.
    """

    objectives = OBJECTIVES
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
        return "\n".join(f"<{slot}>{name}</{slot}>" for slot, name in zip(OBJECTIVES, self.entities, strict=True))

    def statement(self) -> str:
        form = [f"<{slot}>name</{slot}> (resolves {mask})" for slot, mask in zip(OBJECTIVES, self.masks, strict=True)]
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
            return Score.failure(len(OBJECTIVES), "no name in any <entity_...>", "There is no name in any tag.")
        rewards = score_names(names, self.entities)
        features = {"filled": float(len(filled)), "different": float(len({name.casefold() for name in filled}))}
        return Score(rewards, sum(rewards) / len(rewards), features, self._feedback(names, rewards))

    def _feedback(self, names: tuple[str, ...], rewards: tuple[float, ...]) -> str:
        """What is wrong, without the right names; first what the others may rest on."""
        empty = [mask for mask, name in zip(self.masks, names, strict=True) if not name]
        marks = list(zip(self.masks, names, rewards, strict=True))
        wrong = [f"{mask} is not {name[:60]}" for mask, name, right in reversed(marks) if name and not right]
        told = [f"no name for {', '.join(empty)}"] if empty else []
        text = "; ".join([*told, *wrong])
        return f"{text[0].upper()}{text[1:]}." if text else ""


def _texts(row: Mapping[str, Any], name: str, where: str, fewest: int) -> tuple[str, ...]:
    found = field_of(row, name, list, where)
    if len(found) < fewest or not all(isinstance(text, str) for text in found):
        raise BadAddress(f"{where}: {name} is no list of {fewest} texts or more")
    return tuple(found)
