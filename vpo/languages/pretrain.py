"""An embedded base policy from nothing, on one core, in minutes:

    python -m vpo.languages.pretrain DIR --language maze

Next-token training on the lessons of a planner (vpo.languages.maze_lessons): a Llama decoder,
AdamW with a short warm-up and a linear decay to 5%, loss only on the chain's tokens. One seed gives
one checkpoint on one machine and torch version.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from vpo.languages.contract import DIALECT_KEY, LONGEST_CHAIN, PAD, STOP, UNKNOWN, open_dialect
from vpo.languages.maze_lessons import LARGE_SHARE, Lesson, Lessons
from vpo.languages.maze_words import BOARD_SIZES, DIALECT, EDIT_DIALECT, cell_of, vocabulary
from vpo.training.checkpoint import save_checkpoint
from vpo.training.config import Precision
from vpo.training.model import uses_bf16_autocast

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast


@dataclass(frozen=True)
class PretrainConfig:
    """Size and schedule; the embedded base policy was made with the defaults.

    dialect: a language of mazes
    batch: lessons per step
    large_share: of the boards, in the edit language, which alone has words for large ones
    sort_over: batches whose lessons are sorted by length together, so that little is padding
    precision: "bf16" multiplies in bfloat16 (fast if the processor has AMX or AVX-512 BF16), "fp32" does not, "auto"
        looks
    """

    dialect: str = DIALECT
    steps: int = 1200
    seed: int = 0
    width: int = 128
    layers: int = 4
    heads: int = 4
    batch: int = 64
    sort_over: int = 8
    learning_rate: float = 2e-3
    warm_up: int = 100
    final_rate: float = 0.05
    weight_decay: float = 0.01
    clip: float = 1.0
    precision: Precision = "auto"
    threads: int = 1
    large_share: float = LARGE_SHARE


@dataclass(frozen=True)
class PretrainProgress:
    """The progress of training. loss: nats a token, mean since the last report."""

    step: int
    loss: float
    tokens: int
    seconds: float


def pretrain(
    output: str | Path,
    config: PretrainConfig = PretrainConfig(),  # noqa: B008 - it is frozen
    *,
    report: Callable[[PretrainProgress], None] | None = None,
    every: int = 50,
) -> list[PretrainProgress]:
    """Train a base policy and save it in `output`. `report` is called each `every` steps and at the end.

    Raises FloatingPointError if the loss is no longer finite, ValueError for an invalid config.
    """
    if config.steps < 1 or config.batch < 1 or config.width % config.heads or config.width // config.heads % 2:
        raise ValueError("steps and batch must be at least 1, width an even multiple of heads")
    threads = torch.get_num_threads()
    torch.set_num_threads(config.threads)
    try:
        model, history = _train(config, report, every)
    finally:
        torch.set_num_threads(threads)
    save_checkpoint(model, build_tokenizer(config.dialect), output, card(config, model, history))
    return history


def _train(
    config: PretrainConfig,
    report: Callable[[PretrainProgress], None] | None,
    every: int,
) -> tuple[LlamaForCausalLM, list[PretrainProgress]]:
    model = build_model(config.width, config.layers, config.heads, config.seed, config.dialect)
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
    lessons = Lessons(config.seed, dialect=config.dialect, large_share=config.large_share)
    ids = {word: i for i, word in enumerate(vocabulary(config.dialect))}
    history: list[PretrainProgress] = []
    waiting: list[list[Lesson]] = []
    losses: list[torch.Tensor] = []
    tokens, started = 0, time.monotonic()
    for step in range(config.steps):
        waiting = waiting or _sorted_batches(lessons, config)
        decay = 1 - (1 - config.final_rate) * step / config.steps
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * min((step + 1) / config.warm_up, decay)
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            loss_now, count = chain_loss(model, waiting.pop(), ids)
        loss_now.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss_now.detach().float())
        tokens += count
        if (step + 1) % every == 0 or step + 1 == config.steps:
            loss, losses = float(torch.stack(losses).mean()), []
            if not math.isfinite(loss):
                raise FloatingPointError(f"the loss is {loss} at step {step + 1}; try a smaller learning rate")
            history.append(PretrainProgress(step + 1, loss, tokens, time.monotonic() - started))
            if report is not None:
                report(history[-1])
    return model, history


def _sorted_batches(lessons: Lessons, config: PretrainConfig) -> list[list[Lesson]]:
    """`sort_over` batches of lessons of like length, in an order that does not follow the length."""
    many = lessons.batch(config.batch * config.sort_over)
    many.sort(key=lambda lesson: len(lesson.prompt) + len(lesson.chain))
    batches = [many[i : i + config.batch] for i in range(0, len(many), config.batch)]
    lessons.shuffle(batches)
    return batches


def chain_loss(model: LlamaForCausalLM, batch: list[Lesson], ids: dict[str, int]) -> tuple[torch.Tensor, int]:
    """Mean negative log-likelihood (nats) of the chains' tokens given their prompts, and how many tokens that is."""
    longest = max(len(lesson.prompt) + len(lesson.chain) for lesson in batch)
    tokens = torch.zeros(len(batch), longest, dtype=torch.long)  # (B, T), padded on the right, where causal masks it
    answers = torch.zeros(len(batch), longest, dtype=torch.bool)
    for row, lesson in enumerate(batch):
        end = len(lesson.prompt) + len(lesson.chain)
        tokens[row, :end] = torch.tensor([ids[word] for word in (*lesson.prompt, *lesson.chain)])
        answers[row, len(lesson.prompt) : end] = True
    hidden = model.model(input_ids=tokens[:, :-1], use_cache=False).last_hidden_state  # (B, T-1, width)
    logits = model.lm_head(hidden[answers[:, 1:]])  # (N, V), only for learned tokens
    return torch.nn.functional.cross_entropy(logits.float(), tokens[answers]), int(answers.sum())


def build_tokenizer(dialect: str) -> PreTrainedTokenizerFast:
    """One token a word, words at white space."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = open_dialect(dialect).vocabulary()
    core = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=UNKNOWN))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=STOP,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=512,
    )


def build_model(width: int, layers: int, heads: int, seed: int, dialect: str) -> LlamaForCausalLM:
    """A fresh Llama of `width` with `layers` layers in float32, with starting weights in which near cells are near."""
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    words = open_dialect(dialect).vocabulary()
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=width,
        intermediate_size=-(-width * 8 // 3 // 32) * 32,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=512,
        tie_word_embeddings=False,
        pad_token_id=words.index(PAD),
        bos_token_id=None,
        eos_token_id=words.index(STOP),
        initializer_range=0.5 * width**-0.5,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
    )
    setattr(config, DIALECT_KEY, dialect)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
        if dialect in BOARD_SIZES:
            _place_cells(model, words, BOARD_SIZES[dialect][-1])
    model.generation_config = GenerationConfig(
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        max_new_tokens=open_dialect(dialect).most_tokens(LONGEST_CHAIN),
        pad_token_id=config.pad_token_id,
        eos_token_id=config.eos_token_id,
    )
    return model


def _place_cells(model: LlamaForCausalLM, words: Sequence[str], size: int) -> None:
    """Start the tokens of one cell from a common vector, and those of near cells from near ones.

    Wall, gold, diamond, lava and visit tokens are five words for the same 81 places; from independent random vectors,
    training would have to learn that 81 times. Afterwards they train freely like all other weights. size: of the
    largest board
    """
    waves = torch.arange(size)[:, None] * torch.pi * torch.tensor([1.0, 2.0, 4.0]) / size
    line = torch.cat([waves.sin(), waves.cos(), torch.eye(size)], dim=1)  # (size, size + 6), of a row or a column
    features = torch.cat([line[:, None].expand(size, size, -1), line[None].expand(size, size, -1)], dim=2)
    features = torch.cat([features.reshape(size * size, -1), torch.eye(size * size)], dim=1)
    tables: list[torch.nn.Parameter] = [model.model.embed_tokens.weight, model.lm_head.weight]
    for table in tables:
        spread = table.detach().std()
        places = features @ torch.randn(features.shape[1], table.shape[1])
        places = places / places.std() * spread
        with torch.no_grad():
            for i, word in enumerate(words):
                cell = cell_of(word, size)
                if cell is not None:
                    table[i] = 0.6 * table[i] + 0.8 * places[cell]


def card(config: PretrainConfig, model: LlamaForCausalLM, history: Sequence[PretrainProgress]) -> str:
    """The checkpoint's README.md: what the policy is, its settings and its loss."""
    size = sum(p.numel() for p in model.parameters())
    settings = ", ".join(f"{name} {value}" for name, value in asdict(config).items())
    boards = " and ".join(f"{size}x{size}" for size in BOARD_SIZES[config.dialect])
    edits = "or edits of the route that it is shown, " if config.dialect == EDIT_DIALECT else ""
    shown = [*history[: -1 : max(1, len(history) // 8)], history[-1]]
    curve = "\n".join(f"| {p.step} | {p.tokens} | {p.seconds:.0f} | {p.loss:.4f} |" for p in shown)
    return f"""# A base policy, `{config.dialect}`

A Llama decoder of {size:,} parameters that writes routes {edits}through {boards} mazes, in the
`{config.dialect}` language (`vpo/languages/maze_words.py`). It imitates a planner that walks random shortest paths
through random way-points and knows nothing of gold, diamonds or lava; training by reward starts from it.

Made by `python -m vpo.languages.pretrain` with: {settings}.

| step | chain tokens | seconds | loss (nats a token) |
|---|---|---|---|
{curve}
"""


def pretrain_command(arguments: Sequence[str]) -> int:
    """The command line of this module; its exit code."""
    languages = {"maze": DIALECT, "maze-edit": EDIT_DIALECT}
    parser = argparse.ArgumentParser(prog="python -m vpo.languages.pretrain", description="Train a base policy.")
    parser.add_argument("output", help="the directory of the new checkpoint")
    parser.add_argument("--language", choices=sorted(languages), default="maze")
    kinds = {"learning_rate": float, "large_share": float, "precision": str}
    for setting in fields(PretrainConfig):
        if setting.name in (*kinds, "steps", "seed", "width", "layers", "heads", "batch", "threads"):
            flag = "--" + setting.name.replace("_", "-")
            parser.add_argument(flag, type=kinds.get(setting.name, int), default=None)
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    output, dialect = given.pop("output"), languages[given.pop("language")]
    if (Path(output) / "config.json").exists():
        parser.error(f"{output} holds a checkpoint already; name another directory")

    def report(now: PretrainProgress) -> None:
        rate = now.tokens / max(now.seconds, 1e-9)
        print(f"step {now.step}  loss {now.loss:.3f}  {rate:,.0f} tokens/s", flush=True)

    try:
        config = replace(PretrainConfig(dialect=dialect), **given)
        pretrain(output, config, report=report)
    except ValueError as error:
        parser.error(str(error))
    print(f"{output}: done; try: evo run maze:test --limit 10 --policy {output}")
    return 0


if __name__ == "__main__":
    sys.exit(pretrain_command(sys.argv[1:]))
