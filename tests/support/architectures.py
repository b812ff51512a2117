"""A tiny model of random weights for every causal architecture that the installed transformers can configure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from transformers import CONFIG_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

ARCHITECTURES = tuple(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
VOCABULARY, CONTEXT = 96, 256
MOST_PARAMETERS = 3_000_000

SIZES: Mapping[str, int] = {
    r"(unpadded_)?vocab_size|vocab_size_per_layer_input|(shape|pronunciation)_vocab_size": VOCABULARY,
    r"max_position_embeddings|n_positions|n_ctx|max_seq_len": CONTEXT,
    r"(en|de)coder_layers": 2,
    r"(hidden|embedding|attention_hidden)_size|[dn]_(model|embd)|(emb|dim|word_embed_proj)_(dim|model)": 64,
    r".*intermediate_size(_mlp)?|.*ffn_dim|n_inner|dim_ff|dff|(expert_)?ffn_hidden_size|feed_forward_size": 128,
    r"(moe|shared_expert)_intermediate_size": 32,
    r"(swa_)?num_attention_heads|n_heads?|num_heads|(en|de)coder_attention_heads|index(er)?_n_heads": 4,
    r"(swa_)?num_key_value_heads|num_kv_heads": 2,
    r"(swa_|v_|global_|linear_|linear_key_|linear_value_|index_|indexer_)?head_dim|kv_channels|dim_head": 16,
    r"linear_num_(value_)?heads": 4,
    r"linear_num_key_heads": 2,
    r"(num_local|moe_num|n_routed|num)_experts": 4,
    r"num_experts_per_tok(en)?|moe_(topk|k|top_k)|top_k_experts": 2,
    r"(n|num|moe_num)_shared_experts|n_group|topk_group|num_expert_group|zero_expert_num": 1,
    r"first_k_dense_replace|num_dense_layers": 1,
    r"(q|kv|o)_lora_rank": 16,
    r"qk_(nope|rope)_head_dim": 8,
    r"qk_head_dim": 16,
    r"(sliding_)?window(_size)?|sliding_window_size|attention_chunk_size|(local_)?attention_window_(size|len)": 8,
    r"(ssm_)?state_size|mamba_d_state": 16,
    r"mamba_(n|num)_heads|n_mamba_heads": 4,
    r"mamba_(d_head|head_dim)": 32,
    r"mamba_n_groups|n_groups": 1,
    r"mamba_d_ssm": 128,
    r"hidden_size_per_layer_input": 16,
    r"rotary_dim|time_step_rank|mamba_dt_rank|laurel_rank|hc_lowrank|.*_rank": 8,
    r"index_topk": 8,
    r"lru_width": 64,
}
"""By the name of a setting; of two patterns the later one counts."""
TWO_KINDS = ["sliding_attention", "full_attention"] * 2
SPECIAL: Mapping[str, Mapping[str, Any]] = {
    "bamba": {"attn_layer_indices": [1]},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "falcon_h1": {"mamba_d_ssm": 64, "mamba_d_head": 16},
    "gemma3n_text": {
        **{"num_hidden_layers": 4, "num_kv_shared_layers": 2, "layer_types": TWO_KINDS},
        **{"intermediate_size": [128] * 4, "activation_sparsity_pattern": [0.0] * 4},
    },
    "gemma4_text": {"num_hidden_layers": 4, "num_kv_shared_layers": 2, "layer_types": TWO_KINDS},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"], "num_key_value_heads": 2},
    "hunyuan_v1_dense": {"head_dim": 16},
    "hunyuan_v1_moe": {"head_dim": 16, "num_experts": 4, "moe_topk": 2},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "mamba2": {"num_heads": 8},
    "minicpm3": {"initializer_range": 0.05},
    "ministral": {"head_dim": 16},
    "nemotron": {"num_key_value_heads": 2},
    "qwen4_exp_text": {
        **{"indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 16},
        **{"indexer_budget": 8, "indexer_compress_ratio": 2},
    },
    "recurrent_gemma": {"num_hidden_layers": 3, "block_types": ["recurrent", "recurrent", "attention"]},
    "reformer": {"axial_pos_embds_dim": (32, 32), "axial_pos_shape": (16, 16)},
    "xlm": {"emb_dim": 64, "causal": True},
    "xmod": {"default_language": "en_XX"},
    "zaya": {"num_experts_per_tok": 1},
}
"""Settings that no size by name gets right."""
LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")


def tiny_architecture(kind: str) -> Any:
    """A float32 model of the model type `kind`, in eval mode. Raises what transformers raises where small numbers do
    not make a configuration, ValueError where the model is not small then."""
    config = CONFIG_MAPPING[kind]
    found = MODEL_FOR_CAUSAL_LM_MAPPING[config]
    model = found[0] if isinstance(found, tuple) else found
    if model.config_class is not config and model.config_class in config.sub_configs.values():
        config = model.config_class  # the text model of one that sees or hears as well
    settings = _settings(config, kind)
    made = config(**settings)
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in model(made).parameters())
    if size > MOST_PARAMETERS:
        raise ValueError(f"{size:,} parameters")
    torch.manual_seed(0)
    return model(made).eval()


def _settings(config: Any, kind: str) -> dict[str, Any]:
    default = config().to_dict()
    settings = _few_layers(default)
    for name, value in default.items():
        if name in settings or isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            continue
        sizes = [size for pattern, size in SIZES.items() if re.fullmatch(pattern, name)]
        if sizes:
            settings[name] = sizes[-1]
    if "kv_lora_rank" in default:  # latent attention: the heads share one latent, and positions have a part of it
        settings |= {name: 4 for name in ("num_key_value_heads",) if name in default}
        settings |= {name: 8 for name in ("head_dim",) if name in default}
    settings |= {name: 0.15 for name in ("initializer_range", "init_std") if name in default}
    settings |= {name: True for name in ("is_decoder",) if name in default}
    ends = {"bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 2}
    settings |= {name: number for name, number in ends.items() if name in default}
    for name, part in config.sub_configs.items():  # what it sees and hears with
        if default.get(name) is not None and part is not AutoConfig:
            settings[name] = _settings(part, part.model_type)
    return settings | dict(SPECIAL.get(kind, SPECIAL.get(f"{kind}_text", {})))


def _few_layers(default: Mapping[str, Any]) -> dict[str, Any]:
    """The first layer of each kind, two at least, with what the settings list for each layer."""
    count = next((default[name] for name in LAYERS if default.get(name)), 0)
    listed = {name: list(value) for name, value in default.items() if isinstance(value, (list, tuple))}
    listed = {name: value for name, value in listed.items() if len(value) == count}
    kinds = [listed[name] for name in ("layer_types", "mlp_layer_types", "layers_block_type") if name in listed]
    first: dict[Any, int] = {}
    for layer, of_layer in enumerate(zip(*kinds, strict=True)) if kinds else ():
        first.setdefault(of_layer, layer)
    taken = sorted(first.values())[:4] or [0]
    taken = taken if len(taken) > 1 else taken * 2
    settings: dict[str, Any] = {name: [value[layer] for layer in taken] for name, value in listed.items()}
    return settings | {name: len(taken) for name in LAYERS if name in default}
