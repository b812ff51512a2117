"""Riddles of EUREQA's kind, in its schema: a walk over six entities, of which the last is given.

Open riddles are about a made-up world and come with its facts among irrelevant ones, so that they can be solved by
reading. Closed ones are about the real world (the module `known`) and come without facts. In both, a layer's relation
to the next one leaves only one entity, which a solver proves.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from evo.plugins.text_tasks.eureqa.known import draw_known_walk
from evo.plugins.text_tasks.world import ALL, RELATIONS, Fact, Names, draw_walk, read_facts

LEVELS = {
    "": "riddles over made-up facts, 12 of them irrelevant",
    "easy": "riddles over made-up facts, 3 of them irrelevant",
    "hard": "riddles over made-up facts, with a better known decoy for each",
    "closed": "riddles over well-known facts, which are not given",
}
_DEPTH = 5
_BESIDE = {"": 12, "easy": 3, "hard": 12}
_MASKS = {"person": "Person", "town": "Town", "firm": "Company", "river": "River", "book": "Book"}
_TRAITS = {
    "person": ("plays the harp", "keeps bees", "collects maps", "speaks Latin", "paints ships", "sings bass"),
    "town": ("has a salt market", "has nine bridges", "was rebuilt in stone", "holds a spring fair", "has no walls"),
    "firm": ("makes bells", "weaves linen", "prints maps", "sells clocks", "ships grain", "casts type"),
    "river": ("freezes in winter", "carries red silt", "has no bridges", "is known for its eels", "runs dry in summer"),
    "book": ("has two prefaces", "is printed in blue", "was banned twice", "is told backwards", "has no heroes"),
}
_KNOWN_MORE = 2
"""Further facts that a better known look-alike is named in."""


def draw_riddle(rng: random.Random, level: str, split: str) -> dict[str, Any]:
    """A row of EUREQA's schema, with `facts` if the riddle is open. split: "train" and "test" share no names of
    made-up entities, and no walk over known ones."""
    if level == "closed":
        entities, masks, sentences = draw_known_walk(rng, split)
        return _row(rng, level, entities, masks, sentences)
    world = _World(rng, split)
    world.add_layers(decoys=level == "hard")
    world.add_beside(_BESIDE[level])
    walk, facts = world.walk, [fact.sentence() for fact in world.facts] + world.traits
    rng.shuffle(facts)
    prove(walk, facts)
    masks = [f"{_MASKS[kind]} {letter}" for kind, letter in zip(world.kinds, "ABCDEF", strict=True)]
    shown = {fact.subjects[0]: mask for fact, mask in zip(walk, masks, strict=False)}
    sentences = []
    for fact in walk:
        name, value = fact.subjects[0], shown.get(fact.value, fact.value)
        related = Fact(fact.relation, (shown[name],), value).sentence()
        sentences.append(f"{shown[name]} {world.trait_of[name]}. {related}")
    return {
        **_row(rng, level, [*(fact.subjects[0] for fact in walk), walk[-1].value], masks, sentences),
        "facts": facts,
    }


def _row(
    rng: random.Random, level: str, entities: Sequence[str], masks: Sequence[str], sentences: Sequence[str]
) -> dict[str, Any]:
    return {
        "idx": f"synthetic_{level or 'open'}_{rng.getrandbits(32):08x}",
        "question": list(sentences),
        "entity_masks": list(masks),
        "entities": [name.replace(" ", "_") for name in entities],
    }


def prove(walk: Sequence[Fact], facts: Sequence[str]) -> None:
    """Raises RuntimeError unless each layer's relation to the next one leaves only one entity by the stated facts."""
    stated = [fact for text in facts for fact in read_facts(text)]
    for wanted in walk:
        candidates = [f.subjects for f in stated if (f.relation, f.value) == (wanted.relation, wanted.value)]
        if candidates != [wanted.subjects]:
            raise RuntimeError(f"{wanted.sentence()} leaves {len(candidates)} entities")


class _World:
    """walk: the fact of each layer, A's first; facts: all of them; traits: in sentences; kinds: of A to F"""

    def __init__(self, rng: random.Random, split: str) -> None:
        self.rng, self.names = rng, Names(rng, split)
        kind, relations = draw_walk(rng, _DEPTH)
        self.kinds = [kind, *(RELATIONS[name].value for name in relations)]
        entities = [self.names.draw(kind) for kind in self.kinds]
        self.walk = [
            Fact(relation, (entity,), value)
            for relation, entity, value in zip(relations, entities[:-1], entities[1:], strict=True)
        ]
        self.facts = list(self.walk)
        self.traits: list[str] = []
        self.trait_of: dict[str, str] = {}

    def add_layers(self, decoys: bool) -> None:
        """The facts about the entity of each layer; with `decoys` the same facts about another one, which is named
        more often but has another relation to the next layer."""
        for fact, kind in zip(self.walk, self.kinds, strict=False):
            name = fact.subjects[0]
            self._say(name, kind, self.rng.choice(_TRAITS[kind]))
            if not decoys:
                continue
            decoy = self.names.draw(kind)
            self._say(decoy, kind, self.trait_of[name])
            own = [r for r in RELATIONS.values() if r.subjects == (kind,) and r.name != fact.relation]
            further = self.rng.sample(own, min(_KNOWN_MORE, len(own)))
            for relation in (RELATIONS[fact.relation], *further):
                self.facts.append(Fact(relation.name, (decoy,), self.names.draw(relation.value)))

    def add_beside(self, number: int) -> None:
        """Irrelevant facts: alternately the relation of a layer between others, and others about the entities."""
        said = Counter((fact.relation, fact.subjects[0]) for fact in self.facts)
        for turn in range(number):
            fact, kind = self.rng.choice(list(zip(self.walk, self.kinds, strict=False)))
            free = [r for r in RELATIONS.values() if r.subjects == (kind,) and not said[r.name, fact.subjects[0]]]
            if turn % 2 and free:
                relation, subject = self.rng.choice(free), fact.subjects[0]
            else:
                relation, subject = ALL[fact.relation], self.names.draw(kind)
                self._say(subject, kind, self.rng.choice(_TRAITS[kind]))
            said[relation.name, subject] += 1
            self.facts.append(Fact(relation.name, (subject,), self.names.draw(relation.value)))

    def _say(self, name: str, kind: str, trait: str) -> None:
        self.trait_of[name] = trait
        self.traits.append(f"{name} {trait}.")
