#!/usr/bin/env bash
# transformers 5.24.0, torch 2.13.0, 2026-11-28
# Behaviour: two tokens that are given at once with a cache have other log-probabilities than in one pass over the
# whole text in Mamba and Jamba, and the same in Mamba 2 and LFM2. One token at a time is right in all four.
# One would have guessed: all four are right, as with one token.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check transformers==5.24.0 torch==2.13.0
"$folder/venv/bin/python" - <<'PYTHON'
import warnings

import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

warnings.simplefilter("ignore")
transformers.logging.set_verbosity_error()
print("transformers", transformers.__version__, "torch", torch.__version__)
small = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "initializer_range": 0.2}
attention = {**small, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2}
models = {
    "mamba": {**small, "state_size": 8},
    "jamba": {**attention, "num_experts": 2, "mamba_d_state": 8, "attn_layer_period": 2, "attn_layer_offset": 1,
              "expert_layer_period": 2, "expert_layer_offset": 1, "use_mamba_kernels": False},
    "mamba2": {**small, "state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 16},
    "lfm2": {**attention, "full_attn_idxs": [1]},
}
ids = torch.randint(3, 60, (1, 19), generator=torch.Generator().manual_seed(1))
off = {}
for name, settings in models.items():
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIG_MAPPING[name](**settings)).eval()
    key = "cache_params" if name.startswith("mamba") else "past_key_values"
    distances = []
    with torch.no_grad():
        whole = model(ids).logits.log_softmax(-1)
        for step in (1, 2):
            cache, parts = model(ids[:, :15], use_cache=True)[key], []
            for start in range(15, 19, step):
                output = model(ids[:, start : start + step], use_cache=True, **{key: cache})
                cache = output[key]
                parts.append(output.logits.log_softmax(-1))
            distances.append(float((torch.cat(parts, 1) - whole[:, 15:]).abs().max()))
    off[name] = [distance > 1e-3 for distance in distances]
    print(f"{name}: log-probabilities differ by {distances[0]:.1g} (one token at a time), {distances[1]:.1g} (two)")
expected = {"mamba": [False, True], "jamba": [False, True], "mamba2": [False, False], "lfm2": [False, False]}
assert off == expected, "the behaviour has changed"
PYTHON
