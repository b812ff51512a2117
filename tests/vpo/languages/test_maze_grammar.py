"""What answers in maze-edit may be written: every one ends at E, and whatever a planner writes is allowed."""

import asyncio
import random
from functools import partial

import numpy as np
import pytest
import torch
from support import grammar_words

from problems.maze.board import simulate
from problems.maze.planner import Planner, moves_between
from problems.maze.sets import problem_set
from problems.types import Prompt
from vpo.languages.contract import open_dialect
from vpo.languages.maze_words import EDIT_DIALECT, MOST_NEW
from vpo.policies.registry import policy_at
from vpo.training.examples import Example, ExampleGroup
from vpo.training.forward import completion_logprobs, pack_groups

DIALECT = open_dialect(EDIT_DIALECT)
WORDS = DIALECT.vocabulary()
NAMES = ("maze:hard/0", "maze:large/2")
STOP = WORDS.index("<eos>")


ids_of = partial(grammar_words.ids_of, words=WORDS)
words_after = partial(grammar_words.words_after, DIALECT)


def parents_of(problem, seed=0):
    """No parent, one that reaches E, the beginning of it, one that bumps."""
    route = moves_between(problem.maze, Planner(problem.maze).route(random.Random(seed)))
    return "", route, route[:5], "UUU" + route[:-3]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", range(4))
def test_whatever_the_grammar_allows_reaches_the_exit_within_the_budget(name, kind):
    (problem,) = problem_set(name)
    prompt = DIALECT.prompt(problem, parents_of(problem)[kind], 2)
    grammar = DIALECT.grammar([ids_of(prompt)], torch.zeros(40, dtype=torch.long))
    generator = torch.Generator().manual_seed(kind)
    written = [[] for _ in range(40)]
    favour = torch.ones(len(WORDS))
    favour[[WORDS.index(word) for word in WORDS if word[0] in "k="]] = 0.05  # most words are new steps
    while not all(words[-1:] == [STOP] for words in written):
        tokens = torch.multinomial(grammar.allowed() * favour, 1, generator=generator)[:, 0]
        grammar.advance(tokens)
        for words, token in zip(written, tokens.tolist(), strict=True):
            words += [token] if words[-1:] != [STOP] else []
    for words in written:
        answers = DIALECT.read(" ".join(WORDS[token] for token in words[:-1]), prompt)
        assert len(answers) == 2
        for moves in answers:
            walk = simulate(problem.maze, moves)
            assert walk.reached and walk.steps == len(moves) <= problem.maze.budget
    assert len({tuple(words) for words in written}) > 20


@pytest.mark.parametrize("name", NAMES)
def test_the_routes_and_edits_of_a_planner_are_allowed(name):
    (problem,) = problem_set(name)
    planner, rng = Planner(problem.maze), random.Random(1)
    for parent in parents_of(problem):
        for _ in range(5):
            moves = moves_between(problem.maze, planner.route(rng))
            prompt = DIALECT.prompt(problem, parent, 1)
            chain = DIALECT.write(problem, [moves], prompt)
            if chain is None:  # more new steps than an edit may have
                continue
            grammar = DIALECT.grammar([ids_of(prompt)], torch.zeros(1, dtype=torch.long))
            for token in [*ids_of(chain).tolist(), STOP]:
                assert grammar.allowed()[0, token], (prompt, chain, WORDS[token])
                grammar.advance(torch.tensor([token]))


PROMPT = "S00 E08 t16 #10 #12 G04 par >00 k1 01 k2 02 k3 03 k4 04 k5 05 k6 06 k7 07 k8 08 ok g1 d0 l0 +8 m1"


def test_the_grammar_follows_the_prompt():
    copies = {f"k{step}" for step in range(1, 9)}
    assert words_after(PROMPT, "") == {">00"}
    assert words_after(PROMPT, ">00") == {"01", "^U", "^D", "^L", "=", *copies}
    assert words_after(PROMPT, ">00 k2") == {"02", *words_after(PROMPT, ">00 k2 02")}  # the cell may be named
    assert words_after(PROMPT, ">00 k2 02") == {"01", "03", "^U", "^D", "=", *(f"k{step}" for step in range(3, 9))}
    assert words_after(PROMPT, ">00 k3 03 13") == {"03", "14", "23", "^L"}  # not on the parent's route
    assert words_after(PROMPT, ">00 =") == words_after(PROMPT, ">00 k8 08") == {"<eos>"}
    assert words_after(PROMPT.replace("m1", "m2"), ">00 =") == {">00"}
    assert "^U" not in words_after(PROMPT, ">00" + " ^U" * 8)  # eight steps are needed, and eight are left
    alone = f"{PROMPT[: PROMPT.index(' par')]} m1"
    assert words_after(alone, ">00") == {"01", "^U", "^D", "^L"}
    for text in ("no prompt at all", "S00 E08 t16 #07 #18 m1", f"{PROMPT} x"):  # anything goes
        assert words_after(text, ">00 44") == set(WORDS)
    assert words_after(PROMPT, ">00 k9") == set(WORDS)


def test_an_edit_has_as_many_new_steps_as_it_may():
    long = PROMPT.replace("t16", "t48").replace("#12 ", "")
    there_and_back = " 01 02" * (MOST_NEW // 2 - 1)
    assert {"01", "03", "12"} <= words_after(long, f">00{there_and_back}")
    assert words_after(long, f">00{there_and_back} 12") == {"02"}  # the last new step leads back to the parent
    assert words_after(long, f">00{there_and_back} 12 02") == {"=", *(f"k{step}" for step in range(3, 9))}


def test_batches_lose_rows():
    assert open_dialect("maze-compact").grammar is None  # its routes are free
    grammar = DIALECT.grammar([ids_of(PROMPT), ids_of("x")], torch.tensor([0, 1, 0]))
    grammar.advance(torch.full((3,), WORDS.index(">00")))
    grammar.keep(torch.tensor([2, 1]))
    allowed = [{WORDS[place] for place in row.nonzero().flatten().tolist()} for row in grammar.allowed()]
    assert allowed == [words_after(PROMPT, ">00"), set(WORDS)]


def test_sampling_and_training_keep_to_the_grammar():
    policy = policy_at("embedded:edit-solve")
    (problem,) = problem_set("maze:hard/5")
    texts = [DIALECT.prompt(problem, parent, 2) for parent in parents_of(problem)]
    prompts = [Prompt(text, stream=place) for place, text in enumerate(texts)]
    groups = asyncio.run(policy.sample(prompts, rollouts=3, answers=2, seed=0))
    for text, group in zip(texts, groups, strict=True):
        for rollout in group:
            answers = DIALECT.read(rollout.text, text)
            assert len(answers) == 2 and all(simulate(problem.maze, moves).reached for moves in answers)
    drawn = [rollout.logprobs for group in groups for rollout in group]
    scored = asyncio.run(policy.logprobs([rollout for group in groups for rollout in group]))
    temperature = policy.temperature
    examples = [
        ExampleGroup(group[0].prompt_ids, tuple(Example(r.token_ids, 0.0, r.logprobs) for r in group), temperature)
        for group in groups
    ]
    learned = completion_logprobs(policy.learner(), pack_groups(examples)).detach()
    for row, (sampled, again) in enumerate(zip(drawn, scored, strict=True)):
        assert np.allclose(sampled, again, atol=1e-4)
        assert np.allclose(sampled, learned[row, : len(sampled)].numpy(), atol=1e-4)
    asyncio.run(policy.close())
