"""Lessons, a tiny pretraining, and the files that come of it."""

import asyncio
import hashlib
import json
import math
import random
from dataclasses import replace

import pytest

from problems.contract import BadAddress
from problems.maze import problem_set, simulate
from problems.maze.planner import moves_between
from problems.maze.sets import held_out_tiles
from vpo.embedded import checkpoint_path, dialect_of, prompt_text, routes, shipped
from vpo.embedded.checkpoint import LARGEST_MB, RETIRED, SHIPPED, build_model, fill
from vpo.embedded.dialects import open_dialect
from vpo.embedded.fidelity import cases, of_policy
from vpo.embedded.language import encode_edit, encode_prompt
from vpo.embedded.lessons import Lessons, edit, mutate
from vpo.embedded.pretrain import pretrain
from vpo.embedded.pretrain_config import PretrainConfig, PretrainProgress, make_config
from vpo.embedded.words import EDIT_DIALECT, MOST_NEW, size_of, vocabulary

TINY = PretrainConfig(
    steps=20, width=32, layers=1, heads=2, batch=8, sort_over=2, warm_up=2, learning_rate=1e-2, measured=0
)

pytestmark = pytest.mark.usefixtures("one_thread")


def test_lessons_are_the_same_for_a_seed_and_speak_the_language():
    first, again, other = (Lessons(seed).batch(60) for seed in (1, 1, 2))
    assert first == again != other
    known = set(vocabulary())
    assert all(set(lesson.prompt + lesson.chain) <= known for lesson in first)
    for lesson in first:
        asked = int(lesson.prompt[-1][1:])
        assert len(routes(" ".join(lesson.chain[:-1]))) == asked
    assert {int(lesson.prompt[-1][1:]) for lesson in first} == {1, 2, 3, 4, 5}
    assert 10 < sum("par" in lesson.prompt for lesson in first) < 40
    assert any("fail" in lesson.prompt for lesson in Lessons(3).batch(200))


@pytest.mark.long
def test_held_out_boards_are_not_learned_from():
    plain = Lessons(4)
    plain.batch(20)
    boards = [planner.maze.tiles for planner in plain._pool]
    assert not held_out_tiles() & set(boards)
    wary = Lessons(4, held_out=frozenset(boards[:5]))
    wary.batch(20)
    assert not set(boards[:5]) & {planner.maze.tiles for planner in wary._pool}


def test_most_answers_take_after_their_parent():
    lessons, rng = Lessons(5), random.Random(0)
    lessons.batch(10)
    alike = chance = 0
    for planner in lessons._pool * 20:
        parent, stranger = planner.route(rng), planner.route(rng)
        child = mutate(planner, parent, rng)
        assert child[0] == planner.maze.start and child[-1] == planner.maze.end
        assert len(child) - 1 <= planner.maze.budget
        alike += len(set(child) & set(parent)) / len(set(child))
        chance += len(set(child) & set(stranger)) / len(set(child))
    assert alike > 1.3 * chance


def test_lessons_of_edits_are_valid_routes_that_keep_most_of_the_parent():
    lessons = Lessons(5, dialect=EDIT_DIALECT)
    first, again = lessons.batch(200), Lessons(5, dialect=EDIT_DIALECT).batch(200)
    assert first == again
    known = set(vocabulary(EDIT_DIALECT))
    assert all(set(lesson.prompt + lesson.chain) <= known for lesson in first)
    with_parent = [lesson for lesson in first if "par" in lesson.prompt]
    assert 120 < len(with_parent) < 180
    answers = copies = 0
    for lesson in first:
        prompt, chain = " ".join(lesson.prompt), " ".join(lesson.chain)
        written = routes(chain, prompt)
        assert len(written) == int(lesson.prompt[-1][1:])
        if "par" in lesson.prompt:
            answers += len(written)
            copies += sum("k" in answer or "=" in answer for answer in chain.split(">")[1:])
    assert 0.9 < copies / answers < 1.0  # a parent that was cut at its first steps leaves little to keep


def test_lessons_on_boards_of_both_sizes():
    lessons = Lessons(5, dialect=EDIT_DIALECT, large_share=0.5).batch(200)
    known = set(vocabulary(EDIT_DIALECT))
    for lesson in lessons:
        assert set(lesson.prompt + lesson.chain) <= known
        assert len(routes(" ".join(lesson.chain), " ".join(lesson.prompt))) == int(lesson.prompt[-1][1:])
        assert len(lesson.prompt) + len(lesson.chain) < 512
    large = sum(size_of(" ".join(lesson.prompt)) == 13 for lesson in lessons)
    assert 70 < large < 130
    small = Lessons(5, dialect=EDIT_DIALECT).batch(200)
    assert all(size_of(" ".join(lesson.prompt)) == 9 for lesson in small)


def test_a_checkpoint_with_fewer_words_is_taken_on(tmp_path):
    """As one of maze-edit from before it had words for large boards."""
    import torch
    from transformers import AutoModelForCausalLM

    old = build_model(32, 1, 2, 0, EDIT_DIALECT)
    words = vocabulary(EDIT_DIALECT).index("+32") + 1
    old.resize_token_embeddings(words)
    old.save_pretrained(tmp_path)
    new = build_model(32, 1, 2, 1, EDIT_DIALECT)
    untouched = new.lm_head.weight[words:].clone()
    fill(new, tmp_path)
    saved = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    assert len(new.lm_head.weight) == len(vocabulary(EDIT_DIALECT)) > len(saved.lm_head.weight) == words
    assert torch.equal(new.lm_head.weight[:words], saved.lm_head.weight)
    assert torch.equal(new.lm_head.weight[words:], untouched)


def test_an_edit_is_written_as_it_is_applied():
    rng, lessons = random.Random(0), Lessons(5)
    lessons.batch(10)
    middles = beginnings = ends = 0
    for planner in lessons._pool * 20:
        maze, parent = planner.maze, lessons._noisy(planner, planner.route(rng))[: planner.maze.budget + 1]
        found = edit(planner, parent, rng, MOST_NEW)
        if found is None:  # nothing that was tried fits the budget
            continue
        assert parent[-1] != maze.end or len(found.middle) - 1 <= MOST_NEW
        route = found.applied(parent)
        assert route != parent and route[-1] == maze.end and len(route) - 1 <= maze.budget
        prompt = encode_prompt(maze, moves_between(maze, parent), dialect=EDIT_DIALECT)
        assert routes(" ".join(encode_edit(parent, found)), prompt) == [moves_between(maze, route)]
        middles += bool(found.start) and found.end is not None
        beginnings += not found.start
        ends += found.end is None
    assert min(middles, beginnings, ends) > 10


def test_a_cut_parent_gets_a_new_end():
    rng, lessons = random.Random(0), Lessons(6)
    lessons.batch(5)
    for planner in lessons._pool:
        parent = planner.route(rng)[:-3]
        found = edit(planner, parent, rng)
        assert found is None or (found.end is None and found.applied(parent)[-1] == planner.maze.end)


@pytest.mark.long
def test_a_pretraining_goes_on_in_the_edit_language(tmp_path):
    pretrain(tmp_path / "base", TINY, held_out=frozenset())
    small = {"steps": 2, "width": 32, "layers": 1, "heads": 2, "batch": 4, "sort_over": 1, "measured": 2}
    config = make_config("maze-edit", str(tmp_path / "base"), 1e-9, **small)
    done = pretrain(tmp_path / "edit", config, held_out=frozenset())
    assert list(done.fidelity) == ["maze:train", "maze:compromise-train", "maze:large-train"]
    for kind, of in done.fidelity.items():
        assert of.shown.answers == of.unshown.answers == 24
        assert of.teacher.valid == 1.0 and of.teacher.kept > 0.4
        assert f"24 answers to mazes of {kind}:" in (tmp_path / "edit" / "README.md").read_text()
    said = (tmp_path / "edit" / "README.md").read_text()
    assert "`evo pretrain maze-edit` with: dialect maze-edit, start base, " in said and str(tmp_path) not in said
    assert dialect_of(tmp_path / "edit") == EDIT_DIALECT

    from transformers import AutoModelForCausalLM, AutoTokenizer

    old, new = (AutoModelForCausalLM.from_pretrained(tmp_path / name) for name in ("base", "edit"))
    words = len(vocabulary())
    assert AutoTokenizer.from_pretrained(tmp_path / "edit").vocab_size == len(vocabulary(EDIT_DIALECT)) > words
    before, after = old.get_input_embeddings().weight, new.get_input_embeddings().weight
    assert (before - after[:words]).abs().max() < 1e-4
    with pytest.raises(ValueError, match="another size"):
        pretrain(tmp_path / "x", replace(config, width=16), held_out=frozenset())


def test_what_pretraining_may_start_from():
    with pytest.raises(ValueError, match="no embedded policy"):
        make_config("maze", "/nowhere")
    with pytest.raises(BadAddress):
        make_config("maze", "embedded:none")
    with pytest.raises(ValueError, match="even multiple"):
        make_config("maze-edit", width=30, heads=4)
    with pytest.raises(ValueError, match="only maze-edit"):
        make_config("maze", large_share=0.1)
    assert make_config("maze").large_share == 0 < make_config("maze-edit").large_share


def test_a_tiny_pretraining_learns_and_repeats(tmp_path):
    seen: list[PretrainProgress] = []
    history = pretrain(tmp_path / "a", TINY, held_out=frozenset(), report=seen.append, every=5).history
    assert seen == history and [p.step for p in history] == [5, 10, 15, 20]
    assert history[0].loss < math.log(len(vocabulary())) + 1.5
    assert history[-1].loss < history[0].loss - 0.5
    pretrain(tmp_path / "b", TINY, held_out=frozenset())
    a, b = ((tmp_path / name / "model.safetensors").read_bytes() for name in "ab")
    assert hashlib.sha256(a).digest() == hashlib.sha256(b).digest()

    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(tmp_path / "a")
    assert AutoTokenizer.from_pretrained(tmp_path / "a").vocab_size == model.config.vocab_size == len(vocabulary())
    assert dialect_of(tmp_path / "a") == "maze-compact"
    assert "steps 20" in (tmp_path / "a" / "README.md").read_text()


def test_a_budget_of_seconds_ends_it(tmp_path):
    history = pretrain(tmp_path, replace(TINY, seconds=0.5), held_out=frozenset()).history
    assert history[-1].done == 1.0 and history[-1].seconds >= 0.5


def test_a_config_without_sense_is_refused(tmp_path):
    for wrong in (PretrainConfig(width=30, heads=4), PretrainConfig(steps=0)):
        with pytest.raises(ValueError, match="at least 1, width"):
            pretrain(tmp_path, wrong, held_out=frozenset())


def test_only_what_ships_has_an_address():
    names = ["base", "edit-improve", "edit-solve", "grpo", "vpo"]
    assert [path.name for path in sorted(SHIPPED.iterdir())] == names
    assert shipped() == sorted(shipped()) and {"base", "edit-solve", "grpo", "vpo"} <= set(shipped())
    assert checkpoint_path("embedded:base") == checkpoint_path("base") == SHIPPED / "base"
    for name in ("embedded:none", "embedded:", "embedded:../embedded", "embedded:base/.."):
        with pytest.raises(BadAddress, match="embedded:base"):
            checkpoint_path(name)
    for name in RETIRED:
        assert name not in shipped()
        with pytest.raises(BadAddress, match=f"embedded:{name} is no longer in the package; docs/guides/train.md"):
            checkpoint_path(name)
        assert f"`{name}`" in (SHIPPED.parents[2] / "docs" / "guides" / "train.md").read_text()


def test_a_folder_without_the_mark_speaks_english(tmp_path):
    assert dialect_of(tmp_path) == "chat"
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen2"}))
    assert dialect_of(tmp_path) == "chat"


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_policy_is_small_and_complete(name):
    folder = checkpoint_path(name)
    files = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "README.md",
    } <= set(files)
    assert sum(files.values()) <= LARGEST_MB * 1e6
    if folder.parent == SHIPPED:
        assert dialect_of(folder) == (EDIT_DIALECT if name.startswith("edit") else "maze-compact")
    else:
        assert open_dialect(dialect_of(folder)).checkpoints[name] == folder
    settings = json.loads((folder / "generation_config.json").read_text())
    assert settings["top_k"] == 0 and settings["do_sample"]  # transformers would cut to the 50 likeliest otherwise


def test_the_shipped_base_walks_mazes():
    """Greedy, it reaches E on most boards, none of which it ever saw."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = checkpoint_path("embedded:base")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    problems = problem_set("maze:test", 30)
    prompts = [prompt_text(problem, answers=2) for problem in problems]
    assert prompts[0] == encode_prompt(problems[0].maze, answers=2)
    asked = tokenizer(prompts, padding=True, return_tensors="pt", return_token_type_ids=False)
    with torch.inference_mode():
        out = model.generate(**asked, do_sample=False)
    texts = tokenizer.batch_decode(out[:, asked["input_ids"].shape[1] :], skip_special_tokens=True)
    chains = [routes(text) for text in texts]
    assert sum(len(chain) == 2 for chain in chains) >= 25
    reached = [simulate(p.maze, chain[0]).reached for p, chain in zip(problems, chains, strict=True) if chain]
    assert sum(reached) >= 18


@pytest.mark.long
@pytest.mark.parametrize(("kind", "kept"), [("maze:train", 0.5), ("maze:large-train", 0.4)])
def test_the_shipped_mutator_keeps_its_parents(kind, kept):
    from vpo.policies.registry import load_policy

    asked = cases(12, kind=kind)
    policy = load_policy("embedded:edit-improve", threads=1)

    async def measured():
        return await of_policy(policy, asked), await of_policy(policy, asked, shown=False)

    shown, unshown = asyncio.run(measured())
    asyncio.run(policy.close())
    assert shown.kept > kept and shown.kept > 1.5 * unshown.kept and shown.valid > 0.5


def test_the_trained_policies_know_what_gold_is_worth():
    """Sampled on 30 held-out boards, both beat the base: GRPO at its single answers, VPO with its best of three."""
    import asyncio

    from problems.types import Prompt
    from vpo.policies.registry import load_policy

    problems = problem_set("maze:test", 30)

    async def best_of_three(name, answers):
        policy = load_policy(f"embedded:{name}", threads=1)
        prompts = [Prompt(prompt_text(problem, answers=answers), stream=i) for i, problem in enumerate(problems)]
        groups = await policy.sample(prompts, rollouts=3 // answers, answers=answers, seed=0)
        await policy.close()
        return sum(
            max(sum(simulate(p.maze, moves).rewards) / 4 for r in group for moves in routes(r.text)[:answers])
            for p, group in zip(problems, groups, strict=True)
        ) / len(problems)

    base, grpo, vpo = (asyncio.run(best_of_three(*one)) for one in (("base", 3), ("grpo", 1), ("vpo", 3)))
    assert min(grpo, vpo) > base + 0.08
