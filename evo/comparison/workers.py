"""Parallel searches of stored runs: the arms of a comparison under one seed, one seed batch after another.

A runner first loads the problems and policies (`prepare`), which finds bad input before anything is stored, and then
searches the runs, whose results are in the database. `Runner` searches in this process. `Workers` are processes that
each have a runner, so that small policies on a CPU do not wait for one another's interpreter. A worker reads its orders
from stdin, one JSON value a line: configurations to load, then runs to search. It answers each with a line. When its
stdin ends, its owner is gone: it finishes the iterations in flight and ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, Protocol

from evo.config.run import RunConfig
from evo.encoding import print_warnings_plainly
from evo.errors import BadInput, SearchFailed, database_lost
from evo.exit_status import exit_code_of
from evo.runs.finish import SearchOutcome, run_to_end
from evo.runs.resume import resume_run
from evo.runs.start import UNCHANGED, Changes, OpenRun, open_operators
from evo.search.resources import Resources, policy_key
from evo.search.sampler import cancel_all
from evo.search.stop import INTERRUPT, Stop
from islands.errors import DatabaseUnavailable
from problems.child_process import python_path
from problems.scoring import cores
from vpo.languages.contract import dialect_of
from vpo.policies.address import parse_addresses
from vpo.policies.prompt_formats import is_token_format

SeedBatch = Sequence[str]
"""The runs of one seed, by name, which are searched together."""


class SearchRunner(Protocol):
    """What searches the runs of a comparison: this process, its workers, or a cluster (evo.cluster). Used once, in the
    order of these calls.

    stopping: why it begins no further run; None while it does
    """

    stopping: Stop | None

    async def prepare(self, configs: Sequence[RunConfig]) -> None:
        """Load the problems and policies of these runs. Raises their errors."""

    async def search(self, db: str, seed_batches: Sequence[SeedBatch], changes: Changes = UNCHANGED) -> None:
        """Search the stored runs, each to its end."""

    def interrupt(self, stop: Stop) -> None:
        """Finish and commit the iterations in flight, then end; begin no further run."""

    async def close(self) -> None:
        """Release everything."""


class Runner:
    """Searches in this process, on one event loop. Used once: prepare, search, close."""

    def __init__(self) -> None:
        self.stopping: Stop | None = None
        self._shared = Resources()
        self._running: list[OpenRun] = []
        self._wrote = False  # the database was there

    async def prepare(self, configs: Sequence[RunConfig]) -> None:
        """Load the problems and policies of these runs. Raises their errors."""
        for config in configs:
            open_operators(config, self._shared.problems(config), self._shared)
            await asyncio.sleep(0)

    async def search(self, db: str, seed_batches: Sequence[SeedBatch], changes: Changes = UNCHANGED) -> None:
        """Search the runs of each batch together. If one fails, the others continue. Raises SearchFailed where the
        database is lost, which is no input: it was there."""
        for batch in seed_batches:
            if self.stopping:
                break
            tasks = [asyncio.create_task(self.search_run(name, db, changes)) for name in batch]
            try:
                failures = [outcome.failure for outcome in await asyncio.gather(*tasks)]
            except BaseException as error:
                await cancel_all(tasks)
                if self._wrote and isinstance(error, DatabaseUnavailable):
                    raise database_lost(error) from error
                raise
            if lost := [each for each in failures if each and isinstance(each.__cause__, DatabaseUnavailable)]:
                raise lost[0]

    async def search_run(self, name: str, db: str, changes: Changes, *, take_over: bool = False) -> SearchOutcome:
        """Search one run to its end. take_over: as in evo.runs.resume.resume_run"""
        launched = await resume_run(name, db=db, changes=changes, shared=self._shared, take_over=take_over)
        try:
            self._running.append(launched)
            self._wrote = True
            if self.stopping:
                launched.interrupt(self.stopping)
            if (outcome := await run_to_end(launched)).cancelled:
                raise asyncio.CancelledError
            return outcome
        finally:
            self._running.remove(launched)
            await launched.close()

    def interrupt(self, stop: Stop) -> None:
        """Finish and commit the iterations in flight, then end; begin no further batch."""
        self.stopping = stop
        for launched in self._running:
            launched.interrupt(stop)

    async def close(self) -> None:
        await self._shared.close()


CLOSE_SECONDS = 40.0
CANCEL = signal.SIGUSR1
"""Ends a worker at once; SIGINT lets it finish the iterations in flight."""


class Workers:
    """Several workers that act as one runner. The runs of a seed batch are assigned in turn, so that slow arms are
    spread over the workers. Several workers may load the same policy, so only small policies are searched in this
    way."""

    def __init__(self, count: int) -> None:
        self.stopping: Stop | None = None
        self._count = count
        self._workers: list[subprocess.Popen[str]] = []
        self._threads = ThreadPoolExecutor(count)  # each waits for the answers of one worker
        self._searching = False

    async def prepare(self, configs: Sequence[RunConfig]) -> None:
        """Start the processes and load each policy in one of them, as a check."""
        different = list({policy_key(config): config.model_dump(mode="json") for config in configs}.values())
        for _ in range(self._count):
            worker = subprocess.Popen(
                [sys.executable, "-P", "-c", "from evo.comparison.workers import serve_orders; serve_orders()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                encoding="utf-8",
                env={**os.environ, "PYTHONPATH": python_path()},
                start_new_session=True,  # Ctrl-C and a closed terminal are this process's to answer
            )
            self._workers.append(worker)
        await self._order([("prepare", different[i :: self._count]) for i in range(self._count)])

    async def search(self, db: str, seed_batches: Sequence[SeedBatch], changes: Changes = UNCHANGED) -> None:
        """Assign the runs to the workers and wait for all of them."""
        dealt = [[batch[i :: self._count] for batch in seed_batches] for i in range(self._count)]
        self._searching = True
        await self._order([("search", db, of, dict(changes.settings), changes.accept_change) for of in dealt])

    async def _order(self, orders: Sequence[Any]) -> None:
        """Give each worker its order and wait for the answers. The first fault stops the other workers."""
        loop = asyncio.get_running_loop()
        waiting = [
            loop.run_in_executor(self._threads, _ask, worker, order)
            for worker, order in zip(self._workers, orders, strict=True)
        ]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_EXCEPTION)
            if any(answer.done() and answer.exception() for answer in waiting):
                self.interrupt(INTERRUPT)
            await asyncio.wait(waiting)
        except asyncio.CancelledError:
            self._signal(CANCEL)
            await asyncio.wait(waiting)
            raise
        for answer in waiting:
            answer.result()

    def interrupt(self, stop: Stop) -> None:
        self.stopping = stop
        if self._searching:
            self._signal(signal.SIGINT)

    def _signal(self, number: int) -> None:
        for worker in self._workers:
            worker.send_signal(number)  # nothing if it has ended

    async def close(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(self._threads, _end, worker) for worker in self._workers))


def _ask(worker: subprocess.Popen[str], order: Any) -> None:
    """Give the order and wait for the answer. Raises the worker's fault: BadInput, or SearchFailed also if it is
    lost."""
    assert worker.stdin is not None and worker.stdout is not None
    with contextlib.suppress(OSError):  # it is gone, and has no answer
        worker.stdin.write(json.dumps(order) + "\n")
        worker.stdin.flush()
    line = worker.stdout.readline()
    if not line:
        raise SearchFailed(f"a search process ended by itself (exit code {worker.wait()}); evo resume continues")
    code, message = json.loads(line)
    if code:
        raise (BadInput if code == 2 else SearchFailed)(message)


def _end(worker: subprocess.Popen[str]) -> None:
    assert worker.stdin is not None and worker.stdout is not None
    with contextlib.suppress(OSError):
        worker.stdin.close()
    try:
        worker.wait(CLOSE_SECONDS)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()
    worker.stdout.close()


def runner_for(configs: Sequence[RunConfig], processes: int | None) -> SearchRunner:
    """A runner with the requested number of processes, or with several if every policy is small and on the CPU; else
    this process only, in which all searches of a policy share one engine."""
    settings = [(policy_key(config), config.prompt, config.population, config.train) for config in configs]
    arms = len(set(map(repr, settings)))
    if processes is None:
        small = all(is_small(config) for config in configs)
        processes = cores() if small else 1
    processes = min(processes, arms)
    return Workers(processes) if processes > 1 else Runner()


def is_small(config: RunConfig) -> bool:
    """Whether its policies answer for next to nothing, on a CPU."""
    if config.device not in (None, "cpu"):
        return False
    return all(
        address.kind in ("embedded", "scripted")
        or (address.folder is not None and is_token_format(dialect_of(address.folder)))
        for address in parse_addresses(config.policy)
    )


def serve_orders() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    print_warnings_plainly()
    code = 1
    try:
        asyncio.run(_obey(answers))
        code = 0
    except Exception:
        traceback.print_exc()
    os._exit(code)  # threads of a cancelled policy call may still run


async def _obey(answers: IO[str]) -> None:
    runner, loop, orders = Runner(), asyncio.get_running_loop(), asyncio.Queue[Any]()
    working = asyncio.current_task()
    assert working is not None

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(orders.put_nowait, json.loads(line))
        loop.call_soon_threadsafe(orders.put_nowait, None)
        loop.call_soon_threadsafe(runner.interrupt, INTERRUPT)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, runner.interrupt, INTERRUPT)
    loop.add_signal_handler(CANCEL, working.cancel)
    threading.Thread(target=read, daemon=True).start()
    while (order := await orders.get()) is not None:
        fault: tuple[int, str] = (0, "")
        try:
            match order:
                case ["prepare", configs]:
                    await runner.prepare([RunConfig.model_validate(config) for config in configs])
                case ["search", db, batches, settings, accept_change]:
                    await runner.search(db, batches, Changes(settings, accept_change))
        except asyncio.CancelledError:
            pass
        except Exception as error:
            code = exit_code_of(error)
            if code is None:
                raise
            fault = (code, " ".join(str(error).split()))
        with contextlib.suppress(OSError):  # the owner is gone
            print(json.dumps(fault), file=answers, flush=True)
    await runner.close()
