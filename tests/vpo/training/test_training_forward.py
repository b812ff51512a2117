"""Log-probabilities with a shared prompt against the book and against what a policy records."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
import torch
from support.training_samples import gradients, logprobs_of, relative_error, tiny_model, tiny_tokenizer, tokens
from torch.nn.attention import SDPBackend, sdpa_kernel

from problems.types import Prompt
from vpo.hf.policy import TransformersPolicy
from vpo.training import forward
from vpo.training import model as model_module
from vpo.training.examples import Example, ExampleGroup
from vpo.training.forward import can_share, completion_logprobs, pack_groups

# prompt length, completion lengths, temperature: ragged prompts, ragged completions, groups of one and of one token
RAGGED = [(11, (5, 1, 9, 3), 1.0), (2, (7,), 0.7), (6, (1, 1), 1.0), (17, (4, 4, 6, 2, 1), 1.3)]
EVEN = [(8, (5, 5, 5), 0.8), (8, (5, 5, 5), 0.8)]


def example_groups(shape: list[tuple[int, tuple[int, ...], float]], seed: int = 0) -> list[ExampleGroup]:
    rng = np.random.default_rng(seed)
    return [
        ExampleGroup(
            tokens(rng, prompt),
            tuple(Example(tokens(rng, n), np.zeros(n, np.float32), np.zeros(n, np.float32)) for n in lengths),
            temperature,
        )
        for prompt, lengths, temperature in shape
    ]


def by_the_book(model: Any, groups: list[ExampleGroup]) -> torch.Tensor:
    """(N,) row by row, each alone."""
    return torch.cat(
        [
            logprobs_of(model, group.prompt_ids, e.token_ids, group.temperature)
            for group in groups
            for e in group.examples
        ]
    )


@pytest.mark.parametrize("kind", ["Llama", "Qwen2"])
@pytest.mark.parametrize("shape", [RAGGED, EVEN, RAGGED[:1]], ids=["ragged", "even", "one group"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_sharing_a_prompt_changes_neither_log_probabilities_nor_gradients(kind, shape, attention) -> None:
    model = tiny_model(kind, attn_implementation=attention)
    groups = example_groups(shape)
    packed = pack_groups(groups)
    assert can_share(model)
    weights = torch.randn(int(packed.mask.sum()), generator=torch.Generator().manual_seed(1))
    found = []
    for flat in (completion_logprobs(model, packed)[packed.mask], by_the_book(model, groups)):
        model.zero_grad()
        (flat * weights).sum().backward()
        found.append((flat.detach(), gradients(model)))
    (shared, ours), (book, expected) = found
    torch.testing.assert_close(shared, book, atol=1e-5, rtol=0)
    for name, gradient in expected.items():
        assert gradient.norm() > 0, f"{name} has no gradient to compare"
        assert relative_error(ours[name], gradient) < 1e-4, name


BACKENDS = [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION]


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
def test_no_token_attends_to_nothing_and_every_kernel_gives_finite_gradients(monkeypatch, backend) -> None:
    """Four groups a micro-batch with prompts of 249 to 303 tokens, as in a training on a GPU that ended in nan."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = tiny_model("Qwen2", max_position_embeddings=512).to(device, torch.bfloat16)
    packed = pack_groups(example_groups([(length, (96, 86, 96), 0.6) for length in (249, 251, 280, 303)]), device)
    assert can_share(model)
    hidden, attend = [], torch.nn.functional.scaled_dot_product_attention

    def watched(query, key, value, attn_mask=None, **settings):
        if attn_mask is not None:
            rows = attn_mask if attn_mask.dtype == torch.bool else attn_mask > torch.finfo(attn_mask.dtype).min
            hidden.append(int((~rows.any(-1)).sum()))
        return attend(query, key, value, attn_mask=attn_mask, **settings)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", watched)
    try:
        with sdpa_kernel(backend):
            completion_logprobs(model, packed)[packed.mask].mean().backward()
    except RuntimeError as error:
        if not hidden or "kernel" not in str(error):
            raise
    assert hidden and not any(hidden)
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in model.parameters())


@pytest.mark.parametrize(("few", "used"), [(1 << 20, "eager"), (100, "sdpa")], ids=["few tokens", "many tokens"])
def test_the_attention_of_a_micro_batch(monkeypatch, few, used) -> None:
    monkeypatch.setattr(model_module, "_FEW_SCORES", few)
    model = tiny_model("Llama")
    with model_module.use_attention(model, pack_groups(example_groups(RAGGED))):
        assert model.config._attn_implementation == used
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("kind", ["Llama", "Qwen2"])
def test_they_are_the_log_probabilities_that_the_policy_recorded(kind: str, temperature: float) -> None:
    model = tiny_model(kind)
    policy = TransformersPolicy(
        model, tiny_tokenizer(), version="tiny", temperature=temperature, max_tokens=12, threads=1
    )
    policy.stops = frozenset(range(12))  # some end early
    prompts = [Prompt("w5 w6 w7 w8 w9", stream=0), Prompt("w20 w30", stream=1), Prompt("w3 " * 9, stream=2)]
    sampled = asyncio.run(policy.sample(prompts, rollouts=5, answers=1, seed=3))
    groups = [
        ExampleGroup(some[0].prompt_ids, tuple(Example(r.token_ids, r.logprobs, r.logprobs) for r in some), temperature)
        for some in sampled
    ]
    recorded = torch.from_numpy(np.concatenate([e.behaviour for group in groups for e in group.examples]))
    packed = pack_groups(groups)
    assert len({len(r.token_ids) for some in sampled for r in some}) > 2, "the completions should be ragged"
    with torch.no_grad():
        now = completion_logprobs(policy.model, packed)[packed.mask]
    torch.testing.assert_close(now, recorded, atol=1e-4, rtol=0)
    asyncio.run(policy.close())


@pytest.mark.parametrize(
    ("model", "shape"),
    [(("Mistral", {"sliding_window": 4}), RAGGED), (("Llama", {}), [(1, (3, 2), 1.0), (9, (4,), 1.0)])],
    ids=["attention over a window", "a prompt of one token"],
)
def test_what_cannot_share_runs_each_prompt_with_each_completion(model, shape) -> None:
    kind, settings = model
    tiny, groups = tiny_model(kind, **settings), example_groups(shape)
    packed = pack_groups(groups)
    assert can_share(tiny) == (kind == "Llama")
    with torch.no_grad():
        flat = completion_logprobs(tiny, packed)[packed.mask]
        torch.testing.assert_close(flat, by_the_book(tiny, groups), atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("chunk", [1, 200, 1 << 24])
def test_chosen_log_probabilities_and_their_gradient(monkeypatch: pytest.MonkeyPatch, kind, chunk: int) -> None:
    monkeypatch.setattr(forward, "_CHUNK", chunk)
    source = torch.Generator().manual_seed(0)
    logits = (3 * torch.randn(3, 5, 40, generator=source)).to(kind)
    ids = torch.randint(0, 40, (3, 5), generator=source)
    temperature = torch.tensor([[1.0], [0.5], [1.7]])
    weights = torch.randn(3, 5, generator=source)
    found = []
    for way in ("ours", "book"):
        leaf = logits.clone().requires_grad_()
        if way == "ours":
            flat = forward._Chosen.apply(leaf.flatten(0, 1), ids.flatten(), temperature.expand(3, 5).flatten())
            values = flat.view(3, 5)
        else:
            values = (leaf.float() / temperature[..., None]).log_softmax(-1).gather(-1, ids[..., None])[..., 0]
        assert values.dtype == torch.float32
        (values * weights).sum().backward()
        assert leaf.grad is not None and leaf.grad.dtype == kind
        found.append((values.detach(), leaf.grad.float()))
    torch.testing.assert_close(found[0][0], found[1][0], atol=1e-5, rtol=1e-5)
    tolerance = 1e-6 if kind == torch.float32 else 1e-2  # rounded once to half precision
    torch.testing.assert_close(found[0][1], found[1][1], atol=tolerance, rtol=tolerance)
