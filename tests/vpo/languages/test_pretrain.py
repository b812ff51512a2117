"""Lessons, a tiny pretraining, and the files that come of it."""

import json
import math
import random

import pytest

from problems.contract import BadAddress
from problems.maze.sets import held_out_tiles
from vpo.languages import maze_lessons
from vpo.languages import pretrain as pretraining
from vpo.languages.contract import checkpoint_path, dialect_of, open_dialect, shipped
from vpo.languages.maze import CHECKPOINTS
from vpo.languages.maze_lessons import Lessons, mutate_route
from vpo.languages.maze_words import DIALECT, EDIT_DIALECT, size_of, vocabulary
from vpo.languages.maze_words import decode_chain as routes
from vpo.policies.registry import policy_at
from vpo.training.config import TrainConfig

pytestmark = pytest.mark.usefixtures("one_thread")


def test_lessons_are_the_same_for_a_seed_and_speak_the_language():
    first, again, other = (Lessons(seed, frozenset()).batch(60) for seed in (1, 1, 2))
    assert first == again != other
    known = set(vocabulary(DIALECT))
    assert all(set(lesson.prompt + lesson.chain) <= known for lesson in first)
    for lesson in first:
        asked = int(lesson.prompt[-1][1:])
        assert len(routes(" ".join(lesson.chain[:-1]))) == asked
    assert {int(lesson.prompt[-1][1:]) for lesson in first} == {1, 2, 3, 4, 5}
    assert 10 < sum("par" in lesson.prompt for lesson in first) < 40
    assert any("fail" in lesson.prompt for lesson in Lessons(3, frozenset()).batch(200))


@pytest.mark.long
def test_held_out_boards_are_not_learned_from():
    plain = Lessons(4, frozenset())
    plain.batch(20)
    boards = [planner.maze.tiles for planner in plain._pool]
    assert not held_out_tiles() & set(boards)
    wary = Lessons(4, held_out=frozenset(boards[:5]))
    wary.batch(20)
    assert not set(boards[:5]) & {planner.maze.tiles for planner in wary._pool}


@pytest.mark.parametrize(("share", "large"), [(0.0, 0), (1.0, 40)])
def test_lessons_have_the_share_of_large_boards_that_is_asked_for(share, large):
    lessons = Lessons(3, frozenset(), EDIT_DIALECT, share).batch(40)
    assert sum("c" in "".join(lesson.prompt[:2]) for lesson in lessons) == large  # S and E are corners, as in S0c


def test_most_answers_take_after_their_parent():
    lessons, rng = Lessons(5, frozenset()), random.Random(0)
    lessons.batch(10)
    alike = chance = 0
    for planner in lessons._pool * 20:
        parent, stranger = planner.route(rng), planner.route(rng)
        child = mutate_route(planner, parent, rng)
        assert child[0] == planner.maze.start and child[-1] == planner.maze.end
        assert len(child) - 1 <= planner.maze.budget
        alike += len(set(child) & set(parent)) / len(set(child))
        chance += len(set(child) & set(stranger)) / len(set(child))
    assert alike > 1.3 * chance


def test_lessons_of_edits_are_valid_routes_that_keep_most_of_the_parent_on_boards_of_both_sizes():
    first, again = (Lessons(5, frozenset(), EDIT_DIALECT).batch(200) for _ in range(2))
    assert first == again
    known = set(vocabulary(EDIT_DIALECT))
    answers = copies = large = 0
    for lesson in first:
        prompt, chain = " ".join(lesson.prompt), " ".join(lesson.chain)
        assert set(lesson.prompt + lesson.chain) <= known and len(lesson.prompt) + len(lesson.chain) < 512
        written = routes(chain, prompt)
        assert len(written) == int(lesson.prompt[-1][1:])
        large += size_of(prompt) == 13
        if "par" in lesson.prompt:
            answers += len(written)
            copies += sum("k" in answer or "=" in answer for answer in chain.split(">")[1:])
    assert 120 < sum("par" in lesson.prompt for lesson in first) < 180 and 50 < large < 110
    assert 0.9 < copies / answers < 1.0  # a parent that was cut at its first steps leaves little to keep


@pytest.fixture
def tiny(monkeypatch):
    """Few lessons a step, of any boards."""
    settings = {"_BATCH": 4, "_SORT_OVER": 2, "_WARM_UP": 2, "_OPTIMIZER": TrainConfig(lr=1e-2)}
    for name, value in settings.items():
        monkeypatch.setattr(pretraining, name, value)
    monkeypatch.setattr(maze_lessons, "held_out_tiles", frozenset)


def test_a_tiny_pretraining_learns_and_repeats(tmp_path, tiny):
    losses = []
    for name in "ab":
        report = lambda step, loss: losses.append((step, loss))  # noqa: E731
        pretraining.pretrain(tmp_path / name, steps=12, width=32, layers=1, heads=2, report=report)
    assert losses[0] == losses[1] and losses[0][0] == 12 and losses[0][1] < math.log(len(vocabulary(DIALECT))) - 0.5
    a, b = ((tmp_path / name / "model.safetensors").read_bytes() for name in "ab")
    assert a == b
    policy = policy_at(str(tmp_path / "a"))
    assert policy.prompt_format == "maze-compact" and policy.tokenizer.vocab_size == len(vocabulary(DIALECT))
    assert "steps 12" in (tmp_path / "a" / "README.md").read_text()


def test_the_command_refuses_settings_without_sense(tmp_path, tiny, capsys):
    for wrong in (["--width", "30"], ["--steps", "0"], ["--language", "klingon"]):
        with pytest.raises(SystemExit, match="2"):
            pretraining.pretrain_command([str(tmp_path), *wrong])
    assert "even multiple" in capsys.readouterr().err
    again = [str(tmp_path / "a"), "--steps", "2", "--width", "32", "--layers", "1"]
    assert pretraining.pretrain_command(again) == 0
    with pytest.raises(SystemExit, match="2"):
        pretraining.pretrain_command(again)


def test_only_what_ships_has_an_address():
    assert {path.name for path in CHECKPOINTS.iterdir()} == {"base", "edit-solve", "grpo", "vpo"} <= shipped().keys()
    assert checkpoint_path("embedded:base") == checkpoint_path("base") == CHECKPOINTS / "base"
    for name in ("embedded:none", "embedded:", "embedded:../embedded", "embedded:base/.."):
        with pytest.raises(BadAddress, match="embedded:base"):
            checkpoint_path(name)
    with pytest.raises(BadAddress, match="no policy embedded:edit-improve ships with this version; there is"):
        checkpoint_path("edit-improve")


def test_a_folder_without_the_mark_speaks_english(tmp_path):
    assert dialect_of(tmp_path) == "chat"
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen2"}))
    assert dialect_of(tmp_path) == "chat"


@pytest.mark.parametrize("name", sorted(shipped()))
def test_a_shipped_policy_is_small_and_complete(name):
    folder = checkpoint_path(name)
    files = {path.name: path.stat().st_size for path in folder.iterdir()}
    needed = {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"}
    assert needed | {"model.safetensors", "README.md"} <= set(files)
    assert sum(files.values()) <= 12e6
    assert open_dialect(dialect_of(folder)).checkpoints[name] == folder
    settings = json.loads((folder / "generation_config.json").read_text())
    assert settings["top_k"] == 0 and settings["do_sample"]  # transformers would cut to the 50 likeliest otherwise
