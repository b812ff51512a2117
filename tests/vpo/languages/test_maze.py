"""The compact language: what is written can be read back, and what a model may write is read safely."""

import random
from collections import Counter
from os.path import commonprefix
from pathlib import Path

import pytest
import yaml
from transformers import AutoTokenizer

from problems.maze.board import Maze, simulate
from problems.maze.generator import generate_maze
from problems.maze.planner import Planner, moves_between
from problems.maze.sets import problem_set
from vpo.languages.contract import LONGEST_CHAIN, checkpoint_path, open_dialect
from vpo.languages.maze import write_routes
from vpo.languages.maze_words import (
    BUDGETS,
    DIALECT,
    EDIT_DIALECT,
    MOST_NEW,
    encode_prompt,
    encode_walk,
    grid_of,
    most_tokens,
    size_of,
    vocabulary,
)
from vpo.languages.maze_words import decode_chain as routes

READ = yaml.safe_load(Path(__file__).with_name("maze_chains.yaml").read_text(encoding="utf-8"))
PROBLEMS = problem_set("maze:test")
LARGE = problem_set("maze:large", 30)


def prompt_text(problem, parent="", answers=3, dialect=DIALECT):
    return open_dialect(dialect).prompt(problem, parent, answers)


TOKENIZERS = {
    dialect: AutoTokenizer.from_pretrained(checkpoint_path(name))
    for dialect, name in ((DIALECT, "base"), (EDIT_DIALECT, "edit-solve"))
}


def read_board(words: list[str], size: int = 9) -> tuple[str, int]:
    """Tiles and budget out of a prompt's words; the bonus tile stands in the centre of every small board."""
    tiles = ["."] * size**2
    if size == 9:
        tiles[40] = "B"
    for word in words:
        if word[0] in "SE#GDLJP":
            tiles[grid_of(size).numbers[word[1:]]] = word[0]
    return "".join(tiles), int(words[2][1:])


def test_words_are_unique_and_of_one_piece():
    words = vocabulary()
    assert len(words) == len(set(words)) < 512
    assert not any(word.split() != [word] for word in words)


@pytest.mark.parametrize(("problems", "size", "dialect"), [(PROBLEMS, 9, DIALECT), (LARGE, 13, EDIT_DIALECT)])
def test_a_prompt_holds_the_whole_board(problems, size, dialect):
    tokenizer = TOKENIZERS[dialect]
    for problem in problems:
        text = prompt_text(problem, dialect=dialect)
        assert size_of(text) == size and read_board(text.split(), size) == (problem.maze.tiles, problem.maze.budget)
        assert text.split()[-1] == "m3" and tokenizer.unk_token_id not in tokenizer(text)["input_ids"]
    assert size_of("") == size_of("m3") == 9


def test_every_prompt_and_chain_survives_the_tokenizer():
    rng, tokenizer = random.Random(0), TOKENIZERS[DIALECT]
    for problem in PROBLEMS[:30]:
        planner = Planner(problem.maze)
        parent, *others = [moves_between(problem.maze, planner.route(rng)) for _ in range(4)]
        prompt = prompt_text(problem, parent, answers=3)
        chain = f"{write_routes(problem.maze, others, prompt, DIALECT)} <eos>"
        for text in (prompt, chain):
            ids = tokenizer(text)["input_ids"]
            assert tokenizer.unk_token_id not in ids and len(ids) == len(text.split())
            assert tokenizer.decode(ids) == text
        assert len(tokenizer(prompt)["input_ids"]) <= 100
        ids = tokenizer(chain)["input_ids"]
        assert ids[-1] == tokenizer.eos_token_id
        assert len(ids) <= most_tokens(3)
        assert routes(tokenizer.decode(ids, skip_special_tokens=True)) == others


def test_a_parent_is_shown_with_its_bumps_and_its_counts():
    problem = PROBLEMS[0]  # S at 00, walls at 10 and 12
    moves = "URRDRDDRRDRRRDDDDDD"
    shown = prompt_text(problem, moves, answers=2).split()
    shown = shown[shown.index("par") :]
    assert shown[:8] == ["par", ">00", "^U", "01", "02", "^D", "03", "13"]
    walk = simulate(problem.maze, moves)
    assert walk.reached and shown[-5:] == ["ok", "g0", "d1", f"l{walk.lava}", "m2"]
    assert shown[1:-5] == encode_walk(walk, moves)
    assert routes(" ".join(encode_walk(walk, moves))) == [moves[: walk.steps]]


def test_a_parent_in_another_hand_is_read_and_an_unreadable_one_left_out():
    assert prompt_text(PROBLEMS[0], "right, right, down") == prompt_text(PROBLEMS[0], "RRD")
    assert prompt_text(PROBLEMS[0], "I would go right") == prompt_text(PROBLEMS[0])


def test_boards_and_chains_the_language_lacks_are_refused():
    maze = generate_maze(random.Random(1))
    with pytest.raises(ValueError, match="1 to 5"):
        encode_prompt(maze, answers=LONGEST_CHAIN + 1)
    with pytest.raises(ValueError, match="9x9"):
        encode_prompt(Maze.from_rows(["S..", "...", "..E"], 9))
    inner = "." * 40 + "S" + "." * 39 + "E"
    with pytest.raises(ValueError, match="corners"):
        encode_prompt(Maze(inner, 20))
    with pytest.raises(ValueError, match="reads 9x9 boards"):
        prompt_text(LARGE[0])
    with pytest.raises(ValueError, match="reads 9x9 or 13x13 boards"):
        encode_prompt(Maze.from_rows(["S..", "...", "..E"], 9), dialect=EDIT_DIALECT)


def test_a_budget_without_a_word_is_written_as_the_nearest():
    maze = generate_maze(random.Random(1))
    assert encode_prompt(Maze(maze.tiles, 200)).split()[2] == f"t{BUDGETS[-1]}"
    assert encode_prompt(Maze(maze.tiles, 3)).split()[2] == f"t{BUDGETS[0]}"


@pytest.mark.parametrize(("text", "moves"), READ["alone"])
def test_any_text_is_read(text, moves):
    assert routes(text) == moves


PARENT = "S00 E88 t27 par >00 k1 01 k2 02 k3 12 k4 02 k5 03 k6 ^U k7 04 ok m3"  # RRDURUR


@pytest.mark.parametrize(("text", "moves"), READ["with a parent"])
def test_copies_are_of_the_parent_that_the_prompt_shows(text, moves):
    assert routes(text, PARENT) == moves
    assert routes(">00 10 k2 22 >00 =", "S00 E88 t27 m3") == routes(">00 10 k2") == ["D"]  # no parent, nothing to copy


def test_an_edit_has_few_new_steps_where_the_parent_reaches_e():
    back_and_forth = " ".join(["10", "00"] * MOST_NEW)
    assert routes(f">00 {back_and_forth} 01 >00 01", PARENT) == ["DU" * (MOST_NEW // 2), "R"]
    assert routes(f">00 {' '.join(['^U'] * 40)}", PARENT) == ["U" * MOST_NEW]
    assert routes(f">00 k3 {' '.join(['22', '12'] * (MOST_NEW // 2))} =", PARENT) == [
        "RRD" + "DU" * (MOST_NEW // 2) + "URUR"
    ]
    fresh = "DU" * MOST_NEW + "R"
    failed, plain = PARENT.replace("ok", "fail"), " ".join(w for w in PARENT.split() if w[0] != "k")
    for prompt in (failed, plain, "S00 E88 t27 m3"):
        assert routes(f">00 {back_and_forth} 01", prompt) == [fresh]


def test_the_edit_language_counts_the_parents_steps_and_leaves_its_vector_out():
    problem = PROBLEMS[0]
    moves = "RRDRDDRRDRRRDDDDDD"
    assert prompt_text(problem, dialect=EDIT_DIALECT) == prompt_text(problem)
    words = prompt_text(problem, moves, dialect=EDIT_DIALECT).split()
    counted = [word for word in words if word[0] == "k"]
    assert counted == [f"k{step}" for step in range(1, simulate(problem.maze, moves).steps + 1)]
    told = prompt_text(problem, moves).split()
    assert [w for w in words if w[0] != "k"] == [*told[: told.index("ok") + 1], "m3"]
    assert prompt_text(problem, "R", dialect=EDIT_DIALECT).split()[-2:] == ["fail", "m3"]
    assert vocabulary(EDIT_DIALECT)[: len(vocabulary())] == vocabulary()


@pytest.mark.parametrize("name", ["maze:train/3", "maze:large-train/1"])
def test_an_edit_is_written_survives_the_tokenizer_and_is_read_as_the_whole_route(name):
    tokenizer, rng = TOKENIZERS[EDIT_DIALECT], random.Random(0)
    (problem,) = problem_set(name)
    maze, planner, kinds = problem.maze, Planner(problem.maze), Counter()
    for _ in range(100):
        parent = planner.route(rng)
        start, end = sorted(rng.sample(range(len(parent)), 2))
        middle = planner.leg(parent[start], (rng.choice(planner.cells), parent[end]), rng)
        moves = moves_between(maze, [*parent[:start], *middle, *parent[end + 1 :]])
        prompt = prompt_text(problem, moves_between(maze, parent), dialect=EDIT_DIALECT)
        text = write_routes(maze, [moves], prompt, EDIT_DIALECT)
        if text is None:  # it has too many new steps, or a walk back and forth hides what it keeps
            kinds["unwritten"] += 1
            continue
        ids = tokenizer(text)["input_ids"]
        assert tokenizer.unk_token_id not in ids and len(ids) == len(text.split()) <= most_tokens(1)
        assert routes(tokenizer.decode(ids), prompt) == [moves] and len(prompt.split()) < 160
        alike = len(commonprefix((moves, moves_between(maze, parent))))
        assert text.split()[1] == f"k{alike}" if alike else " k" not in text  # all of the beginning is copied
        kinds["beginning copied"] += alike > 0
        kinds["end copied"] += "=" in text
        kinds["shorter"] += len(text.split()) < len(moves)
    assert min(kinds.values()) > 10 and kinds["unwritten"] < 40, kinds
    # of a 9x9 board the same words leave the board
    assert routes(">08 09 19", "S08 E80 t27 m1") == [] and routes(">0c 1c 1b", "S0c Ec0 t32 m1") == ["DL"]


def test_the_words_of_large_boards_come_last_and_every_budget_of_the_sets_has_one():
    words = vocabulary(EDIT_DIALECT)
    assert len(words) == len(set(words)) and words.index("+32") == 564  # what maze-edit began with
    assert {p.maze.budget for p in problem_set("maze:large")} <= set(BUDGETS)


def test_random_words_never_fail():
    large_parent = "S00 Ecc t40 par >00 k1 01 k2 02 k3 12 ok m3"
    rng = random.Random(3)
    words = [*vocabulary(EDIT_DIALECT), ">", "^", "^^", "k", "kk", "k99", "☃", ">0", "1"]
    for _ in range(300):
        text = " ".join(rng.choices(words, k=60))
        for answer in routes(text) + routes(text, PARENT) + routes(text, large_parent):
            assert answer and set(answer) <= set("UDLR")
