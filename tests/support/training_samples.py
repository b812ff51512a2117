"""Tiny models and made-up prompt groups, for the tests of training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from problems.contract import Score
from problems.identity import identity
from problems.types import Prompt, Rollout, ScoredAnswer, ScoredGroup, ScoredRollout

VOCABULARY = 96
END, PAD = 0, 1

Rewards = Sequence[Sequence[Sequence[float]]]
"""By rollout, answer and objective; either may be ragged."""


def tiny_model(kind: str = "Llama", seed: int = 0, **changes: Any) -> Any:
    """A float32 model of `kind` (Llama, Qwen2, Mistral) with grouped-query heads, in eval mode."""
    import transformers

    settings = {
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "initializer_range": 0.15,  # next tokens neither flat nor certain
        "bos_token_id": None,
        "eos_token_id": END,
        "pad_token_id": PAD,
        "tie_word_embeddings": kind == "Qwen2",
        **changes,
    }
    torch.manual_seed(seed)
    model = getattr(transformers, f"{kind}ForCausalLM")(getattr(transformers, f"{kind}Config")(**settings))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):  # born as zeros, which would hide a bias that is left out
            torch.nn.init.normal_(parameter, std=0.1)
    return model.eval()


def tiny_tokenizer() -> Any:
    """One word a token: `<end>`, `<pad>`, `w2`, `w3`, ..."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<end>", "<pad>", *(f"w{i}" for i in range(2, VOCABULARY))]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", pad_token="<pad>")


def tokens(rng: np.random.Generator, length: int) -> np.ndarray:
    return rng.integers(2, VOCABULARY, length).astype(np.int32)


def logprobs_of(model: Any, prompt: np.ndarray, completion: np.ndarray, temperature: float = 1.0) -> torch.Tensor:
    """(T,) of one row by the book: the whole sequence alone, no padding, no cache, log_softmax of logits / T."""
    ids = torch.tensor(np.concatenate([prompt, completion]), dtype=torch.long)[None]
    logits = model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1].float()
    wanted = torch.tensor(completion, dtype=torch.long)[:, None]
    return (logits / temperature).log_softmax(-1).gather(-1, wanted)[:, 0]


def scored_group(
    prompt: np.ndarray,
    completions: Sequence[np.ndarray],
    rewards: Rewards,
    *,
    model: Any = None,
    behaviour: Sequence[np.ndarray] | None = None,
    fitness: Sequence[Sequence[float]] | None = None,
    texts: Sequence[Sequence[str]] | None = None,
    answers: int | None = None,
    temperature: float = 1.0,
    version: str = "start",
    sequence: int = 0,
    problem: int = 1,
) -> ScoredGroup:
    """A group whose rollouts hold answers of these rewards.

    model: whose log-probabilities are recorded; `behaviour` says them outright
    fitness: as the rewards, one number an answer; their mean where None
    """
    rollouts = []
    for i, (ids, vectors) in enumerate(zip(completions, rewards, strict=True)):
        if behaviour is not None:
            recorded = behaviour[i]
        elif model is not None and len(ids):
            with torch.no_grad():
                recorded = logprobs_of(model, prompt, ids, temperature).numpy()
        else:
            recorded = np.full(len(ids), -1.0)
        held = []
        for j, vector in enumerate(vectors):
            text = texts[i][j] if texts else f"answer {i} {j}"
            value = fitness[i][j] if fitness else float(np.mean(vector))
            held.append(ScoredAnswer(text, identity(text, "text"), Score(tuple(map(float, vector)), value)))
        text = " ".join(f"w{token}" for token in ids)
        rollout = Rollout(text, np.asarray(ids, np.int32), np.asarray(recorded, np.float32), prompt)
        rollouts.append(ScoredRollout(rollout, tuple(held)))
    most = max((len(rollout.answers) for rollout in rollouts), default=0)
    return ScoredGroup(
        problem=problem,
        sequence=sequence,
        iteration=0,
        island=0,
        parent=None,
        inspirations=(),
        prompt=Prompt("asked", stream=sequence),
        policy_version=version,
        answers=answers or max(most, 1),
        seed=0,
        temperature=temperature,
        rollouts=tuple(rollouts),
    )


def random_groups(model: Any, count: int = 3, seed: int = 0, **settings: Any) -> list[ScoredGroup]:
    """Groups of 2 to 5 rollouts, ragged prompts and completions, chains of 0 to 3 answers on 3 objectives."""
    rng = np.random.default_rng(seed)
    groups = []
    for sequence in range(count):
        size = int(rng.integers(2, 6))
        completions = [tokens(rng, int(rng.integers(1, 9))) for _ in range(size)]
        rewards = [rng.random((int(rng.integers(0, 4)), 3)).tolist() for _ in range(size)]
        rewards[0], rewards[1] = [[0.9, 0.8, 1.0]], [[0.1, 0.0, 0.2], [0.2, 0.1, 0.0]]  # always some spread
        prompt = tokens(rng, int(rng.integers(3, 12)))
        groups.append(scored_group(prompt, completions, rewards, model=model, answers=3, sequence=sequence, **settings))
    return groups


def gradients(model: Any) -> dict[str, torch.Tensor]:
    """A copy of every trained parameter's gradient, zeros where it has none."""
    return {
        name: torch.zeros_like(p) if p.grad is None else p.grad.clone()
        for name, p in model.named_parameters()
        if p.requires_grad
    }


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """|found - expected| / |expected|, Euclidean."""
    return float((found - expected).norm() / expected.norm().clamp(min=1e-12))
