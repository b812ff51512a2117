"""How good a maze-compact checkpoint is: best@k, solve@k, diversity, and what a parent in the prompt is worth.

    python -m vpo.embedded.measure maze:test --policy embedded:base --answers 3 --total 30 --seed 0
    python -m vpo.embedded.measure maze:hard --policy embedded:base --search 60 --limit 60

A plain batched sampler on the transformers model: it serves pretraining, which has no search engine under it.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from problems.maze import MazeProblem, problem_set, simulate
from problems.maze.planner import Planner, moves_between
from vpo.embedded.checkpoint import PREFIX, checkpoint_path
from vpo.embedded.language import decode_chain, encode_prompt, most_tokens
from vpo.metrics import best_at_k, diversity

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

Floats = npt.NDArray[np.float64]
PARENTS = ("fittest", "even", "none")
"""How a search chooses the parent it shows: the fittest cell, any cell with equal chance, or no parent."""


class Sampler:
    """A checkpoint that answers batches of prompts. Not for several threads at once."""

    def __init__(self, policy: str | Path, *, temperature: float = 1.0, seed: int = 0, rows: int = 256) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        folder = checkpoint_path(str(policy)) if str(policy).startswith(PREFIX) else Path(policy)
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.model: LlamaForCausalLM = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.temperature = temperature
        self.rows = rows
        self._generator = torch.Generator().manual_seed(seed)

    def texts(self, prompts: Sequence[str], limit: int) -> list[str]:
        """One sampled continuation per prompt, at most `limit` tokens each."""
        out: list[str] = []
        for i in range(0, len(prompts), self.rows):
            out += self._batch(prompts[i : i + self.rows], limit)
        return out

    def _batch(self, prompts: Sequence[str], limit: int) -> list[str]:
        import torch
        from transformers import DynamicCache

        encoded = self.tokenizer(list(prompts), padding=True, return_tensors="pt")
        tokens, seen = encoded["input_ids"], encoded["attention_mask"]  # (B, T), padded on the left
        cache = DynamicCache(config=self.model.config)
        written: list[torch.Tensor] = []
        running = torch.ones(len(prompts), dtype=torch.bool)
        stop, pad = self.tokenizer.eos_token_id, self.tokenizer.pad_token_id
        with torch.inference_mode():
            while running.any() and len(written) < limit:
                places = (seen.cumsum(1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
                logits = self.model(
                    input_ids=tokens,
                    attention_mask=seen,
                    position_ids=places,
                    past_key_values=cache,
                    logits_to_keep=1,
                ).logits[:, -1]
                chances = torch.softmax(logits.float() / self.temperature, dim=-1)
                tokens = torch.multinomial(chances, 1, generator=self._generator)
                tokens[~running] = pad
                written.append(tokens)
                running &= tokens[:, 0] != stop
                seen = torch.cat([seen, torch.ones_like(tokens)], dim=1)
        return self.tokenizer.batch_decode(torch.cat(written, dim=1), skip_special_tokens=True)


def sample_rewards(
    sampler: Sampler, problems: Sequence[MazeProblem], *, answers: int, total: int
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Reward vectors (problems, total, 4) of `total` answers a problem in chains of `answers`, and which of them the
    policy wrote (a chain may be short, or repeat an answer: those rows are zero)."""
    chains = -(-total // answers)
    prompts = [encode_prompt(p.maze, answers=answers) for p in problems for _ in range(chains)]
    texts = sampler.texts(prompts, most_tokens(answers))
    rewards = np.zeros((len(problems), chains, answers, 4))
    written = np.zeros((len(problems), chains, answers), dtype=bool)
    for row, text in enumerate(texts):
        i, j = divmod(row, chains)
        for k, moves in enumerate(dict.fromkeys(decode_chain(text)[:answers])):
            rewards[i, j, k] = simulate(problems[i].maze, moves).rewards
            written[i, j, k] = True
    n = len(problems)
    return rewards.reshape(n, -1, 4)[:, :total], written.reshape(n, -1)[:, :total]


def planner_rewards(problems: Sequence[MazeProblem], total: int, seed: int) -> Floats:
    """Reward vectors (problems, total, 4) of the planner that the base imitates."""
    rewards = np.zeros((len(problems), total, 4))
    for i, problem in enumerate(problems):
        planner, rng = Planner(problem.maze), random.Random(f"{seed} {problem.name}")
        for j in range(total):
            rewards[i, j] = simulate(problem.maze, moves_between(problem.maze, planner.route(rng))).rewards
    return rewards


def summary(rewards: Floats, written: npt.NDArray[np.bool_], targets: Floats) -> dict[str, float]:
    """The figures of (P, n, 4) rewards. best@k = expected best scalar among k of the n answers, solve@k likewise;
    diversity = mean L1 distance of an answer pair's vectors, over all answers and over those that reached E."""
    fitness = rewards.mean(axis=2)
    n = fitness.shape[1]
    solved = fitness >= targets[:, None]
    figures = {
        "answers": float(written.mean()),
        "completion": float(rewards[..., 0].mean()),
        "gold": float(rewards[..., 1].mean()),
        "diamond": float(rewards[..., 2].mean()),
        "safety": float(rewards[..., 3].mean()),
    }
    for name, values in (("best", fitness), ("solve", solved.astype(float))):
        for k in (k for k in (1, 3, 10, 30) if k <= n):
            figures[f"{name}@{k}"] = float(np.mean([best_at_k(row, k) for row in values]))
    figures["diversity"] = float(np.mean([diversity(r) for r in rewards]))
    figures["diversity_valid"] = float(np.mean([diversity(r[r[:, 0] > 0]) for r in rewards]))
    figures["distinct_vectors"] = float(np.mean([len(np.unique(r.round(6), axis=0)) for r in rewards]))
    figures["optimum"] = float(targets.mean())
    return figures


def small_search(
    sampler: Sampler, problems: Sequence[MazeProblem], *, iterations: int, answers: int, parents: str, seed: int
) -> dict[str, list[float]]:
    """A plain evolution: a cell per reward vector, its shortest route kept, one chain an iteration.

    parents: one of PARENTS, which cell's route the prompt shows
    Returns the share solved and the mean best after each iteration.
    """
    rng = random.Random(seed)
    cells: list[dict[tuple[float, ...], str]] = [{} for _ in problems]
    best = [0.0] * len(problems)
    solved_by, mean_best = [], []
    for _ in range(iterations):
        prompts = []
        for problem, held in zip(problems, cells, strict=True):
            parent = None
            if held and parents != "none":
                parent = held[max(held, key=sum)] if parents == "fittest" else rng.choice(list(held.values()))
            prompts.append(encode_prompt(problem.maze, parent, answers=answers))
        for i, text in enumerate(sampler.texts(prompts, most_tokens(answers))):
            for moves in decode_chain(text)[:answers]:
                vector = simulate(problems[i].maze, moves).rewards
                best[i] = max(best[i], sum(vector) / 4)
                if vector[0] and len(moves) < len(cells[i].get(vector, moves + "+")):
                    cells[i][vector] = moves
        solved_by.append(float(np.mean([b >= (p.target or 0) for b, p in zip(best, problems, strict=True)])))
        mean_best.append(float(np.mean(best)))
    return {"solved": solved_by, "mean_best": mean_best}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m vpo.embedded.measure", description=__doc__)
    parser.add_argument("problems", help="a maze set, as maze:test")
    parser.add_argument("--policy", default="embedded:base", help="embedded:NAME, a checkpoint folder, or planner")
    parser.add_argument("--answers", type=int, default=3, help="answers a chain")
    parser.add_argument("--total", type=int, default=30, help="answers a problem")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument(
        "--search", type=int, metavar="N", help="search N iterations instead, with each choice of parents"
    )
    parser.add_argument("--limit", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="CPU threads; more rarely help so small a model")
    given = parser.parse_args(arguments)
    problems = problem_set(given.problems, given.limit)
    if given.policy != "planner":
        import torch

        torch.set_num_threads(given.threads)
    if given.policy == "planner":
        rewards = planner_rewards(problems, given.total, given.seed)
        figures: dict = summary(rewards, np.ones(rewards.shape[:2], bool), _targets(problems))
    elif given.search:
        figures = {}
        for parents in PARENTS:
            sampler = Sampler(given.policy, temperature=given.temperature, seed=given.seed)
            curves = small_search(
                sampler, problems, iterations=given.search, answers=given.answers, parents=parents, seed=given.seed
            )
            marks = [i for i in (3, 10, 30, 60, 100, 200) if i <= given.search]
            figures[parents] = {i: [round(curves[c][i - 1], 3) for c in ("solved", "mean_best")] for i in marks}
    else:
        sampler = Sampler(given.policy, temperature=given.temperature, seed=given.seed)
        figures = summary(
            *sample_rewards(sampler, problems, answers=given.answers, total=given.total), _targets(problems)
        )
    print(json.dumps(_rounded(figures)))


def _rounded(figures: Any) -> Any:
    if isinstance(figures, dict):
        return {name: _rounded(value) for name, value in figures.items()}
    return round(figures, 4) if isinstance(figures, float) else figures


def _targets(problems: Sequence[MazeProblem]) -> Floats:
    return np.array([problem.target for problem in problems], dtype=float)


if __name__ == "__main__":
    main()
