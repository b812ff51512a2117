"""Malformed problem files, settings, checkpoints and databases through the command line: one line, never a traceback.

    python -m bench.malformed [--files 10000] [--seed 0] [--only KIND] [--long-line MIB]

Each file is a good one of its kind with values, keys, lines or bytes changed (bench.malformed_files, and
malformed_folders for scorers and checkpoints), and is given to
`evo` in this process. A file that is still good, or whose damage lies where nobody looks, may be accepted. What is
refused must be so in one line and with exit code 2, or 1 where a scorer or a database is at fault. What raises is a
fault of ours. Nothing is searched, and no model but that of a training run is loaded.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import shutil
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bench.malformed_files import FILE_KINDS, makers
from bench.malformed_folders import folder_makers
from evo.cli import invoke


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
