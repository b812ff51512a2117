"""The settings of a pretraining and its reports. Imports no torch, so that a command line can read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpo.embedded.checkpoint import PREFIX, checkpoint_path, dialect_of
from vpo.embedded.dialects import TaughtDialect, all_dialects, open_dialect
from vpo.embedded.fidelity import FidelityComparison
from vpo.embedded.words import DIALECT, EDIT_DIALECT
from vpo.policies.prompt_formats import is_token_format

if TYPE_CHECKING:
    from vpo.training.config import Precision


@dataclass(frozen=True)
class PretrainConfig:
    """Size and schedule; the embedded base policy was made with the defaults.

    dialect: a token language (vpo.embedded.dialects)
    start: folder of the embedded policy whose weights training starts from, of this size; None = from scratch
    large_share: of the lessons that are on large boards, which only maze-edit covers
    seconds: stop after this long instead of after `steps`; the schedule then follows the clock
    batch: lessons per step
    sort_over: batches whose lessons are sorted by length together, so that little is padding
    precision: "bf16" multiplies in bfloat16 (fast if the processor has AMX or AVX-512 BF16), "fp32" does
        not, "auto" looks
    measured: validation mazes of each kind for the fidelity, at most 100; 0 = none
    """

    dialect: str = DIALECT
    start: str | None = None
    large_share: float = 0.0

    steps: int = 1200
    seconds: float | None = None
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
    measured: int = 100


@dataclass(frozen=True)
class PretrainProgress:
    """The progress of training. loss: nats a token, mean since the last report."""

    step: int
    done: float
    loss: float
    tokens: int
    seconds: float


@dataclass(frozen=True)
class Pretraining:
    """The result of a pretraining. fidelity: by set of mazes, those of each kind that the language has words for."""

    history: list[PretrainProgress]
    fidelity: Mapping[str, FidelityComparison] = field(default_factory=dict)


def languages() -> dict[str, TaughtDialect]:
    """The languages of `evo pretrain`, by name."""
    return {each.language: each for each in all_dialects().values() if isinstance(each, TaughtDialect)}


def make_config(language: str, start: str | None = None, lr: float | None = None, **given: Any) -> PretrainConfig:
    """The configuration of a pretraining of one of `languages`, with settings of PretrainConfig.

    start: embedded:NAME or a folder
    Raises ValueError, in one line, for invalid settings, BadAddress for an unknown `start`.
    """
    dialect = languages()[language]
    if start is not None:
        folder = checkpoint_path(start) if start.startswith(PREFIX) else Path(start)
        if not is_token_format(dialect_of(folder)):
            raise ValueError(f"{start} is no embedded policy; name embedded:base or a folder of one")
        if open_dialect(dialect_of(folder)).speaks_of != dialect.speaks_of:
            raise ValueError(f"{start} speaks {dialect_of(folder)}, of which nothing serves {language}")
        given["start"] = str(folder)
    if lr is not None:
        given["learning_rate"] = lr
    config = PretrainConfig(dialect=dialect.name, **{**dialect.pretraining, **given})
    if config.large_share and config.dialect != EDIT_DIALECT:
        raise ValueError("only maze-edit has words for large boards")
    if config.width % config.heads or config.width // config.heads % 2:
        raise ValueError(f"width {config.width} must be an even multiple of heads {config.heads}")
    return config
