"""Ours and the field on the same tasks, through one served model, with equal calls and equal tokens a call.

    python -m bench.field MODEL_DIR --json field.json --python shinka=VENV/bin/python --python gepa=VENV/bin/python
    python -m bench.field --report field.json -o bench/results/field.md

Systems: openevolve 0.4.0, shinka-evolve 0.0.7, gepa 0.1.4 (optimize_anything), and ours: islands, hill, scs, best-of-n.
Each run is a process of its own, gets CALLS calls of at most TOKENS tokens at temperature 0.8, one at a time, and asks
for one whole program a call. Every call and every score goes through this process, which counts them and runs what was
written in our sandbox: a foreign system never runs a candidate. What stands in the JSON is not run again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench.field_report import spent, write_report
from bench.field_tasks import field_tasks
from bench.served import served
from problems.contract import Problem

OURS = ("islands", "hill", "scs", "best-of-n")
SYSTEMS = ("openevolve", "shinka", "gepa", *OURS)
GRACE = 60.0
"""Seconds that a system has, after the first call that it was refused, to end by itself: one retries for an hour."""


class Counter:
    """What one run has asked for and had scored, in order."""

    def __init__(self, problem: Problem, calls: int) -> None:
        self.problem, self.most = problem, calls
        self.events: list[dict[str, Any]] = []
        self.calls = 0
        self.refused: float | None = None  # when a call was first refused
        self.lock = threading.Lock()

    def take(self) -> bool:
        """Whether there is a call left; takes it."""
        with self.lock:
            self.calls += 1
            if self.calls > self.most and self.refused is None:
                self.refused = time.monotonic()
            return self.calls <= self.most

    def score(self, code: str) -> dict[str, Any]:
        score = self.problem.score(self.problem.canonical(code))
        with self.lock:
            self.events.append({"fitness": score.fitness if score.error is None else None, "error": score.error})
        rewards = dict(zip(self.problem.objectives, score.rewards, strict=True))
        return {"fitness": score.fitness, "rewards": rewards, "features": dict(score.features),
                "feedback": score.feedback, "error": score.error}  # fmt: skip


class Relay(ThreadingHTTPServer):
    """/KEY/score scores; /KEY/v1/... goes on to the model's server, counted."""

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.upstream = upstream
        self.runs: dict[str, Counter] = {}

    def url(self, key: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{key}"


class Handler(BaseHTTPRequestHandler):
    server: Relay
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._pass_on(None)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        key, _, path = self.path.lstrip("/").partition("/")
        run = self.server.runs[key]
        if path == "score":
            self._reply(200, json.dumps(run.score(json.loads(body)["code"])).encode())
            return
        counted = path.endswith("completions") and _limit(body) > 1  # a probe of one token is no call
        if counted and not run.take():
            self._reply(400, b'{"error": {"message": "the budget of calls is spent", "code": 400}}')
            return
        reply = self._pass_on(body)
        if counted:
            usage = json.loads(reply).get("usage") or {} if reply else {}
            with run.lock:
                run.events.append(
                    {"tokens": usage.get("completion_tokens", 0), "prompt": usage.get("prompt_tokens", 0)}
                )

    def _pass_on(self, body: bytes | None) -> bytes:
        path = self.path.lstrip("/").partition("/")[2]
        request = urllib.request.Request(f"{self.server.upstream}/{path}", body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=900) as answer:
                status, reply = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, reply = error.code, error.read()
        self._reply(status, reply)
        return reply if status == 200 else b""

    def _reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: every call is on record."""


def _limit(body: bytes) -> int:
    asked = json.loads(body)
    return int(asked.get("max_tokens") or asked.get("max_completion_tokens") or 1 << 20)


def marked(program: str) -> str:
    return f"# EVOLVE-BLOCK-START\n{program.rstrip()}\n# EVOLVE-BLOCK-END\n"


def run_one(
    relay: Relay, system: str, task: str, problem: Problem, seed: int, arguments: argparse.Namespace
) -> dict[str, Any]:
    """A run, as its events and how it ended."""
    key = f"{system}-{task}-{seed}"
    counter = relay.runs[key] = Counter(problem, arguments.calls)
    python = dict(one.split("=", 1) for one in arguments.python).get(system, sys.executable)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="field-") as place:
        folder = Path(place) / task / "run"
        folder.mkdir(parents=True)
        (folder / "statement.txt").write_text(problem.statement())
        (folder / "seed.py").write_text(problem.seed_answer())
        (folder / "initial_program.py").write_text(marked(problem.seed_answer()))
        (folder / "objectives.json").write_text(json.dumps(problem.objectives))
        command = [python, str(Path(__file__).with_name("field_driver.py")), system, str(folder), relay.url(key),
                   str(arguments.calls), str(seed), str(arguments.tokens)]  # fmt: skip
        environment = {**os.environ, "OPENAI_API_KEY": "none", "LOCAL_OPENAI_API_KEY": "none"}
        code, end = run_to_the_end(command, environment, counter, arguments.limit)
        end = end.replace(place, "")
    print(f"{key}: {code}, {min(counter.calls, counter.most)} calls, {time.monotonic() - started:.0f} s", flush=True)
    kept = {"system": system, "task": task, "seed": seed, "events": counter.events, "exit_code": code}
    return {**kept, "seconds": round(time.monotonic() - started, 1), **({"end": end} if code else {})}


def run_to_the_end(command: list[str], environment: dict[str, str], counter: Counter, limit: float) -> tuple[int, str]:
    """Exit code and last output. A system that goes on asking when its calls are spent is ended, with exit code 0."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        started = time.monotonic()
        while (code := process.poll()) is None:
            now = time.monotonic()
            spent_up = counter.refused is not None and now - counter.refused > GRACE
            if spent_up or now - started > limit:
                process.kill()
                process.wait()
                return (0, "") if spent_up else (-1, f"not done after {limit:g} s")
            time.sleep(0.5)
        output.seek(0)
        return code, output.read()[-600:]


@contextlib.contextmanager
def relaying(upstream: str) -> Iterator[Relay]:
    relay = Relay(upstream)
    threading.Thread(target=relay.serve_forever, daemon=True).start()
    try:
        yield relay
    finally:
        relay.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="a directory to serve, or the http:// address of a server")
    parser.add_argument("--json", type=Path, default=Path("field.json"))
    parser.add_argument("--calls", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--tasks", default="")
    parser.add_argument("--side-by-side", type=int, default=8)
    parser.add_argument("--limit", type=float, default=1200.0, help="seconds of one run")
    parser.add_argument("--python", action="append", default=[], metavar="SYSTEM=PYTHON")
    parser.add_argument("--report", type=Path, help="write the report of this JSON and run nothing")
    parser.add_argument("-o", "--output", type=Path, default=Path("field.md"))
    arguments = parser.parse_args()
    if arguments.report:
        write_report(json.loads(arguments.report.read_text()), arguments.output)
        return
    problems = field_tasks()
    found = json.loads(arguments.json.read_text()) if arguments.json.exists() else {"runs": []}
    found |= {"calls": arguments.calls, "tokens": arguments.tokens}
    # one that ended in an error before it had its calls is run again
    found["runs"] = [run for run in found["runs"] if run["exit_code"] == 0 or spent(run)[0] >= found["calls"]]
    done = {(run["system"], run["task"], run["seed"]) for run in found["runs"]}
    tasks = arguments.tasks.split(",") if arguments.tasks else list(problems)
    wanted = [(system, task, seed) for seed in range(arguments.seeds) for task in tasks
              for system in arguments.systems.split(",") if (system, task, seed) not in done]  # fmt: skip
    lock = threading.Lock()
    given = arguments.model.startswith("http")
    serving = contextlib.nullcontext(arguments.model) if given else served(Path(arguments.model).resolve())
    with serving as url, relaying(url) as relay, ThreadPoolExecutor(arguments.side_by_side) as pool:

        def work(one: tuple[str, str, int]) -> None:
            system, task, seed = one
            run = run_one(relay, system, task, problems[task], seed, arguments)
            with lock:
                found["runs"].append(run)
                partial = arguments.json.with_suffix(".part")
                partial.write_text(json.dumps(found, indent=1) + "\n")
                partial.replace(arguments.json)

        list(pool.map(work, wanted))


if __name__ == "__main__":
    main()
