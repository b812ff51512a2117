"""The transformers policy against plain forwards of the same model."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from problems.types import Prompt, Rollout
from vpo.hf import engine
from vpo.hf.cache import InPlaceLayer, cache_argument
from vpo.hf.engine import SampleRequest, SamplingParams, Stopped, batches, sample_rows
from vpo.hf.sampling import draw, inverse_cdf, nucleus, uniforms
from vpo.policies.contract import PolicyUnavailable, PromptTooLong
from vpo.policies.registry import policy_at

PROMPTS = [Prompt("word " * (1 + 3 * i), stream=i) for i in range(5)]


@pytest.fixture
def policy_of() -> Iterator[Callable[..., Any]]:
    """Policies of a checkpoint, closed after the test."""
    made: list[Any] = []

    def load(checkpoint: object, **settings: Any) -> Any:
        made.append(policy_at(str(checkpoint), threads=1, **{"max_tokens": 30, **settings}))
        return made[-1]

    yield load
    for policy in made:
        asyncio.run(policy.close())


def sampled(policy, prompts, rollouts=4, seed=1) -> list[list[Rollout]]:
    return asyncio.run(policy.sample(prompts, rollouts=rollouts, answers=1, seed=seed))


def reference_nucleus(probabilities: np.ndarray, top_p: float) -> np.ndarray:
    """Renormalised nucleus of one distribution, the slow way."""
    order = np.argsort(-probabilities, kind="stable")
    kept = np.zeros_like(probabilities)
    total = 0.0
    for token in order:
        kept[token] = probabilities[token]
        total += probabilities[token]
        if total >= top_p:
            break
    return kept / kept.sum()


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.6, 1.0), (1.3, 0.8)])
def test_log_probabilities_are_those_of_a_plain_forward(
    policy_of, checkpoint: str, temperature: float, top_p: float
) -> None:
    policy = policy_of(checkpoint, temperature=temperature, top_p=top_p)
    groups = sampled(policy, PROMPTS, rollouts=6)
    lengths = {len(rollout.token_ids) for group in groups for rollout in group}
    assert len(lengths) > 3, "the rows should end at different steps"
    with torch.inference_mode():
        for rollout in [rollout for group in groups for rollout in group]:
            ids = torch.tensor(np.concatenate([rollout.prompt_ids, rollout.token_ids]), dtype=torch.long)
            logits = policy.model(ids[None], use_cache=False).logits[0, len(rollout.prompt_ids) - 1 : -1].double()
            probabilities = torch.softmax(logits / temperature, -1).numpy()
            if top_p < 1:
                probabilities = np.stack([reference_nucleus(row, top_p) for row in probabilities])
            expected = np.log(probabilities[np.arange(len(rollout.token_ids)), rollout.token_ids])
            np.testing.assert_allclose(rollout.logprobs, expected, atol=1e-4)


def test_rollouts_end_at_a_stop_token_or_at_the_limit(policy_of, checkpoint: str) -> None:
    policy = policy_of(checkpoint)
    rollouts = [rollout for group in sampled(policy, PROMPTS, rollouts=8) for rollout in group]
    assert {rollout.finish for rollout in rollouts} == {"stop", "length"}
    for rollout in rollouts:
        ends = [token in policy.stops for token in rollout.token_ids.tolist()]
        assert not any(ends[:-1])
        assert ends[-1] == (rollout.finish == "stop")
        assert rollout.finish == "stop" or len(rollout.token_ids) == 30
        without_end = rollout.token_ids[:-1] if rollout.finish == "stop" else rollout.token_ids
        assert rollout.text == policy.tokenizer.decode(without_end, skip_special_tokens=True)


def test_temperature_zero_is_greedy_search(policy_of, checkpoint: str) -> None:
    policy = policy_of(checkpoint, temperature=0.0)
    rollout = sampled(policy, PROMPTS[2:3], rollouts=1)[0][0]
    ids = torch.tensor(rollout.prompt_ids, dtype=torch.long)[None]
    expected = policy.model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=30, do_sample=False, pad_token_id=2
    )
    assert rollout.token_ids.tolist() == expected[0, ids.shape[1] :].tolist()
    assert (rollout.logprobs == 0).all()


@pytest.mark.long
def test_small_batches_sample_what_a_large_one_does(policy_of, checkpoint: str) -> None:
    policy = policy_of(checkpoint)
    stops = policy.stops
    requests = [
        SampleRequest(prompt, stream, rollout, 12 + 3 * rollout)
        for stream, prompt in enumerate(np.arange(20 + 7 * i, dtype=np.int32) + 17 for i in range(4))
        for rollout in range(3)
    ]

    def texts(rows: int, cells: int) -> list[list[int]]:
        drawn = dict(sample_rows(policy.model, requests, 3, SamplingParams(1.0, 1.0, stops, 0, rows, cells)))
        return [drawn[number].token_ids.tolist() for number in range(len(requests))]

    whole = texts(512, 1 << 30)
    for rows, cells in ((5, 1 << 30), (1, 1 << 30), (512, 130), (512, 1)):
        assert texts(rows, cells) == whole
    assert all(len(ids) <= request.limit for ids, request in zip(whole, requests, strict=True))


def test_a_late_look_at_the_rows_changes_nothing(policy_of, checkpoint: str, monkeypatch) -> None:
    """A GPU is asked every few steps only; rows that end between two looks end where they did."""
    expected = sampled(policy_of(checkpoint), PROMPTS)
    monkeypatch.setitem(engine._LOOK_EVERY, "cpu", 7)
    for one, other in zip(sum(expected, []), sum(sampled(policy_of(checkpoint), PROMPTS), []), strict=True):
        assert one.token_ids.tolist() == other.token_ids.tolist() and one.finish == other.finish
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-5)


def test_batches_hold_every_row_once_within_their_limits() -> None:
    rng = np.random.default_rng(0)
    prompts = [np.zeros(n, dtype=np.int32) for n in rng.integers(1, 200, 30)]
    requests = [SampleRequest(prompt, 0, rollout, 20) for prompt in prompts for rollout in range(4)]
    made = list(batches(requests, SamplingParams(1.0, 1.0, frozenset(), 0, 16, 1500, 500)))
    assert sorted(i for batch in made for i in batch) == list(range(len(requests)))
    for batch in made:
        assert len(batch) <= 16
        lengths = {id(requests[i].prompt): len(requests[i].prompt) for i in batch}
        assert len(lengths) == 1 or len(lengths) * max(lengths.values()) <= 500
        assert len(batch) == 1 or len(batch) * max(len(requests[i].prompt) + 20 for i in batch) <= 1500


def test_a_prompt_that_fills_the_context_is_refused_before_anything_is_sampled(policy_of, checkpoint: str) -> None:
    policy = policy_of(checkpoint)
    with pytest.raises(PromptTooLong, match="512"):
        sampled(policy, [PROMPTS[0], Prompt("word " * 100)])
    limited = sampled(policy, [Prompt("w" * 400)], rollouts=1)[0][0]
    assert len(limited.prompt_ids) + len(limited.token_ids) <= 512


def test_the_event_loop_stays_free_and_calls_queue(policy_of, llama) -> None:
    policy = policy_of(llama, max_tokens=60)

    async def run() -> int:
        ticks = 0
        calls = asyncio.gather(*(policy.sample(PROMPTS, rollouts=8, answers=1, seed=i) for i in range(3)))
        while not calls.done():
            await asyncio.sleep(0.001)
            ticks += 1
        first, again = (await calls)[0], await policy.sample(PROMPTS, rollouts=8, answers=1, seed=0)
        assert [[r.text for r in g] for g in first] == [[r.text for r in g] for g in again]
        await policy.close()
        return ticks

    assert asyncio.run(run()) > 3


def test_a_cancelled_call_stops_and_a_closed_policy_says_so(policy_of, llama) -> None:
    policy = policy_of(llama, max_tokens=400)

    async def run() -> None:
        call = asyncio.create_task(policy.sample(PROMPTS * 10, rollouts=20, answers=1, seed=0))
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(policy.close(), 60)  # of thousands of rollouts none is waited for
        with pytest.raises(PolicyUnavailable, match="closed"):
            await policy.sample(PROMPTS, rollouts=1, answers=1, seed=0)

    asyncio.run(run())


def test_the_cache_holds_each_row_as_rows_leave() -> None:
    rng, noise = np.random.default_rng(0), torch.Generator().manual_seed(0)
    layer = InPlaceLayer()
    rows = [torch.randn(2, 7, 4, generator=noise) for _ in range(60)]
    layer.update(torch.stack(rows), torch.stack(rows) + 1)
    for step in range(300):
        new = torch.randn(len(rows), 2, 1, 4, generator=noise)
        rows = [torch.cat([row, column], dim=1) for row, column in zip(rows, new, strict=True)]
        layer.update(new, new + 1)
        if step % 6 == 3 and len(rows) > 1:
            stay = np.sort(rng.permutation(len(rows))[: -max(1, len(rows) // 8)])
            drop = int(rng.integers(0, 3))  # columns on the left that no row needs
            layer.select(torch.from_numpy(stay), drop)
            rows = [rows[row][:, drop:] for row in stay]
        assert layer.keys is not None and layer.values is not None
        assert torch.equal(layer.keys, torch.stack(rows)) and torch.equal(layer.values, torch.stack(rows) + 1)


@pytest.mark.parametrize(
    "exhausted", [torch.OutOfMemoryError("out of memory"), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
)
def test_memory_that_runs_out_halves_the_batch_and_changes_nothing(policy_of, llama, monkeypatch, exhausted) -> None:
    import vpo.hf.policy as module

    policy = policy_of(llama)
    expected = [[r.text for r in g] for g in sampled(policy, PROMPTS)]
    rows = []

    def scarce(model, requests, seed, params, *others):
        rows.append(params.rows)
        if params.rows > 6:
            raise exhausted
        return sample_rows(model, requests, seed, params, *others)

    monkeypatch.setattr(module, "sample_rows", scarce)
    assert [[r.text for r in g] for g in sampled(policy, PROMPTS)] == expected
    assert rows == [512, 10, 5]


@pytest.mark.parametrize("steps", [1, 8])
def test_broken_weights_make_the_policy_unavailable(policy_of, llama, monkeypatch, steps: int) -> None:
    policy = policy_of(llama)
    monkeypatch.setitem(engine._LOOK_EVERY, "cpu", steps)
    with torch.no_grad():
        policy.model.lm_head.weight.fill_(float("nan"))
    with pytest.raises(PolicyUnavailable, match="not finite"):
        sampled(policy, PROMPTS)


def test_decoding_stops_between_two_steps(policy_of, llama) -> None:
    policy, asked = policy_of(llama), []
    request = SampleRequest(np.arange(3, dtype=np.int32), 0, 0, 9)

    def go_on(tokens: int) -> bool:
        asked.append(tokens)
        return tokens < 3

    with pytest.raises(Stopped):
        list(sample_rows(policy.model, [request], 0, SamplingParams(1, 1, frozenset(), 0, 9, 99), go_on))
    layers = policy.model.config.num_hidden_layers
    assert asked == [0] * layers + [0, 1, 2, 3], "between the layers of the prompt, then before each token"
    with pytest.raises(Stopped):
        list(sample_rows(policy.model, [request], 0, SamplingParams(1, 1, frozenset(), 0, 9, 99), lambda tokens: False))


@pytest.mark.parametrize("name", ["base", "vpo", "grpo", "edit-solve"])
def test_the_shipped_policies_write_what_is_recorded(name: str) -> None:
    """Recorded at c96219c2 in a batch of 40: tokens, and log-probabilities as far as another processor rounds alike."""
    record = json.loads((Path(__file__).parents[2] / "fixtures" / "embedded_samples.json").read_text())[name]
    prompts = [Prompt(text, stream=stream) for stream, text in enumerate(record["prompts"])]
    for temperature in (1.0, 0.8):
        policy = policy_at(f"embedded:{name}", temperature=temperature)
        groups = asyncio.run(policy.sample(prompts, rollouts=1, answers=record["answers"], seed=7))
        asyncio.run(policy.close())
        for (rollout,), tokens, logprobs in zip(groups, *record[str(temperature)], strict=True):
            assert rollout.token_ids.tolist() == tokens
            np.testing.assert_allclose(rollout.logprobs, logprobs, atol=1e-4)


def test_no_library_warns_of_an_argument_that_leaves(policy_of, llama, recwarn) -> None:
    policy = policy_of(llama)
    sampled(policy, PROMPTS[:2], rollouts=2)
    assert not [str(warning.message) for warning in recwarn if "deprecated" in str(warning.message)]
    assert cache_argument(policy.model) in inspect.signature(policy.model.forward).parameters


# --- drawing ----------------------------------------------------------------------------------------------------------


def test_uniforms_of_a_longer_row_begin_with_the_shorter_ones() -> None:
    assert (uniforms(1, 2, 3, 10) == uniforms(1, 2, 3, 100)[:10]).all()
    rows = {tuple(uniforms(*key, 4)) for key in ((1, 2, 3), (1, 3, 2), (2, 1, 3), (-1, 2, 3), (1 << 40, 2, 3))}
    assert len(rows) == 5


@pytest.mark.parametrize("size", [5, 4096, 4097, 50_000])
def test_the_inverse_cdf_is_the_one_of_a_float64_sum(size: int) -> None:
    rng = np.random.default_rng(size)
    probabilities = rng.dirichlet(np.full(size, 0.05), 64).astype(np.float32)
    probabilities[:, rng.integers(0, size, size // 5)] = 0.0
    uniform = rng.random(64)
    uniform[:3] = 0.0, 1.0 - 2.0**-53, 0.5
    found = inverse_cdf(torch.from_numpy(probabilities), torch.from_numpy(uniform)).numpy()
    assert (probabilities[np.arange(64), found] > 0).all()
    cumulative = probabilities.astype(np.float64).cumsum(-1)
    target = uniform * cumulative[:, -1]
    above = cumulative[np.arange(64), found]
    below = above - probabilities[np.arange(64), found]
    assert (below <= target + 1e-12).all() and (target <= above + 1e-12).all()


def test_draws_follow_the_distribution() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0, -30.0]]).expand(20_000, 5)
    uniform = torch.from_numpy((np.arange(20_000) + 0.5) / 20_000)
    tokens, logprobs = draw(logits, uniform, 2.0, 1.0)
    expected = torch.softmax(logits[0].double() / 2.0, -1)
    share = torch.bincount(tokens, minlength=5) / 20_000
    assert (share - expected).abs().max() < 1e-4
    assert (logprobs - expected.log()[tokens]).abs().max() < 1e-5


@pytest.mark.parametrize("size", [3000, 6000])
def test_a_flat_distribution_needs_more_than_the_first_tokens_for_its_nucleus(size: int) -> None:
    logprobs = torch.log_softmax(torch.randn(3, size, generator=torch.Generator().manual_seed(0)) * 0.01, -1)
    cut = nucleus(logprobs, 0.9).exp()
    for row, whole in zip(cut.numpy(), logprobs.exp().numpy(), strict=True):
        assert abs(row.sum() - 1) < 1e-4
        assert (row > 0).sum() == (reference_nucleus(whole.astype(np.float64), 0.9) > 0).sum()


@pytest.mark.parametrize("top_p", [1.0, 0.9, 0.3])
def test_a_row_of_a_large_vocabulary_is_drawn_in_a_batch_as_alone(top_p: float) -> None:
    random = torch.Generator().manual_seed(1)
    logits = torch.randn(6, 20_000, generator=random) * torch.tensor([0.01, 1, 2, 3, 5, 20])[:, None]
    logits = logits.bfloat16()  # with ties, at the border of the nucleus too
    uniform = torch.rand(6, generator=random, dtype=torch.float64)
    tokens, logprobs = draw(logits, uniform, 0.7, top_p)
    for i in range(6):
        token, logprob = draw(logits[i : i + 1], uniform[i : i + 1], 0.7, top_p)
        assert token == tokens[i] and logprob == logprobs[i]
        probabilities = torch.softmax(logits[i].double() / 0.7, -1).numpy()
        ranked = reference_nucleus(probabilities, top_p) if top_p < 1 else probabilities
        assert ranked[tokens[i]] == pytest.approx(logprobs[i].double().exp().item(), rel=1e-4)


@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_broken_logits_of_a_large_vocabulary_are_found(top_p: float) -> None:
    logits = torch.zeros(3, 20_000)
    logits[1, 7] = float("nan")
    with pytest.raises(FloatingPointError, match="not finite"):
        draw(logits, torch.full((3,), 0.5, dtype=torch.float64), 1.0, top_p)
