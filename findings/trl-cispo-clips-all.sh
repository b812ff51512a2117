#!/usr/bin/env bash
# trl 1.16.0, transformers 5.24.0, torch 2.13.0, datasets 5.2.0, 2026-11-29
# Behaviour: with `loss_type="cispo"` alone, the ratio is capped at `epsilon_high`, which is 0.2 by default, and not at 1.2:
# on its own samples, where each ratio is 1, the gradient is a fifth of DAPO's, and `cispo_clip_ratio` counts each token of
# a positive advantage as clipped. So no ratio counts. The help text of `epsilon_high` recommends 5.0.
# One would have guessed: DAPO's gradient, as nothing is clipped where the ratio is 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check trl==1.16.0 transformers==5.24.0 torch==2.13.0 datasets==5.2.0
"$folder/venv/bin/python" - <<'PYTHON'
import tempfile
import warnings

import datasets
import tokenizers
import torch
import transformers
import trl

warnings.simplefilter("ignore")
transformers.logging.set_verbosity_error()
datasets.disable_progress_bars()
print("trl", trl.__version__, "transformers", transformers.__version__, "torch", torch.__version__)
words = {word: number for number, word in enumerate(["<pad>", "<eos>", *"abcdefgh"])}
letters = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="a"))
letters.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=letters, pad_token="<pad>", eos_token="<eos>")
small = {"vocab_size": 12, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2,
         "eos_token_id": 1, "pad_token_id": 0, "bos_token_id": None}


def count(completions, **_):
    return [float(text.count("a")) for text in completions]


def step(**settings):
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**small))
    with tempfile.TemporaryDirectory() as folder:
        config = trl.GRPOConfig(
            output_dir=folder, per_device_train_batch_size=8, num_generations=8, max_completion_length=8, max_steps=1,
            logging_steps=1, seed=1, use_cpu=True, bf16=False, report_to="none", save_strategy="no", disable_tqdm=True,
            **settings,
        )
        rows = datasets.Dataset.from_dict({"prompt": ["abc", "bcd"] * 8})
        trainer = trl.GRPOTrainer(model, count, args=config, train_dataset=rows, processing_class=tokenizer)
        trainer.log = lambda *_, **__: None
        seen = {}
        trainer.add_callback(Norm(seen))
        trainer.train()
        clipped = trainer._metrics["train"].get("cispo_clip_ratio", [0.0])[-1]
    return seen["norm"], clipped


class Norm(transformers.TrainerCallback):
    def __init__(self, seen):
        self.seen = seen

    def on_pre_optimizer_step(self, args, state, control, model=None, **_):
        self.seen["norm"] = float(sum((p.grad**2).sum() for p in model.parameters() if p.grad is not None)) ** 0.5


(dapo, _), (cispo, clipped), (wide, unclipped) = (
    step(loss_type="dapo", max_grad_norm=0.0),
    step(loss_type="cispo", max_grad_norm=0.0),
    step(loss_type="cispo", max_grad_norm=0.0, epsilon_high=5.0),
)
print(f"norm of the gradient: dapo {dapo:.4f}, cispo {cispo:.4f} ({clipped:.0%} clipped), with 5.0 {wide:.4f} ({unclipped:.0%})")
assert abs(cispo / dapo - 0.2) < 1e-3 and abs(wide / dapo - 1) < 1e-3, "the behaviour has changed"
assert clipped > 0 and unclipped == 0, "the behaviour has changed"
PYTHON
