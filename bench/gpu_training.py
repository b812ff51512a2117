"""Stages of bench/gpu.sh: training, and searches as users run them."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from bench.gpu_place import GAP, Place, Skip, check, evo, keep, run


def trainer(place: Place) -> dict[str, Any]:
    """A step of PolicyTrainer with the prompt shared and plain: gradients, seconds, peak memory."""
    import torch
    from transformers import AutoModelForCausalLM

    from vpo.training.config import TrainConfig
    from vpo.training.examples import Example, ExampleGroup
    from vpo.training.trainer import PolicyTrainer

    prompt, length, rows = (40, 8, 4) if place.dry else (1500, 256, 8)
    found: dict[str, Any] = {}
    for way in ("shared", "plain"):
        model = AutoModelForCausalLM.from_pretrained(place.model, dtype=torch.float32).to(place.device)
        config = TrainConfig(kl=0.0, shared_prefix=way == "shared", token_budget=rows * (prompt + length), lr=1e-6)
        trainer = PolicyTrainer(model, None, config)
        rng = np.random.default_rng(0)
        examples = tuple(
            Example(
                rng.integers(0, 200, length).astype(np.int32),
                np.full(length, -5.0, np.float32),
                np.full(length, (-1.0) ** i, np.float32),
            )
            for i in range(rows)
        )
        group = ExampleGroup(rng.integers(0, 200, prompt).astype(np.int32), examples, 1.0)
        seconds = []
        if not place.dry:
            torch.cuda.reset_peak_memory_stats()
        for _ in range(3):
            began = time.perf_counter()
            stats = trainer.step_on_examples([group])
            seconds.append(time.perf_counter() - began)
            found.setdefault(f"{way}_grad_norm", stats.metrics["grad_norm"])
        found[f"{way}_seconds"] = float(np.median(seconds))
        found[f"{way}_peak_gib"] = 0.0 if place.dry else torch.cuda.max_memory_allocated() / 2**30
    apart = abs(found["shared_grad_norm"] / found["plain_grad_norm"] - 1)
    return found | {
        "gradients_apart": check("gradient norms", apart, 0.02),
        "speed_up": found["plain_seconds"] / found["shared_seconds"],
    }


def diverged(place: Place) -> dict[str, Any]:
    """Micro-batches of two steps whose gradient was NaN: its norm with shared and plain prompts, under each kernel of
    attention and torch's own choice, in three precisions; and the operation that gave the first NaN."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from transformers import AutoModelForCausalLM

    from vpo.training.config import TrainConfig
    from vpo.training.optimizer import make_trainable

    any_kernel = [getattr(SDPBackend, name) for name in ("CUDNN_ATTENTION", "EFFICIENT_ATTENTION", "MATH")]
    kernels = {kernel.name: [kernel] for kernel in any_kernel} | {"default": any_kernel}
    found: dict[str, Any] = {}
    for kind in ("bfloat16", "autocast", "lora"):
        dtype = torch.bfloat16 if kind == "bfloat16" else torch.float32
        model: Any = AutoModelForCausalLM.from_pretrained(place.model, attn_implementation="sdpa", dtype=dtype)
        model, config = model.to(place.device), TrainConfig(kl=0.0, lora_rank=8 if kind == "lora" else 0)
        model = model if kind == "bfloat16" else make_trainable(model, config)
        batches = saved_batches(model.config.vocab_size)
        for number, shared, kernel in product(range(len(batches)), (True, False), kernels):
            rows = 2 if place.dry else 36 if shared else 9  # the longest: a batch keeps its columns
            groups = [
                replace(group, examples=tuple(sorted(group.examples, key=lambda one: -len(one.token_ids))[:rows]))
                for group in batches[number]
            ]
            name = f"{number}_{'shared' if shared else 'plain'}_{kernel}_{kind}"
            began = time.perf_counter()
            try:
                with sdpa_kernel(kernels[kernel]), torch.autocast(place.device, torch.bfloat16, kind != "bfloat16"):
                    found[name] = gradient_norm(model, groups, config, shared)
                    found[f"{name}_seconds"] = time.perf_counter() - began  # of shapes that are new to it
                    if not np.isfinite(found[name]) and "first_nan" not in found:
                        with torch.autograd.detect_anomaly(check_nan=True):
                            gradient_norm(model, groups, config, shared)
            except RuntimeError as error:
                found[name if name not in found else "first_nan"] = str(error).split("\n")[0][:160]
            keep(place, "diverged", found)
    for name, value in found.items():
        if "_EFFICIENT_" in name and not isinstance(value, str):  # what training uses
            check(name, value, 1e9)
    return found


def gradient_norm(model: Any, groups: list[Any], config: Any, shared: bool) -> float:
    """Of the loss of one micro-batch."""
    import torch

    from vpo.training.forward import completion_logprobs, pack
    from vpo.training.loss import policy_loss

    packed, examples = pack(groups, model.device), [one for group in groups for one in group.examples]
    given = ([one.behaviour for one in examples], [one.advantages for one in examples])
    behaviour, advantages = (torch.from_numpy(np.concatenate(parts)).to(model.device) for parts in given)
    model.zero_grad()
    logprobs = completion_logprobs(model, packed, shared=shared)[packed.mask].float()
    weights = torch.full_like(logprobs, 1 / len(logprobs))
    policy_loss(logprobs, behaviour, advantages, weights, config)[0].backward()
    return float(torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None]))


def saved_batches(vocabulary: int) -> list[list[Any]]:
    """The micro-batches of bench/diverged.npz. vocabulary: of the model; larger ids are taken modulo it"""
    from vpo.training.examples import Example, ExampleGroup

    with np.load(Path(__file__).parent / "diverged.npz") as file:
        saved = dict(file)
    cuts, ids = np.cumsum(saved["lengths"])[:-1], saved["ids"] % vocabulary
    parts = zip(np.split(ids, cuts), np.split(saved["behaviour"], cuts), saved["advantages"], strict=True)
    examples = [Example(one, logprobs, np.full(len(one), credit, np.float32)) for one, logprobs, credit in parts]
    prompts = np.split(saved["prompts"] % vocabulary, np.cumsum(saved["prompt_lengths"])[:-1])
    first = np.cumsum(saved["rows"]) - saved["rows"]
    batches: list[list[Any]] = [[] for _ in range(saved["batch"].max() + 1)]
    for batch, prompt, begin, rows, t in zip(
        saved["batch"], prompts, first, saved["rows"], saved["temperature"], strict=True
    ):
        batches[batch].append(ExampleGroup(prompt, tuple(examples[begin : begin + rows]), float(t)))
    return batches


def trl(place: Place) -> dict[str, Any]:
    """bench/train_step.py: the same step beside TRL's."""
    if importlib.util.find_spec("trl") is None:
        raise Skip("TRL is not installed")
    file = place.out / "train_step.json"
    bench = [sys.executable, "bench/train_step.py", "--model", place.model, "--rounds", "1", "--cases", "0"]
    run([*bench, "--json", str(file)], {"EVO_BENCH_DEVICE": place.device})
    return dict(json.loads(file.read_text()))


def colocated(place: Place) -> dict[str, Any]:
    """A search that trains its policy beside itself, synced by the probe; taken up where a chunk's end cut it off."""
    from islands.store import Store
    from islands.training import training_steps

    policy, db = place.model, f"sqlite:///{place.out}/colocated.db"
    if importlib.util.find_spec("vllm") is not None and not place.dry:
        policy = place.vllm()
    size = ["--limit", "1", "--iterations", "4"] if place.dry else ["--limit", "8", "--iterations", "24"]
    known = evo(["show", "colocated", "--db", db], check=False).returncode == 0
    asked = [
        *("run", "programs:easy", "--policy", policy, "--train", "vpo", "--train-every", "2" if place.dry else "16"),
        *("--rollouts", "4", "--answers", "2", "--max-new-tokens", str(2 * place.tokens), *size, "--name", "colocated"),
    ]
    # a model of random weights scores nothing, which ends with 1
    evo([*(["resume", "colocated"] if known else asked), "--db", db, "--plain"], check=not place.dry)
    with Store.open(db, read_only=True) as store:
        steps = list(training_steps(store, store.run("colocated").id))
    probes = [step.stats["probe"] for step in steps if "probe" in step.stats]
    times = [step.stats["sync_seconds"] for step in steps if "probe" in step.stats]
    return {
        "steps": len(steps),
        "synced": len(probes),
        "worst_probe_nats": max(probes, default=0.0),
        "sync_seconds": times,
    }


METHODS, SEEDS = ("vpo_pass_at_k", "pass_at_k", "grpo"), (1, 2)


def search(place: Place, name: str, begin: list[str]) -> None:
    """A search or a comparison of the stage's database, taken up where it was cut off."""
    db = ["--db", f"sqlite:///{place.out}/operator.db"]
    known = evo(["show", name, *db], check=False).returncode == 0
    evo([*(["resume", name] if known else [*begin, "--name", name]), *db, "--plain"])


def lessons(place: Place) -> dict[str, Any]:
    """Formulas that genetic programming improved, to learn from. On processors alone, so --pack makes them."""
    problems, iterations = ("formula:train/100-101", "20") if place.dry else ("formula:train/100-299", "120")
    begin = ["run", problems, "--policy", "scripted:gp", "--answers", "1", "--iterations", iterations]
    search(place, "gp", [*begin, "--seed", "11"])
    return {"problems": problems, "iterations": iterations}


def operator(place: Place) -> dict[str, Any]:
    """LoRA on improvements of genetic programming, then reward by each method on one budget, two training seeds; then a
    search of held-out formulas by each policy, by its baselines, and by genetic programming."""
    engine = importlib.util.find_spec("vllm") is not None and not place.dry
    db, start = f"sqlite:///{place.out}/operator.db", place.out / "operator"
    if not (place.out / "operator.db").exists():
        lessons(place)

    def train(folder: Path, begin: list[str]) -> None:
        evo(["train", *(["--resume", str(folder)] if folder.exists() else [*begin, "-o", str(folder)])])

    size = ["--prompts", "2", "--steps", "2"] if place.dry else ["--prompts", "48", "--steps", "80"]
    begin = ["improve", "--from-traces", "gp", "--db", db, *size, "--children", "4"]
    begin += ["--policy", place.model, "--lora-rank", "8", "--lr", "2e-4", "--kl", "0"]
    train(start, [*begin, "--seed", "1"])
    policies = {"start": str(start), "untrained": place.model}
    problems = "formula:train/100-101" if place.dry else "formula:train/100-299"
    size = ["--prompts", "2", "--rollouts", "2", "--steps", "1", "--parent-level", "0"]
    if not place.dry:
        size = ["--prompts", "64", "--rollouts", "36", "--steps", "20", "--parent-level", "0.3", "--visits", "3"]
    for seed, method in product(SEEDS[:1] if place.dry else SEEDS, METHODS):
        folder = policies[f"{method}-{seed}"] = str(place.out / f"{method}-{seed}")
        begin = [method, problems, "--policy", str(start), "--answers", "1", "--reward", "solve", "--parents", "1"]
        begin += ["--parents-from", f"archive:gp@{db}", *size, "--save-every", "2", "--seed", str(seed)]
        begin += ["--max-new-tokens", str(min(place.tokens, 96)), "--temperature", "0.7", "--lora-rank", "8"]
        train(Path(folder), [*begin, "--lr", "1e-4", "--kl", "0.05", "--schedule", "cosine"])
    arms = []
    for name, folder in policies.items():
        arms += ["--arm", f"{name}=vllm:{folder},answers=1" if engine else f"{name}={folder},answers=1"]
    arms += ["--arm", "gp=scripted:gp,answers=1"]
    size = ["--answers-per-iteration", "2", "--iterations", "2", "--seeds", "1"]
    if not place.dry:
        size = ["--answers-per-iteration", "8", "--iterations", "48", "--seeds", "2"]
    size += ["--max-new-tokens", str(min(place.tokens, 96)), "--temperature", "0.6", "--until-solved"]
    rivals = ",".join(
        f"{rival}={arm}" for arm in ("start", "vpo_pass_at_k-1") for rival in ("best-of-n", "hill", "scs")
    )
    tests = "formula:test/0-1" if place.dry else "formula:test/0-39"
    search(place, "operator", ["compare", tests, *arms, "--baseline", rivals, *size, "--seed", "91"])
    return table(place, db, "operator")


def table(place: Place, db: str, name: str) -> dict[str, Any]:
    """The share that each arm solved, with its interval, and the mean of the best; and a page of it."""
    evo(["report", name, "--db", db, "-o", f"{place.out}/{name}.html"])
    shown = json.loads(evo(["show", name, "--db", db, "--json"], stdout=subprocess.PIPE).stdout)
    found = {}
    for arm, values in shown["arms"].items():
        solved = values["solved"]
        interval = f"[{solved['low']:.3f}, {solved['high']:.3f}]" if solved["low"] is not None else ""
        found[arm] = f"{solved['mean']:.3f} {interval}, best {values['best']['mean']:.3f}"
    return found


def programs(place: Place) -> dict[str, Any]:
    """examples/pipelines/operators.yaml on MBPP, in small: the model as it is, after its improvements, after reward by
    test cases, on 60 tasks that it does not solve at once."""
    data = place.out / "mbpp.jsonl"
    if not place.dry and not data.exists():
        raise Skip(f"MBPP's file is not at {data}")
    text = Path("examples/pipelines/operators.yaml").read_text(encoding="utf-8")
    text = text.replace("Qwen/Qwen2.5-Coder-0.5B-Instruct", place.model)
    named = r"programs:mbpp.jsonl/\d+-\d+" if place.dry else "programs:mbpp.jsonl"
    stages = yaml.safe_load(re.sub(named, "programs:easy" if place.dry else f"programs:{data}", text))["stages"]
    few = {"limit": 60, "iterations": 200, "seeds": 2, "steps": 20}
    for (settings,) in (stage.values() for stage in stages.values()):
        settings |= {key: few[key] for key in few if key in settings}
    file = place.out / "programs.yaml"
    file.write_text(yaml.safe_dump({"stages": stages}, sort_keys=False), encoding="utf-8")
    # a tiny model writes no program to learn from: of a dry run the settings are checked
    evo(["pipeline", str(file), "-o", str(place.out / "programs"), *(["--dry-run"] if place.dry else [])])
    return {"page": "programs"}


async def served(place: Place) -> dict[str, Any]:
    """bench/served.py: vLLM beside transformers: agreement, speed, new weights and adapters."""
    from bench.served import PARTS

    options = place.vllm().partition("?")[2]
    found: dict[str, Any] = {}
    for name, part in PARTS.items():
        found[name] = await part(place.model, options)
    for update in (*found["weights"], *found["adapters"]):
        gap, moved = check("after new weights", update["off_by"]["mean"], GAP[place.device]), update["moved_by"]["mean"]
        if not moved > gap:
            raise AssertionError("the weights that were sent changed nothing")
    return found
