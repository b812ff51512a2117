"""One training step of PolicyTrainer, with the prompt shared and plain, beside TRL's GRPOTrainer on the same batch.

    python bench/train_step.py --model DIR [--rounds 2] [--threads 1] [--json FILE]

A step is forward, loss, backward, gradient clip and AdamW on G = 8 given rollouts of one prompt (random tokens, random
rewards, seed 0) in float32; nothing is sampled. A micro-batch holds at most 2,560 padded tokens on every side: one row
of 1,500 + 64 tokens, or all eight where they share their prompt. TRL is driven through its own training_step, with
inputs that its own _generate_and_score_completions made from the given completions, gradient checkpointing off, beta 0,
one optimiser step a batch (so that it computes no old log-probabilities).

Every side runs in a fresh process, all three of a case are alive together and take turns, so that a change of the
machine's load meets them alike; beside wall-clock the process's own seconds on a core are told. Peak memory is the
process's high-water mark (VmHWM); `held` is what it takes at rest, with the weights and the optimiser's moments. The
gradient norms must agree: the sides do the same work.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("HF_HUB_OFFLINE", "1")

SIDES = ("shared", "plain", "trl")
G = 8
BUDGET = 2560
SEED = 0
DEVICE = os.environ.get("EVO_BENCH_DEVICE", "cpu")
"""Where every side trains; the environment reaches the processes that a side is."""
# (prompt tokens, completion tokens, ragged: completions of a quarter to all of that length)
CASES = [
    (300, 64, False),
    (300, 128, False),
    (600, 64, False),
    (600, 128, False),
    (600, 128, True),
    (1500, 64, False),
    (1500, 128, False),
]
Batch = tuple[np.ndarray, list[np.ndarray], list[float]]
"""Prompt ids, completion ids by rollout, rewards."""
Step = Callable[[Batch], float]
"""Takes one step on a batch; returns the gradient's norm before clipping."""


def batch_of(prompt: int, completion: int, ragged: bool, vocabulary: int) -> Batch:
    rng = np.random.default_rng(SEED)
    lengths = rng.integers(completion // 4, completion + 1, G) if ragged else np.full(G, completion)
    lengths[0] = completion
    draw = [rng.integers(10, vocabulary, n).astype(np.int32) for n in (prompt, *lengths)]
    rewards = rng.random(G)
    # of mean 0 and deviation 1, so that TRL, told not to scale, has the same advantages
    return draw[0], draw[1:], ((rewards - rewards.mean()) / rewards.std(ddof=1)).tolist()


def load(path: str) -> Any:
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).to(DEVICE)


def our_step(path: str, prompt: int, completion: int, shared: bool) -> Step:
    from problems.contract import Score
    from problems.types import Prompt, Rollout, ScoredAnswer, ScoredGroup, ScoredRollout
    from vpo.training.config import TrainConfig
    from vpo.training.trainer import PolicyTrainer

    # comparing with the policy at the start of the step makes every ratio 1, as it is in TRL's step
    config = TrainConfig(method="grpo", kl=0.0, truncate=1.0, token_budget=BUDGET, precision="fp32")
    trainer = PolicyTrainer(load(path), None, config)
    trainer.shares = shared

    def step(batch: Batch) -> float:
        prompt, completions, rewards = batch
        rollouts = tuple(
            ScoredRollout(
                # recorded as very unlikely, so that the truncated weight start / behaviour is its cap, 1
                Rollout("", ids, np.full(len(ids), -1e3, np.float32), prompt),
                (ScoredAnswer("", b"", Score((reward,), reward)),),
            )
            for ids, reward in zip(completions, rewards, strict=True)
        )
        group = ScoredGroup(1, 0, 0, 0, None, (), Prompt(""), "", 1, SEED, 1.0, rollouts)
        return trainer.step([group]).metrics["grad_norm"]

    return step


def trl_step(path: str, prompt: int, completion: int) -> Step:
    import torch
    from datasets import Dataset
    from transformers import AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    rows = G
    while rows > 1 and rows * (prompt + completion) > BUDGET:
        rows //= 2
    folder = tempfile.mkdtemp()
    args = GRPOConfig(
        output_dir=folder,
        per_device_train_batch_size=rows,
        gradient_accumulation_steps=G // rows,
        num_generations=G,
        max_completion_length=completion,
        beta=0.0,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=DEVICE == "cpu",
        report_to="none",
        save_strategy="no",
        scale_rewards="none",
        learning_rate=1e-6,
        weight_decay=0.01,
        seed=SEED,
    )
    scored: list[float | None] = []
    trainer = GRPOTrainer(
        load(path),
        reward_funcs=lambda **_: scored,
        args=args,
        train_dataset=Dataset.from_dict({"prompt": ["given"]}),
        processing_class=AutoTokenizer.from_pretrained(path),
    )
    model: Any = trainer.model
    model.train()
    trainer.current_gradient_accumulation_steps = G // rows
    optimizer = trainer.create_optimizer()
    generate = trainer._generate_and_score_completions
    prepared: dict[int, Any] = {}

    def given(batch: Batch) -> None:
        """What TRL's generation would leave behind for this batch; made once, outside the clock."""
        prompt, completions, rewards = batch
        ids = [prompt.tolist()] * G, [completion.tolist() for completion in completions]
        trainer._generate = lambda prompts: (*ids, None, ["given"] * G, None, {}, None, [])  # type: ignore[assignment,misc]
        scored[:] = rewards
        prepared[id(batch)] = generate([{"prompt": "given"}] * G)

    def step(batch: Batch) -> float:
        trainer._generate_and_score_completions = lambda inputs: prepared[id(batch)]  # type: ignore[method-assign]
        trainer._step = 0
        for _ in range(G // rows):
            trainer.training_step(model, [{"prompt": "given"}] * rows, None)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), args.max_grad_norm)
        optimizer.step()
        model.zero_grad()
        return float(norm)

    step.given = given  # type: ignore[attr-defined]
    return step


def worker(pipe: Any, side: str, path: str, case: tuple[int, int, bool], threads: int) -> None:
    """One side of one case: answers each "step" with its seconds and gradient norm, "stop" with its memory."""
    import torch

    torch.set_num_threads(threads)
    prompt, completion, ragged = case
    step = trl_step(path, prompt, completion) if side == "trl" else our_step(path, prompt, completion, side == "shared")
    from transformers import AutoConfig

    vocabulary = AutoConfig.from_pretrained(path).vocab_size
    batch, small = (batch_of(*shape, vocabulary) for shape in (case, (8, 4, False)))
    if side == "trl":
        for one in (batch, small):
            step.given(one)  # type: ignore[attr-defined]
    step(small)  # allocates the optimiser's memory and wakes every kernel
    held = memory("VmRSS")
    pipe.send("ready")
    while pipe.recv() == "step":
        started, worked = time.perf_counter(), time.process_time()
        norm = step(batch)
        pipe.send((time.perf_counter() - started, time.process_time() - worked, norm))
        ctypes.CDLL(None).malloc_trim(0)  # nobody waits for memory that another side has freed
    pipe.send({"peak_gb": memory("VmHWM"), "held_gb": held})


def memory(name: str) -> float:
    """GiB of this process, by /proc's name for it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / (1 << 20)


def measured(path: str, case: tuple[int, int, bool], rounds: int, threads: int) -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    pipes, processes = {}, []
    for side in SIDES:
        pipes[side], theirs = context.Pipe()
        process = context.Process(target=worker, args=(theirs, side, path, case, threads), daemon=True)
        process.start()
        theirs.close()  # so that a worker that dies is noticed
        processes.append(process)
        assert pipes[side].recv() == "ready"
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    cores: dict[str, list[float]] = {side: [] for side in SIDES}
    norms: dict[str, float] = {}
    for turn in range(rounds):
        for side in SIDES[turn % 3 :] + SIDES[: turn % 3]:
            pipes[side].send("step")
            took, worked, norm = pipes[side].recv()
            seconds[side].append(took)
            cores[side].append(worked)
            norms.setdefault(side, norm)
    result: dict[str, Any] = {"prompt": case[0], "completion": case[1], "ragged": case[2]}
    for side in SIDES:
        pipes[side].send("stop")
        result[side] = {
            "seconds": seconds[side],
            "core_seconds": cores[side],
            "grad_norm": norms[side],
            **pipes[side].recv(),
        }
    for process in processes:
        process.join()
    assert max(norms.values()) < 1.001 * min(norms.values()), f"the sides differ in what they compute: {norms}"
    for rival in ("trl", "plain"):
        result[f"{rival}_over_shared"] = min(seconds[rival]) / min(seconds["shared"])
        result[f"{rival}_over_shared_by_core"] = min(cores[rival]) / min(cores["shared"])
    return result


def versions() -> dict[str, str]:
    from importlib.metadata import version

    root = Path(__file__).resolve().parent.parent
    commit = subprocess.run(["git", "-C", str(root), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    names = ("torch", "transformers", "trl")
    return {"commit": commit.stdout.strip(), **{name: version(name) for name in names}}


def table(rows: list[dict[str, Any]]) -> str:
    ratios = "TRL / shared (by core) | plain / shared (by core)"
    lines = [f"| prompt | completion | shared | plain | TRL | {ratios} | peak GiB shared, plain, TRL |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for row in rows:
        times = " | ".join(f"{min(row[side]['seconds']):.2f} s" for side in SIDES)
        peaks = ", ".join(f"{row[side]['peak_gb']:.1f}" for side in SIDES)
        shape = f"{row['prompt']} | {row['completion']}{' ragged' if row['ragged'] else ''}"
        ratios = " | ".join(
            f"{row[f'{rival}_over_shared']:.1f} ({row[f'{rival}_over_shared_by_core']:.1f})"
            for rival in ("trl", "plain")
        )
        lines.append(f"| {shape} | {times} | {ratios} | {peaks} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", metavar="DIR", required=True, help="a causal language model")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cases", type=int, nargs="+", help="numbers of the cases to run, from 0")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    result: dict[str, Any] = {"seed": SEED, "threads": arguments.threads, **versions()}
    result["steps"] = []
    result["load"] = [os.getloadavg()[0]]
    for number in arguments.cases or range(len(CASES)):
        result["steps"].append(measured(arguments.model, CASES[number], arguments.rounds, arguments.threads))
        result["load"].append(os.getloadavg()[0])
        print(table(result["steps"][-1:]).splitlines()[-1], flush=True)
    print(f"\n{table(result['steps'])}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
