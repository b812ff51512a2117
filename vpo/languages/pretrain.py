"""An embedded base policy from nothing, on one core, in minutes:

    python -m vpo.languages.pretrain DIR --language maze

Maximum likelihood of the lessons of a planner (vpo.languages.maze_lessons) by the trainer of all policies, from a Llama
decoder of random weights. One seed gives one checkpoint on one machine and torch version.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from vpo.languages.contract import DIALECT_KEY, LONGEST_CHAIN, PAD, STOP, UNKNOWN, open_dialect
from vpo.languages.maze_lessons import LARGE_SHARE, Lesson, Lessons
from vpo.languages.maze_words import BOARD_SIZES, DIALECT, EDIT_DIALECT, cell_of
from vpo.training.checkpoint import save_checkpoint
from vpo.training.config import IMPROVE, TrainConfig
from vpo.training.examples import Example, ExampleGroup
from vpo.training.trainer import PolicyTrainer

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

_BATCH = 64
"""Lessons a step."""
_TOKEN_BUDGET = 2_048
"""Tokens of a micro-batch: few, so that lessons of like length go together and little is padding."""
_RATE, _WARM_UP, _BETAS = 2e-3, 100, (0.9, 0.95)


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
    """Train a base policy and save it in `output`. The default sizes are those of the one that ships.

    width, layers, heads: of the model
    large_share: of the boards, in the edit language, which alone has words for large ones
    report: called with each step's number and loss, nats a token
    Raises ValueError if no model has these sizes, TrainingDiverged if the loss is no longer finite.
    """
    if steps < 1 or width % heads or width // heads % 2:
        raise ValueError("steps must be at least 1, width an even multiple of heads")
    settings = f"steps {steps}, seed {seed}, width {width}, layers {layers}, heads {heads}, large_share {large_share}"
    config = TrainConfig(
        method=IMPROVE, kl=0.0, lr=_RATE, betas=_BETAS, schedule="linear", warm_up=_WARM_UP, steps=steps,
        token_budget=_TOKEN_BUDGET,
    )  # fmt: skip
    model, tokenizer = build_model(width, layers, heads, seed, dialect), build_tokenizer(dialect)
    trainer = PolicyTrainer(model, tokenizer, config, folder=output)
    lessons = Lessons(seed, dialect=dialect, large_share=large_share)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for step in range(1, steps + 1):
            examples = [_example(lesson, tokenizer) for lesson in lessons.batch(_BATCH)]
            loss = trainer.step_on_examples(examples).metrics["policy_nll"]
            report(step, loss)
    finally:
        torch.set_num_threads(threads)
    save_checkpoint(model, tokenizer, output, _card(dialect, model, settings, loss))


def _example(lesson: Lesson, tokenizer: PreTrainedTokenizerFast) -> ExampleGroup:
    words = lesson.prompt, lesson.chain
    prompt, chain = (np.array(tokenizer.convert_tokens_to_ids(part), np.int32) for part in words)
    return ExampleGroup(prompt, (Example(chain, None, np.ones(len(chain), np.float32)),), 1.0)


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
        if step % 50 == 0:
            print(f"step {step}  loss {loss:.3f}", flush=True)

    try:
        pretrain(output, dialect, report=report, **given)
    except ValueError as error:
        parser.error(str(error))
    print(f"{output}: done; try: evo run maze:test --limit 10 --policy {output}")
    return 0


if __name__ == "__main__":
    sys.exit(pretrain_command(sys.argv[1:]))
