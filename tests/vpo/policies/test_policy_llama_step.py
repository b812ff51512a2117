"""Steps of a small Llama without transformers around them: the model's own logits, bit by bit, or the model itself."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM, Cache, LlamaConfig, PreTrainedModel, Qwen2Config

from vpo.hf.cache import cache_argument, make_cache
from vpo.hf.llama_step import llama_step

EMBEDDED = "vpo/languages/checkpoints/base"
pytestmark = pytest.mark.usefixtures("one_thread")


def prefill(model: PreTrainedModel, ids: torch.Tensor, real: torch.Tensor) -> Cache:
    """The cache of these left-padded prompts."""
    cache = make_cache(model.config)
    positions = (real.cumsum(-1) - 1).clamp(min=0)
    model(input_ids=ids, attention_mask=real, position_ids=positions, **{cache_argument(model): cache})
    return cache


def embedded() -> PreTrainedModel:
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(EMBEDDED, dtype=torch.float32).eval()
    return model


@pytest.mark.parametrize(("rows", "padded"), [(1, False), (5, True)])
def test_its_logits_are_those_of_the_model(rows: int, padded: bool) -> None:
    model = embedded()
    step = llama_step(model)
    assert step is not None
    chance = torch.Generator().manual_seed(rows)
    ids = torch.randint(3, 480, (rows, 40), generator=chance)
    real = torch.ones_like(ids, dtype=torch.bool)
    if padded:
        real[0, :7] = False
    with torch.inference_mode():
        ours, theirs = prefill(model, ids, real), prefill(model, ids, real)
        for turn in range(70):  # beyond the room that the cache has to spare
            tokens = torch.randint(3, 480, (rows,), generator=chance)
            real = torch.nn.functional.pad(real, (0, 1), value=True)
            positions, mask = real.sum(-1) - 1, real[:, None, None] if padded else None
            expected = model(
                input_ids=tokens[:, None],
                attention_mask=mask,
                position_ids=positions[:, None],
                use_cache=True,
                **{cache_argument(model): theirs},
            ).logits[:, -1]
            assert torch.equal(step(tokens, positions, ours.layers, mask), expected), turn


def test_weights_that_are_put_in_place_are_used() -> None:
    model = embedded()
    step = llama_step(model)
    assert step is not None
    ids = torch.arange(3, 23)[None]
    with torch.inference_mode():
        model.lm_head.weight.zero_()
        cache = prefill(model, ids, torch.ones_like(ids, dtype=torch.bool))
        assert not step(ids[:, 0], torch.tensor([20]), cache.layers, None).any()


SMALL = {
    **{"vocab_size": 50, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4},
    "max_position_embeddings": 64,
}


@pytest.mark.parametrize(
    "config",
    [
        LlamaConfig(**SMALL, num_key_value_heads=2),
        LlamaConfig(**SMALL, num_key_value_heads=4, attention_bias=True),
        LlamaConfig(
            **SMALL,
            num_key_value_heads=4,
            rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0},
        ),
        Qwen2Config(**SMALL, num_key_value_heads=4),
    ],
    ids=["two queries a key", "biases", "stretched rotations", "qwen2"],
)
def test_other_models_are_left_to_transformers(config: LlamaConfig) -> None:
    assert llama_step(AutoModelForCausalLM.from_config(config).eval()) is None


def test_a_model_that_something_was_added_to_is_too() -> None:
    model = AutoModelForCausalLM.from_config(LlamaConfig(**SMALL)).eval()
    assert llama_step(model) is not None, "a small Llama of anyone is served"
    hook = model.model.layers[1].mlp.register_forward_hook(lambda *_: None)
    assert llama_step(model) is None
    hook.remove()
    assert llama_step(model) is not None
    model.model.layers[0].self_attn.q_proj = torch.nn.Sequential(model.model.layers[0].self_attn.q_proj)
    assert llama_step(model) is None
    assert llama_step(embedded().to(torch.bfloat16)) is None
