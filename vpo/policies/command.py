"""A command of the user's as a policy: `command:PROGRAM ARGUMENTS[?OPTIONS]`, such as a coding agent or a script.

Each rollout is one run of the command in a new folder. The prompt format `work-folder` (evo.prompts.work_folder) makes
the request, and the folder holds it in readable form:

    TASK.md           the task, and how to answer
    FEEDBACK.md       the scores of the answer below, and its scorer's feedback
    FILE ...          the files of the answer to improve; the command changes them in place
    others/N/FILE     other answers found so far
    request.json      all of that as JSON, which the command's standard input holds too

The command answers by changing the files, or, for an answer of one file, by printing the whole new file. It may write
`usage.json` with prompt_tokens, completion_tokens and cost. EVO_SEED is a number of this rollout, for its random
choices. The command is trusted: it runs with the user's rights and environment, outside of the sandbox. What it writes
is not: it is only text until the sandbox scores it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import shlex
import shutil
import signal
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from problems import temp_dirs
from problems.contract import BadAddress
from problems.redaction import redact_beginning
from problems.types import Prompt, Rollout, Usage
from vpo.policies.address import OwnOptions, PolicyAddress, PolicySettings
from vpo.policies.contract import Policy, PolicyUnavailable, gather_or_cancel, rollout_bits
from vpo.policies.prompt_formats import WORK_FOLDER

MOST_BYTES = 1 << 20
"""Of a file or of the output that are kept; a longer answer is cut, and fails."""
MOST_OUTPUT = 64 << 20
"""Bytes of output after which a command is killed."""
_IDS, _LOGPROBS = np.zeros(0, np.int32), np.zeros(0, np.float32)


class CommandOptions(OwnOptions):
    """The options of a command, in addition to vpo.policies.address.PolicySettings."""

    timeout: float = Field(600.0, gt=0.0, description="seconds that one run of the command may take")
    concurrency: int = Field(2, ge=1, le=256, description="runs of the command at a time")


class CommandPolicy(Policy):
    """A Policy over a command. Prompts of the format `work-folder` become a folder; any other prompt is its TASK.md,
    and the output is the reply."""

    prompt_format = WORK_FOLDER
    batch = 0

    def __init__(self, address: PolicyAddress, settings: PolicySettings) -> None:
        """Raises BadAddress, one line, if it names no program that exists, or has an unknown option."""
        self.version = address.plain
        self.options = address.own_options(CommandOptions)
        self.words = find_command(address)
        self.temperature, self.max_tokens = settings.temperature, settings.max_tokens
        self._slots = asyncio.Semaphore(self.options.concurrency)
        self._closed = False

    async def sample(self, prompts: Sequence[Prompt], *, rollouts: int, answers: int, seed: int) -> list[list[Rollout]]:
        """One run of the command per rollout. A run that fails is an empty rollout with a fault.

        Raises PolicyUnavailable if the command cannot be started.
        """
        if self._closed:
            raise PolicyUnavailable(f"{self.version} is closed")
        runs = [self._rollout(prompt, place, seed) for prompt in prompts for place in range(rollouts)]
        found = await gather_or_cancel(runs)
        return [list(found[first : first + rollouts]) for first in range(0, len(found), rollouts)]

    async def close(self) -> None:
        """Nothing is held between calls. Safe to call twice."""
        self._closed = True

    async def _rollout(self, prompt: Prompt, place: int, seed: int) -> Rollout:
        number = rollout_bits(seed, prompt.stream, place, size=8) % (1 << 31)
        async with self._slots:
            folder = Path(temp_dirs.make("command"))
            try:
                request = _request_of(prompt)
                files = write_folder(folder, request, prompt)
                output, fault = await self._run(folder, {**request, "seed": number}, number)
                usage = _read_usage(folder / "usage.json")
                if fault:
                    return Rollout("", _IDS, _LOGPROBS, _IDS, usage=usage, fault=fault)
                return Rollout(_reply(folder, files, output), _IDS, _LOGPROBS, _IDS, usage=usage)
            finally:
                temp_dirs.release(str(folder))

    async def _run(self, folder: Path, request: Mapping[str, Any], seed: int) -> tuple[str, str]:
        """(its output, why it failed)."""
        _write(folder, "request.json", json.dumps(request, ensure_ascii=False, indent=1))
        try:
            with (folder / "request.json").open("rb") as given:
                process = await asyncio.create_subprocess_exec(
                    *self.words,
                    cwd=folder,
                    env={**os.environ, "EVO_SEED": str(seed)},
                    stdin=given,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    start_new_session=True,
                )
        except OSError as error:
            raise PolicyUnavailable(f"{self.version} cannot be started: {error}") from None
        try:
            out, err = await asyncio.wait_for(_read_pipes(process), self.options.timeout)
        except TimeoutError:
            return "", f"{self.version} took longer than {self.options.timeout:g} s; raise ?timeout="
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # what it started, too
            await process.wait()
        if out is None:
            return "", f"{self.version} printed more than {MOST_OUTPUT >> 20} MiB and was killed"
        if process.returncode != 0:
            said = redact_beginning(" ".join(err.decode(errors="replace").split())[-300:], 300)
            return "", f"{self.version} ended with status {process.returncode}: {said or 'it printed no error'}"
        return out.decode("utf-8", errors="replace"), ""


async def _read_pipes(process: asyncio.subprocess.Process) -> tuple[bytes | None, bytes]:
    """The first MOST_BYTES of its output, None if it printed too much, and the end of its errors. More is read and
    dropped, so that a command that prints all the time holds little memory and does not wait."""
    assert process.stdout is not None and process.stderr is not None

    async def read_errors(pipe: asyncio.StreamReader) -> bytes:
        end = b""
        while part := await pipe.read(1 << 16):
            end = (end + part)[-4096:]
        return end

    async def read_output(pipe: asyncio.StreamReader) -> bytes | None:
        kept, printed = bytearray(), 0
        while part := await pipe.read(1 << 16):
            kept += part[: MOST_BYTES - len(kept)]
            printed += len(part)
            if printed > MOST_OUTPUT:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                return None
        return bytes(kept)

    out, err = await asyncio.gather(read_output(process.stdout), read_errors(process.stderr))
    await process.wait()
    return out, err


def find_command(address: PolicyAddress) -> list[str]:
    """The words of the command, its program and the files of this folder with their whole paths. Raises BadAddress."""
    try:
        words = shlex.split(address.model)
    except ValueError as error:
        raise BadAddress(f"policy {address.plain!r}: {error}") from None
    if not words:
        raise BadAddress("policy 'command:' names no command, as in command:python mutate.py")
    program = shutil.which(words[0]) or (sys.executable if words[0] == "python" else None)
    if program is None:
        raise BadAddress(f"policy {address.plain!r}: no program {words[0]!r} here; is it executable?")
    rest = [
        str(Path(word).resolve()) if not word.startswith("-") and Path(word).exists() else word for word in words[1:]
    ]
    return [str(Path(program).absolute()), *rest]


def write_folder(folder: Path, request: Mapping[str, Any], prompt: Prompt) -> dict[str, str]:
    """Fill the folder of a rollout; the files of the answer to improve."""
    if not request:
        _write(folder, "TASK.md", f"{prompt.system}\n\n{prompt.user}".strip() + "\n")
        return {}
    files = dict(request["files"])
    names = ", ".join(files)
    how = f"Change {names} in this folder." + (" Or print the whole new file." if len(files) == 1 else "")
    _write(folder, "TASK.md", f"{str(request['task']).strip()}\n\n# How to answer\n{how}\n")
    if request["feedback"]:
        _write(folder, "FEEDBACK.md", f"{request['feedback']}\n")
    for name, text in files.items():
        _write(folder, name, text)
    for number, other in enumerate(request["others"], 1):
        for name, text in other["files"].items():
            _write(folder, f"others/{number}/{name}", text)
        _write(folder, f"others/{number}/SCORES.md", f"{other['scores']}\n")
    return files


def _write(folder: Path, name: str, text: str) -> None:
    place = folder / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8", errors="replace", newline="")


def _request_of(prompt: Prompt) -> dict[str, Any]:
    """The request of a prompt in the format `work-folder`; {} for any other."""
    try:
        request = json.loads(prompt.user)
    except ValueError:
        return {}
    return request if isinstance(request, dict) and request.get("format") == WORK_FOLDER else {}


def _reply(folder: Path, files: Mapping[str, str], output: str) -> str:
    """The rollout's text: the files as JSON if the command changed one, else what it printed."""
    now = {name: _read_file(folder / name) for name in files}
    if any(text is not None and text != files[name] for name, text in now.items()):
        return json.dumps({"files": {name: text for name, text in now.items() if text is not None}}, ensure_ascii=False)
    if len(files) == 1 and output.strip():
        return json.dumps({"files": {next(iter(files)): output}}, ensure_ascii=False)
    return output if not files else ""


def _read_file(path: Path) -> str | None:
    """A plain file's text, its beginning if it is long; None if there is none. A link is not followed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return opened.read(MOST_BYTES).decode("utf-8", errors="replace").replace("\r\n", "\n")


def _read_usage(path: Path) -> Usage:
    """What the command says that it used; nothing if it says nothing that can be read."""
    try:
        said = json.loads(_read_file(path) or "{}")
        prompt, completion = int(said.get("prompt_tokens") or 0), int(said.get("completion_tokens") or 0)
        cost = float(said.get("cost") or 0.0)
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError):
        return Usage(0, 0)
    if min(prompt, completion) < 0 or max(prompt, completion) > 1 << 40 or not 0.0 <= cost < math.inf:
        return Usage(0, 0)
    return Usage(prompt, completion, cost)
