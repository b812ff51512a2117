"""Checkpoints on disk: an ordinary Hugging Face directory, with the state that an exact resume needs.

Everything is written into a new directory that takes its name at the end, so that a kill never leaves a mixture.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from problems.contract import BadAddress
from vpo.policies.checkpoint import TRAINED, load_adapter, without_bars
from vpo.policies.encoding import named_prompt_format
from vpo.training import TrainingStopped
from vpo.training.config import TrainConfig
from vpo.training.examples import ExampleGroup
from vpo.training.model import drop_adapter, has_adapter, merge_adapter, save_adapter

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TRAINER_STATE = "trainer.pt"
ADAPTER_FOLDER = "adapter"
"""Within a checkpoint: only the LoRA adapter, which is loaded over the base that it names."""
_PROBE_TOKENS = 32
_TOLERANCE, ROUNDED_TOLERANCE = 0.01, 0.3
"""Mean nats by which a saved policy may differ from the trained one: in float32, and where an adapter is merged into
weights of 16 bits."""
_FULL = 1 << 16
"""Bytes; with less left of a disk, it was full for what could not be written."""
_ANY_VERSION = {"TokenizersBackend": "PreTrainedTokenizerFast"}
"""Names that one version of transformers gives a tokenizer's class, and those that all versions (and vLLM) know."""


def save_checkpoint(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    folder: str | Path,
    card: str,
    state: Mapping[str, Any] | None = None,
    *,
    trained: Mapping[str, Any] | None = None,
    check: bool = False,
) -> None:
    """Write an ordinary checkpoint with its card (README.md) into `folder`, an adapter merged into the weights. The
    adapter itself goes into the folder `adapter` there.

    state: tensors, numbers, strings, lists and mappings of them, kept in a separate file
    trained: how it was trained, for vpo.policies.checkpoint
    check: compare what was written with the model, before it takes its place (check_saved). Raises TrainingStopped
    """

    def write(target: Path) -> None:
        _write(model, tokenizer, target, card, trained)
        if has_adapter(model):
            save_adapter(model, target / ADAPTER_FOLDER)
            _describe(target / ADAPTER_FOLDER, card, {**(trained or {}), "format": named_prompt_format(model.config)})
        if state is not None:
            torch.save(dict(state), target / TRAINER_STATE)
        if check:
            check_saved(model, target)

    replace_directory(Path(folder), write)


@torch.no_grad()
def check_saved(model: PreTrainedModel, folder: Path) -> None:
    """Load the policy of a checkpoint as its users do, then its adapter, and compare their log-probabilities with the
    model's, over the whole vocabulary after some fixed tokens. Raises TrainingStopped if they differ."""
    from transformers import AutoModelForCausalLM

    embeddings: Any = model.get_input_embeddings()
    ids = torch.from_numpy(np.random.default_rng(0).integers(0, len(embeddings.weight), (1, _PROBE_TOKENS)))

    def logprobs(of: PreTrainedModel) -> torch.Tensor:
        return of(input_ids=ids.to(of.device), use_cache=False).logits.float().log_softmax(-1).cpu()

    def saved() -> Iterator[tuple[str, PreTrainedModel]]:
        with without_bars():
            yield "policy", AutoModelForCausalLM.from_pretrained(folder, dtype=model.dtype)
        if has_adapter(model):
            yield "adapter", load_adapter(drop_adapter(model), str(folder / ADAPTER_FOLDER))

    ours, tolerance = logprobs(model), _TOLERANCE if model.dtype == torch.float32 else ROUNDED_TOLERANCE
    for name, policy in saved():
        policy.eval()
        try:
            theirs = logprobs(torch.nn.Module.to(policy, model.device))
        except torch.OutOfMemoryError:  # the trainer holds its weights and moments
            theirs = logprobs(torch.nn.Module.to(policy, "cpu"))
        if not (gap := float((ours - theirs).abs().mean())) <= tolerance:
            raise TrainingStopped(
                f"the saved {name} differs from the trained one by {gap:.3g} nats a token (at most {tolerance:g}); it "
                "was not put in place, and the last checkpoint is intact. Train without an adapter, or report this"
            )
        del policy  # before the next one is loaded


def load_state(folder: str | Path) -> dict[str, Any]:
    """What save_checkpoint was given as state. Raises FileNotFoundError where the folder holds none, BadAddress in one
    line where it cannot be read."""
    file = Path(folder) / TRAINER_STATE
    try:
        state = torch.load(file, weights_only=True)
    except FileNotFoundError:
        raise
    except Exception:  # of a damaged file torch's reader and the unpickler raise whatever they come upon
        state = None
    if not isinstance(state, dict):
        raise BadAddress(f"{file} is damaged; remove {folder} to continue from an earlier checkpoint")
    return state


def _write(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    card: str,
    trained: Mapping[str, Any] | None,
) -> None:
    with without_bars():
        whole = merge_adapter(model) if has_adapter(model) else model
        whole.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    settings = folder / "tokenizer_config.json"
    if settings.is_file():
        named = json.loads(settings.read_text(encoding="utf-8"))
        for here in ("is_local", "local_files_only"):  # how this process came by it
            named.pop(here, None)
        named["tokenizer_class"] = _ANY_VERSION.get(named.get("tokenizer_class", ""), named.get("tokenizer_class"))
        settings.write_text(json.dumps(named, indent=2) + "\n", encoding="utf-8")
    _describe(folder, card, trained)


def _describe(folder: Path, card: str, trained: Mapping[str, Any] | None) -> None:
    for file in folder.glob("*.safetensors"):
        file.chmod(0o644)  # written for the owner alone
    (folder / "README.md").write_text(card, encoding="utf-8")
    if trained is not None:
        (folder / TRAINED).write_text(json.dumps(dict(trained), indent=1) + "\n", encoding="utf-8")


def _is_full(error: Exception, target: Path) -> bool:
    """Whether writing into a folder failed for want of room there."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return "os error 28" in str(error) or shutil.disk_usage(target).free < _FULL


def replace_directory(folder: Path, write: Callable[[Path], None]) -> None:
    """Fill a new directory with `write` and put it where `folder` is. A kill leaves the old one, the new one or,
    between two renames, the old one as `folder.replaced`, which the next call puts back. In a folder that holds other
    things too, as a training run's does, the files are replaced one by one. Raises OSError, one line, where the disk is
    full; `folder` is as it was then."""
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = folder.with_name(f"{folder.name}.writing-{os.getpid()}")
    _put_back(folder)
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    try:
        try:
            write(fresh)
        except Exception as error:  # safetensors and torch have their own for what the system says
            if _is_full(error, fresh):
                hint = "Disk full: not saved. The previous checkpoint is intact; free space and resume."
                raise OSError(f"{folder}: {hint}") from error
            raise
        written = {file.name for file in fresh.iterdir()}
        if folder.exists() and {file.name for file in folder.iterdir()} - written:
            for name in sorted(written):
                if (fresh / name).is_dir():
                    shutil.rmtree(folder / name, ignore_errors=True)
                (fresh / name).replace(folder / name)
            return
        if folder.exists():
            folder.rename(_replaced(folder))
        fresh.rename(folder)
    finally:
        _put_back(folder)
        shutil.rmtree(fresh, ignore_errors=True)


def _replaced(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.replaced")


def _put_back(folder: Path) -> None:
    """Give a folder that was being replaced its name again, or delete it if it has been."""
    if _replaced(folder).exists() and not folder.exists():
        _replaced(folder).rename(folder)
    shutil.rmtree(_replaced(folder), ignore_errors=True)


def save_diverged(
    folder: Path,
    step: int,
    groups: Sequence[ExampleGroup],
    values: Mapping[str, float],
    config: TrainConfig,
) -> str:
    """Save the batch of the step that failed into `folder`; returns the message that says so and what to try.

    values: the step's metrics, some of them not finite
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"diverged-step-{step}.pt"
    torch.save({"step": step, "values": dict(values), "config": config, "groups": list(groups)}, file)
    bad = ", ".join(f"{name} {value}" for name, value in values.items() if not np.isfinite(value))
    return (
        f"training stopped at step {step}: {bad}. The weights are those of step {step - 1}; the batch is in {file}. "
        "Try a smaller learning rate, or precision fp32"
    )
