"""Checkpoints on disk: complete or not there, loadable by transformers, an adapter merged."""

import json
import os
from pathlib import Path

import pytest
import torch
from support.training_samples import tiny_model, tiny_tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from problems.contract import BadAddress
from vpo.policies.checkpoint import fingerprint, load_adapter
from vpo.policies.registry import policy_at
from vpo.training import TrainingStopped, checkpoint
from vpo.training.checkpoint import TRAINER_STATE, load_state, replace_directory, save_checkpoint
from vpo.training.config import LoraSettings, TrainConfig
from vpo.training.model import drop_adapter, make_trainable, save_adapter, with_adapter


def test_a_checkpoint_is_an_ordinary_directory_with_its_card_and_state(tmp_path):
    model, tokenizer = tiny_model(), tiny_tokenizer()
    save_checkpoint(model, tokenizer, tmp_path / "one", "# card", {"steps": 3, "moments": [torch.ones(2)]})
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "one")
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), loaded.parameters(), strict=True))
    assert AutoTokenizer.from_pretrained(tmp_path / "one")("w5 w6").input_ids == [5, 6]
    assert (tmp_path / "one" / "README.md").read_text() == "# card"
    state = load_state(tmp_path / "one")
    assert state["steps"] == 3 and torch.equal(state["moments"][0], torch.ones(2))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one"]
    named = (tmp_path / "one" / "tokenizer_config.json").read_text()
    assert '"PreTrainedTokenizerFast"' in named, "as every version of the library knows it"


@pytest.mark.parametrize("data", [b"", b"PK\3\4 cut off", b"\x80\x02X", b"\0" * 300])
def test_a_damaged_state_is_one_line(tmp_path, data):
    (tmp_path / TRAINER_STATE).write_bytes(data)
    with pytest.raises(BadAddress, match=f"{TRAINER_STATE} is damaged; remove") as raised:
        load_state(tmp_path)
    assert "\n" not in str(raised.value)
    torch.save([1, 2], tmp_path / TRAINER_STATE)
    with pytest.raises(BadAddress, match="is damaged"):
        load_state(tmp_path)


def test_what_fails_half_way_leaves_the_old_one(tmp_path):
    target = tmp_path / "one"
    target.mkdir()
    (target / "model").write_text("old")

    def broken(place):
        (place / "model").write_text("new")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        replace_directory(target, broken)
    assert (target / "model").read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one"]


@pytest.mark.parametrize("moves", [0, 1, 2])
def test_a_kill_never_leaves_new_weights_with_an_old_state(tmp_path, moves):
    target = tmp_path / "one"

    def write(text):
        replace_directory(target, lambda place: [(place / name).write_text(text) for name in ("model", TRAINER_STATE)])

    write("old")
    if not (child := os.fork()):
        left = iter(range(moves))
        move = Path.rename

        def killed(path, to):
            if next(left, None) is None:
                os._exit(9)
            return move(path, to)

        Path.rename = Path.replace = killed
        write("new")
        os._exit(0)
    os.waitpid(child, 0)
    found = target if target.exists() else tmp_path / "one.replaced"
    kept = {(found / name).read_text() for name in ("model", TRAINER_STATE)}
    assert kept in ({"old"}, {"new"})
    with pytest.raises(ZeroDivisionError):  # the next one fails: what was left is put back first
        replace_directory(target, lambda place: 1 / 0)
    assert {(target / name).read_text() for name in ("model", TRAINER_STATE)} == kept
    write("newer")
    assert (target / "model").read_text() == "newer"
    assert [path.name for path in tmp_path.iterdir() if ".writing-" not in path.name] == ["one"]


def test_a_full_disk_is_one_line_and_leaves_the_old_one(disk):
    folder = disk("1m")
    model, tokenizer = tiny_model(), tiny_tokenizer()
    save_checkpoint(model, tokenizer, folder / "one", "# card", {"steps": 3})
    before = {file.name: file.read_bytes() for file in (folder / "one").iterdir()}
    large = torch.nn.Parameter(torch.ones(1 << 18))  # of 1 MiB
    for name in ("one", "two"):
        for broken, state in ((model, {"large": large.detach()}), (tiny_model(), {})):
            if not state:
                broken.register_parameter("large", large)
            with pytest.raises(OSError, match="Disk full") as caught:
                save_checkpoint(broken, tokenizer, folder / name, "# card", state)
            assert "\n" not in str(caught.value)
            assert {file.name: file.read_bytes() for file in (folder / "one").iterdir()} == before
            assert [place.name for place in folder.iterdir()] == ["one"]


def test_a_directory_that_holds_other_things_keeps_them(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("{}")
    save_checkpoint(tiny_model(), tiny_tokenizer(), tmp_path, "# final")
    assert (tmp_path / "metrics.jsonl").read_text() == "{}"
    assert (tmp_path / "model.safetensors").exists() and not (tmp_path / TRAINER_STATE).exists()


def test_an_adapter_is_merged_into_an_ordinary_checkpoint(tmp_path):
    pytest.importorskip("peft", reason="adapters need peft")
    plain = tiny_model()
    plain.save_pretrained(tmp_path / "base")
    tiny_tokenizer().save_pretrained(tmp_path / "base")
    model = with_adapter(tiny_model(), LoraSettings(lora_rank=2), seed=0)
    model.peft_config["default"].base_model_name_or_path = "base"
    model.config.evo_dialect = "tuned"
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.fill_(0.05)
    for _ in range(2):  # the second replaces the first
        save_checkpoint(model, tiny_tokenizer(), tmp_path / "one", "")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "one")
    ids = torch.arange(2, 12)[None]
    with torch.inference_mode():
        expected, found, before = (m(ids).logits for m in (model, loaded, plain))
    assert torch.allclose(found, expected, atol=1e-5)
    assert not torch.allclose(found, before, atol=1e-3)
    (tmp_path / "one" / "adapter").rename(tmp_path / "two")  # beside its base
    policy = policy_at(str(tmp_path / "two"))
    assert policy.prompt_format == "tuned"  # which its base, a chat model, does not name
    with torch.inference_mode():
        assert torch.allclose(policy.model(ids).logits, expected, atol=1e-5)


def test_a_training_that_has_not_ended_is_the_policy_of_its_newest_checkpoint(tmp_path: Path) -> None:
    for step in (5, 10):
        save_checkpoint(tiny_model(seed=step), tiny_tokenizer(), tmp_path / "checkpoints" / f"step-{step:06d}", "card")
    (tmp_path / "checkpoints" / "step-000015.writing-1").mkdir()
    found = policy_at(str(tmp_path))
    assert found.model.state_dict()["lm_head.weight"].equal(tiny_model(seed=10).state_dict()["lm_head.weight"])


def test_quantised_weights_are_not_trained() -> None:
    model = tiny_model()
    model.is_quantized = True
    with pytest.raises(BadAddress, match="train the model they were made from"):
        make_trainable(model, TrainConfig())


def random_adapter(model, targets, **settings):
    """The model with an adapter as peft makes one, its weights far from 0, so that its logits move by several units."""
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    config = peft.LoraConfig(r=2, target_modules=targets, task_type="CAUSAL_LM", **settings)
    adapted = peft.get_peft_model(model, config).eval()
    for name, weight in adapted.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(weight, std=0.2)
    return adapted


IDS = torch.arange(2, 30)[None]


@pytest.mark.parametrize("targets", [["lm_head"], ["embed_tokens"], ["lm_head", "embed_tokens"], "all-linear"])
@pytest.mark.parametrize("kind", ["Qwen2", "Llama"])  # with one matrix for both uses of the tokens, and with two
@pytest.mark.filterwarnings("ignore")
def test_a_loaded_adapter_is_the_one_that_was_saved(tmp_path, kind, targets):
    model = tiny_model(kind)
    expected_before = model(IDS).logits.detach()
    adapted = random_adapter(tiny_model(kind), targets)
    expected = adapted(IDS).logits.detach()
    assert (expected - expected_before).abs().max() > 1
    save_adapter(adapted, tmp_path / "adapter")
    if kind == "Qwen2" and targets != "all-linear":
        with pytest.raises(BadAddress, match="token embeddings that its base uses twice"):
            load_adapter(model, str(tmp_path / "adapter"))
        return
    merged = load_adapter(model, str(tmp_path / "adapter"))
    torch.testing.assert_close(merged(IDS).logits, expected, rtol=1e-4, atol=1e-3)
    save_checkpoint(merged, tiny_tokenizer(), tmp_path / "whole", "", check=True)
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "whole")
    torch.testing.assert_close(again(IDS).logits, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("part", ["policy", "adapter"])
def test_a_policy_that_is_not_the_trained_one_is_not_put_in_place(tmp_path, monkeypatch, part):
    model = random_adapter(tiny_model(), "all-linear")
    save_checkpoint(model, tiny_tokenizer(), tmp_path / "one", "first", check=True)
    before = (tmp_path / "one" / "model.safetensors").read_bytes()
    if part == "policy":
        monkeypatch.setattr(checkpoint, "merge_adapter", drop_adapter)
    else:
        monkeypatch.setattr(checkpoint, "save_adapter", save_other_scale)
    with pytest.raises(TrainingStopped, match=f"the saved {part} differs from the trained one by"):
        save_checkpoint(model, tiny_tokenizer(), tmp_path / "one", "second", check=True)
    assert (tmp_path / "one" / "README.md").read_text() == "first"
    assert (tmp_path / "one" / "model.safetensors").read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one"]


def change_config(folder, **changes):
    file = folder / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def save_other_scale(model, folder):
    save_adapter(model, folder)
    change_config(folder, lora_alpha=32)  # four times the default


def test_the_version_of_an_adapter_names_its_scale_and_not_where_its_base_is(tmp_path):
    save_adapter(random_adapter(tiny_model(), ["q_proj", "v_proj"]), tmp_path)
    before = fingerprint(str(tmp_path))
    change_config(tmp_path, base_model_name_or_path="/elsewhere", peft_version="9", inference_mode=False)
    change_config(tmp_path, target_modules=["v_proj", "q_proj"])
    assert fingerprint(str(tmp_path)) == before
    change_config(tmp_path, target_modules=["q_proj", "v_proj"])
    assert fingerprint(str(tmp_path)) == before
    change_config(tmp_path, lora_alpha=16)
    doubled = fingerprint(str(tmp_path))
    change_config(tmp_path, lora_alpha=8, use_rslora=True)
    assert len({before, doubled, fingerprint(str(tmp_path))}) == 3
