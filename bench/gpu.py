"""The stages of bench/gpu.sh, each a function that returns figures as JSON and raises where something does not hold.

python -m bench.gpu STAGE --out DIR --model ID [--dry]        writes DIR/STAGE.json
python -m bench.gpu report --out DIR                          writes DIR/gpu.md of what there is
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from problems.contract import BadAddress

PROMPT = "Write a Python function that returns the running maximum of a list of numbers."
GAP = {"cpu": 1e-3, "cuda": 0.1}
"""Mean nats a token by which two engines may differ: float32 on a CPU, bfloat16 on a GPU."""


class Skip(Exception):
    """A stage that cannot run here; the reason."""


@dataclass(frozen=True)
class Machine:
    """out: the folder of results; model: id or directory; dry: on a CPU with a tiny model"""

    out: Path
    model: str
    dry: bool

    @property
    def device(self) -> str:
        return "cpu" if self.dry else "cuda"

    @property
    def dtype(self) -> str:
        return "float32" if self.dry else "bfloat16"

    @property
    def tokens(self) -> int:
        return 12 if self.dry else 256

    def vllm(self, options: str = "", model: str = "") -> str:
        """The address of a vLLM policy, of the tests' server where it is dry. Raises Skip without vLLM."""
        if not self.dry and importlib.util.find_spec("vllm") is None:
            raise Skip("vLLM is not installed")
        context = "&context=256" if self.dry else ""
        return f"vllm:{model or self.model}?dtype={self.dtype}&gpu_memory=0.4{context}{options}"


def tiny_model(folder: Path) -> str:
    """A model of the family that is measured, small and untrained, with a tokenizer of bytes."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    if (folder / "config.json").exists():
        return str(folder)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)} | {"<end>": len(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", pad_token="<end>")
    fast.chat_template = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
    torch.manual_seed(0)
    shape = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2}
    ends = {"eos_token_id": len(letters), "bos_token_id": None, "pad_token_id": len(letters)}
    config = Qwen2Config(
        vocab_size=len(letters) + 1, num_key_value_heads=1, max_position_embeddings=4096, **shape, **ends
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return str(folder)


def load(address: str, machine: Machine, **settings: Any) -> Any:
    from vpo.policies.registry import policy_at

    return policy_at(address, max_tokens=machine.tokens, **settings)


def plain(machine: Machine, model: str = "") -> Any:
    return load(model or machine.model, machine, device=machine.device, dtype=machine.dtype)


def prompts(count: int) -> list[Any]:
    from problems.types import Prompt

    return [Prompt(f"{PROMPT} Variant {i}.", stream=i) for i in range(count)]


def flat(groups: list[list[Any]]) -> list[Any]:
    return [one for group in groups for one in group]


def distance(one: list[np.ndarray], other: list[np.ndarray]) -> float:
    return float(np.mean(np.abs(np.concatenate(one) - np.concatenate(other))))


def same(one: list[str], other: list[str]) -> float:
    """The share of texts that are alike."""
    return float(np.mean(np.array(one) == np.array(other)))


def check(name: str, value: float, most: float) -> float:
    if not value <= most:
        raise AssertionError(f"{name} is {value:.4g}; at most {most:g} was expected")
    return value


def keep(machine: Machine, stage: str, found: dict[str, Any]) -> None:
    """Print the latest figure and save all so far: what a limit of time cuts off leaves them."""
    name, value = next(reversed(found.items()))
    print(name, value, flush=True)
    (machine.out / f"{stage}.part.json").write_text(json.dumps(found, indent=1, default=float))


def gpu_memory() -> float:
    """GiB of the GPU that anybody holds."""
    import torch

    if not torch.cuda.is_available():
        return 0.0
    free, total = torch.cuda.mem_get_info()
    return (total - free) / 2**30


def evo(arguments: list[str], check: bool = True, **settings: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "evo", *arguments], check=check, **settings)


# -- engines that sample ---------------------------------------------------------------------------------------------

LONG = 15.0
"""Seconds of a call from which a way of sampling is not measured with more rows."""


async def policies(machine: Machine) -> dict[str, Any]:
    """transformers: what it says of its samples is what its model says; tokens a second by rows."""
    policy, found = plain(machine), dict[str, Any]()
    try:
        rollouts = flat(await policy.sample(prompts(4), rollouts=4, answers=1, seed=0))
        again = flat(await policy.sample(prompts(4), rollouts=4, answers=1, seed=0))
        gap = distance([one.logprobs for one in rollouts], await policy.logprobs(rollouts))
        found["gap_nats"] = check("sampled against recomputed", gap, GAP[machine.device])
        found["same_again"] = same([one.text for one in rollouts], [one.text for one in again])
        policy.stops, policy.max_tokens = frozenset(), min(machine.tokens, 64)  # all rows of one length
        for rows in (1, 8) if machine.dry else (1, 32, 256, 2048):
            for seed in range(2):  # the first loads kernels
                began = time.perf_counter()
                await policy.sample(prompts(1), rollouts=rows, answers=1, seed=seed)
                seconds = time.perf_counter() - began
                found[f"tokens_per_second_{rows}_call_{seed}"] = rows * policy.max_tokens / seconds
                keep(machine, "policies", found)
            if seconds > LONG:  # with more rows it would take the other stages' time
                break
        return found | {"gpu_gib": gpu_memory()}
    finally:
        await policy.close()


# -- training, and searches as users run them ------------------------------------------------------------------------


def trainer(machine: Machine) -> dict[str, Any]:
    """A step of PolicyTrainer: gradient, seconds, peak memory."""
    import torch
    from transformers import AutoModelForCausalLM

    from vpo.training.config import TrainConfig
    from vpo.training.examples import Example, ExampleGroup
    from vpo.training.trainer import PolicyTrainer

    prompt, length, rows = (40, 8, 4) if machine.dry else (1500, 256, 8)
    model = AutoModelForCausalLM.from_pretrained(machine.model, dtype=torch.float32).to(machine.device)
    config = TrainConfig(kl=0.0, token_budget=rows * (prompt + length), lr=1e-6)
    trainer = PolicyTrainer(model, None, config)
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 200, (rows, length)).astype(np.int32)
    logprobs, signs = np.full(length, -5.0, np.float32), np.full(length, 1.0, np.float32)
    examples = tuple(Example(row, logprobs, signs * (-1) ** i) for i, row in enumerate(ids))
    group = ExampleGroup(rng.integers(0, 200, prompt).astype(np.int32), examples, 1.0)
    seconds, norms = [], []
    if not machine.dry:
        torch.cuda.reset_peak_memory_stats()
    for _ in range(3):
        began = time.perf_counter()
        norms.append(trainer.step_on_examples([group]).metrics["grad_norm"])
        seconds.append(time.perf_counter() - began)
    peak = 0.0 if machine.dry else torch.cuda.max_memory_allocated() / 2**30
    return {"grad_norm": norms[0], "seconds": float(np.median(seconds)), "peak_gib": peak}


def diverged(machine: Machine) -> dict[str, Any]:
    """Micro-batches of two steps whose gradient was NaN: its norm under each kernel of attention and torch's own
    choice, in three precisions; and the operation that gave the first NaN."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from transformers import AutoModelForCausalLM

    from vpo.training.config import TrainConfig
    from vpo.training.model import make_trainable

    any_kernel = [getattr(SDPBackend, name) for name in ("CUDNN_ATTENTION", "EFFICIENT_ATTENTION", "MATH")]
    kernels = {kernel.name: [kernel] for kernel in any_kernel} | {"default": any_kernel}
    found: dict[str, Any] = {}
    for kind in ("bfloat16", "autocast", "lora"):
        dtype = torch.bfloat16 if kind == "bfloat16" else torch.float32
        model: Any = AutoModelForCausalLM.from_pretrained(machine.model, attn_implementation="sdpa", dtype=dtype)
        model, config = model.to(machine.device), TrainConfig(kl=0.0, lora_rank=8 if kind == "lora" else 0)
        model = model if kind == "bfloat16" else make_trainable(model, config)
        batches = saved_batches(model.config.vocab_size)
        for number, kernel in product(range(len(batches)), kernels):
            rows = 2 if machine.dry else 36  # the longest: a batch keeps its columns
            groups = [
                replace(group, examples=tuple(sorted(group.examples, key=lambda one: -len(one.token_ids))[:rows]))
                for group in batches[number]
            ]
            name = f"{number}_{kernel}_{kind}"
            began = time.perf_counter()
            try:
                with sdpa_kernel(kernels[kernel]), torch.autocast(machine.device, torch.bfloat16, kind != "bfloat16"):
                    found[name] = gradient_norm(model, groups, config)
                    found[f"{name}_seconds"] = time.perf_counter() - began  # of shapes that are new to it
                    if not np.isfinite(found[name]) and "first_nan" not in found:
                        with torch.autograd.detect_anomaly(check_nan=True):
                            gradient_norm(model, groups, config)
            except (RuntimeError, BadAddress) as error:  # of the kernel, which the forward pass may name as its own
                found[name if name not in found else "first_nan"] = str(error).split("\n")[0][:160]
            keep(machine, "diverged", found)
    for name, value in found.items():
        if "_EFFICIENT_" in name and not isinstance(value, str):  # what training uses
            check(name, value, 1e9)
    return found


def gradient_norm(model: Any, groups: list[Any], config: Any) -> float:
    """Of the loss of one micro-batch."""
    import torch

    from vpo.training.forward import completion_logprobs, pack_groups
    from vpo.training.loss import policy_loss

    packed, examples = pack_groups(groups, model.device), [one for group in groups for one in group.examples]
    given = ([one.behaviour for one in examples], [one.advantages for one in examples])
    behaviour, advantages = (torch.from_numpy(np.concatenate(parts)).to(model.device) for parts in given)
    model.zero_grad()
    logprobs = completion_logprobs(model, packed)[packed.mask].float()
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


def colocated(machine: Machine) -> dict[str, Any]:
    """A search that trains its policy beside itself, synced by the probe; taken up where a chunk's end cut it off."""
    from islands.store import Store
    from islands.training import training_steps

    policy, db = machine.model, f"sqlite:///{machine.out}/colocated.db"
    train: dict[str, Any] = {"method": "vpo"}
    if importlib.util.find_spec("vllm") is not None and not machine.dry:
        policy, train["lora_rank"] = machine.vllm("&lora_rank=16"), 16
    file = machine.out / "colocated.yaml"
    file.write_text(yaml.safe_dump({"train": train}), encoding="utf-8")
    size = ["--limit", "1", "--iterations", "4"] if machine.dry else ["--limit", "8", "--iterations", "24"]
    known = evo(["show", "colocated", "--db", db], check=False).returncode == 0
    asked = ["run", "programs:easy", "--policy", policy, "--config", str(file), "--name", "colocated", *size]
    asked += ["--train-every", "2" if machine.dry else "16", "--rollouts", "4", "--answers", "2"]
    asked += ["--max-new-tokens", str(2 * machine.tokens)]
    # a model of random weights scores nothing, which ends with 1
    evo([*(["resume", "colocated"] if known else asked), "--db", db, "--plain"], check=not machine.dry)
    with Store.open(db, read_only=True) as store:
        steps = list(training_steps(store, store.run("colocated").id))
    probes = [step.stats["probe"] for step in steps if "probe" in step.stats]
    times = [step.stats["sync_seconds"] for step in steps if "probe" in step.stats]
    worst = max(probes, default=0.0)
    return {"steps": len(steps), "synced": len(probes), "worst_probe_nats": worst, "sync_seconds": times}


METHODS, SEEDS = ("vpo_pass_at_k", "pass_at_k", "grpo"), (1, 2)


def search(machine: Machine, name: str, begin: list[str]) -> None:
    """A search or a comparison of the stage's database, taken up where it was cut off."""
    db = ["--db", f"sqlite:///{machine.out}/operator.db"]
    known = evo(["show", name, *db], check=False).returncode == 0
    evo([*(["resume", name] if known else [*begin, "--name", name]), *db, "--plain"])


def lessons(machine: Machine) -> dict[str, Any]:
    """Formulas that genetic programming improved, to learn from. On processors alone, so --pack makes them."""
    problems, iterations = ("formula:train/100-101", "20") if machine.dry else ("formula:train/100-299", "120")
    begin = ["run", problems, "--policy", "scripted:gp", "--answers", "1", "--iterations", iterations]
    search(machine, "gp", [*begin, "--seed", "11"])
    return {"problems": problems, "iterations": iterations}


def operator(machine: Machine) -> dict[str, Any]:
    """LoRA on improvements of genetic programming, then reward by each method on one budget, two training seeds; then a
    search of held-out formulas by each policy, by its baselines, and by genetic programming."""
    engine = importlib.util.find_spec("vllm") is not None and not machine.dry
    db, start = f"sqlite:///{machine.out}/operator.db", machine.out / "operator"
    if not (machine.out / "operator.db").exists():
        lessons(machine)

    def train(folder: Path, begin: list[str]) -> None:
        evo(["train", *(["--resume", str(folder)] if folder.exists() else [*begin, "-o", str(folder)])])

    size = ["--prompts", "2", "--steps", "2"] if machine.dry else ["--prompts", "48", "--steps", "80"]
    begin = ["improve", "--from-traces", "gp", "--db", db, *size, "--children", "4"]
    begin += ["--policy", machine.model, "--lora-rank", "8", "--lr", "2e-4", "--kl", "0"]
    train(start, [*begin, "--seed", "1"])
    policies = {"start": str(start), "untrained": machine.model}
    problems = "formula:train/100-101" if machine.dry else "formula:train/100-299"
    size = ["--prompts", "2", "--rollouts", "2", "--steps", "1"]
    if not machine.dry:
        size = ["--prompts", "64", "--rollouts", "36", "--steps", "20", "--visits", "3"]
    for seed, method in product(SEEDS[:1] if machine.dry else SEEDS, METHODS):
        folder = policies[f"{method}-{seed}"] = str(machine.out / f"{method}-{seed}")
        begin = [method, problems, "--policy", str(start), "--answers", "1", "--reward", "solve", "--parents", "1"]
        begin += ["--parents-from", f"archive:gp@{db}", *size, "--save-every", "2", "--seed", str(seed)]
        begin += ["--max-new-tokens", str(min(machine.tokens, 96)), "--temperature", "0.7", "--lora-rank", "8"]
        train(Path(folder), [*begin, "--lr", "1e-4", "--kl", "0.05", "--schedule", "cosine"])
    arms = []
    for name, folder in policies.items():
        arms += ["--arm", f"{name}=vllm:{folder},answers=1" if engine else f"{name}={folder},answers=1"]
    arms += ["--arm", "gp=scripted:gp,answers=1"]
    size = ["--answers-per-iteration", "2", "--iterations", "2", "--seeds", "1"]
    if not machine.dry:
        size = ["--answers-per-iteration", "8", "--iterations", "48", "--seeds", "2"]
    size += ["--max-new-tokens", str(min(machine.tokens, 96)), "--temperature", "0.6", "--until-solved"]
    rivals = ",".join(
        f"{rival}={arm}" for arm in ("start", "vpo_pass_at_k-1") for rival in ("best-of-n", "hill", "scs")
    )
    tests = "formula:test/0-1" if machine.dry else "formula:test/0-39"
    search(machine, "operator", ["compare", tests, *arms, "--baseline", rivals, *size, "--seed", "91"])
    return table(machine, db, "operator")


def table(machine: Machine, db: str, name: str) -> dict[str, Any]:
    """The share that each arm solved, with its interval, and the mean of the best; and a page of it."""
    evo(["report", name, "--db", db, "-o", f"{machine.out}/{name}.html"])
    shown = json.loads(evo(["show", name, "--db", db, "--json"], stdout=subprocess.PIPE).stdout)
    found = {}
    for arm, values in shown["arms"].items():
        solved = values["solved"]
        interval = f"[{solved['low']:.3f}, {solved['high']:.3f}]" if solved["low"] is not None else ""
        found[arm] = f"{solved['mean']:.3f} {interval}, best {values['best']['mean']:.3f}"
    return found


def programs(machine: Machine) -> dict[str, Any]:
    """examples/pipelines/operators.yaml on MBPP, in small: the model as it is, after its improvements, after reward by
    test cases, on 60 tasks that it does not solve at once."""
    data = machine.out / "mbpp.jsonl"
    if not machine.dry and not data.exists():
        raise Skip(f"MBPP's file is not at {data}")
    text = Path("examples/pipelines/operators.yaml").read_text(encoding="utf-8")
    text = text.replace("Qwen/Qwen2.5-Coder-0.5B-Instruct", machine.model)
    named = r"programs:mbpp.jsonl/\d+-\d+" if machine.dry else "programs:mbpp.jsonl"
    stages = yaml.safe_load(re.sub(named, "programs:easy" if machine.dry else f"programs:{data}", text))["stages"]
    few = {"limit": 60, "iterations": 200, "seeds": 2, "steps": 20}
    for (settings,) in (stage.values() for stage in stages.values()):
        settings |= {key: few[key] for key in few if key in settings}
    file = machine.out / "programs.yaml"
    file.write_text(yaml.safe_dump({"stages": stages}, sort_keys=False), encoding="utf-8")
    # a tiny model writes no program to learn from: of a dry run the settings are checked
    evo(["pipeline", str(file), "-o", str(machine.out / "programs"), *(["--dry-run"] if machine.dry else [])])
    return {"page": "programs"}


async def served(machine: Machine) -> dict[str, Any]:
    """bench/served.py: vLLM beside transformers: agreement, speed and adapters."""
    from bench.served import PARTS

    options = machine.vllm().partition("?")[2]
    found: dict[str, Any] = {name: await part(machine.model, options) for name, part in PARTS.items()}
    for update in found["adapters"]:
        gap = check("after new weights", update["off_by"]["mean"], GAP[machine.device])
        if not update["moved_by"]["mean"] > gap:
            raise AssertionError("the weights that were sent changed nothing")
    return found


# -- all of them ---------------------------------------------------------------------------------------------------


def doctor(machine: Machine) -> dict[str, Any]:
    import torch

    done = subprocess.run(
        [sys.executable, "-m", "evo", "doctor", "--json", "--db", f"sqlite:///{machine.out}/doctor.db"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = json.loads(done.stdout)
    if not found["ready"]:
        raise AssertionError(f"the machine is not ready: {[one for one in found['checks'] if one['level'] == 'fail']}")
    if not machine.dry and not torch.cuda.is_available():
        raise AssertionError("there is no GPU here; --dry runs on a CPU")
    return {one["check"]: one["message"] for one in found["checks"]}


ALL = doctor, policies, trainer, diverged, lessons, operator, programs, served, colocated
STAGES: dict[str, Callable[[Machine], Any]] = {one.__name__: one for one in ALL}


def report(out: Path) -> str:
    """What the stages found, as Markdown."""
    parts = ["# On a GPU: `bench/gpu.sh`"]
    for name, stage in STAGES.items():
        about = (stage.__doc__ or "The machine.").split("\n")[0]
        ended, begun = out / f"{name}.json", out / f"{name}.part.json"
        lines = [] if ended.exists() else ["Not finished." if begun.exists() else "Not run."]
        if file := next((each for each in (ended, begun) if each.exists()), None):
            figures = json.loads(file.read_text())
            lines += [f"- {key.replace('_', ' ')}: {_format_figure(value)}" for key, value in figures.items()]
        parts.append(f"## {name}\n\n{about}\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _format_figure(value: Any) -> str:
    if isinstance(value, dict) or (isinstance(value, list) and any(isinstance(each, dict) for each in value)):
        return "see the file"
    if isinstance(value, list):
        return ", ".join(map(_format_figure, value[:8]))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=[*STAGES, "report"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="")
    parser.add_argument("--dry", action="store_true")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    out = arguments.out.resolve()
    if arguments.stage == "report":
        (out / "gpu.md").write_text(report(out), encoding="utf-8")
        return
    model = tiny_model(out / "tiny") if arguments.dry else arguments.model
    machine = Machine(out, model, arguments.dry)
    try:
        with contextlib.ExitStack() as stack:
            if arguments.dry:
                from bench.served import stub_server  # which needs what only the stages of a server need

                stack.enter_context(stub_server())
            found = STAGES[arguments.stage](machine)
            if asyncio.iscoroutine(found):
                found = asyncio.run(found)
    except Skip as reason:
        found = {"skipped": str(reason)}
    file = out / f"{arguments.stage}.json"
    with tempfile.NamedTemporaryFile("w", dir=out, delete=False, encoding="utf-8") as fresh:
        json.dump(found, fresh, indent=1, default=float)
    Path(fresh.name).replace(file)


if __name__ == "__main__":
    main()
