"""An embedded base policy from nothing, on one core, in minutes:

    python -m vpo.languages.pretrain DIR --language maze

Next-token training on the lessons of a planner (vpo.languages.maze_lessons): a Llama decoder,
AdamW with a short warm-up and a linear decay to 5%, loss only on the chain's tokens. One seed gives
one checkpoint on one machine and torch version.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from vpo.languages.contract import DIALECT_KEY, LONGEST_CHAIN, PAD, STOP, UNKNOWN, open_dialect
from vpo.languages.maze_lessons import LARGE_SHARE, Lesson, Lessons
from vpo.languages.maze_words import BOARD_SIZES, DIALECT, EDIT_DIALECT, cell_of, vocabulary
from vpo.training.checkpoint import save_checkpoint
from vpo.training.config import TrainConfig
from vpo.training.model import make_optimizer, uses_bf16_autocast

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

_OPTIMIZER = TrainConfig(lr=2e-3, betas=(0.9, 0.95), weight_decay=0.01)
_WARM_UP, _FINAL_RATE, _CLIP = 100, 0.05, 1.0
_BATCH, _SORT_OVER = 64, 8
"""Lessons a step, and batches whose lessons are sorted by length together, so that little is padding."""


def pretrain(
    output: str | Path,
    dialect: str = DIALECT,
    *,
    steps: int = 1200,
    seed: int = 0,
    width: int = 128,
    layers: int = 4,
    heads: int = 4,
    large_share: float = LARGE_SHARE,
    report: Callable[[int, float], None] = lambda step, loss: None,
) -> None:
    """Train a base policy and save it in `output`; the one that ships was made with the defaults.

    width, layers, heads: of the model
    large_share: of the boards, in the edit language, which alone has words for large ones
    report: called with the number and the loss of every 50th step and of the last, nats a token
    Raises ValueError if no model has these sizes.
    """
    if steps < 1 or width % heads or width // heads % 2:
        raise ValueError("steps must be at least 1, width an even multiple of heads")
    settings = f"steps {steps}, seed {seed}, width {width}, layers {layers}, heads {heads}, large_share {large_share}"
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        model = build_model(width, layers, heads, seed, dialect)
        loss = _train(model, Lessons(seed, dialect=dialect, large_share=large_share), dialect, steps, report)
    finally:
        torch.set_num_threads(threads)
    save_checkpoint(model, build_tokenizer(dialect), output, _card(dialect, model, settings, loss))


def _train(
    model: LlamaForCausalLM, lessons: Lessons, dialect: str, steps: int, report: Callable[[int, float], None]
) -> float:
    """The last step's loss."""
    model.train()
    model.set_attn_implementation("eager")  # for these short rows on a CPU twice as fast as the fused kernel's backward
    optimizer, _ = make_optimizer(list(model.parameters()), _OPTIMIZER, "cpu")
    mixed = uses_bf16_autocast("auto", "cpu")
    ids = {word: i for i, word in enumerate(vocabulary(dialect))}
    waiting: list[list[Lesson]] = []
    for step in range(steps):
        waiting = waiting or _sorted_batches(lessons)
        rate = min((step + 1) / _WARM_UP, 1 - (1 - _FINAL_RATE) * step / steps)
        for group in optimizer.param_groups:
            group["lr"] = _OPTIMIZER.learning_rate * rate
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            loss = _chain_loss(model, waiting.pop(), ids)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), _CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if (step + 1) % 50 == 0 or step + 1 == steps:
            report(step + 1, loss.item())
    return loss.item()


def _sorted_batches(lessons: Lessons) -> list[list[Lesson]]:
    """Batches of lessons of like length, in an order that does not follow the length."""
    many = lessons.batch(_BATCH * _SORT_OVER)
    many.sort(key=lambda lesson: len(lesson.prompt) + len(lesson.chain))
    batches = [many[i : i + _BATCH] for i in range(0, len(many), _BATCH)]
    lessons.shuffle(batches)
    return batches


def _chain_loss(model: LlamaForCausalLM, batch: list[Lesson], ids: dict[str, int]) -> torch.Tensor:
    """Mean negative log-likelihood (nats) of the chains' tokens given their prompts."""
    longest = max(len(lesson.prompt) + len(lesson.chain) for lesson in batch)
    tokens = torch.zeros(len(batch), longest, dtype=torch.long)  # (B, T), padded on the right, where causal masks it
    answers = torch.zeros(len(batch), longest, dtype=torch.bool)
    for row, lesson in enumerate(batch):
        end = len(lesson.prompt) + len(lesson.chain)
        tokens[row, :end] = torch.tensor([ids[word] for word in (*lesson.prompt, *lesson.chain)])
        answers[row, len(lesson.prompt) : end] = True
    hidden = model.model(input_ids=tokens[:, :-1], use_cache=False).last_hidden_state  # (B, T-1, width)
    logits = model.lm_head(hidden[answers[:, 1:]])  # (N, V), only for learned tokens
    return torch.nn.functional.cross_entropy(logits.float(), tokens[answers])


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


def _card(dialect: str, model: LlamaForCausalLM, settings: str, loss: float) -> str:
    """The checkpoint's README.md: what the policy is, its settings and its last loss."""
    size = sum(p.numel() for p in model.parameters())
    boards = " and ".join(f"{size}x{size}" for size in BOARD_SIZES[dialect])
    edits = "or edits of the route that it is shown, " if dialect == EDIT_DIALECT else ""
    return f"""# A base policy, `{dialect}`

A Llama decoder of {size:,} parameters that writes routes {edits}through {boards} mazes, in the
`{dialect}` language (`vpo/languages/maze_words.py`). It imitates a planner that walks random shortest paths
through random way-points and knows nothing of gold, diamonds or lava; training by reward starts from it.

Made by `python -m vpo.languages.pretrain` with: {settings}. The loss ended at {loss:.4f} nats a token.
"""


def pretrain_command(arguments: Sequence[str]) -> int:
    """The command line of this module; its exit code."""
    languages = {"maze": DIALECT, "maze-edit": EDIT_DIALECT}
    parser = argparse.ArgumentParser(prog="python -m vpo.languages.pretrain", description="Train a base policy.")
    parser.add_argument("output", help="the directory of the new checkpoint")
    parser.add_argument("--language", choices=sorted(languages), default="maze")
    parser.add_argument("--large-share", type=float, default=LARGE_SHARE)
    for name, default in {"steps": 1200, "seed": 0, "width": 128, "layers": 4, "heads": 4}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    given = vars(parser.parse_args(arguments))
    output, dialect = given.pop("output"), languages[given.pop("language")]
    if (Path(output) / "config.json").exists():
        parser.error(f"{output} holds a checkpoint already; name another directory")

    def report(step: int, loss: float) -> None:
        print(f"step {step}  loss {loss:.3f}", flush=True)

    try:
        pretrain(output, dialect, report=report, **given)
    except ValueError as error:
        parser.error(str(error))
    print(f"{output}: done; try: evo run maze:test --limit 10 --policy {output}")
    return 0


if __name__ == "__main__":
    sys.exit(pretrain_command(sys.argv[1:]))
