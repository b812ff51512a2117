"""The stages of bench/gpu.sh, each a function that returns figures as JSON and raises where something does not hold.

python -m bench.gpu_stages STAGE --out DIR --model ID [--dry]        writes DIR/STAGE.json
python -m bench.gpu_stages report --out DIR                          writes DIR/gpu.md of what there is
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.gpu_engines import policies, sleep
from bench.gpu_place import Place, Skip, tiny_model
from bench.gpu_training import colocated, diverged, lessons, operator, programs, served, trainer, trl


def doctor(place: Place) -> dict[str, Any]:
    import torch

    done = subprocess.run(
        [sys.executable, "-m", "evo", "doctor", "--json", "--db", f"sqlite:///{place.out}/doctor.db"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = json.loads(done.stdout)
    if not found["ready"]:
        raise AssertionError(f"the machine is not ready: {[one for one in found['checks'] if one['level'] == 'fail']}")
    if not place.dry and not torch.cuda.is_available():
        raise AssertionError("there is no GPU here; --dry runs on a CPU")
    return {one["check"]: one["message"] for one in found["checks"]}


ALL = doctor, policies, trainer, diverged, lessons, operator, programs, sleep, served, trl, colocated
STAGES: dict[str, Callable[[Place], Any]] = {one.__name__: one for one in ALL}


def report(out: Path) -> str:
    """What the stages found, as Markdown."""
    parts = ["# On a GPU: `bench/gpu.sh`"]
    for name, stage in STAGES.items():
        file = out / f"{name}.json"
        about = (stage.__doc__ or "The machine.").split("\n")[0]
        part = "" if file.exists() else "Not finished.\n\n"
        if part:
            file = out / f"{name}.part.json"
        if not file.exists():
            parts.append(f"## {name}\n\n{about}\n\nNot run.")
            continue
        found = json.loads(file.read_text())
        lines = [f"- {key.replace('_', ' ')}: {_shown(value)}" for key, value in found.items() if not _is_nested(value)]
        parts.append(f"## {name}\n\n{about}\n\n{part}" + "\n".join(lines or ["- see the file"]))
    return "\n\n".join(parts) + "\n"


def _is_nested(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(one, dict) for one in value))


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value[:8]))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=[*STAGES, "report"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="")
    parser.add_argument("--dry", action="store_true")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    out = arguments.out.resolve()
    if arguments.stage == "report":
        (out / "gpu.md").write_text(report(out), encoding="utf-8")
        return
    model = tiny_model(out / "tiny") if arguments.dry else arguments.model
    place = Place(out, model, arguments.dry)
    try:
        with contextlib.ExitStack() as stack:
            if arguments.dry:
                from bench.served import stub_server  # which needs what only the stages of a server need

                stack.enter_context(stub_server())
            found = STAGES[arguments.stage](place)
            if asyncio.iscoroutine(found):
                found = asyncio.run(found)
    except Skip as reason:
        found = {"skipped": str(reason)}
    file = out / f"{arguments.stage}.json"
    with tempfile.NamedTemporaryFile("w", dir=out, delete=False, encoding="utf-8") as fresh:
        json.dump(found, fresh, indent=1, default=float)
    Path(fresh.name).replace(file)


if __name__ == "__main__":
    main()
