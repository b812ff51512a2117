"""The README.md of a pretrained checkpoint."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from vpo.embedded.checkpoint import PREFIX, SHIPPED
from vpo.embedded.dialects import open_dialect
from vpo.embedded.pretrain_config import PretrainConfig, Pretraining

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM


def card(config: PretrainConfig, model: LlamaForCausalLM, done: Pretraining) -> str:
    """The checkpoint's README.md: what it is, how it was made, how the loss went, how faithful it is."""
    history = done.history
    size = sum(p.numel() for p in model.parameters())
    settings = ", ".join(f"{name} {value}" for name, value in (asdict(config) | {"start": _origin(config)}).items())
    dialect = open_dialect(config.dialect)
    shown = history[:: max(1, len(history) // 8)]
    if shown[-1] is not history[-1]:
        shown.append(history[-1])
    curve = "\n".join(f"| {p.step} | {p.tokens} | {p.seconds:.0f} | {p.loss:.4f} |" for p in shown)
    return f"""# A base policy, `{dialect.language}`

A Llama decoder of {size:,} parameters {dialect.describe_policy(config.large_share > 0)}

Made by `evo pretrain {dialect.language}` with: {settings}.

| step | chain tokens | seconds | loss (nats a token) |
|---|---|---|---|
{curve}
{fidelity_table(done)}"""


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
