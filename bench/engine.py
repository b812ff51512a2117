"""A search beside the bare engine: the same prompts, the same seeds, in one process, in turns.

    python -m bench.engine maze:hard --limit 20 --policy embedded:base --iterations 20 [--turns 4] [--json FILE]
    python -m bench.engine programs:shipped --limit 12 --policy DIR --answers 1 --max-new-tokens 160

Sides take turns, the order of each turn the reverse of the one before, after a search that is not counted and whose
prompts are recorded:
- `search`: what `evo run` does between its start and its end: selection, prompts, sampling, parsing, scoring in the
  sandbox, a database on disk;
- `paced`: the policy asked for the recorded prompts with as many in flight as the search had, each of them followed by
  the next at once: no selection, no parsing, no scoring, no database. What it is slower than `bare` is the price of
  proposing from what is known;
- `bare`: the policy given all prompts at once.
- `search in calls`, `bare in rounds` and the like: the same with a policy that is asked in calls of a fixed number of
  prompts that are waited for whole, or in rounds that others join meanwhile (vpo.hf.continuous_batching), whichever it
  would choose by itself. The bare engine's calls are of the size that suits it best.

A search's prompts depend on its seed alone, so all sides write the same tokens up to rounding; the counts are compared.
The shares are of a search's wall time: what the event loop does, and for how long nothing is under way at the policy.
Seconds on a core are read from /proc for each thread, children (sandboxes, an engine that is a process) apart; they
tell of the work where other processes share the machine. In 16 bits rounding depends on the batch, so that sides write
other tokens, and searches in another order ask other prompts: rates are what compares then.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.engine_clock import Clock, clocked, cores
from bench.engine_report import Turn, report
from evo.config.parse import parse
from evo.config.run import RunConfig
from evo.runs.resume import relaunch
from evo.search.continuous_batching import sampler_for
from evo.search.defaults import resolve_settings, to_stored
from evo.search.resources import Resources
from evo.search.sampler import Sampler, SamplingMeter
from islands.db.store import Store
from islands.queries.groups import read_groups
from problems.types import Prompt

SIDES = ("search", "paced", "bare")


class Bench:
    """The search that is measured, with its policy and its scorer, which every turn uses again."""

    def __init__(self, config: RunConfig, folder: str) -> None:
        self.shared = Resources()
        problems = self.shared.problems(config)
        self.config = resolve_settings(config, problems)
        self.addresses = [problem.name for problem in problems]
        (operator,) = self.shared.operators(self.config, problems)
        self.policy: Any = operator.policy
        self.rollouts, self.answers = operator.rollouts, operator.answers
        self.folder, self.count = folder, 0
        self.prompts: list[Prompt] = []
        self.batch = self.window = 0

    @property
    def asked(self) -> str:
        """One line on what every side is asked."""
        return (
            f"{len(self.prompts)} prompts x {self.rollouts} rollouts x {self.answers} answers; the search has "
            f"{self.window} groups in flight, in calls {self.batch or 'of one prompt'}"
        )

    async def turn(self, side: str) -> Turn:
        kind, _, how = side.partition(" in ")
        with policy_asked(self.policy, how):
            return await getattr(self, f"_{kind}")(side)

    async def _search(self, side: str) -> Turn:
        self.count += 1
        address = f"sqlite:///{self.folder}/search-{self.count}.db"
        with Store.open(address) as store:
            stored = to_stored(self.config, self.addresses)
            store.create_run("bench", stored, command="bench", seed=self.config.seed, commit="")
        launched = await relaunch("bench", db=address, shared=self.shared)
        self.batch, self.window = launched.core.window.batch, launched.core.window.groups
        clock = Clock()
        with clocked(clock, launched):
            seconds, spent = await self._measured(launched.search.run())
        (batcher,) = launched.search.samplers
        turn = self._turn(side, seconds, spent, batcher.meter)
        turn.shares = dict(clock.seconds)
        turn.shares["scoring in sandboxes"] = launched.status.scoring_seconds - clock.seconds["scoring in the loop"]
        if not self.prompts:
            groups = [group for _, group in read_groups(launched.store, launched.run.id)]
            self.prompts = [group.prompt for group in sorted(groups, key=lambda group: group.sequence)]
        await launched.close()
        return turn

    async def _paced(self, side: str) -> Turn:
        """As many prompts in flight as the search has; prompt h + window goes out when h is back."""
        batcher = sampler_for(self.policy, self.rollouts, self.answers, self.config.seed, self.batch, True)

        async def run() -> None:
            flying: deque[asyncio.Future[Any]] = deque()
            for prompt in self.prompts:
                if len(flying) < self.window:
                    flying.append(batcher.submit(prompt))
                    continue
                if batcher.holds(flying[0]):
                    batcher.flush()
                await flying[0]
                batcher.leaving(flying[0])
                flying.append(batcher.submit(prompt))
                batcher.left([flying.popleft()])
            await landed(batcher, flying)

        return await self._asked(side, batcher, run())

    async def _bare(self, side: str) -> Turn:
        batcher = sampler_for(
            self.policy, self.rollouts, self.answers, self.config.seed, self.policy.batch, True
        )  # fmt: skip

        async def run() -> None:
            await landed(batcher, [batcher.submit(prompt) for prompt in self.prompts])

        return await self._asked(side, batcher, run())

    async def _asked(self, side: str, batcher: Sampler, work: Any) -> Turn:
        seconds, spent = await self._measured(work)
        await batcher.close()
        return self._turn(side, seconds, spent, batcher.meter)

    async def _measured(self, work: Any) -> tuple[float, dict[str, float]]:
        gc.collect()
        before, started = cores(), time.perf_counter()
        await work
        seconds, after = time.perf_counter() - started, cores()
        return seconds, {whose: after[whose] - before.get(whose, 0.0) for whose in after}

    def _turn(self, side: str, seconds: float, spent: dict[str, float], meter: SamplingMeter) -> Turn:
        return Turn(
            side, seconds, meter.rollouts, meter.tokens, meter.rollouts * self.answers, meter.busy_seconds,
            meter.rollout_seconds / seconds, spent,
        )  # fmt: skip


async def landed(batcher: Sampler, futures: Iterable[asyncio.Future[Any]]) -> None:
    """Wait for the last prompts, in their order."""
    batcher.flush()
    for future in list(futures):
        await future
        batcher.leaving(future)
        batcher.left([future])


@contextmanager
def policy_asked(policy: Any, how: str) -> Iterator[None]:
    """A policy that is asked in "rounds", in "calls", or as it would be."""
    chosen = getattr(policy, "streams", None)
    if how and chosen is not None:
        policy.streams = how == "rounds"
    try:
        yield
    finally:
        if chosen is not None:
            policy.streams = chosen


async def measure(
    config: RunConfig, turns: int, most: float, sides: Sequence[str], folder: str, command: str
) -> tuple[str, list[Turn]]:
    started = time.perf_counter()
    bench = Bench(config, folder)
    done: list[Turn] = []
    try:
        await bench.turn("search")  # recorded, not counted: the engine warms up
        for number in range(turns):
            spent = time.perf_counter() - started
            if number and spent + sum(turn.seconds for turn in done) / number > most:
                print(f"no time for turn {number}", flush=True)
                break
            for side in sides if number % 2 == 0 else sides[::-1]:
                done.append(await bench.turn(side))
                turn = done[-1]
                print(f"{number} {side}: {turn.seconds:.2f} s, {sum(turn.cores.values()):.2f} on a core", flush=True)
        return report(bench.asked, done, sides, command), done
    finally:
        await bench.shared.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="+")
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--most", type=float, default=540.0, help="seconds after which no turn is begun")
    parser.add_argument("--sides", default=",".join(SIDES), help="separated by commas")
    parser.add_argument("--json", metavar="FILE")
    for kind, names in (
        (str, "policy dtype device"),
        (int, "limit iterations rollouts answers seed parallel max-new-tokens scoring-workers"),
        (float, "temperature top-p"),
    ):
        for name in names.split():
            parser.add_argument(f"--{name}", type=kind)
    options = vars(parser.parse_args())
    turns, most, output = options.pop("turns"), options.pop("most"), options.pop("json")
    sides = options.pop("sides").split(",")
    given = {name: value for name, value in options.items() if value is not None}
    shown = " ".join(f"--{k.replace('_', '-')} {Path(str(v)).name}" for k, v in given.items() if k != "problems")
    command = f"python -m bench.engine {' '.join(given['problems'])} {shown} --turns {turns}"
    with tempfile.TemporaryDirectory() as folder:
        text, done = asyncio.run(measure(parse(RunConfig, given, "the options"), turns, most, sides, folder, command))
    print(text)
    if output:
        Path(output).write_text(json.dumps([vars(turn) for turn in done], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
