#!/usr/bin/env bash
# transformers 5.24.0, torch 2.13.0, 2026-11-28
# Behaviour: a row padded on the left, with an attention mask and no position_ids, has other log-probabilities than alone in
# GPT-2, BioGPT and RecurrentGemma, and the same in CodeGen and OPT. RWKV ignores the mask: no position_ids help.
# One would have guessed: all of them derive positions from the mask, or CodeGen, which counts positions itself, is off too.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check transformers==5.24.0 torch==2.13.0
"$folder/venv/bin/python" - <<'PYTHON'
import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

transformers.logging.set_verbosity_error()
print("transformers", transformers.__version__, "torch", torch.__version__)
small = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
gpt = {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}
models = {
    "gpt2": gpt,
    "codegen": {**gpt, "rotary_dim": 4},
    "opt": {**small, "ffn_dim": 48, "word_embed_proj_dim": 32},
    "biogpt": {**small, "intermediate_size": 48},
    "recurrent_gemma": {**small, "intermediate_size": 48, "num_key_value_heads": 2, "head_dim": 8, "lru_width": 32,
                        "block_types": ["recurrent", "attention"], "attention_window_size": 16},
    "rwkv": {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "attention_hidden_size": 32},
}
random = torch.Generator().manual_seed(1)
short, long = (torch.randint(3, 60, (1, size), generator=random) for size in (9, 21))
ids = torch.cat([torch.cat([torch.zeros(1, 12, dtype=torch.long), short], 1), long])
mask = torch.ones_like(ids)
mask[0, :12] = 0
positions = (mask.cumsum(-1) - 1).clamp(min=0)
off = {}
for name, settings in models.items():
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIG_MAPPING[name](**settings)).eval()
    with torch.no_grad():
        alone = model(short).logits[0, -1].log_softmax(-1)
        padded = [
            model(ids, attention_mask=mask, **given).logits[0, -1].log_softmax(-1)
            for given in ({}, {"position_ids": positions})
        ]
    off[name] = [bool((alone - one).abs().max() > 1e-3) for one in padded]
    print(f"{name}: off without position_ids {off[name][0]}, with them {off[name][1]}")
expected = {
    "gpt2": [True, False], "codegen": [False, False], "opt": [False, False], "biogpt": [True, False],
    "recurrent_gemma": [True, False], "rwkv": [True, True],
}
assert off == expected, "the behaviour has changed"
PYTHON
