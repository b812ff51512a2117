"""A whole search as a user starts it, from the command to its exit: ours beside OpenEvolve's, in turns.

    python -m bench.search_command [--iterations 200] [--repeats 5] [--sandbox none] [--json FILE]

Both sides evolve examples/valley with an author in their own process that answers at once with one decimal number of
the parent changed to one of nine digits, so that no answer repeats another. Ours is `evo run`: each iteration committed
and, unless told otherwise, every evaluation sandboxed; OpenEvolve runs its own controller with the directory's config
and saves a checkpoint at the end. CPU seconds are of the process and all below it, those too that outlive it. Both find
their byte code compiled, as what is installed does. The ratios are of the medians, below 1 where ours takes less;
`load` is the machine's before and after.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
WARM_UP = 5
ROOT = Path(__file__).resolve().parent.parent
VALLEY = ROOT / "examples" / "valley"


def change_number(program: str) -> str:
    """The program with one of its decimal numbers drawn anew."""
    number = random.choice(list(re.finditer(r"(?<![\w.])\d+\.\d+(?![\w.])", program)))
    return f"{program[: number.start()]}{random.randrange(10**8, 10**9) / 10**8}{program[number.end() :]}"


class InstantAuthor:
    """What OpenEvolve asks of a model; a subclass writes the program."""

    def __init__(self) -> None:
        self.model = "instant"  # OpenEvolve reads it from the instance's own attributes

    async def generate(self, prompt: str, **_: Any) -> str:
        return self.reply(prompt)

    async def generate_with_context(self, system_message: str, messages: list[dict[str, str]], **_: Any) -> str:
        return self.reply(messages[-1]["content"])

    def reply(self, prompt: str) -> str:
        """A program in a code block."""
        raise NotImplementedError


class Mutant(InstantAuthor):
    """Answers with the last program of the prompt, one of its numbers changed."""

    def reply(self, prompt: str) -> str:
        blocks = re.findall(r"```python\n(.*?)```", prompt, re.DOTALL)
        program = [block for block in blocks if "def run(" in block][-1]
        return f"```python\n{change_number(program)}\n```"


def ours(arguments: list[str]) -> None:
    """`evo ARGUMENTS` with the instant author as scripted:mutate."""
    from evo.cli import main
    from problems.child_process import one_blas_thread

    gc.disable()  # as the command itself imports what it needs
    with one_blas_thread():
        from vpo.policies import scripted

    scripted.GENERATORS["mutate"] = lambda prompt, form, answers, bits: [change_number(prompt.shown[0])] * answers
    main(arguments)


def instant_author(_: Any) -> Mutant:
    return Mutant()


def rival(output: str, iterations: int) -> None:
    """What OpenEvolve's own command does, with the instant author in the place of a server."""
    import asyncio

    from openevolve import OpenEvolve
    from openevolve.config import LLMModelConfig, load_config

    config = load_config(VALLEY / "config.yaml")
    config.llm.models = [LLMModelConfig(name="instant", init_client=instant_author)]
    config.llm.evaluator_models = config.llm.models
    config.log_level = "ERROR"
    evolving = OpenEvolve(
        str(VALLEY / "initial_program.py"), str(VALLEY / "evaluator.py"), config=config, output_dir=output
    )
    asyncio.run(evolving.run(iterations=iterations))


def measured(command: list[str], folder: Path) -> dict[str, float]:
    """Wall and CPU seconds of a command, once nothing of it is left. Raises where it fails."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    wall = time.perf_counter() - started
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()  # for orphans, which come to this process
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode or "ERROR" in done.stderr:
        raise SystemExit(done.stderr)
    return {"wall": wall, "cpu": after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sandbox", default="auto", help="of ours")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    found: dict[str, list[dict[str, float]]] = {"evo": [], "openevolve": []}
    load = [round(os.getloadavg()[0], 1)]
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(-1, arguments.repeats):  # the first compiles what is not compiled yet
            iterations = WARM_UP if number < 0 else arguments.iterations
            folder = Path(scratch) / str(number)
            folder.mkdir()
            run = f"run {VALLEY} --policy scripted:mutate --answers 1 --iterations {iterations} --plain".split()
            run += ["--sandbox", arguments.sandbox]
            commands = {
                "evo": ["-c", f"from bench.search_command import ours; ours({run!r})"],
                "openevolve": ["-c", f"from bench.search_command import rival; rival('out', {iterations})"],
            }
            taken = {side: measured([sys.executable, *command], folder) for side, command in commands.items()}
            if number >= 0:
                print(json.dumps(taken), flush=True)
                for side, seconds in taken.items():
                    found[side].append(seconds)
    medians = {
        side: {kind: round(statistics.median(run[kind] for run in runs), 2) for kind in ("wall", "cpu")}
        for side, runs in found.items()
    }
    ratios = {kind: round(medians["evo"][kind] / medians["openevolve"][kind], 2) for kind in ("wall", "cpu")}
    load.append(round(os.getloadavg()[0], 1))
    row = {"iterations": arguments.iterations, "repeats": arguments.repeats, **medians, "ratios": ratios, "load": load}
    print(json.dumps(row))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(row, indent=1) + "\n")


if __name__ == "__main__":
    main()
