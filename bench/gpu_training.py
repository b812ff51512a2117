"""Stages of bench/gpu.sh: training, and searches as users run them."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.gpu_place import GAP, Place, Skip, check, evo, run
from bench.served import PARTS


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


def attention(place: Place) -> dict[str, Any]:
    """Gradients under each kernel of scaled_dot_product_attention, prompts of unequal length, and whether they are
    finite with the padding before a prompt's last token, as in training, and in front, where rows attend to nothing."""
    from dataclasses import replace

    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from transformers import AutoModelForCausalLM

    from vpo.training.examples import Example, ExampleGroup
    from vpo.training.forward import completion_logprobs, pack

    rng, rows = np.random.default_rng(0), 2 if place.dry else 36
    one = [Example(rng.integers(0, 200, n).astype(np.int32), None, np.ones(n, np.float32)) for n in (96, 86) * rows]
    groups = [ExampleGroup(rng.integers(0, 200, n).astype(np.int32), tuple(one[:rows]), 0.6) for n in (126, 249, 303)]
    model = AutoModelForCausalLM.from_pretrained(place.model, attn_implementation="sdpa", dtype=torch.bfloat16)
    model, usual = model.to(place.device), pack(groups, place.device)
    order = usual.prompt_mask.long().argsort(dim=1, stable=True)
    front = replace(usual, prompts=usual.prompts.gather(1, order), prompt_mask=usual.prompt_mask.gather(1, order))
    found: dict[str, Any] = {}
    for name in ("MATH", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION"):
        for way, packed in (("as_trained", usual), ("in_front", front)):
            model.zero_grad()
            try:
                with sdpa_kernel(getattr(SDPBackend, name)):
                    completion_logprobs(model, packed)[packed.mask].mean().backward()
            except RuntimeError as error:
                found[f"{name}_{way}"] = str(error).split("\n")[0][:80]
                continue
            norm = float(torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None]))
            found[f"{name}_{way}"] = check(f"{name}, {way}", norm, 1e9) if way == "as_trained" else norm
    return found


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
    evo([*(["resume", "colocated"] if known else asked), "--db", db, "--plain"])
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


def operator(place: Place) -> dict[str, Any]:
    """LoRA on improvements of genetic programming, then reward, by VPO and by GRPO on one budget; then a search of
    formulas by each policy."""
    engine = importlib.util.find_spec("vllm") is not None and not place.dry
    db, adapter = ["--db", f"sqlite:///{place.out}/operator.db"], place.out / "operator"
    lessons, tests = (
        ("formula:train/100-101", "formula:train/0-1") if place.dry else ("formula:train/100-499", "formula:train/0-39")
    )

    def search(name: str, begin: list[str]) -> None:
        known = evo(["show", name, *db], check=False).returncode == 0
        evo([*(["resume", name] if known else [*begin, "--name", name]), *db, "--plain"])

    def train(folder: Path, begin: list[str]) -> None:
        evo(["train", *(["--resume", str(folder)] if folder.exists() else [*begin, "--seed", "1", "-o", str(folder)])])

    iterations = "20" if place.dry else "250"
    search(
        "gp", ["run", lessons, "--policy", "scripted:gp", "--answers", "1", "--iterations", iterations, "--seed", "11"]
    )
    size = ["--prompts", "2", "--steps", "2"] if place.dry else ["--prompts", "48", "--steps", "260"]
    begin = ["improve", "--from-traces", "gp", *db, "--policy", f"{place.model}?format=formula-text", *size]
    begin += ["--children", "4", "--lora-rank", "16", "--lr", "2e-4", "--kl", "0"]
    train(adapter, begin)
    policies = {"trained": str(adapter), "untrained": place.model}
    size = ["--prompts", "2", "--rollouts", "2", "--steps", "1", "--parent-level", "0"]
    if not place.dry:
        size = ["--prompts", "64", "--rollouts", "36", "--steps", "20", "--parent-level", "0.3", "--visits", "3"]
    for method in ("vpo_pass_at_k", "grpo"):
        folder = policies[method] = str(place.out / method)
        begin = [method, lessons, "--policy", str(adapter), "--answers", "1", "--reward", "solve", "--parents", "1"]
        begin += ["--parents-from", f"archive:gp@{db[1]}", *size, "--save-every", "2"]
        begin += ["--max-new-tokens", str(min(place.tokens, 96)), "--temperature", "0.7", "--lora-rank", "16"]
        train(Path(folder), [*begin, "--lr", "1e-4", "--kl", "0.05", "--schedule", "cosine"])
    arms = []
    for name, folder in policies.items():
        arms += ["--arm", f"{name}=vllm:{folder},answers=1" if engine else f"{name}={folder},answers=1"]
    most = ["--answers-per-iteration", "2" if place.dry else "8", "--iterations", "2" if place.dry else "200"]
    tokens = [
        "--max-new-tokens",
        str(min(place.tokens, 64)),
        "--temperature",
        "0.7",
        "--seeds",
        "1" if place.dry else "2",
    ]
    rivals = ",".join(f"{rival}={arm}" for arm in ("trained", "untrained") for rival in ("best-of-n", "hill", "scs"))
    search("operator", ["compare", tests, *arms, "--baseline", rivals, *most, *tokens, "--until-solved"])
    evo(["report", "operator", *db, "-o", str(place.out / "operator.html")])
    return {"page": "operator.html"}


async def served(place: Place) -> dict[str, Any]:
    """bench/served.py: vLLM beside transformers: agreement, speed, new weights and adapters."""
    options = place.vllm().partition("?")[2]
    found: dict[str, Any] = {}
    for name, part in PARTS.items():
        found[name] = await part(place.model, options)
    for update in (*found["weights"], *found["adapters"]):
        gap, moved = check("after new weights", update["off_by"]["mean"], GAP[place.device]), update["moved_by"]["mean"]
        if not moved > gap:
            raise AssertionError("the weights that were sent changed nothing")
    return found
