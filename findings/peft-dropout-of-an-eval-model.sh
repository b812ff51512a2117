#!/usr/bin/env bash
# peft 0.21.2, transformers 5.24.0, torch 2.13.0, 2026-11-28
# Behaviour: `get_peft_model` on a model in eval mode gives a model whose base stays in eval mode and whose LoRA
# dropout is active: two forward passes of one input differ until `eval()` is called again.
# `PeftModel.from_pretrained` gives eval mode.
# One would have guessed: all of it stays in eval mode, the dropout of the new layers too.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check peft==0.21.2 transformers==5.24.0 torch==2.13.0
"$folder/venv/bin/python" - <<'PYTHON'
import tempfile
import warnings

import peft
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

warnings.simplefilter("ignore")
transformers.logging.set_verbosity_error()
print("peft", peft.__version__, "transformers", transformers.__version__, "torch", torch.__version__)
torch.manual_seed(0)
small = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
base = LlamaForCausalLM(LlamaConfig(**small)).eval()
settings = LoraConfig(r=4, lora_dropout=0.5, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
model = get_peft_model(base, settings)
ids = torch.arange(3, 15)[None]


def differ(policy):
    with torch.no_grad():
        first, second = (policy(ids).logits for _ in range(2))
    return not torch.equal(first, second)


seen = [base.training, differ(model), differ(model.eval())]
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    torch.manual_seed(0)
    seen.append(differ(PeftModel.from_pretrained(LlamaForCausalLM(LlamaConfig(**small)).eval(), folder)))
print("base in training mode, two passes differ: at once, after eval(), when loaded:", seen)
assert seen == [False, True, False, False], "the behaviour has changed"
PYTHON
