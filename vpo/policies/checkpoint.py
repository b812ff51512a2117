"""Where the checkpoint of a policy lies, and what its files say without loading it.

Its training is described in a separate file, because config.json is the model's and names its version
(vpo.policies.checkpoint).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from problems.address import did_you_mean, files_beside, user_path
from problems.contract import BadAddress
from problems.rows import HUB_SECONDS
from vpo.languages.contract import shipped
from vpo.policies.address import FORMS, OwnOptions, PolicyAddress, newest_checkpoint, parse_address
from vpo.policies.contract import PolicyUnavailable

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TRAINED = "evo.json"
ADAPTER_CONFIG = "adapter_config.json"
"""Its presence makes a directory a LoRA adapter, as peft writes it."""
_KINDS = ("scripted:mutate",)
"""What a mistyped address may have meant, other than the policies that ship."""


def find_checkpoint(address: PolicyAddress) -> str:
    """A directory that holds a model, or a hub id that has the form of one. Raises BadAddress."""
    name = address.model
    if address.kind == "embedded":
        return str(address.folder)
    if not name or any(character.isspace() for character in name) or ":" in name:
        known = [*_KINDS, *(f"embedded:{one}" for one in shipped())]
        raise BadAddress(f"policy {name!r} is not an address: {FORMS}{did_you_mean(name, known, most=1)}")
    folder = user_path(name)
    if name in shipped() and not (folder / "config.json").is_file():
        raise BadAddress(f"policy {name!r}: no such checkpoint; embedded:{name} ships with the package")
    if folder.is_dir():
        folder = newest_checkpoint(folder)
        if not any((folder / file).is_file() for file in ("config.json", ADAPTER_CONFIG)):
            raise BadAddress(f"policy {name!r}: the directory holds no config.json, so it is no model checkpoint")
        return str(folder)
    if folder.exists() or name.startswith(("/", ".", "~")) or name.count("/") > 1 or name.endswith("/"):
        hint = did_you_mean(name, _checkpoints_beside(name))
        raise BadAddress(f"policy {name!r}: no such directory (a policy is {FORMS}){hint}")
    return name


def read_base(name: str, folder: Path) -> str:
    """The base model of an adapter's directory. Raises BadAddress. name: its address"""
    try:
        config: dict[str, Any] = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))
        base, kind = str(config["base_model_name_or_path"]), config["peft_type"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadAddress(f"policy {name!r}: {ADAPTER_CONFIG} cannot be read: {error!r}") from None
    if kind != "LORA":
        raise BadAddress(f"policy {name!r}: only LoRA adapters can be loaded, not {kind}")
    if (folder / ".." / base).is_dir() and not Path(base).is_dir():
        base = str(folder / ".." / base)  # adapters are often kept beside their base
    return base


def find_base(address: PolicyAddress) -> tuple[str, list[str]]:
    """The directory or hub id of the whole model, and the directories of the adapters to merge into it, in order.
    Raises BadAddress."""
    source, adapters = find_checkpoint(address), list[str]()
    while (Path(source) / ADAPTER_CONFIG).is_file() and source not in adapters:
        adapters.insert(0, source)
        base = read_base(address.plain, Path(source))
        try:
            source = find_checkpoint(parse_address(base))
        except BadAddress as error:
            raise BadAddress(f"{error}; it is the base that {Path(source) / ADAPTER_CONFIG} names") from None
    if source in adapters:
        raise BadAddress(
            f"policy {address.plain!r}: {Path(source) / ADAPTER_CONFIG} names an adapter of its own as its base"
        )
    return source, adapters


def check_checkpoint(address: PolicyAddress, settings: object = None) -> bool:
    """What can be told before the model's library is loaded; whether the files are to be taken from the hub's cache.
    Raises BadAddress if no such model exists."""
    address.own_options(OwnOptions)
    source, _ = find_base(address)
    if Path(source).is_dir():
        return False
    try:
        return only_cached(source)
    except BadAddress as error:
        known = [*_checkpoints_beside(source), *(f"embedded:{name}" for name in shipped())]
        raise BadAddress(f"{error}{did_you_mean(source, known)}") from None


def _checkpoints_beside(name: str) -> list[str]:
    return [path for path in files_beside(name) if (user_path(path) / "config.json").is_file()]


def trained_answers(address: PolicyAddress) -> int | None:
    """m, the answers a rollout of this policy was trained to give; None if that is not recorded.

    Known for checkpoints in directories, those that ship among them; a hub's are not asked. Raises BadAddress where
    the file cannot be read.
    """
    folder = address.folder
    answers = _read_trained(folder, address.plain).get("answers") if folder is not None else None
    if answers is not None and (not isinstance(answers, int) or answers < 1):
        raise BadAddress(f"policy {address.plain!r}: {TRAINED} says answers {answers!r}, which is no number of answers")
    return answers


def trained_format(folder: str | Path) -> str | None:
    """The prompt format that an adapter was trained in; None where its folder does not name one. Raises BadAddress."""
    return _read_trained(Path(folder), str(folder)).get("format")


def _read_trained(folder: Path, name: str) -> dict[str, Any]:
    """What the folder of the policy `name` says of its training, nothing where it holds no such file."""
    file = folder / TRAINED
    if not file.is_file():
        return {}
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(said, dict):
            raise ValueError("it holds no object")
    except (OSError, ValueError) as error:
        raise BadAddress(f"policy {name!r}: {TRAINED} cannot be read: {error}") from None
    return said


@contextlib.contextmanager
def without_bars() -> Iterator[None]:
    """Without transformers' progress bars, which would break into a live screen."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


@contextlib.contextmanager
def loading(name: str) -> Iterator[None]:
    """Within it the library reads the checkpoint of the policy `name`. A foreign one can make it raise anything: that
    is a BadAddress, one line."""
    with without_bars():
        try:
            yield
        except (BadAddress, PolicyUnavailable):
            raise
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise BadAddress(f"policy {name!r} cannot be loaded: {reason[:300]}") from error


NEEDS_PEFT = "a LoRA adapter needs peft: pip install 'evo-search[lora]'"


class Adapted(Protocol):
    """What peft adds to the model that it wraps, which answers for everything else."""

    def disable_adapter(self) -> contextlib.AbstractContextManager[None]: ...
    def merge_and_unload(self) -> PreTrainedModel: ...
    def unload(self) -> PreTrainedModel: ...


def _adapts_tied_embeddings(model: PreTrainedModel) -> bool:
    """Whether an adapter changes one use of a matrix that has two: merged into it, it would change both."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    reads, predicts = cast(Any, model.get_input_embeddings()), cast(Any, model.get_output_embeddings())
    tied = predicts is not None and predicts.weight is reads.weight
    return tied and any(isinstance(layer, BaseTunerLayer) for layer in (reads, predicts))


def load_adapter(model: PreTrainedModel, folder: str) -> PreTrainedModel:
    """The model with the adapter of a directory added into its weights, and named by that directory, so that an
    adapter trained on it names its base. Raises BadAddress if peft is missing, or if the adapter changes one use of
    token embeddings that the model uses twice."""
    try:
        from peft import PeftModel
    except ImportError as error:
        raise BadAddress(NEEDS_PEFT) from error
    with without_peft_warnings():
        adapted = PeftModel.from_pretrained(model, folder)
        if _adapts_tied_embeddings(model):
            raise BadAddress(
                f"the adapter in {folder} changes token embeddings that its base uses twice; merge it first"
            )
        merged = cast(Adapted, adapted).merge_and_unload()
    merged.name_or_path = str(Path(folder).resolve())
    return merged


@contextlib.contextmanager
def without_peft_warnings() -> Iterator[None]:
    """Without those of peft: it asks a model by a name that transformers has replaced, and warns of token embeddings
    with two uses, which load_adapter refuses."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)
        warnings.filterwarnings("ignore", message=".*tie_word_embeddings")
        yield


INSTEAD = "name a directory, embedded:NAME or openai:MODEL@URL, or for answers without a model scripted:mutate"


@lru_cache(maxsize=64)
def only_cached(name: str) -> bool:
    """Whether a hub's model is to be loaded from the files that were fetched before, since the hub is out of reach.

    name: a hub id
    Asks the hub once, with a limit of HUB_SECONDS. Raises BadAddress, one line, where the hub has no such model, or
    if it is out of reach and nothing of the model was fetched before.
    """
    from huggingface_hub import constants, get_session, get_token, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        cached = isinstance(try_to_load_from_cache(name, "config.json"), str)
    except HFValidationError:
        raise BadAddress(f"policy {name!r} is neither a directory here nor a hub id; {INSTEAD}") from None
    if constants.HF_HUB_OFFLINE:
        if cached:
            return True
        raise BadAddress(
            f"policy {name!r}: no such directory, none of the models fetched before, and HF_HUB_OFFLINE is set; "
            f"{INSTEAD}"
        )
    token = get_token()
    headers = {"authorization": f"Bearer {token}"} if token else {}
    url = hf_hub_url(name, "config.json")
    try:
        answer = get_session().head(url, headers=headers, timeout=HUB_SECONDS, follow_redirects=True)
        status = int(answer.status_code)
    except Exception as error:  # noqa: BLE001 - whatever the library's client of today raises
        status, reason = 0, " ".join(str(error).split()) or type(error).__name__
    else:
        reason = f"it answers {status}"
    if status == 200 or cached:
        return status != 200
    if 400 <= status < 500:
        private = "" if token else ", or it is private and HF_TOKEN is not set"
        raise BadAddress(f"policy {name!r}: no such directory, and {constants.ENDPOINT} has no such model{private}")
    raise BadAddress(
        f"policy {name!r}: no such directory, and {constants.ENDPOINT} cannot be reached ({reason}); {INSTEAD}"
    )


_WHOLE = 64 << 20
_SLICES = 64
_SLICE = 64 << 10
_NO_WEIGHT = ("base_model_name_or_path", "revision", "peft_version", "inference_mode", "auto_mapping", "task_type")
"""Keys of an adapter's config that change no weight. Its base has another fingerprint, and another place on
another machine."""


def fingerprint(source: str, config: Any = None) -> str:
    """8 hexadecimal digits: of the files of a directory, or of a hub model's commit.

    Weights files up to 64 MiB are hashed whole, larger ones by their size, their first MiB, and 64 slices spread over
    the rest: training moves every tensor, so that is enough to tell versions apart without reading gigabytes.
    """
    folder = Path(source)
    digest = hashlib.blake2b(digest_size=4)
    commit = getattr(config, "_commit_hash", None)
    if not folder.is_dir():
        digest.update(str(commit or source).encode())
        return digest.hexdigest()
    names = ("config.json", "tokenizer.json", "generation_config.json", "chat_template.jinja")
    weights = [file for pattern in ("*.safetensors", "*.bin") for file in folder.glob(pattern)]
    if (folder / ADAPTER_CONFIG).is_file():
        digest.update(_scale_of(folder / ADAPTER_CONFIG))
    for file in sorted([*(folder / name for name in names), *weights]):
        if file.is_file():
            digest.update(file.name.encode())
            _add(digest, file)
    return digest.hexdigest()


def _scale_of(file: Path) -> bytes:
    """What an adapter's config says of how its weights are added to the base. peft writes names in any order."""
    said: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    kept = {
        key: sorted(value, key=str) if isinstance(value, list) else value
        for key, value in said.items()
        if key not in _NO_WEIGHT
    }
    return json.dumps(kept, sort_keys=True).encode()


def _add(digest: Any, file: Path) -> None:
    size = file.stat().st_size
    digest.update(size.to_bytes(8, "little"))
    with file.open("rb") as stream:
        if size <= _WHOLE:
            digest.update(stream.read())
            return
        digest.update(stream.read(1 << 20))
        for i in range(_SLICES):
            stream.seek(size * (i + 1) // (_SLICES + 1))
            digest.update(stream.read(_SLICE))
