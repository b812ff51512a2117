"""What groups in flight cost a search: the same mazes with a small window, with large ones, and with --lag.

    nice python -m bench.window_quality --db sqlite:///windows.db [--seeds 3] [-o windows.json]

The search, its policy (embedded:edit-improve) and its scores are real. How long a rollout takes is simulated: an engine
of bench/simulated_engines.py with room for FILL groups a problem, and lengths spread as a model's are, in virtual time.
That decides nothing under the strict order, and with a lag it decides what a prompt knows of. All problems are searched
to the last iteration, so a window of W groups a problem stays one. A run that is in the database is not searched again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from simulated_engines import MEASURED, Engine, Lengths, Shape  # noqa: E402
from tables import markdown  # noqa: E402
from virtual_time import Clock, VirtualLoop  # noqa: E402

from evo.comparison.load import Arm, Comparison, load_results  # noqa: E402
from evo.comparison.results import Results  # noqa: E402
from evo.comparison.survival import metric_difference  # noqa: E402
from evo.comparison.verdict import Summary, summarise  # noqa: E402
from evo.config.run import RunConfig  # noqa: E402
from evo.runs import launch as launching  # noqa: E402
from evo.search.resources import Resources, problems_at  # noqa: E402
from islands.db.store import Store  # noqa: E402
from islands.errors import UnknownRun  # noqa: E402
from problems.contract import Problem  # noqa: E402
from problems.types import Prompt, Rollout  # noqa: E402
from vpo.policies.contract import Policy  # noqa: E402

SETS = {"maze:hard": 20, "maze:compromise": 10}
FILL = 6
"""Groups a problem that fill the engine once."""
ARMS = {
    # groups in flight a problem; --lag, a problem's share of it
    "one": (1, 0),
    "1 fill": (FILL, 0),
    "4 fills": (4 * FILL, 0),
    "3 fills, lag 1": (3 * FILL, FILL),
    "1 fill, lag 3": (FILL, 3 * FILL),
}
ON_THE_WAY = (10, 25, 50)
"""Iterations."""


class Still(Clock):
    """Only what is waited for is time: the driver's own work and the model's are none."""

    def now(self) -> float:
        return self.skipped


@dataclass(eq=False)
class _Asked:
    prompt: Prompt
    group: list[Rollout] | None = None


class DelayedPolicy:
    """A policy whose groups come back when a simulated engine is done with as many tokens as were drawn for them.

    What waits is sampled by the policy itself together, when the first of it is due: no rollout depends on its batch.
    """

    batch = 0

    def __init__(self, inner: Policy, engine: Engine, lengths: Lengths) -> None:
        self.inner, self.engine, self.lengths = inner, engine, lengths
        self._waiting: list[_Asked] = []
        self._thread = ThreadPoolExecutor(1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def sample(self, prompts: Sequence[Prompt], *, rollouts: int, answers: int, seed: int) -> list[list[Rollout]]:
        (prompt,) = prompts
        asked = _Asked(prompt)
        self._waiting.append(asked)
        ends = [asyncio.get_running_loop().create_future() for _ in range(rollouts)]
        for length, end in zip(self.lengths.draw(prompt.stream, rollouts), ends, strict=True):
            self.engine.add(int(length), end)
        await asyncio.gather(*ends)
        if asked.group is None:
            together, self._waiting = self._waiting, []
            work = self.inner.sample([one.prompt for one in together], rollouts=rollouts, answers=answers, seed=seed)
            groups = self._thread.submit(asyncio.run, work).result()  # no virtual time goes by meanwhile
            for one, group in zip(together, groups, strict=True):
                one.group = group
        assert asked.group is not None
        return [asked.group]

    async def close(self) -> None:
        """The policy is its owner's."""


def search(arm: str, seed: int, options: argparse.Namespace, problems: list[Problem]) -> float:
    """One run of the arm, stored under its name; the seconds that the simulated engine takes for it."""
    groups, lag = ARMS[arm]
    config = RunConfig.model_validate(
        {
            "problems": list(SETS),
            "policy": options.policy,
            "answers": 3,
            "iterations": options.iterations,
            "seed": seed,
            "parallel": groups * len(problems),
            "lag": lag * len(problems),
        }
    )
    clock = Still()
    loop = VirtualLoop(clock)
    asyncio.set_event_loop(loop)

    async def run() -> None:
        base, slope, _ = MEASURED["gpu"]
        engine = Engine(Shape(base, slope, FILL * len(problems)), clock)
        plain = Resources()
        policy = DelayedPolicy(plain.policy(config, problems), engine, Lengths(512, 1.0, seed))
        name = run_name(arm, seed)
        parts = Resources(lambda config: problems, lambda config, problems: policy)
        launched = await launching.launch(config, db=options.db, name=name, command="window_quality", resources=parts)
        await launched.search.run()
        launched.finish("done", "", {"seconds": clock.now()})
        await launched.close()
        await plain.close()

    try:
        loop.run_until_complete(run())
    finally:
        loop.close()
    return clock.now()


def run_name(arm: str, seed: int) -> str:
    return f"{arm.replace(', ', '-').replace(' ', '-')}-{seed}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", required=True)
    parser.add_argument("--policy", default="embedded:edit-improve")
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--arms", default="", help="some of them, with semicolons")
    parser.add_argument("-o", "--output", default="", help="write the figures there as JSON")
    options = parser.parse_args()
    problems = [one for name, count in SETS.items() for one in problems_at([name], count)]
    arms = [name for name in ARMS if not options.arms or name in options.arms.split(";")]
    for seed in range(options.seeds):
        for arm in arms:
            if not _stored(options.db, run_name(arm, seed)):
                print(f"{arm}, seed {seed}: {search(arm, seed, options, problems):,.0f} simulated seconds", flush=True)
    sections, record = [], dict[str, Any]()
    with Store.open(options.db, read_only=True) as store:
        for name, kept in {"all": tuple(SETS), **{one: (one,) for one in SETS}}.items():
            results, seconds, commit = figures(store, arms, options.seeds, kept)
            found = summarise(results, arms[0])
            sections.append(f"### {name}\n\n{table(found, seconds)}\n\n{table_on_the_way(results)}")
            record[name] = {"commit": commit, "seconds": seconds, "arms": _plain(found)}
    print("\n\n".join(sections))
    if options.output:
        Path(options.output).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def figures(
    store: Store, arms: Sequence[str], seeds: int, kept: Sequence[str]
) -> tuple[dict[str, Results], dict[str, float], str]:
    """The arms' searches of these sets, the mean seconds of a run of each, and the commit."""
    runs = {arm: tuple(store.run(run_name(arm, seed)) for seed in range(seeds)) for arm in arms}
    first = next(iter(runs.values()))[0]
    chosen = tuple(one for one in store.problems(first.id) if one.name.rpartition("/")[0] in kept)
    comparison = Comparison("windows", tuple(Arm(*one) for one in runs.items()), chosen, arms[0])
    seconds = {arm: sum(float((run.summary or {})["seconds"]) for run in of) / seeds for arm, of in runs.items()}
    return load_results(store, comparison), seconds, first.commit


def table(found: Summary, seconds: dict[str, float]) -> str:
    """The arms at the end, and their differences from the first of them."""
    shown = {"solved": "solve rate", "area": "area", "best": "mean best"}
    rows = [["groups in flight", "simulated seconds", *shown.values(), *(f"{one}: - one" for one in shown.values())]]
    for name, one in found.arms.items():
        cells = [name, f"{seconds[name]:,.0f}"]
        for metric in shown:
            value = getattr(one, metric)
            cells.append("-" if value is None else f"{value.mean:.3f} [{value.low:.3f}, {value.high:.3f}]")
        for metric in shown:
            gap = found.against.get(name, {}).get(metric)
            cells.append("" if gap is None else f"{gap.interval}, p {gap.p:.2g}")
        rows.append(cells)
    return markdown(rows)


def table_on_the_way(results: Mapping[str, Results]) -> str:
    """Solve rates before the end, where a prompt that knows less costs most."""
    reference = next(iter(results))
    rows = [["groups in flight", *(f"solved @{n}" for n in ON_THE_WAY), *(f"@{n}: - {reference}" for n in ON_THE_WAY)]]
    for name, one in results.items():
        cells = [name, *(f"{float(one.solved_by(n).mean()):.3f}" for n in ON_THE_WAY)]
        for n in ON_THE_WAY:
            gap = metric_difference("solved", one, results[reference], n, comparisons=len(results) - 1)
            cells.append("" if name == reference else f"{gap.interval}, p {gap.p:.2g}")
        rows.append(cells)
    return markdown(rows)


def _plain(found: Summary) -> dict[str, Any]:
    return {
        name: {"arm": asdict(one), "against": {key: asdict(gap) for key, gap in found.against.get(name, {}).items()}}
        for name, one in found.arms.items()
    }


def _stored(db: str, name: str) -> bool:
    with Store.open(db) as store:
        try:
            return store.run(name).status == "done"
        except UnknownRun:
            return False


if __name__ == "__main__":
    main()
