"""How far one driver goes: the real search over simulated engines and evaluators, in virtual time.

    nice python -m bench.scale [--quick] [--only window,lengths,...] [--json FILE]

The search, its window, its population, its prompts and its database (a real SQLite file) are the product's own; engines
and evaluators only take time (bench/simulated_engines.py). Time is the driver's processor time plus what it waits
(bench/virtual_time.py), so a busy machine changes little. `bare` hands the same engines the same rollouts all at once:
what is lost to the search's order, to its window and to the driver's own work is 1 - bare / search, at equal prompts.
What stands in FILE already is not measured again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from simulated_engines import (  # noqa: E402
    MEASURED,
    Lengths,
    Shape,
    SimulatedPolicy,
    SimulatedScorer,
    simulated_problems,
)
from tables import markdown  # noqa: E402
from virtual_time import Clock, VirtualLoop  # noqa: E402

from evo.config.run import RunConfig  # noqa: E402
from evo.runs import launch as launching  # noqa: E402
from evo.search.defaults import source_commit  # noqa: E402
from evo.search.resources import Resources  # noqa: E402
from problems.types import Prompt  # noqa: E402


@dataclass(frozen=True)
class Case:
    """engine: of MEASURED; window: groups in flight as a multiple of what fills the engines' slots, 0 = the default;
    refills: groups asked for, as a multiple of the same; score_seconds: of one answer, slow_seconds: of the share
    `slow` of them; workers: that score; lag: as `--lag`, in multiples of what fills the engines"""

    engine: str = "gpu"
    replicas: int = 1
    tokens: int = 512
    spread: float = 0.6
    problems: int = 32
    rollouts: int = 8
    window: float = 2.0
    refills: float = 8.0
    score_seconds: float = 0.001
    workers: int = 100_000
    slots: int = 0
    lag: float = 0.0
    slow: float = 0.0
    slow_seconds: float = 0.0


def measure(case: Case, folder: Path) -> dict[str, Any]:
    """One search of the case, and the same rollouts without one."""
    base, slope, slots = MEASURED[case.engine]
    shape = Shape(base, slope, case.slots or slots)
    filling = max(1, shape.slots * case.replicas // case.rollouts)
    groups = max(16, int(case.refills * filling))
    per_problem = max(1, groups // case.problems)
    groups = per_problem * case.problems
    clock = Clock()
    loop = VirtualLoop(clock)
    asyncio.set_event_loop(loop)
    try:
        found = loop.run_until_complete(_search(case, shape, filling, per_problem, folder, clock))
        bare = loop.run_until_complete(_bare(case, shape, groups, clock))
    finally:
        loop.close()
    found["efficiency"] = bare[-1] / found["seconds"]
    most = int(0.9 * groups) - 1
    found["steady"] = bare[most] / found.pop("at")[most]
    return {**asdict(case), "groups": groups, **found, "bare_seconds": bare[-1], "commit": source_commit()}


async def _search(
    case: Case, shape: Shape, filling: int, per_problem: int, folder: Path, clock: Clock
) -> dict[str, Any]:
    policy = SimulatedPolicy(shape, case.replicas, Lengths(case.tokens, case.spread), clock)
    scorer = SimulatedScorer(case.score_seconds, case.workers, clock, case.slow, case.slow_seconds)
    problems = simulated_problems(case.problems)  # the policy's address in the configuration is never opened
    shared = Resources(lambda config: problems, lambda config, problems: policy, scorer)
    window = {"parallel": max(2, round(case.window * filling))} if case.window else {}
    config = RunConfig.model_validate(
        {
            "problems": ["maze:test"],
            "policy": "scripted:vary",
            "iterations": per_problem,
            "rollouts": case.rollouts,
            "answers": 1,
            "max_new_tokens": 4 * case.tokens,
            "lag": round(case.lag * filling),
            **window,
        }
    )
    file = folder / f"{time.time_ns()}.db"
    launched = await launching.launch(config, db=f"sqlite:///{file}", name="scale", command="scale", resources=shared)
    began, worked = clock.now(), time.process_time() - clock.simulated
    at: list[float] = []
    launched.search.on_commit = lambda group: at.append(clock.now() - began)
    await launched.search.run()
    seconds, cpu = clock.now() - began, time.process_time() - clock.simulated - worked
    status, in_flight = launched.status, launched.core.window.groups
    await launched.close()
    done, size = status.groups, sum(one.stat().st_size for one in folder.glob(f"{file.name}*"))
    for one in folder.glob(f"{file.name}*"):
        one.unlink()
    return {
        "seconds": seconds,
        "at": at,
        "in_flight": in_flight,
        "groups_per_second": done / seconds,
        "engines_busy": policy.tokens / (policy.rate * seconds),
        "driver_ms_a_group": 1000 * cpu / done,
        "driver_busy": cpu / seconds,
        "limit_groups_per_second": done / cpu,
        "database_kib_a_group": size / 1024 / done,
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


async def _bare(case: Case, shape: Shape, groups: int, clock: Clock) -> list[float]:
    """When the groups of the same rollouts are back with everything in flight from the start, in seconds."""
    policy = SimulatedPolicy(shape, case.replicas, Lengths(case.tokens, case.spread), clock)
    with clock.simulating():
        began = clock.now()
    prompts = [Prompt("", stream=i) for i in range(groups)]
    asked = [policy.sample([one], rollouts=case.rollouts, answers=1, seed=0) for one in prompts]
    at = []
    for one in asyncio.as_completed(asked):
        await one
        at.append(clock.now() - began)
    return at


def cases(quick: bool) -> Iterator[tuple[str, Case]]:
    """(section, case), each section varying one thing."""
    one = Case(refills=4.0 if quick else 8.0)
    for multiple in (1.0, 1.5, 2.0, 3.0, 4.0, 6.0):
        for spread in (0.0, 0.6, 1.0):
            yield "window", replace(one, window=multiple, spread=spread)
    for problems in (1, 5, 20, 60):
        yield "default", replace(one, engine="cpu", window=0.0, problems=problems, rollouts=4, tokens=128, refills=16.0)
    for tokens in (64, 256, 1024, 4096, 8192):
        yield "lengths", replace(one, tokens=tokens, window=3.0)
    for seconds in (0.001, 0.1, 1.0, 10.0, 60.0, 600.0):
        yield "evaluators", replace(one, score_seconds=seconds, window=3.0)
    for replicas in (1, 8, 16, 32, 64):
        yield "limit", replace(one, replicas=replicas, slots=64, tokens=64, window=3.0, refills=4.0)
    for replicas in (1, 8, 64, 512):
        yield "replicas", replace(one, replicas=replicas, slots=8, tokens=2048, window=3.0, refills=4.0)
    for tokens in (64, 512, 8192):
        for window, lag in ((2.0, 0.0), (2.0, 1.0), (3.0, 0.0), (3.0, 1.0), (3.0, 3.0), (4.0, 0.0), (6.0, 0.0)):
            yield "lag", replace(one, tokens=tokens, spread=1.0, problems=1, window=window, lag=lag)
    for problems in (1, 32):
        for lag in (0.0, 1.0, 3.0, 10.0):
            slow = replace(one, problems=problems, slow=0.005, slow_seconds=600.0, window=3.0)
            yield "slow evaluations", replace(slow, lag=lag, refills=32.0)
    for replicas in (32, 64):
        for window, lag in ((3.0, 0.0), (3.0, 1.0)):
            yield (
                "many replicas",
                replace(one, replicas=replicas, slots=64, problems=256, window=window, lag=lag, refills=4.0),
            )
    for problems in (1000, 10_000):
        yield "many problems", replace(one, problems=problems, window=3.0, lag=1.0)
    for problems in (1, 10, 100, 1000, *(() if quick else (10_000,))):
        yield "problems", replace(one, problems=problems, window=3.0)


COLUMNS = {
    "groups": "{:,}",
    "in_flight": "{:,}",
    "groups_per_second": "{:.2f}",
    "engines_busy": "{:.1%}",
    "efficiency": "{:.1%}",
    "steady": "{:.1%}",
    "driver_ms_a_group": "{:.2f}",
    "driver_busy": "{:.1%}",
    "limit_groups_per_second": "{:.0f}",
    "database_kib_a_group": "{:.0f}",
    "memory_mib": "{:.0f}",
}
VARIED = {
    "window": ("window", "spread"),
    "limit": ("replicas",),
    "replicas": ("replicas",),
    "lengths": ("tokens",),
    "evaluators": ("score_seconds",),
    "problems": ("problems",),
    "default": ("problems",),
    "lag": ("tokens", "window", "lag"),
    "slow evaluations": ("problems", "window", "lag"),
    "many replicas": ("replicas", "window", "lag"),
    "many problems": ("problems", "window", "lag"),
}


def report(found: Iterable[dict[str, Any]]) -> str:
    """Tables in Markdown, one a section."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for one in found:
        rows.setdefault(one["section"], []).append(one)
    parts = []
    for section, some in rows.items():
        head = [*VARIED[section], *COLUMNS]
        body = [
            [f"{one[key]:g}" for key in VARIED[section]]
            + [COLUMNS[key].format(one[key]) if key in one else "-" for key in COLUMNS]
            for one in some
        ]
        parts.append(f"## {section}\n\n{markdown([[name.replace('_', ' ') for name in head], *body])}")
    return "\n\n".join(parts)


def _is_of(one: dict[str, Any], section: str, case: Case) -> bool:
    default = asdict(Case())  # older figures lack what was added later
    return one["section"] == section and {key: one.get(key, default[key]) for key in default} == asdict(case)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller searches")
    parser.add_argument("--only", default="", help="sections, with commas")
    parser.add_argument("--json", default="", help="write the figures there")
    arguments = parser.parse_args()
    only = set(filter(None, arguments.only.split(",")))
    file = Path(arguments.json) if arguments.json else None
    found: list[dict[str, Any]] = json.loads(file.read_text()) if file is not None and file.exists() else []
    with tempfile.TemporaryDirectory() as folder:
        for section, case in cases(arguments.quick):
            if (only and section not in only) or any(_is_of(one, section, case) for one in found):
                continue
            one = {"section": section, **measure(case, Path(folder))}
            found.append(one)
            print(json.dumps({key: one[key] for key in ("section", *VARIED[section], *COLUMNS)}), flush=True)
            if file is not None:
                file.write_text(json.dumps(found, indent=1) + "\n")
    print(report(found))


if __name__ == "__main__":
    main()
