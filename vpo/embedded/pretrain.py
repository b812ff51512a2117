"""`evo pretrain`: an embedded base policy, from scratch or from another one, on one core, in minutes.

Next-token training on the lessons of the language's teacher (vpo.embedded.lessons for mazes): a Llama decoder, AdamW
with a short warm-up and a linear decay to 5%, loss only on the chain's tokens. One seed and one number of steps give
one checkpoint on one machine and torch version; with a budget of seconds the schedule follows the clock and no two runs
are the same. The card of a maze policy reports how much it keeps of its parents (vpo.embedded.fidelity).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from vpo.embedded.checkpoint import PREFIX, SHIPPED, build_model, build_tokenizer, fill
from vpo.embedded.dialects import TaughtDialect, open_dialect
from vpo.embedded.fidelity import KINDS, FidelityComparison, compare
from vpo.embedded.lesson import Lesson, Teacher
from vpo.embedded.pretrain_config import PretrainConfig, Pretraining, PretrainProgress

if TYPE_CHECKING:
    import torch
    from transformers import LlamaForCausalLM


def pretrain(
    output: str | Path,
    config: PretrainConfig | None = None,
    *,
    held_out: Container[str] | None = None,
    report: Callable[[PretrainProgress], None] | None = None,
    every: int = 50,
) -> Pretraining:
    """Train a base policy and save it in `output`. `report` is called each `every` steps and at the end.

    held_out: tiles of boards that must not be learned; None = those of all sets. Questions have other seeds
    Raises FloatingPointError if the loss is no longer finite, ValueError for an invalid config.
    """
    import torch

    from vpo.training.checkpoint import save_checkpoint

    config = config or PretrainConfig()
    if config.steps < 1 or config.batch < 1 or config.width % config.heads or config.width // config.heads % 2:
        raise ValueError("steps and batch must be at least 1, width an even multiple of heads")
    threads = torch.get_num_threads()
    torch.set_num_threads(config.threads)
    try:
        model, history = _train(config, held_out, report, every)
        done = _measured(config, model, history)
    finally:
        torch.set_num_threads(threads)
    save_checkpoint(model, build_tokenizer(config.dialect), output, card(config, model, done))
    return done


def _measured(config: PretrainConfig, model: LlamaForCausalLM, history: list[PretrainProgress]) -> Pretraining:
    if not config.measured or config.dialect not in KINDS:
        return Pretraining(history)
    import asyncio

    from vpo.hf.policy import TransformersPolicy

    async def compared() -> dict[str, FidelityComparison]:
        policy = TransformersPolicy(model, build_tokenizer(config.dialect), version="new", threads=config.threads)
        try:
            return {kind: await compare(policy, kind, config.measured) for kind in KINDS[config.dialect]}
        finally:
            await policy.close()

    return Pretraining(history, asyncio.run(compared()))


def _train(
    config: PretrainConfig,
    held_out: Container[str] | None,
    report: Callable[[PretrainProgress], None] | None,
    every: int,
) -> tuple[LlamaForCausalLM, list[PretrainProgress]]:
    import torch

    from vpo.training.optimizer import uses_bf16_autocast

    model = build_model(config.width, config.layers, config.heads, config.seed, config.dialect)
    if config.start is not None:
        fill(model, config.start)
    model.train()
    model.set_attn_implementation("eager")  # for these short rows on a CPU twice as fast as the fused kernel's backward
    vectors = [p for p in model.parameters() if p.ndim < 2]
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
        lr=config.learning_rate,
        betas=(0.9, 0.95),
        fused=True,
    )
    mixed = uses_bf16_autocast(config.precision, "cpu")
    lessons = _taught(config).teacher(config.seed, held_out, config.large_share)
    ids = {word: i for i, word in enumerate(open_dialect(config.dialect).vocabulary())}
    history: list[PretrainProgress] = []
    waiting: list[list[Lesson]] = []
    losses: list[torch.Tensor] = []
    tokens, started, step = 0, time.monotonic(), 0
    while True:
        elapsed = time.monotonic() - started
        done = step / config.steps if config.seconds is None else elapsed / config.seconds
        if step and (step % every == 0 or done >= 1):
            loss = float(torch.stack(losses).mean())
            if loss != loss or loss == float("inf"):
                raise FloatingPointError(f"the loss is {loss} at step {step}; try a smaller learning rate")
            history.append(PretrainProgress(step, min(done, 1.0), loss, tokens, elapsed))
            losses = []
            if report is not None:
                report(history[-1])
        if done >= 1:
            return model, history
        if not waiting:
            waiting = _sorted_batches(lessons, config)
        rate = config.learning_rate * min((step + 1) / config.warm_up, 1 - (1 - config.final_rate) * done)
        for group in optimizer.param_groups:
            group["lr"] = rate
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            loss_now, count = chain_loss(model, waiting.pop(), ids)
        loss_now.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss_now.detach().float())
        tokens += count
        step += 1


def _sorted_batches(lessons: Teacher, config: PretrainConfig) -> list[list[Lesson]]:
    """`sort_over` batches of lessons of like length, in an order that does not follow the length."""
    many = lessons.batch(config.batch * config.sort_over)
    many.sort(key=lambda lesson: len(lesson.prompt) + len(lesson.chain))
    batches = [many[i : i + config.batch] for i in range(0, len(many), config.batch)]
    lessons.shuffle(batches)
    return batches


def chain_loss(model: LlamaForCausalLM, batch: list[Lesson], ids: dict[str, int]) -> tuple[torch.Tensor, int]:
    """Mean negative log-likelihood (nats) of the chains' tokens given their prompts, and how many tokens that is."""
    import torch

    longest = max(len(lesson.prompt) + len(lesson.chain) for lesson in batch)
    tokens = torch.zeros(len(batch), longest, dtype=torch.long)  # (B, T), padded on the right, where causal masks it
    answers = torch.zeros(len(batch), longest, dtype=torch.bool)
    for row, lesson in enumerate(batch):
        end = len(lesson.prompt) + len(lesson.chain)
        tokens[row, :end] = torch.tensor([ids[word] for word in (*lesson.prompt, *lesson.chain)])
        answers[row, len(lesson.prompt) : end] = True
        if lesson.given:
            answers[row, [len(lesson.prompt) + place for place in lesson.given]] = False
    hidden = model.model(input_ids=tokens[:, :-1], use_cache=False).last_hidden_state  # (B, T-1, width)
    logits = model.lm_head(hidden[answers[:, 1:]])  # (N, V), only for learned tokens
    return torch.nn.functional.cross_entropy(logits.float(), tokens[answers]), int(answers.sum())


def card(config: PretrainConfig, model: LlamaForCausalLM, done: Pretraining) -> str:
    """The checkpoint's README.md: what the policy is, its settings, its loss, and how much it keeps of its parents."""
    history = done.history
    size = sum(p.numel() for p in model.parameters())
    settings = ", ".join(f"{name} {value}" for name, value in (asdict(config) | {"start": _origin(config)}).items())
    dialect = _taught(config)
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
    """The start of the training, without folder paths."""
    if config.start is None:
        return None
    folder = Path(config.start)
    return f"{PREFIX}{folder.name}" if folder.parent == SHIPPED else folder.name


def fidelity_table(done: Pretraining) -> str:
    """The fidelity as a Markdown table, "" if it was not measured."""
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


def _taught(config: PretrainConfig) -> TaughtDialect:
    dialect = open_dialect(config.dialect)
    assert isinstance(dialect, TaughtDialect)
    return dialect
