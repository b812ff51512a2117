"""The embedded policy as ordinary transformers files: how to build, find and recognise it.

A checkpoint is config.json, model.safetensors, tokenizer.json, tokenizer_config.json, generation_config.json and a
card, README.md; AutoModelForCausalLM and AutoTokenizer load it like any other. config.json carries `evo_dialect`, which
names its token language (vpo.embedded.dialects).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from problems.address import did_you_mean
from problems.contract import BadAddress
from problems.retired import refuse_retired
from vpo.embedded.words import DIALECT, MOST_ANSWERS, PAD, STOP, UNKNOWN
from vpo.policies.prompt_formats import DIALECT_KEY

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

SHIPPED = Path(__file__).parent / "checkpoints"
PREFIX = "embedded:"
RETIRED = ("edit", "edit-grpo", "edit-improve-1", "edit-improve-5", "edit-improve-grpo", "edit-improve-vpo", "edit-vpo")
"""Policies that the package once included; docs/guides/train.md has the commands that train them."""
LARGEST_MB = 12.0
"""Most megabytes (10**6 bytes) of a shipped checkpoint, all its files together."""


def shipped() -> list[str]:
    """Names of the policies in the package and its plug-ins, `base` for embedded:base."""
    return sorted({**_of_package(), **_of_plugins()})


def _of_package() -> dict[str, Path]:
    return {path.parent.name: path.parent for path in SHIPPED.glob("*/config.json")}


def _of_plugins() -> dict[str, Path]:
    from vpo.embedded.dialects import all_dialects  # imports mazes and numpy, which finding a checkpoint does not need

    brought = [dialect.checkpoints for dialect in all_dialects().values()]
    return {name: folder for checkpoints in brought for name, folder in checkpoints.items()}


def checkpoint_path(name: str) -> Path:
    """The folder of an embedded policy, named `base` or `embedded:base`. Raises BadAddress if there is none of that
    name."""
    short = name.removeprefix(PREFIX)
    if (folder := _of_package().get(short) or _of_plugins().get(short)) is None:
        known = [PREFIX + other for other in shipped()]
        refuse_retired(PREFIX + short)
        if short in RETIRED:
            raise BadAddress(
                f"{PREFIX}{short} is no longer in the package; docs/guides/train.md has the commands that make it, "
                f"and {PREFIX}edit-solve is the operator that stays"
            )
        have = ", ".join(known) or "none; make one with: evo pretrain maze"
        hint = did_you_mean(PREFIX + short, known, most=1, like=0.8)
        raise BadAddress(f"no policy {PREFIX}{short} ships with this version; there is {have}{hint}")
    return folder


def dialect_of(folder: str | Path) -> str:
    """The dialect that a checkpoint folder's config.json names, "chat" if it names none. Raises BadAddress, one
    line, on a file that cannot be read."""
    path = Path(folder) / "config.json"
    if not path.is_file():
        return "chat"
    try:
        return str(json.loads(path.read_text(encoding="utf-8")).get(DIALECT_KEY, "chat"))
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise BadAddress(f"{path} cannot be read as a model's configuration: {error}") from None


def build_tokenizer(dialect: str = DIALECT) -> PreTrainedTokenizerFast:
    """One token a word, words at white space."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    from vpo.embedded.dialects import open_dialect

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


def build_model(width: int, layers: int, heads: int, seed: int, dialect: str = DIALECT) -> LlamaForCausalLM:
    """A fresh Llama of `width` with `layers` layers in float32, with starting weights chosen by the language."""
    import torch
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    from vpo.embedded.dialects import TaughtDialect, open_dialect

    language = open_dialect(dialect)
    words = language.vocabulary()
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
        if isinstance(language, TaughtDialect):
            language.place(model)
    model.generation_config = GenerationConfig(
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        max_new_tokens=language.most_tokens(MOST_ANSWERS),
        pad_token_id=config.pad_token_id,
        eos_token_id=config.eos_token_id,
    )
    return model


def fill(model: LlamaForCausalLM, folder: str | Path) -> None:
    """Copy the weights of the embedded policy in `folder`, token by token.

    Tokens that it lacks stay as they are. Raises ValueError if the sizes differ.
    """
    import torch
    from transformers import AutoModelForCausalLM

    from vpo.embedded.dialects import open_dialect

    source = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    words = open_dialect(getattr(model.config, DIALECT_KEY)).vocabulary()
    own, others = model.state_dict(), source.state_dict()
    tables = ("model.embed_tokens.weight", "lm_head.weight")
    if own.keys() != others.keys() or any(own[n].shape[1:] != others[n].shape[1:] for n in own):
        raise ValueError(f"{folder}: its model is of another size")
    # a checkpoint from before a language grew has only its first words
    known = {word: i for i, word in enumerate(open_dialect(dialect_of(folder)).vocabulary()[: len(others[tables[0]])])}
    with torch.no_grad():
        for name, tensor in own.items():
            if name not in tables:
                tensor.copy_(others[name])
                continue
            for i, word in enumerate(words):
                if word in known:
                    tensor[i] = others[name][known[word]]
