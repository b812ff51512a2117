"""`evo train` from start to checkpoint: what it writes, that it learns, resumes exactly, and obeys its budgets."""

import json
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from support.child_processes import begin as begin_child
from support.child_processes import wait_until
from support.training_runs import SMALL_POLICY, read_metrics, trained, weights

from evo.cli import invoke
from evo.config.parse import parse
from evo.config.train import TrainRun
from evo.errors import BadInput
from evo.runs.preflight import prompt_format_at
from evo.training.directory import TrainingDirectory
from evo.training.setup import begin_training as begin
from evo.training.setup import resume_training as resume
from vpo.policies.registry import policy_at
from vpo.training.config import LoraSettings, TrainConfig
from vpo.training.model import with_adapter

SMALL = {
    **{"policy": SMALL_POLICY, "problems": ["maze:train/0-7"], "prompts": 2, "rollouts": 4, "lr": 1e-3, "kl": 0.01},
    **{"precision": "fp32", "parents": 0.5, "save_every": 2},
    **{"evaluate": ["maze:train/20-21"], "evaluate_answers": 3, "evaluate_every": 2},
}
FLAGS = [
    *["--policy", SMALL_POLICY],
    *["--prompts", "2", "--rollouts", "4", "--lr", "1e-3", "--precision", "fp32", "--save-every", "2", "--plain"],
]

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_thread")]


def settings(**changes):
    return parse(TrainRun, {**SMALL, "method": "vpo", "steps": 4, **changes}, "a test")


def test_a_run_leaves_a_policy_a_card_and_its_figures(tmp_path):
    assert trained(begin(settings(policy="embedded:base"), str(tmp_path / "out"), "evo train ...")) == ""
    out = tmp_path / "out"
    steps, evaluations = read_metrics(out, "step"), read_metrics(out, "evaluation")
    assert [line["step"] for line in steps] == [1, 2, 3, 4]
    assert [line["step"] for line in evaluations] == [0, 2, 4]
    assert steps[-1]["answers"] == 4 * 2 * 4 * 3
    assert 0 < evaluations[-1]["best@1"] <= evaluations[-1]["best@3"] <= 1
    assert all(line["kl"] >= 0 for line in steps)
    assert steps[0]["kl"] == pytest.approx(0, abs=1e-6)
    assert steps[-1]["kl"] > 1e-4
    card = (out / "README.md").read_text()
    assert "# vpo from embedded:base@" in card
    assert "maze:train/20-21, 3 answers a problem in chains of 3" in card
    assert invoke(["evaluate", "maze:train/20", "--policy", str(out), "--answers-total", "3", "--json"]) == 0
    base = load_file(Path("vpo/languages/checkpoints/base/model.safetensors").resolve())
    moved = weights(out)
    assert all(not torch.equal(moved[name], base[name]) for name in base)


def test_one_seed_gives_one_policy_and_another_seed_another(tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        trained(begin(settings(steps=2, seed=seed, evaluate=[]), str(tmp_path / name), ""))
    a, b, c = (weights(tmp_path / name) for name in "abc")
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not all(torch.equal(a[name], c[name]) for name in a)
    assert read_metrics(tmp_path / "a", "step") == read_metrics(tmp_path / "b", "step")


@pytest.mark.parametrize(
    "changes",
    [
        {"schedule": "cosine"},
        {"schedule": "cosine", "lora_rank": 4},
        {"lora_rank": 4, "dtype": "bfloat16", "precision": "bf16", "evaluate": []},
        # few problems, asked again at every step, so that most prompts after the first step show a parent
        {"parents_from": "archive", "problems": ["maze:train/0-1"], "parents": 1.0, "evaluate": []},
    ],
    ids=["whole", "adapter", "adapter of bfloat16", "archives"],
)
def test_a_stopped_run_resumes_as_if_it_had_not_been(tmp_path, changes):
    if "lora_rank" in changes:
        pytest.importorskip("peft", reason="adapters need peft")
    run = settings(**changes)
    trained(begin(run, str(tmp_path / "whole"), ""))
    assert trained(begin(run, str(tmp_path / "cut"), ""), stop_after=3) == "interrupted"
    assert not (tmp_path / "cut" / "config.json").exists()
    assert trained(resume(str(tmp_path / "cut"), {})) == ""
    whole, cut = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    assert all(torch.equal(whole[name], cut[name]) for name in whole)
    for kind in ("step", "evaluation"):
        assert read_metrics(tmp_path / "whole", kind) == read_metrics(tmp_path / "cut", kind)
    assert (tmp_path / "cut" / "adapter").exists() == ("lora_rank" in changes)
    steps = read_metrics(tmp_path / "cut", "step")
    if "dtype" in changes:
        assert {weight.dtype for weight in whole.values()} == {torch.bfloat16}
        adapter = load_file(tmp_path / "whole" / "adapter" / "adapter_model.safetensors")
        assert {weight.dtype for weight in adapter.values()} == {torch.float32}
        assert any(weight.any() for name, weight in adapter.items() if "lora_B" in name)
        assert steps[0]["kl"] == pytest.approx(0, abs=1e-6), "the first step begins where training started"
    elif "lora_rank" in changes:
        check_adapter(tmp_path / "cut")
    elif "parents_from" in changes:
        assert "kept" not in steps[0]
        assert all(0 <= line[name] <= 1 for line in steps[1:] for name in ("kept", "copied", "refined"))


def check_adapter(folder):
    """Moved elsewhere, the adapter of a training is the policy of its checkpoint, and can be trained again."""
    adapter = (folder / "adapter").rename(folder.parent / "moved")
    files = {file.name for file in adapter.iterdir()}
    assert files == {"adapter_config.json", "adapter_model.safetensors", "README.md", "evo.json"}
    assert json.loads((adapter / "adapter_config.json").read_text())["base_model_name_or_path"] == SMALL_POLICY
    policy, whole = policy_at(str(adapter)), policy_at(str(folder))
    assert policy.prompt_format == whole.prompt_format == prompt_format_at(str(adapter)) != "chat"
    assert policy.version != whole.version
    for name, weight in whole.model.state_dict().items():
        torch.testing.assert_close(policy.model.state_dict()[name], weight, rtol=0, atol=1e-6)
    again = with_adapter(policy.model, LoraSettings(lora_rank=2), 0)
    assert again.peft_config["default"].base_model_name_or_path == str(adapter)


def test_options_of_the_address_decide_the_prompts_and_outlive_a_resume(tmp_path):
    """Few problems, so that a step asks again what the step before answered; every prompt has a parent from then on."""
    policy = f"{SMALL_POLICY}?temperature=0.7&fresh=0"
    run = settings(policy=policy, parents=0.0, problems=["maze:train/0-1"], evaluate=[], steps=3, save_every=1)

    begun = begin(run, str(tmp_path / "cut"), "")
    assert begun.policy.temperature == 0.7
    first = asked(begun)
    trained(begun, stop_after=2)
    again = resume(str(tmp_path / "cut"), {})
    assert again.policy.temperature == 0.7
    rest = asked(again)
    trained(again)
    shown = [any(" par " in prompt.user for prompt in step) for step in first + rest]
    assert shown == [False, True, True]
    whole = begin(run, str(tmp_path / "whole"), "")
    every = asked(whole)
    trained(whole)
    assert every == first + rest


def asked(training):
    """A list that comes to hold every step's prompts."""
    steps, step = [], training.trainer.step
    training.trainer.step = lambda groups: steps.append([group.prompt for group in groups]) or step(groups)
    return steps


def test_what_was_logged_after_the_last_checkpoint_is_done_again(tmp_path):
    trained(begin(settings(evaluate=[]), str(tmp_path), ""), stop_after=2)
    record = TrainingDirectory(tmp_path)
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(b'\xff\xfe{\0\n[3]\n{"lost": 1}\n{"kind": "step", "step": 3, "lost": true}\n')  # a damaged disk
        file.write(b'{"kind": "step", "st')  # a kill in mid-line
    assert trained(resume(str(tmp_path), {})) == ""
    assert [line["step"] for line in read_metrics(tmp_path, "step")] == [1, 2, 3, 4]
    assert not any("lost" in line for line in read_metrics(tmp_path, "step"))
    assert len(record.checkpoints()) == 2


def test_budgets_end_a_run_early_and_a_resume_may_raise_them(tmp_path):
    reason = trained(begin(settings(max_answers=2 * 24, evaluate=[]), str(tmp_path / "a"), ""))
    assert reason == "budget of 48 answers"
    assert len(read_metrics(tmp_path / "a", "step")) == 2
    assert trained(resume(str(tmp_path / "a"), {"max_answers": 1000, "steps": 3})) == ""
    assert len(read_metrics(tmp_path / "a", "step")) == 3
    assert "seconds" in trained(begin(settings(max_seconds=1e-6, evaluate=[]), str(tmp_path / "b"), ""))
    assert len(read_metrics(tmp_path / "b", "step")) == 1


def test_replies_that_the_token_limit_cuts_are_told_once(tmp_path):
    with pytest.warns(UserWarning, match="the token limit cut 100% of the replies") as told:
        trained(begin(settings(max_new_tokens=4, steps=2, evaluate=[]), str(tmp_path / "a"), ""))
    assert len([one for one in told if "token limit" in str(one.message)]) == 1
    assert [(step["length"], step["cut"]) for step in read_metrics(tmp_path / "a", "step")] == [(4.0, 1.0)] * 2


def test_every_method_takes_a_step(tmp_path):
    from vpo.advantage import METHODS

    for method, row in METHODS.items():
        if row.success:
            continue  # they need goals: test_solving_is_rewarded_from_a_stored_search
        run = parse(
            TrainRun, {**SMALL, "method": method, "steps": 1, "evaluate": [], "rollouts": 6, "kl": 0.0}, "a test"
        )
        trained(begin(run, str(tmp_path / method), ""))
        (step,) = read_metrics(tmp_path / method, "step")
        assert step["grad_norm"] > 0, method


def test_training_on_two_mazes_raises_their_reward(tmp_path):
    slow = {"lr": 3e-4, "warm_up": 3, "parents": 0.0, "kl": 0.0, "evaluate": []}
    trained(begin(settings(problems=["maze:train/0-1"], steps=15, rollouts=12, **slow), str(tmp_path), ""))
    best = [line["best_of_rollout"] for line in read_metrics(tmp_path, "step")]
    assert sum(best[-3:]) > sum(best[:3]) + 0.15


def test_the_same_command_continues_one_that_is_done_changes_nothing_and_another_is_refused(tmp_path):
    """The learning rate, which is not given, suits the policy."""
    run, out = settings(evaluate=[], lr=None), str(tmp_path)
    assert trained(begin(run, out, ""), stop_after=3) == "interrupted"
    assert trained(begin(run, out, "")) == ""
    done, lines = weights(tmp_path), read_metrics(tmp_path)
    assert trained(begin(run, out, "")) == ""
    assert read_metrics(tmp_path) == lines and [line["step"] for line in lines] == [1, 2, 3, 4]
    assert all(torch.equal(weights(tmp_path)[name], done[name]) for name in done)
    assert lines[0]["learning_rate"] == 2.5e-4 and TrainConfig.of(run).learning_rate == 1e-6
    assert json.loads((tmp_path / "train.json").read_text())["config"]["lr"] == 2.5e-4
    assert trained(begin(settings(evaluate=[], lr=None, steps=5), out, "")) == ""  # a budget may be raised
    assert len(read_metrics(tmp_path)) == 5
    with pytest.raises(BadInput, match=r"holds a training run with another kl \(0.01, not 0.1\)"):
        begin(settings(evaluate=[], lr=None, steps=5, kl=0.1), out, "")
    (tmp_path / "train.json").unlink()
    with pytest.raises(BadInput, match="holds a checkpoint already"):
        begin(run, out, "")


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path):
    arguments = ["train", "vpo", "maze:train/0-7", "--steps", "500", "-o", "out", *FLAGS]
    process = begin_child(*arguments, cwd=tmp_path)
    metrics = tmp_path / "out" / "metrics.jsonl"
    wait_until(lambda: metrics.exists() and metrics.stat().st_size > 0, process)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Resume with: evo train --resume out" in out
    steps = read_metrics(tmp_path / "out", "step")
    assert trained(resume(str(tmp_path / "out"), {"steps": len(steps) + 1})) == ""
    assert len(read_metrics(tmp_path / "out", "step")) == len(steps) + 1


def test_a_loss_that_is_not_finite_ends_with_one_line_and_the_batch_saved(tmp_path, here, monkeypatch, capsys):
    from vpo.training import trainer

    usual = trainer.policy_loss

    def broken(*arguments, **options):
        value, metrics = usual(*arguments, **options)
        return value * float("nan"), metrics

    monkeypatch.setattr(trainer, "policy_loss", broken)
    assert invoke(["train", "vpo", "maze:train/0-3", "--steps", "2", "-o", "out", *FLAGS]) == 1
    error = capsys.readouterr().err
    assert "training stopped at step 1: loss nan" in error
    assert error.count("\n") == 1
    assert (tmp_path / "out" / "diverged-step-1.pt").exists()
