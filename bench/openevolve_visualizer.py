"""OpenEvolve's own visualizer on a search of ours: does it show every program and every edge?

    git clone https://github.com/algorithmicsuperintelligence/openevolve   # the visualizer is not in the wheel
    pip install flask
    python bench/openevolve_visualizer.py --checkout openevolve [--problem DIR] [--iterations 60] [--json FILE]

Runs `evo run examples/valley --policy scripted:vary`, `evo export --openevolve`, then scripts/visualizer.py of the
checkout as its users start it, and asks it for its data, its first page and the page of every program.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 60


def evo(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "evo", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"evo {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def get(port: int, path: str) -> tuple[int, bytes]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return answer.status, answer.read()


def when_up(port: int, server: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Its data, as soon as it answers."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            return dict(json.loads(get(port, "/api/data")[1]))
        except OSError as error:
            if server.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the visualizer does not answer: {error}") from error
            time.sleep(0.2)


def shown(checkout: Path, output: Path) -> tuple[dict[str, Any], list[int]]:
    """What the visualizer answers for an output folder, and the status of each of its pages."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "visualizer.py", "--path", str(output), "--port", str(port)]
    # a session of its own, because Flask's reloader starts a second process that has to end with the first
    server = subprocess.Popen(
        command,
        cwd=checkout / "scripts",
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        data = when_up(port, server)
        pages = ["/", *(f"/program/{urllib.parse.quote(node['id'])}" for node in data["nodes"])]
        return data, [get(port, page)[0] for page in pages]
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkout", type=Path, required=True, help="of OpenEvolve's repository")
    parser.add_argument("--problem", type=Path, default=ROOT / "examples" / "valley")
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--json", help="write the figures there")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="visualizer-") as name:
        folder = Path(name)
        searched = ["--policy", "scripted:vary", "--rollouts", "2", "--answers", "1", "--name", "shown", "--plain"]
        evo(folder, "run", str(given.problem.resolve()), "--iterations", str(given.iterations), *searched)
        evo(folder, "export", "shown", "--openevolve", "output", "--plain")
        candidates = json.loads(evo(folder, "runs", "--json"))[0]["candidates"]
        (programs,) = (folder / "output").glob("checkpoints/*/programs")
        files = [json.loads(file.read_text()) for file in programs.iterdir()]
        data, pages = shown(given.checkout.resolve(), folder / "output")
    edges = {(edge["source"], edge["target"]) for edge in data["edges"]}
    expected = {(one["parent_id"], one["id"]) for one in files if one["parent_id"] is not None}
    figures = {
        "candidates": candidates,
        "programs": len(files),
        "nodes": len(data["nodes"]),
        "edges": len(edges),
        "parents": len(expected),
        "archive": len(data["archive"]),
        "pages": len(pages),
        "pages answered": pages.count(200),
    }
    print(json.dumps(figures, indent=1))
    if given.json:
        Path(given.json).write_text(json.dumps(figures, indent=1) + "\n")
    whole = {node["id"] for node in data["nodes"]} == {one["id"] for one in files} and edges == expected
    if not whole or set(pages) != {200}:
        raise SystemExit("the visualizer does not show everything")


if __name__ == "__main__":
    main()
