"""Parallel searches of stored runs: the arms of a comparison under one seed, one seed batch after another.

A runner first loads the problems and policies (`prepare`), which finds bad input before anything is stored, and then
searches the runs. `Runner` searches in this process; `Workers` are runners in worker processes, so that small policies
on a CPU do not wait for one another's interpreter. A worker (problems.child_process) takes orders and reports how each
ended. If its owner dies, it finishes the iterations in flight and ends.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any

from evo.config.run import RunConfig
from evo.errors import BadInput, SearchFailed
from evo.exit_status import answer_of_error
from evo.runs.finish import Ended, run_to_end
from evo.runs.resume import relaunch
from evo.runs.start import UNCHANGED, Changes, OpenRun, load_runs
from evo.search.resources import Resources, policy_key
from evo.search.stop import Stop, StopReason
from problems.child_process import ChildProcess, Owner, WorkerAnswer
from problems.scoring import cores
from vpo.languages.contract import dialect_of
from vpo.policies.address import parse_addresses
from vpo.policies.prompt_formats import is_token_format

SeedBatch = Sequence[tuple[str, RunConfig]]
"""The runs of one seed, which are searched together: name and configuration of each."""


class Runner:
    """Searches in this process, on one event loop. Used once: prepare, search, close."""

    def __init__(self) -> None:
        self.stopping: Stop | None = None
        self._shared = Resources()
        self._running: list[OpenRun] = []

    async def prepare(self, configs: Sequence[RunConfig]) -> None:
        """Load the problems and policies of these runs. Raises their errors."""
        await load_runs(configs, self._shared)

    async def search(self, db: str, seed_batches: Sequence[SeedBatch], changes: Changes = UNCHANGED) -> list[Ended]:
        """Search the runs of each batch together. Returns how each ended. If one fails, the others continue."""
        ended: list[Ended] = []
        for batch in seed_batches:
            if self.stopping:
                break
            tasks = [asyncio.create_task(self._one(name, db, changes)) for name, _ in batch]
            try:
                ended += await asyncio.gather(*tasks)
            except BaseException:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                raise
        return ended

    async def _one(self, name: str, db: str, changes: Changes) -> Ended:
        launched = await relaunch(name, db=db, changes=changes, shared=self._shared)
        try:
            self._running.append(launched)
            if self.stopping:
                launched.interrupt(self.stopping)
            outcome = await run_to_end(launched)
            if outcome.cancelled:
                raise asyncio.CancelledError
            return Ended.of(outcome)
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


class Workers:
    """Several workers that act as one runner. The runs of a seed batch are assigned in turn, so that slow arms are
    spread over the workers. Several workers may load the same policy, so only small policies are searched in this
    way."""

    def __init__(self, count: int) -> None:
        self.stopping: Stop | None = None
        self._count = count
        self._workers: list[ChildProcess] = []

    async def prepare(self, configs: Sequence[RunConfig]) -> None:
        """Start the processes and load each policy in one of them, as a check."""
        different = list({policy_key(config): config for config in configs}.values())
        for _ in range(self._count):
            self._workers.append(ChildProcess("evo.comparison.workers:work", lost=_lost))
        await self._results(
            [worker.ask("prepare", (different[i :: self._count],)) for i, worker in enumerate(self._workers)]
        )

    async def search(self, db: str, seed_batches: Sequence[SeedBatch], changes: Changes = UNCHANGED) -> list[Ended]:
        """Assign the runs to the workers and wait for all of them."""
        answers = []
        for i, worker in enumerate(self._workers):
            dealt = [batch[i :: self._count] for batch in seed_batches]
            answers.append(worker.ask("search", (db, [batch for batch in dealt if batch], changes)))
        return [ended for result in await self._results(answers) for ended in result]

    async def _results(self, answers: Sequence[Future[Any]]) -> list[Any]:
        """Every worker's result. The first fault stops the other workers; their results are still awaited."""
        waiting = [asyncio.wrap_future(answer) for answer in answers]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_EXCEPTION)
            if any(answer.done() and answer.exception() for answer in waiting):
                self.interrupt(Stop(StopReason.INTERRUPTED, "interrupted; another process failed"))
            results = await asyncio.gather(*waiting, return_exceptions=True)
        except asyncio.CancelledError:
            self._tell("cancel")
            await asyncio.gather(*waiting, return_exceptions=True)
            raise
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return list(results)

    def interrupt(self, stop: Stop) -> None:
        self.stopping = stop
        self._tell("interrupt", stop)

    def _tell(self, kind: str, content: Any = None) -> None:
        for worker in self._workers:
            worker.tell(kind, content)

    async def close(self) -> None:
        self._tell("close")
        for worker in self._workers:
            await asyncio.to_thread(worker.end, CLOSE_SECONDS)


def runner_for(configs: Sequence[RunConfig], processes: int | None) -> Runner | Workers:
    """A runner with the requested number of processes, or with several if every policy is small and on the CPU; else
    this process only, in which all searches of a policy share one engine."""
    settings = [(policy_key(config), config.prompt, config.population, config.train) for config in configs]
    arms = len(set(map(repr, settings)))
    if processes is None:
        small = all(_small(config) for config in configs)
        processes = cores() if small else 1
    processes = min(processes, arms)
    return Workers(processes) if processes > 1 else Runner()


def _small(config: RunConfig) -> bool:
    if config.device not in (None, "cpu"):
        return False
    return all(
        address.kind in ("embedded", "scripted")
        or (address.folder is not None and is_token_format(dialect_of(address.folder)))
        for address in parse_addresses(config.policy)
    )


def _lost(code: int, _: str) -> SearchFailed:
    return SearchFailed(f"a search process ended by itself (exit code {code}); evo resume continues")


def work(owner: Owner) -> None:
    """The main function of a worker: it takes orders until it is closed or its owner dies."""
    asyncio.run(_obey(owner))
    os._exit(0)  # threads of a cancelled policy call may still run


async def _obey(owner: Owner) -> None:
    runner = Runner()
    loop = asyncio.get_running_loop()
    orders: asyncio.Queue[tuple[int, str, Any]] = asyncio.Queue()
    running: list[asyncio.Task[Any]] = []

    def receive(number: int, kind: str, content: Any) -> None:
        if kind == "interrupt":
            runner.interrupt(content)
        elif kind == "cancel":
            for task in running:
                task.cancel()
        else:
            orders.put_nowait((number, kind, content))

    def interrupt(reason: str) -> None:
        runner.interrupt(Stop(StopReason.INTERRUPTED, f"interrupted; {reason}"))

    def orphaned() -> None:
        interrupt("the process that watched over it is gone")
        orders.put_nowait((0, "close", None))

    owner.listen(
        lambda *message: loop.call_soon_threadsafe(receive, *message), lambda: loop.call_soon_threadsafe(orphaned)
    )
    loop.add_signal_handler(signal.SIGTERM, interrupt, "asked to end")
    methods: dict[str, Callable[..., Coroutine[Any, Any, Any]]] = {"prepare": runner.prepare, "search": runner.search}
    while True:
        number, kind, arguments = await orders.get()
        if kind == "close":
            break
        running[:] = [asyncio.create_task(methods[kind](*arguments))]
        owner.answer(number, await _outcome(running[0]))
    await runner.close()


async def _outcome(task: asyncio.Task[Any]) -> WorkerAnswer:
    try:
        return WorkerAnswer(await task)
    except asyncio.CancelledError:
        return WorkerAnswer(fault=BadInput("cancelled"))
    except Exception as error:
        return answer_of_error(error)
