"""A training as one task of a Ray cluster: its lines, its end by Ctrl-C, and a node that dies under it."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from child_processes import begin, wait_until
from training_runs import SMALL_POLICY
from warm_processes import ForkedWithModels

import evo
from evo import load_problems
from evo.config.cluster import parse_cluster
from evo.config.train import plan_training
from evo.errors import BadInput, SearchFailed
from evo.training.run_directory import TrainingRecord

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'evo-search[ray]'")

from ray_clusters import Nodes  # noqa: E402

from evo.cluster import actor_pool, open_training  # noqa: E402
from evo.cluster.command import Command  # noqa: E402
from evo.cluster.task import CommandOrder, CommandOutcome  # noqa: E402

SETTINGS = {"policy": SMALL_POLICY, "prompts": 2, "rollouts": 2, "save_every": 2, "seed": 4}


def flags(**settings: object) -> list[str]:
    return [part for name, value in settings.items() for part in (f"--{name.replace('_', '-')}", str(value))]


def train_on(cluster: Nodes, folder: Path, steps: int, lines: list[tuple[str, str]]) -> CommandOutcome:
    run = plan_training(None, {**SETTINGS, "steps": steps}, "vpo", ["maze:train/0-3"])
    training = open_training(cluster.address, run, str(folder), {}, "evo train", as_json=True)
    return asyncio.run(training.work(lambda stream, line: lines.append((stream, line))))


@pytest.mark.long
def test_a_training_whose_node_dies_goes_on_elsewhere_to_the_same_weights(cluster, tmp_path):
    steps = 16
    whole = begin(
        "train",
        "vpo",
        "maze:train/0-3",
        *flags(**SETTINGS, steps=steps),
        "-o",
        "whole",
        "--plain",
        cwd=tmp_path,
        kind=ForkedWithModels,
    )
    out, err = whole.communicate(timeout=240)
    assert whole.returncode == 0, out + err
    lines: list[tuple[str, str]] = []
    folder, found = tmp_path / "killed", []
    thread = threading.Thread(target=lambda: found.append(train_on(cluster, folder, steps, lines)))
    thread.start()
    until = time.monotonic() + 200
    while not (folder / "checkpoints" / "step-000004").exists():
        assert thread.is_alive() and time.monotonic() < until, lines
        time.sleep(0.05)
    on = re.search(r"on node (\w+)", " ".join(line for _, line in lines))
    assert on is not None
    cluster.kill_node_named(on[1])
    cluster.add_node()
    thread.join(300)
    assert found and found[0].code == 0, lines
    nodes = [line.split()[2] for _, line in lines if line.startswith("on node")]
    assert len(nodes) == 2 and nodes[0] == on[1] != nodes[1]
    summary = json.loads(next(line for stream, line in lines if stream == "out"))
    assert (summary["outcome"], summary["steps"]) == ("done", steps)
    assert (folder / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()
    logged = [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert logged == list(range(1, steps + 1))


@pytest.mark.long
def test_ctrl_c_ends_it_after_the_step_and_it_is_resumed(cluster, tmp_path):
    settings = flags(**SETTINGS, steps=400)
    child = begin(
        "train",
        "vpo",
        "maze:train/0-3",
        *settings,
        "-o",
        "runs/vpo",
        "--ray",
        cluster.address,
        cwd=tmp_path,
        kind=subprocess.Popen,
    )
    checkpoints = tmp_path / "runs" / "vpo" / "checkpoints"
    wait_until(lambda: any(checkpoints.glob("step-??????")), child, 200)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=120)
    assert child.returncode == 130, out + err
    assert "Interrupted" in out and f"evo train --resume {tmp_path / 'runs' / 'vpo'}" in out
    step = TrainingRecord(tmp_path / "runs" / "vpo").newest_step()
    assert 0 < step < 400
    again = begin(
        "train",
        "--resume",
        "runs/vpo",
        "--steps",
        str(step + 2),
        "--ray",
        cluster.address,
        cwd=tmp_path,
        kind=subprocess.Popen,
    )
    out, err = again.communicate(timeout=240)
    assert again.returncode == 0, out + err
    assert "Done" in out and TrainingRecord(tmp_path / "runs" / "vpo").newest_step() == step + 2
    assert not list((tmp_path / "runs" / "vpo").glob(".shared-*"))


def test_a_node_that_does_not_share_the_directory_says_so(tmp_path):
    order = CommandOrder(("train", "-o", "x"), str(tmp_path / "nowhere"))
    with pytest.raises(BadInput, match=r"nowhere is not on node ab12 .*: name a directory that all nodes share"):
        asyncio.run(Command().run(order, "ab12"))


def test_a_command_tells_its_lines_its_code_and_its_last_word(tmp_path):
    async def run() -> tuple[CommandOutcome, list[tuple[str, str]]]:
        command, lines = Command(), []

        async def read() -> None:
            while more := await command.read_lines():
                lines.extend(more)

        order = CommandOrder(("problems", "maze:nothing"), str(tmp_path))
        outcome, _ = await asyncio.gather(command.run(order, "ab12"), read())
        return outcome, lines

    outcome, lines = asyncio.run(run())
    assert outcome.code == 2 and "nothing" in outcome.last_line and not outcome.last_line.startswith("evo: ")
    assert lines[0][1].startswith("on node ab12") and lines[-1] == ("err", f"evo: {outcome.last_line}")


def test_whoever_wrote_before_is_refused(tmp_path):
    first, second = TrainingRecord(tmp_path), TrainingRecord(tmp_path)
    first.claim()
    first.log({"step": 1})
    second.claim()
    second.log({"step": 2})
    with pytest.raises(SearchFailed, match="another process continues this training"):
        first.log({"step": 2})
    assert [json.loads(line)["step"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()] == [1, 2]


def test_a_first_file_that_a_kill_cut_short_makes_room(tmp_path):
    record = TrainingRecord(tmp_path)
    assert not record.begun()
    (tmp_path / "train.json").write_text('{"command": "ev')
    assert not record.begun() and not (tmp_path / "train.json").exists()
    TrainingRecord.create(tmp_path, {"config": {}})
    assert record.begun()


def test_under_accelerate_it_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(BadInput, match="--ray places one process"):
        open_training("local", None, str(tmp_path), {}, "evo train", as_json=False)


@pytest.mark.long
def test_from_python(cluster, tmp_path):
    settings = {**SETTINGS, "steps": 2, "progress": False}
    trained = evo.train("vpo", "maze:train/0-3", output=tmp_path / "out", ray=cluster.address, **settings)
    assert trained.outcome == "done" and trained.steps == 2 and trained.policy == str(tmp_path / "out")
    assert [line["step"] for line in trained.log] == [1, 2] and Path(trained, "model.safetensors").is_file()
    assert "evo.train('vpo', 'maze:train/0-3'" in (tmp_path / "out" / "README.md").read_text()
    with pytest.raises(ValueError, match="holds a training run already"):
        evo.train("vpo", "maze:train/0-3", output=tmp_path / "out", ray=cluster.address, **settings)
    with pytest.raises(ValueError, match="is an object of this process"):
        evo.train("vpo", load_problems("maze:train/0-1"), output=tmp_path / "o", ray=cluster.address, **settings)


@pytest.mark.parametrize("ends", ["there is room", "interrupted", "lost"])
def test_it_says_once_that_no_node_has_room_until_there_is_or_it_ends(monkeypatch, ends):
    monkeypatch.setattr(actor_pool, "NOTICE_SECONDS", 0.02)
    monkeypatch.setattr(actor_pool, "LOOK_SECONDS", 0.01)
    pool = actor_pool.ActorPool(parse_cluster("local?gpus=1"), lambda task: 0)

    async def scenario() -> bool:
        node = asyncio.get_running_loop().create_future()
        actor = SimpleNamespace(find_node=SimpleNamespace(remote=lambda: node))
        waiting = asyncio.create_task(actor_pool._wait_for_node(pool, actor, "runs/vpo"))
        while not pool.events:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert not waiting.done()
        if ends == "there is room":
            node.set_result("ab12")
        elif ends == "interrupted":
            pool.interrupt("enough")
        else:
            node.set_exception(ray.exceptions.RayActorError())
        return await waiting

    if ends == "lost":
        with pytest.raises(ray.exceptions.RayError):
            asyncio.run(asyncio.wait_for(scenario(), 30))
    else:
        assert asyncio.run(asyncio.wait_for(scenario(), 30)) == (ends == "there is room")
    assert [event["text"] for event in pool.events] == [
        "runs/vpo waits for a node with free resources (1 CPUs, 1 GPUs)"
    ]
