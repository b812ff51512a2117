"""Malformed problem files, settings, checkpoints and databases through the command line: one line, never a traceback.

    python -m bench.malformed [--files 10000] [--seed 0] [--only KIND] [--long-line MIB]

Each file is a good one of its kind, or of a good folder for scorers and checkpoints, with values, keys, lines or bytes
changed, and is given to `evo` in this process. A file that is still good, or whose damage lies where nobody looks, may
be accepted. What is refused must be so in one line and with exit code 2, or 1 where a scorer or a database is at fault.
What raises is a fault of ours. Nothing is searched, and no model but that of a training run is loaded.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import gzip
import io
import json
import random
import shutil
import sqlite3
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from bench.fuzz import WORDS, flip, mutate
from evo.cli import invoke
from problems.registry import families, resolve

ROOT = Path(__file__).resolve().parents[1]
STRANGE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 10**30, 1.5, float("nan"), float("inf"), "", " ", "x" * 5000, "\0", "\ud800", "[", "1"),
    *([], {}, [[]], [None], [1, "a"], {"a": None}, {"": 0}, [{}], "../../etc/passwd", "${x}", "maze:test", "1e999"),
)
REVISIONS = ("0001", "0004", "9999_later", "", "x")
SKELETON = ["--policy", "scripted:random-route", "--limit", "1", "--plain", "--db", "sqlite:////nowhere/at/all/evo.db"]
"""A good configuration ends at the database, with exit code 2 too: nothing is run."""


def changed(rng: random.Random, value: Any) -> Any:
    """Plain data with one to three of its values or keys changed, dropped, doubled or put elsewhere."""
    value = copy.deepcopy(value)
    for _ in range(rng.randint(1, 3)):
        places = list(_places(value))
        if not places:
            return copy.deepcopy(rng.choice(STRANGE))
        holder, key = rng.choice(places)
        match rng.randrange(5):
            case 0 if isinstance(holder, dict):
                holder[str(rng.choice(WORDS))] = holder.pop(key)
            case 1:
                del holder[key]
            case 2:
                holder[key] = copy.deepcopy(holder[rng.choice(list(holder))] if isinstance(holder, dict) else holder)
            case 3 if isinstance(holder[key], str):
                holder[key] = mutate(rng, holder[key], WORDS)[:5000]
            case _:
                holder[key] = copy.deepcopy(rng.choice(STRANGE))  # the next change may be inside it
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(pairs):
        yield value, key
        yield from _places(inner)


def damaged(rng: random.Random, text: str) -> bytes:
    """A text file's bytes after damage of the kinds that disks, editors and other programs do."""
    match rng.randrange(8):
        case 0:
            return b"\xef\xbb\xbf" + text.encode("utf-8", "replace")
        case 1:
            return text.encode("utf-16")
        case 2:
            return text.encode("utf-8", "replace")[: rng.randrange(len(text) + 1)]
        case 3:
            data = text.encode("utf-8", "replace")
            at = rng.randrange(len(data) + 1)
            return data[:at] + rng.choice((b"\0", b"\xff\xfe", b"\x80", b"\r", b"\0" * 4096)) + data[at:]
        case 4:
            return rng.randbytes(rng.randrange(2000))
        case 5:
            return flip(rng, text).encode("utf-8", "replace")
        case 6:
            return b""
        case _:
            return mutate(rng, text, WORDS)[:100_000].encode("utf-8", "replace")


def as_json_lines(rng: random.Random, rows: list[Any]) -> bytes:
    if rng.random() < 0.3:
        return damaged(rng, "\n".join(map(json.dumps, rows)))
    return "\n".join(json.dumps(changed(rng, row)) for row in rows).encode()


def as_yaml(rng: random.Random, value: Any) -> bytes:
    if rng.random() < 0.3:
        return damaged(rng, yaml.safe_dump(value))
    return yaml.safe_dump(changed(rng, value), allow_unicode=False).encode("utf-8", "replace")


_INSTALLED = {
    family.name: family.example
    for family in families()
    if family.reads_files and family.example and family.name != "formula"  # whose files are tables of numbers
}
"""Families of plug-ins that read files of rows, with the address of a problem of each."""
FILE_KINDS = ("programs", "livecodebench", *_INSTALLED)


def rows_of(kind: str) -> list[Any]:
    """Rows of a good file of problems."""
    if kind in _INSTALLED:
        stem = _INSTALLED[kind].rpartition("/")[0]
        return [dict(resolve(f"{stem}/{place}")[0].row) for place in (0, 1)]  # type: ignore[attr-defined]
    files = {"programs": "problems/programs/shipped/easy.jsonl", "livecodebench": "examples/livecodebench/test.jsonl"}
    return [json.loads(line) for line in (ROOT / files[kind]).read_text().splitlines()[:2]]


Maker = Callable[[random.Random, Path], list[str]]


def makers(folder: Path, only: str = "") -> dict[str, Maker]:
    """By kind, those whose name holds `only`: writes a file into a folder, and says what `evo` is asked of it."""
    found: dict[str, Maker] = {}
    for kind in FILE_KINDS:
        found[f"problems: {kind}"] = _rows_maker(kind, rows_of(kind))
    run = {
        "iterations": 3,
        "rollouts": 2,
        "population": {"islands": 2, "migration_interval": 5},
        "prompt": {"fresh": 0.1},
    }
    run |= {
        "max_seconds": 5.0,
        "feedback": {"max_new_tokens": 9},
        "seed": 1,
        "temperature": 1.0,
        "train": {"method": "vpo"},
    }
    compare = {
        "arms": {"a": {"policy": "scripted:random-route"}, "b": {"policy": "scripted:classic"}},
        "seeds": 2,
        "iterations": 3,
    }
    found["settings: run"] = _settings_maker(run, ["run", "maze:test", *SKELETON])
    found["settings: compare"] = _settings_maker(compare, ["compare", "maze:test", *SKELETON[2:]])
    pipeline = yaml.safe_load((ROOT / "examples/pipelines/maze.yaml").read_text())
    found["settings: pipeline"] = _file_maker("p.yaml", pipeline, ["pipeline", "FILE", "--dry-run"])
    found["settings: OpenEvolve"] = _folder_maker("examples/valley", "config.yaml", ["problems", "FOLDER"])
    found["problems: problem.yaml"] = _folder_maker("examples/two_files", "problem.yaml", ["problems", "FOLDER"])
    found["problems: list"] = lambda rng, place: _write(
        place / "l.txt",
        damaged(rng, "maze:test/0\nmaze:hard/1\nprograms:easy/2\n"),
        ["problems", f"list:{place}/l.txt"],
    )
    found["checkpoints: policy"] = _policy_maker
    if only in "databases":
        found["databases"] = _database_maker(folder)
    return found


def _write(path: Path, data: bytes, command: list[str]) -> list[str]:
    path.write_bytes(data)
    return command


def _rows_maker(kind: str, rows: list[Any]) -> Maker:
    def make(rng: random.Random, place: Path) -> list[str]:
        data, name = as_json_lines(rng, rows), rng.choice(("x.jsonl", "x.json", "x.jsonl.gz", "x.parquet"))
        if name == "x.json" and rng.random() < 0.5:
            data = json.dumps(changed(rng, rows)).encode()
        if name.endswith(".gz") and rng.random() < 0.7:
            data = gzip.compress(data)[: rng.choice((None, 40))]
        return _write(place / name, data, ["problems", f"{kind}:{place / name}"])

    return make


def _settings_maker(values: Any, command: list[str]) -> Maker:
    return lambda rng, place: _write(
        place / "c.yaml", as_yaml(rng, values), [*command, "--config", str(place / "c.yaml")]
    )


def _file_maker(name: str, values: Any, command: list[str]) -> Maker:
    def make(rng: random.Random, place: Path) -> list[str]:
        asked = [part.replace("FILE", str(place / name)) for part in command]
        return _write(place / name, as_yaml(rng, values), asked)

    return make


def _folder_maker(source: str, name: str, command: list[str]) -> Maker:
    values = yaml.safe_load((ROOT / source / name).read_text())

    def make(rng: random.Random, place: Path) -> list[str]:
        shutil.copytree(ROOT / source, place / "d", ignore=shutil.ignore_patterns("__pycache__"))
        return _write(
            place / "d" / name, as_yaml(rng, values), [part.replace("FOLDER", str(place / "d")) for part in command]
        )

    return make


def _policy_maker(rng: random.Random, place: Path) -> list[str]:
    """The command looks at the folder before it would load a model, and ends at the database."""
    source = ROOT / "tests/fixtures/small_policy"
    (place / "m").mkdir()
    for file in source.iterdir():
        (place / "m" / file.name).symlink_to(file)
    name = rng.choice([file.name for file in source.iterdir() if file.suffix in (".json", ".safetensors")])
    (place / "m" / name).unlink()
    if name.endswith(".json") and rng.random() < 0.6:
        data = json.dumps(changed(rng, json.loads((source / name).read_text()))).encode()
    elif name.endswith(".json"):
        data = damaged(rng, (source / name).read_text())
    else:
        whole = (source / name).read_bytes()
        data = rng.choice((b"", whole[: rng.randrange(4000)], rng.randbytes(200), b"\xff" * 8 + whole[8:400]))
    if rng.random() < 0.9:
        (place / "m" / name).write_bytes(data)
    return ["run", "programs:easy", "--policy", str(place / "m"), *SKELETON[2:]]


def _database_maker(folder: Path) -> Maker:
    good = folder / "good.db"
    told = ["run", "maze:test", "--policy", "scripted:random-route", "--limit", "1", "--iterations", "3", "--plain"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert invoke([*told, "--name", "one", "--db", f"sqlite:///{good}"]) == 0
    with sqlite3.connect(good) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = [(name, row[1]) for name in tables for row in connection.execute(f"PRAGMA table_info({name})")]

    def make(rng: random.Random, place: Path) -> list[str]:
        file = place / "x.db"
        if rng.random() < 0.4:
            data = bytearray(good.read_bytes())
            for _ in range(rng.choice((1, 20, 2000))):
                data[rng.randrange(len(data))] = rng.randrange(256)
            file.write_bytes(data[: rng.choice((None, None, rng.randrange(len(data))))])
        else:
            shutil.copy(good, file)
            table, column = rng.choice(columns)
            with (
                contextlib.closing(sqlite3.connect(file)) as connection,
                contextlib.suppress(sqlite3.Error),
                connection,
            ):
                connection.execute(
                    rng.choice(
                        (
                            f"UPDATE {table} SET {column} = '{rng.choice(('{', 'x', '[]', '-1', 'null', ''))}'",
                            f"UPDATE {table} SET {column} = NULL",
                            f"UPDATE {table} SET {column} = zeroblob(9)",
                            f"DELETE FROM {table}",
                            f"DROP TABLE {table}",
                            f"ALTER TABLE {table} RENAME COLUMN {column} TO other",
                            f"UPDATE alembic_version SET version_num = '{rng.choice(REVISIONS)}'",
                        )
                    )
                )
        what = rng.choice((["runs"], ["runs", "--json"], ["show", "one"], ["best", "one"], ["watch", "one", "--once"]))
        return [*what, "--db", f"sqlite:///{file}"]

    return make


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


def try_one(command: list[str], longest: int = 300) -> tuple[str, str]:
    """("accepted" | "refused" | "traceback" | "unclear", what was said, cut to so many characters)."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = invoke(command)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it would have been a traceback
        where = traceback.extract_tb(error.__traceback__)[-1]
        return "traceback", f"{type(error).__name__}: {str(error)[:200]} ({where.filename}:{where.lineno})"
    lines = [line for line in said.getvalue().splitlines() if not line.startswith("evo: warning: ")]
    if code == 0:
        return "accepted", ""
    # 1 is a fault of the scorer that a good file names, or of the database while it is read
    clear = len(lines) == 1 and lines[0].startswith("evo: ") and (code == 2 or (code == 1 and command[0] != "run"))
    return "refused" if clear else "unclear", f"{code}: {said.getvalue()[:longest]}"


def try_all(count: int, seed: int, only: str = "") -> Iterator[tuple[str, Counter[str], Counter[str]]]:
    """Each kind, what became of its files, and what was said where that was a fault."""
    with tempfile.TemporaryDirectory() as folder:
        made = {**makers(Path(folder), only), **folder_makers(Path(folder), only)}
        chosen = {kind: make for kind, make in made.items() if only in kind}
        for kind, make in chosen.items():
            outcomes: Counter[str] = Counter()
            faults: Counter[str] = Counter()
            rng = random.Random(f"{seed} {kind}")
            for turn in range(count // len(chosen)):
                place = Path(folder) / str(turn)
                place.mkdir()
                outcome, said = try_one(make(rng, place))
                shutil.rmtree(place)
                outcomes[outcome] += 1
                if outcome in ("traceback", "unclear"):
                    faults[said.replace(str(place), "")] += 1
            yield kind, outcomes, faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", metavar="KIND")
    parser.add_argument("--long-line", type=int, default=100, metavar="MIB", help="a file of one line, 0 for none")
    options = parser.parse_args()
    for kind, outcomes, faults in try_all(options.files, options.seed, options.only):
        print(f"{kind:28}{dict(outcomes)}", flush=True)
        for said, times in faults.most_common(8):
            print(f"    {times} x {said}", flush=True)
    if options.long_line:
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write('{"text": "' + "x" * (options.long_line << 20))
            file.flush()
            for kind in (*FILE_KINDS, "list"):
                print(f"one line of {options.long_line} MiB, {kind:14}", *try_one(["problems", f"{kind}:{file.name}"]))


if __name__ == "__main__":
    main()
