"""The README.md of a pretrained checkpoint."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from vpo.embedded.checkpoint import PREFIX, SHIPPED
from vpo.embedded.pretrain_config import LANGUAGES, PretrainConfig, Pretraining
from vpo.embedded.words import EDIT_DIALECT
from vpo.policies.prompt_formats import MUSIQUE_FORMAT

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM


def card(config: PretrainConfig, model: LlamaForCausalLM, done: Pretraining) -> str:
    """The checkpoint's README.md: what it is, how it was made, how the loss went, how faithful it is."""
    history = done.history
    size = sum(p.numel() for p in model.parameters())
    settings = ", ".join(f"{name} {value}" for name, value in (asdict(config) | {"start": _origin(config)}).items())
    language = next(name for name, dialect in LANGUAGES.items() if dialect == config.dialect)
    shown = history[:: max(1, len(history) // 8)]
    if shown[-1] is not history[-1]:
        shown.append(history[-1])
    curve = "\n".join(f"| {p.step} | {p.tokens} | {p.seconds:.0f} | {p.loss:.4f} |" for p in shown)
    return f"""# A base policy, `{language}`

A Llama decoder of {size:,} parameters {_does(config)}

Made by `evo pretrain {language}` with: {settings}.

| step | chain tokens | seconds | loss (nats a token) |
|---|---|---|---|
{curve}
{fidelity_table(done)}"""


def _does(config: PretrainConfig) -> str:
    if config.dialect == MUSIQUE_FORMAT:
        return f"""that answers questions over made-up facts (musique:synthetic), in the
`{config.dialect}` language (`vpo/embedded/musique/language.py`). It imitates a hasty reader, who looks up three
steps of ten and else takes a paragraph that has the relation or the name, or any; training by reward starts from it.
Drills between the lessons ask for one step each and are answered right. The reader's questions are of the levels easy
and medium, the drills' paragraphs of all; all are drawn anew, with the names of both splits."""
    boards = "9x9 and 13x13" if config.large_share else "9x9"
    edits = "or edits of the route that it is shown, " if config.dialect == EDIT_DIALECT else ""
    return f"""that writes routes {edits}through {boards} mazes, in the
`{config.dialect}` language (`vpo/embedded/language.py`). It imitates a planner that walks random shortest paths
through random way-points and knows nothing of gold, diamonds or lava; training by reward starts from it."""


def _origin(config: PretrainConfig) -> str | None:
    """Where training started, without the folders that it lay in."""
    if config.start is None:
        return None
    folder = Path(config.start)
    return f"{PREFIX}{folder.name}" if folder.parent == SHIPPED else folder.name


def fidelity_table(done: Pretraining) -> str:
    """The figures of fidelity in Markdown, "" where none were measured."""
    head = "| | valid | beginning kept | end kept | same | better | fitness |\n|---|---|---|---|---|---|---|"
    parts = []
    for kind, of in done.fidelity.items():
        lines = [
            " | ".join([f"| {name}", *(f"{n:.3f}" for n in (f.valid, f.beginning, f.end, f.same, f.better, f.fitness))])
            for name, f in (("parent shown", of.shown), ("no parent shown", of.unshown), ("the teacher", of.teacher))
        ]
        answers = f"{of.shown.answers:,} answers to mazes of {kind}"
        parts += [
            f"Fidelity to a parent, the fittest of 10 planner routes, on {answers}:",
            "",
            head,
            *(line + " |" for line in lines),
            "",
        ]
    return "\n".join(["", "## Fidelity", "", *parts]) if parts else ""
