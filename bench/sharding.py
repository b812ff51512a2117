"""How far a model that is shared out over two processes (FSDP2, gloo) comes from one that a single process trains.

    python -m bench.sharding [--steps 8] [--lr 1e-3]
    python -m bench.sharding RUN RUN            two directories of evo train --save-every 1 --keep 1000

Without directories: the same prompt groups, the same start (a made-up Llama of three layers, float32), step after step.
A pair of trainings differs in nothing but the order in which numbers are added up: two processes against one, and, as a
control, one process against itself with its step cut into other micro-batches. The optimisers differ in what they make
of a tiny gradient: AdamW divides it by its own size, with a larger eps it does not, SGD takes it as it is.

gradient: |g - g'| / |g|; weights: |w - w'| / |w - start|, of runs |w - w'| / |w|. Norms over all weights.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from training_samples import random_groups, tiny_model  # noqa: E402

from bench.tables import markdown  # noqa: E402
from vpo.training.config import TrainConfig  # noqa: E402
from vpo.training.distribution import ShardSettings  # noqa: E402
from vpo.training.trainer import PolicyTrainer  # noqa: E402

ADAMW, SMALL, WHOLE = "AdamW", 60, 10_000
"""The optimiser of training; tokens in a micro-batch: several a step, and all in one."""
OPTIMISERS: dict[str, Callable[[Any, float], Any]] = {
    ADAMW: lambda trained, rate: torch.optim.AdamW(trained, lr=rate),
    "AdamW, eps 1e-4": lambda trained, rate: torch.optim.AdamW(trained, lr=rate, eps=1e-4),
    "SGD": lambda trained, rate: torch.optim.SGD(trained, lr=100 * rate),  # which moves the weights about as far
}
FIGURES = {"tokens": ".0f", "loss": ".6f", "grad_norm": ".6f"}
Trained = tuple[torch.Tensor, torch.Tensor]
"""The gradient of every step (steps, N), and the weights before the first and after each (steps + 1, N)."""


def train(optimiser: str, options: argparse.Namespace, budget: int, accelerator: Any = None) -> Trained:
    model = tiny_model()
    groups, shards = random_groups(model, 6), None
    if accelerator is not None:
        groups, shards = [groups[:4], groups[4:]][accelerator.process_index], ShardSettings()
    config = TrainConfig(kl=0.0, lr=options.lr, precision="fp32", grad_clip=1e9, token_budget=budget)
    trainer = PolicyTrainer(model, None, config, accelerator=accelerator, shards=shards)  # type: ignore[arg-type]
    trainer.optimizer = OPTIMISERS[optimiser](trainer._trained, options.lr)
    gradients, weights = [], [flat([p.data for p in trainer._trained])]
    for _ in range(options.steps):
        trainer.step(groups)
        gradients.append(flat([p.grad for p in trainer._trained]))
        weights.append(flat([p.data for p in trainer._trained]))
    return torch.stack(gradients), torch.stack(weights)


def flat(parts: list[Any]) -> torch.Tensor:
    """(N,) float64, of what all processes hold together."""
    whole = [one.full_tensor() if hasattr(one, "full_tensor") else one for one in parts]
    return torch.cat([one.detach().double().flatten() for one in whole])


def worker(rank: int, folder: str, options: argparse.Namespace) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "localhost", "OMP_NUM_THREADS": "1"}
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2, timeout=timedelta(seconds=900)
    )
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    found = {optimiser: train(optimiser, options, SMALL, accelerator) for optimiser in OPTIMISERS}
    if rank == 0:
        torch.save(found, Path(folder) / "found.pt")
    torch.distributed.destroy_process_group()


def compare_runs(one: Path, other: Path) -> str:
    """Step by step: what both learned from, what came of it, and how far apart the weights are."""
    rows = [["step", "tokens", "loss", "gradient's norm", "weights"]]
    for n, (a, b) in enumerate(zip(_steps(one), _steps(other), strict=True), start=1):
        figures = [f"{a[key]:{form}}, {b[key]:{form}}" for key, form in FIGURES.items()]
        w, w2 = (_checkpoint(run, n) for run in (one, other))
        rows.append([str(n), *figures, f"{float((w - w2).norm() / w.norm()):.1e}"])
    return markdown(rows)


def _steps(run: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == "step"]


def _checkpoint(run: Path, step: int) -> torch.Tensor:
    found = load_file(run / "checkpoints" / f"step-{step:06d}" / "model.safetensors")
    return torch.cat([found[name].double().flatten() for name in sorted(found)])


def where(one: Trained, two: Trained, step: int, options: argparse.Namespace) -> str:
    """Which weights the difference of AdamW's steps is in: those whose gradients are hardly more than rounding."""
    (gradient, weights), (gradient2, weights2) = one, two
    apart = (weights[step] - weights2[step]).abs()
    first = (gradient[0] - gradient2[0]).abs() > 1e-2 * gradient[0].abs()
    held = float((apart[first] ** 2).sum() / (apart**2).sum())
    return (
        f"AdamW, two processes against one, after step {step}: the largest difference of a weight is "
        f"{float(apart.max()):.1e}, where {step * options.lr:.1e} is as far as one can move. "
        f"{int(first.sum())} of the {len(first):,} weights began with gradients that the two sums differ in by over a "
        f"hundredth (median size {float(gradient[0].abs()[first].median()):.1e}, of all "
        f"{float(gradient[0].abs().median()):.1e}); they hold {held:.0%} of the squared difference."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-3)
    options = parser.parse_args()
    if options.runs:
        print(compare_runs(*options.runs))
        return
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(worker, (folder, options), nprocs=2)
        shared: dict[str, Trained] = torch.load(Path(folder) / "found.pt", weights_only=True)
    shown = sorted({1, 2, 3, 4, options.steps})
    head = [*(f"gradient {n}" for n in shown), *(f"weights {n}" for n in shown)]
    rows, alone = [["optimiser", "pair", *head]], {name: train(name, options, SMALL) for name in OPTIMISERS}
    for name, one in alone.items():
        pairs = {"two processes, one": shared[name], "micro-batches, others": train(name, options, WHOLE)}
        for pair, other in pairs.items():
            gradients = [float((one[0][n - 1] - other[0][n - 1]).norm() / one[0][n - 1].norm()) for n in shown]
            weights = [float((one[1][n] - other[1][n]).norm() / (one[1][n] - one[1][0]).norm()) for n in shown]
            rows.append([name, pair, *(f"{value:.1e}" for value in (*gradients, *weights))])
    print(markdown(rows))
    print("\n" + "\n".join(where(alone[ADAMW], shared[ADAMW], n, options) for n in shown))


if __name__ == "__main__":
    main()
