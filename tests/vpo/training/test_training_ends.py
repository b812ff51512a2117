"""A tokenizer whose end, unknown and padding token are one, as base models have: what is taught to end, ends."""

import asyncio

import numpy as np
import pytest
import torch
from support.training_samples import tiny_model, tiny_tokenizer

from problems.types import Prompt
from vpo.hf.policy import TransformersPolicy
from vpo.policies.encoding import encode_answer
from vpo.servers.vllm import load_text
from vpo.training.config import TrainConfig
from vpo.training.examples import Example, ExampleGroup
from vpo.training.trainer import PolicyTrainer

TEMPLATE = "{% for m in messages %}{{ m['content'] }}<|im_end|>{% endfor %}"  # an end of turn that is no token


@pytest.mark.parametrize("template", [None, TEMPLATE])
def test_a_policy_that_is_taught_to_end_ends_here_and_where_it_is_served(template, tmp_path) -> None:
    torch.set_num_threads(1)
    tokenizer = tiny_tokenizer()
    tokenizer.unk_token = tokenizer.pad_token = tokenizer.eos_token
    tokenizer.chat_template = template
    policy = TransformersPolicy(tiny_model(), tokenizer, version="tiny", max_tokens=12, threads=1)
    prompts = [Prompt("w5 w6 w7", stream=0), Prompt("w9", stream=1)]
    rows = [encode_answer(tokenizer, policy.stops, text) for text in ("w20 w21 w22", "w30")]
    config = TrainConfig(method="improve", lr=1e-2, precision="fp32", kl=0.0)
    trainer = PolicyTrainer(policy.model, tokenizer, config)
    groups = [
        ExampleGroup(policy.encode(prompt), (Example(ids, None, np.ones(len(ids), np.float32)),), 1.0)
        for prompt, ids in zip(prompts, rows, strict=True)
    ]
    for _ in range(25):
        trainer.step_on_examples(groups)
    policy.model.eval()
    sampled = asyncio.run(policy.sample(prompts, rollouts=8, answers=1, seed=0))
    assert [rollout.finish for group in sampled for rollout in group].count("length") == 0
    policy.model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert load_text(str(tmp_path), None, "tiny")[0].stops == policy.stops == {tokenizer.eos_token_id}
