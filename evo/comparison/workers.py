"""Parallel searches of stored runs: the arms of a comparison under one seed, one seed batch after another.

A runner first loads the problems and policies (`prepare`), which finds bad input before anything is stored, and then
searches the runs, whose results are in the database. `Runner` searches in this process. `Workers` are processes that
each have a runner, so that small policies on a CPU do not wait for one another's interpreter. A worker reads its orders
from a socket, one JSON value a line: configurations to load, then runs to search. It answers each with a line. When the
socket is closed, its owner is gone: it finishes the iterations in flight and ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, NoReturn, Protocol

from evo.config.run import RunConfig
from evo.errors import BadInput, SearchFailed, database_lost
from evo.exit_status import exit_code_of
from evo.process import print_warnings_plainly
from evo.runs.finish import SearchOutcome, run_to_end
from evo.runs.resume import resume_run
from evo.runs.start import UNCHANGED, Changes, OpenRun, open_operators
from evo.search.resources import Resources, different_policies, policy_key
from evo.search.sampler import cancel_all
from evo.search.stop import INTERRUPT, Stop
from islands.errors import DatabaseUnavailable
from problems.child_process import one_blas_thread, python_path
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
        opening = partial(resume_run, name, db=db, changes=changes, shared=self._shared, take_over=take_over)
        if (outcome := await run_to_end(opening, self._searching)).cancelled:
            raise asyncio.CancelledError
        return outcome

    @contextlib.asynccontextmanager
    async def _searching(self, run: OpenRun) -> AsyncIterator[None]:
        self._running.append(run)
        self._wrote = True
        if self.stopping:
            run.interrupt(self.stopping)
        try:
            yield
        finally:
            self._running.remove(run)

    def interrupt(self, stop: Stop) -> None:
        """Finish and commit the iterations in flight, then end; begin no further batch."""
        self.stopping = stop
        for launched in self._running:
            launched.interrupt(stop)

    async def close(self) -> None:
        await self._shared.close()


_CLOSE_SECONDS = 40.0
_INTERRUPT, _CANCEL = "interrupt", "cancel"
"""Orders that a worker obeys while it carries out another: finish the iterations in flight, or end at once."""


_DONE = (0, "")
"""The answer to an order that was carried out, else the exit code and the message of a fault."""
PARENT_PROGRAM = """
from problems.child_process import one_blas_thread
with one_blas_thread():
    from evo.comparison.workers import fork_workers
fork_workers({}, {})
"""
"""The program of the workers' parent."""
_WATCH_PROGRAM = """
import json, os, sys
workers = json.loads(sys.argv[1])
while workers:
    pid, status = os.wait()
    end = workers.pop(str(pid))
    if code := os.waitstatus_to_exitcode(status):
        lost = f"a search process ended by itself (exit code {code}); evo resume continues"
        try:
            os.write(end, json.dumps((1, lost)).encode() + b"\\n")
        except OSError:
            pass  # the owner is gone
    os.close(end)
"""
"""What the parent becomes once the workers run, for it holds the memory that they shared and then changed. It answers
for those that are lost. argv: the socket of each, by its process id, in JSON"""


_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
"""Large arrays are given back when they are freed: glibc would keep some tens of megabytes of a worker for the next."""


class _Line:
    """JSON values, one a line, to and from another process."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, end: socket.socket) -> _Line:
        return cls(*await asyncio.open_unix_connection(sock=end, limit=1 << 30))

    def write(self, value: Any) -> None:
        """Nothing if the other process has ended."""
        self._writer.write(json.dumps(value).encode() + b"\n")

    async def read(self) -> Any:
        """The next value; None if the other process says no more."""
        with contextlib.suppress(ConnectionError):
            if line := await self._reader.readline():
                return json.loads(line)
        return None

    async def close(self) -> None:
        """Say no more, and wait until the other process has ended."""
        with contextlib.suppress(OSError):
            self._writer.write_eof()
            await self._reader.read()
        self._writer.close()


class Workers:
    """Several workers that act as one runner. The runs of a seed batch are assigned in turn, so that slow arms are
    spread over the workers. Several workers may load the same policy, so only small policies are searched in this
    way."""

    def __init__(self, count: int) -> None:
        self.stopping: Stop | None = None
        self._count = count
        self._parent: subprocess.Popen[bytes] | None = None
        self._lines: list[_Line] = []  # to each worker

    async def prepare(self, configs: Sequence[RunConfig]) -> None:
        """Start the processes and load each policy in one of them, as a check."""
        different = different_policies(configs)
        models = [config for config in configs if is_small(config) and _has_weights(config)]
        modules = ["vpo.hf.policy"] * bool(models)
        if any(config.train for config in models):
            modules.append("transformers.models.llama.modeling_llama")
        pairs = [socket.socketpair() for _ in range(self._count)]
        theirs = [their.fileno() for _, their in pairs]
        self._parent = subprocess.Popen(
            [sys.executable, "-P", "-c", PARENT_PROGRAM.format(theirs, modules)],
            stdin=subprocess.DEVNULL,
            stdout=2,  # what a library prints is no answer
            pass_fds=theirs,
            env={**_MALLOC, **os.environ, "PYTHONPATH": python_path()},
            start_new_session=True,  # Ctrl-C and a closed terminal are this process's to answer
        )
        for ours, their in pairs:
            their.close()
            self._lines.append(await _Line.open(ours))
        loaded = [config.model_dump(mode="json") for config in different]
        await self._order([("prepare", loaded[i :: self._count]) for i in range(self._count)])

    async def search(self, db: str, seed_batches: Sequence[SeedBatch], changes: Changes = UNCHANGED) -> None:
        """Assign the runs to the workers and wait for all of them."""
        dealt = [[batch[i :: self._count] for batch in seed_batches] for i in range(self._count)]
        await self._order([("search", db, of, dict(changes.settings), changes.accept_change) for of in dealt])

    async def _order(self, orders: Sequence[Any]) -> None:
        """Give each worker its order and wait for the answers. The first fault stops the other workers."""
        waiting = [asyncio.create_task(_ask(line, order)) for line, order in zip(self._lines, orders, strict=True)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_EXCEPTION)
            if any(answer.done() and answer.exception() for answer in waiting):
                self.interrupt(INTERRUPT)
            await asyncio.wait(waiting)
        except asyncio.CancelledError:
            self._tell(_CANCEL)
            await asyncio.gather(*waiting, return_exceptions=True)
            raise
        if faults := [fault for answer in waiting if (fault := answer.exception())]:
            raise faults[0]

    def interrupt(self, stop: Stop) -> None:
        self.stopping = stop
        self._tell(_INTERRUPT)

    def _tell(self, order: str) -> None:
        for line in self._lines:
            line.write(order)

    async def close(self) -> None:
        if self._parent is None:
            return
        try:
            await asyncio.wait_for(asyncio.gather(*(line.close() for line in self._lines)), _CLOSE_SECONDS)
        except TimeoutError:
            os.killpg(self._parent.pid, signal.SIGKILL)
        await asyncio.to_thread(self._parent.wait)


async def _ask(line: _Line, order: Any) -> None:
    """Give the order and wait for the answer. Raises the worker's fault: BadInput, or SearchFailed also if it is
    lost."""
    line.write(order)
    code, message = await line.read() or (1, "a search process ended by itself; evo resume continues")
    if code:
        raise (BadInput if code == 2 else SearchFailed)(message)


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


def _has_weights(config: RunConfig) -> bool:
    return any(address.has_weights for address in parse_addresses(config.policy))


def fork_workers(ends: Sequence[int], modules: Sequence[str]) -> NoReturn:
    """Fork the workers, then watch them (_WATCH_PROGRAM). They share memory, most of which a library for models takes:
    it is imported here, once, and nothing is loaded, so that no thread runs and no device is in use.

    ends: the sockets on which they get their orders
    modules: what those need that load small models on a CPU
    """
    gc.disable()
    print_warnings_plainly()
    with one_blas_thread():
        for name in modules:
            importlib.import_module(name)
    gc.freeze()  # looking for garbage would copy every page
    workers: dict[int, int] = {}
    for end in ends:
        if (pid := os.fork()) == 0:
            for other in ends:
                if other != end:
                    os.close(other)
            _serve(socket.socket(fileno=end))
        workers[pid] = end
    os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", _WATCH_PROGRAM, json.dumps(workers)])


def _serve(end: socket.socket) -> NoReturn:
    """Be a worker."""
    gc.enable()
    code = 1
    try:
        asyncio.run(_obey(end))
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(code)  # threads of a cancelled policy call may still run


async def _obey(end: socket.socket) -> None:
    line, runner, loop, orders = await _Line.open(end), Runner(), asyncio.get_running_loop(), asyncio.Queue[Any]()
    work: asyncio.Task[tuple[int, str]] | None = None

    async def listen() -> None:
        while (order := await line.read()) is not None:
            if order == _INTERRUPT:
                runner.interrupt(INTERRUPT)
            elif order != _CANCEL:
                orders.put_nowait(order)
            elif work is not None:
                work.cancel()
        runner.interrupt(INTERRUPT)
        orders.put_nowait(None)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, runner.interrupt, INTERRUPT)
    listening = asyncio.create_task(listen())
    while (order := await orders.get()) is not None:
        work = asyncio.create_task(_carry_out(runner, order))
        await asyncio.wait([work])
        line.write(_DONE if work.cancelled() else work.result())
    await listening
    await runner.close()


async def _carry_out(runner: Runner, order: Sequence[Any]) -> tuple[int, str]:
    """The exit code and the message of its fault."""
    try:
        match order:
            case ["prepare", configs]:
                await runner.prepare([RunConfig.model_validate(config) for config in configs])
            case ["search", db, batches, settings, accept_change]:
                await runner.search(db, batches, Changes(settings, accept_change))
    except Exception as error:
        code = exit_code_of(error)
        if code is None:
            raise
        return code, " ".join(str(error).split())
    return _DONE
