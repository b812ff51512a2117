"""`musique-facts` as the entry point of "evo.dialects" names it: the language of policies for musique:synthetic."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evo.plugins.text_tasks.facts import language as musique
from evo.plugins.text_tasks.facts import words as musique_words
from evo.plugins.text_tasks.musique.problem import MusiqueProblem
from problems.contract import Problem
from vpo.embedded.dialects import require

if TYPE_CHECKING:
    import numpy as np
    from transformers import LlamaForCausalLM

    from vpo.embedded.lesson import Teacher

MUSIQUE_FORMAT = "musique-facts"
CHECKPOINT = Path(__file__).resolve().parents[1] / "checkpoint"


@dataclass
class MusiqueDialect:
    name: str = MUSIQUE_FORMAT
    speaks_of: str = "made-up questions (musique:synthetic)"
    answer_format: str = "tagged"
    example: str = "musique:synthetic/0"
    searched: str = "musique:synthetic-medium"
    language: str = "musique"
    pretraining: Mapping[str, Any] = field(
        default_factory=lambda: {"width": 96, "layers": 3, "batch": 32, "steps": 600, "warm_up": 30}
    )
    checkpoints: Mapping[str, Path] = field(default_factory=lambda: {"musique": CHECKPOINT})
    rope_theta: float = 1e6
    grammar: None = None

    def teacher(self, seed: int, held_out: Container[str] | None, large_share: float) -> Teacher:
        from evo.plugins.text_tasks.facts.lessons import FactLessons

        return FactLessons(seed)

    def place(self, model: LlamaForCausalLM) -> None:
        from evo.plugins.text_tasks.facts.placing import place_heads

        place_heads(model, self.vocabulary())

    def describe_policy(self, large_boards: bool) -> str:
        return f"""that answers questions over made-up facts (musique:synthetic), in the
`{self.name}` language (`evo/plugins/text_tasks/facts/language.py`). It imitates a hasty reader, who looks up three
steps of ten and else takes a paragraph that has the relation or the name, or any; training by reward starts from it.
Drills between the lessons have one step each, with right answers. The reader's questions are of the levels easy
and medium, the drills' paragraphs of all; all are fresh draws, with the names of both splits."""

    def understands(self, problem: Problem) -> bool:
        return isinstance(problem, MusiqueProblem)

    def vocabulary(self) -> tuple[str, ...]:
        return musique_words.WORDS

    def most_tokens(self, answers: int) -> int:
        return musique_words.most_tokens(answers)

    def prompt(self, problem: Problem, parent: str, rewards: Sequence[float] | None, answers: int) -> str:
        asked = require(problem, MusiqueProblem, self)
        facts = musique.facts_of(asked)
        shown = musique.encode_parent(parent, facts) if parent else []
        marks = problem.score(parent).rewards if shown and rewards is None else rewards or ()
        return musique.encode_prompt(musique.question_of(asked), facts, shown, marks, answers)

    def prefill(self, problem: Problem, parent: str, rng: np.random.Generator) -> str:
        """The first answer as far as some word of it."""
        asked = require(problem, MusiqueProblem, self)
        words = musique.encode_answer(parent, musique.question_of(asked), musique.facts_of(asked))
        return " ".join([musique_words.ANSWER, *words[: rng.integers(1, len(words))]]) if words else ""

    def read(self, text: str, prompt: str) -> list[str]:
        return musique.decode_chain(text, prompt)

    def write(self, problem: Problem, answers: Sequence[str], prompt: str) -> str | None:
        asked = require(problem, MusiqueProblem, self)
        question, facts = musique.question_of(asked), musique.facts_of(asked)
        said = (musique.encode_answer(text, question, facts) for text in answers)
        words = [word for answer in said for word in (musique_words.ANSWER, *answer)]
        text = " ".join(words)
        return text if self.read(text, prompt) == list(answers) else None


DIALECT = MusiqueDialect()
