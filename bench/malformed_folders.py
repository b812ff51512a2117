"""Makers of malformed scorers and checkpoints, for bench.malformed: in a good folder one file is damaged."""

from __future__ import annotations

import contextlib
import io
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from bench.fuzz import mutate
from bench.fuzz_parsers import WORDS
from bench.malformed_files import ROOT, Maker, as_yaml, changed, damaged
from evo.cli import invoke

SMALL_POLICY = ROOT / "tests/fixtures/small_policy"
SETTINGS = {
    **{"steps": 2, "prompts": 2, "rollouts": 2, "lr": 1e-3, "precision": "fp32", "parents": 0.5, "save_every": 1},
    **{"evaluate": ["maze:train/20"], "schedule": "cosine", "betas": [0.9, 0.99], "seed": 1, "temperature": 1.0},
}
"""Of a training run."""


def folder_makers(folder: Path, only: str) -> dict[str, Maker]:
    """By kind, those whose name holds `only`. folder: where the good ones are made"""
    ways: dict[str, Callable[[], Maker]] = {
        "scorers: file": lambda: _scorer_file,
        "scorers: evaluator": lambda: _evaluator,
        "settings: train": lambda: _train_settings,
        "checkpoints: training": lambda: _training_maker(folder),
    }
    return {kind: make() for kind, make in ways.items() if only in kind}


def _program(rng: random.Random, text: str) -> bytes:
    if rng.random() < 0.4:
        return damaged(rng, text)
    return mutate(rng, text, WORDS)[:100_000].encode("utf-8", "replace")


def _scorer_file(rng: random.Random, place: Path) -> list[str]:
    (place / "s.py").write_bytes(_program(rng, (ROOT / "examples/scorers/short_primes.py").read_text()))
    return ["problems", str(place / "s.py")]


def _evaluator(rng: random.Random, place: Path) -> list[str]:
    shutil.copytree(ROOT / "examples/valley", place / "d", ignore=shutil.ignore_patterns("__pycache__"))
    file = place / "d" / rng.choice(("evaluator.py", "initial_program.py"))
    file.write_bytes(_program(rng, file.read_text()))
    return ["problems", str(place / "d")]


def _train_settings(rng: random.Random, place: Path) -> list[str]:
    """A good file ends at the policy, which is none: with exit code 2 too."""
    (place / "c.yaml").write_bytes(as_yaml(rng, SETTINGS))
    told = ["train", "vpo", "maze:train/0-1", "--policy", "embedded:none", "-o", str(place / "o")]
    return [*told, "--config", str(place / "c.yaml")]


def _training_maker(folder: Path) -> Maker:
    """Directories of a run that has taken all of its steps: where nothing is found damaged, there is nothing to do."""
    good = folder / "trained"
    told = ["train", "vpo", "maze:train/0-3", "--policy", str(SMALL_POLICY), "--prompts", "2", "--rollouts", "2"]
    _make([*told, "--steps", "2", "--precision", "fp32", "--save-every", "1", "--plain", "-o", str(good)])

    def make(rng: random.Random, place: Path) -> list[str]:
        shutil.copytree(good, place / "o")
        _damage_one(rng, place / "o")
        return ["train", "--resume", str(place / "o"), "--steps", "2", "--plain"]

    return make


def _damage_one(rng: random.Random, folder: Path) -> None:
    """Change, cut or remove one of the files below the folder."""
    file = rng.choice(sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".writer"))
    data = file.read_bytes()
    if rng.random() < 0.1:
        file.unlink()
    elif file.suffix == ".json" and rng.random() < 0.6:
        file.write_text(json.dumps(changed(rng, json.loads(data))))
    elif file.suffix in (".json", ".jsonl", ".md"):
        file.write_bytes(damaged(rng, data.decode()))
    else:
        cut = data[: rng.randrange(min(4000, len(data)))]
        file.write_bytes(rng.choice((b"", cut, data[:-9], rng.randbytes(200), b"\xff" * 8 + data[8:])))


def _make(command: list[str]) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        assert invoke(command) == 0, said.getvalue()
