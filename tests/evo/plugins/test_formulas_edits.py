"""The language of changes of formulas: words, prompts, marks of terms, chains."""

import asyncio
import random
from functools import partial

import numpy as np
import pytest
import torch
from support import grammar_words

from evo.api.load import load_policy
from evo.config.run import PromptConfig
from evo.errors import BadInput
from evo.plugins.formulas.edits.dialect import DIALECT, FORMULA_FORMAT
from evo.plugins.formulas.edits.language import encode_answer, nodes, prefix_words, read_prefix, read_prompt
from evo.plugins.formulas.edits.sketch import contexts, derivatives
from evo.plugins.formulas.edits.words import WORDS, number_of_word, word_of_number
from evo.plugins.formulas.evaluation import evaluate
from evo.plugins.formulas.grammar import parse, write
from evo.plugins.formulas.laws import generated
from evo.plugins.formulas.operator import FUNCTIONS, advised_answer
from evo.plugins.formulas.variation import Variation
from evo.prompts.registry import open_format
from problems import resolve
from problems.types import Prompt

NAMES = ("a", "b")


@pytest.fixture(scope="module")
def problem():
    return resolve("formula:train/41")[0]  # x3 + 1.26*(x1*x2)


def skeleton(formula):
    """Without the values of constants that are fitted."""
    return formula.with_constants([1.0] * len(formula.fitted))


def test_words_are_unique_and_numbers_are_near():
    assert len(set(WORDS)) == len(WORDS) and WORDS[:3] == ("<pad>", "<unk>", "<eos>")
    for value in (0.5, -3.0, 1.1, 200.0, -0.03):
        read = number_of_word(word_of_number(value, False))[1]
        assert 0.55 < read / value < 1.8
    assert number_of_word(word_of_number(2, True))[1] == 2
    assert number_of_word(word_of_number(0.0, False))[1] > 0
    assert number_of_word("x1") is None


def test_formulas_are_read_as_they_are_written():
    for law in generated("train")[:40]:
        formula = law.formula
        words = prefix_words(formula)
        assert len(words) == formula.size and set(words) <= set(WORDS)
        assert read_prefix(words).codes == formula.codes
        spans = nodes(formula)
        assert spans[0] == (0, formula.size) and sorted(spans, key=lambda s: s[1]) == [
            formula.subtree(root) for root in range(formula.size)
        ]


def test_an_answer_is_the_smallest_change_of_the_parent():
    shown = read_prompt("of:a,b=1.5*a+sin(2.5*b) par at t1 f:square x2 q3 t2 x2 q2 at A n4 A1 f:exp x2 q1 m1")
    assert prefix_words(shown.parent)[4] == "f:sin" and list(shown.terms) == ["t1", "t2", "A1"]
    for child, words in (
        ("2.0*a + sin(a*b)", "n6 x1"),
        ("2.0*a + sin(exp(b))", "n5 A1"),
        ("1.5*a + sin(2.5*b) + 7.0*b**2", "n0 f:+ n0 f:* c+0 t1"),
        ("1.5*a + sin(2.5*b) + b", "n0 f:+ n0 t2"),
        ("1.5*a + 3.0*sin(2.5*b)", "A f:* c+0 A"),
        ("1.5*a + sin(2.5*b + 3.0*exp(b))", "n5 f:+ n5 f:* c+1 A1"),
        ("1.5*a + exp(b)", "A A1"),
        ("sin(2.5*b)*a", "n0 f:* A x1"),
        ("log(a)", "n0 f:log x1"),
    ):
        assert " ".join(encode_answer(parse(child, NAMES), shown)) == words
    for same in ("7.0*a + sin(0.1*b)", "sin(2.5*b) + 1.5*a"):  # a fit would give the parent
        assert encode_answer(parse(same, NAMES), shown) is None


def test_chains_give_the_children_that_were_written(problem):
    variation = Variation(range(3), FUNCTIONS, random.Random(0))
    parent = parse("1.0*x1*x2 + 0.3*sin(x3) + 0.1", problem.names)
    prompt = DIALECT.prompt(problem, text_of(parent, problem), 2)
    shown = read_prompt(prompt)
    alike = 0
    for _ in range(60):
        child = variation.change(parent, [variation.term()])
        chain = DIALECT.write(problem, [text_of(child, problem), "x1/x2"], prompt)
        if chain is not None:
            read, other = (parse(text, problem.names) for text in DIALECT.read(chain, prompt))
            assert (
                other == parse("x1/x2", problem.names)
                and encode_answer(read, shown) == chain.split(" > ")[0].split()[1:]
            )
            alike += read.codes == parse(text_of(child, problem), problem.names).codes
    assert alike > 35  # others are copies, or have the arguments of a sum in another order


def text_of(formula, problem):
    return write(formula, problem.names)


def test_a_prompt_shows_the_parent_and_what_would_better_it(problem):
    fresh = DIALECT.prompt(problem, "", 1)
    assert set(fresh.split()[1:]) <= set(WORDS) and fresh.endswith(" m1")
    assert "at t1 f:* x1 x2 q14" in fresh  # the product is the best single term
    shown = DIALECT.prompt(problem, "1.0*x1*x2 + 1.0", 2)
    assert shown.endswith(" m2")
    assert set(shown.split()[1:]) <= set(WORDS) and "at t1 x3 q18" in shown  # x3 explains all that is left
    parent = read_prompt(shown).parent
    assert read_prompt(shown).names == problem.names and problem.score(text_of(parent, problem)).error is None
    (kept,) = DIALECT.read("> n0 f:+ n0 f:* c+0 t1", shown)
    assert kept == f"{text_of(parent, problem)} + 1.0*x3" and problem.score(kept).fitness >= problem.target
    for unreadable in ("x9 +", "log(-x1)", "import os"):
        assert DIALECT.prompt(problem, unreadable, 1) == fresh


def test_a_term_is_marked_where_it_belongs():
    x = np.random.default_rng(0).uniform(0.5, 2, (2, 50))
    formula = parse("2.0*exp(a)*sin(b) + 1.0", NAMES)
    places = contexts(formula)
    assert {prefix_words(formula)[place] for place in places} >= {"f:+", "f:sin", "x1", "x2"}
    own, by_node = derivatives(formula, places, x)
    assert own.shape == (2, 50) and np.allclose(by_node[0], 1)
    sine = places.index(prefix_words(formula).index("x2"))
    assert np.allclose(by_node[sine], 2 * np.exp(x[0]) * np.cos(x[1]))
    step = 1e-6
    moved = evaluate(parse(f"2.0*exp(a)*sin(b + {step}) + 1.0", NAMES), x) - evaluate(formula, x)
    assert np.allclose(moved / step, by_node[sine], atol=1e-4)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("> n0 x1 > n1 x2", 2),
        ("> n0", 0),
        ("> x1", 0),  # no node of the parent
        ("> n40 x1", 0),
        ("> n0 t1 > A n0 > n0 t9", 1),  # no node of this parent is called A
        ("> n0 f:+ x1", 0),  # cut
        ("> n0 x7", 0),  # no such variable
        ("> n0 n3 par", 1),
        ("n0 x1", 0),
        ("> n0 f:exp ☃", 0),
        ("", 0),
    ],
)
def test_chains_are_read_whatever_they_hold(text, count, problem):
    prompt = DIALECT.prompt(problem, "1.0*x1 + 1.0", 2)
    answers = DIALECT.read(text, prompt)
    assert len(answers) == count and all(problem.score(answer) for answer in answers)
    assert DIALECT.read(text, "a prompt of something else") == []


PARENTS = ("", "1.0*x1*x2 + 1.0", "1.0*x1*x2 + 0.3*sin(x3) + 0.1", " + ".join(f"{k}.5*x1*x2" for k in range(1, 9)))


ids_of = partial(grammar_words.ids_of, words=WORDS)
words_after = partial(grammar_words.words_after, DIALECT)


@pytest.mark.parametrize("parent", PARENTS)
def test_whatever_the_grammar_allows_is_read(parent, problem):
    prompt, end = DIALECT.prompt(problem, parent, 2), WORDS.index("<eos>")
    grammar = DIALECT.grammar([ids_of(prompt)], torch.zeros(200, dtype=torch.long))
    generator = torch.Generator().manual_seed(0)
    written = [[] for _ in range(200)]
    functions = torch.tensor([20.0 if word.startswith("f:") else 1.0 for word in WORDS])
    while not all(words[-1:] == [end] for words in written):
        weights = grammar.allowed() * functions
        weights[:100] = grammar.allowed()[:100].float()  # half of the chains are short
        tokens = torch.multinomial(weights, 1, generator=generator)[:, 0]
        grammar.advance(tokens)
        for words, token in zip(written, tokens.tolist(), strict=True):
            words += [token] if words[-1:] != [end] else []
    chains = [" ".join(WORDS[token] for token in words[:-1]) for words in written]
    assert all(len(DIALECT.read(chain, prompt)) == 2 for chain in chains)
    lengths = [len(words) for words in written]
    assert 60 < max(lengths) <= DIALECT.most_tokens(2) and min(lengths) < 10


def test_the_grammar_follows_the_prompt():
    prompt = "of:a,b=1.5*a+sin(2.5*b) y pos r3 x1 pos r1 x2 pos r0 par n0 f:+ n1 f:* n2 c+0 n3 x1 n4 f:sin n5 f:* n6"
    prompt += " c+1 n7 x2 err e4 e2 at t1 f:square x2 q3 at A n4 A1 f:exp x2 q1 m1"
    assert words_after(prompt, "") == {">"}
    assert words_after(prompt, ">") == {*(f"n{place}" for place in range(8)), "A"}
    part = words_after(prompt, "> n4")
    assert {"x1", "x2", "c+0", "n0", "t1", "A1", "f:+"} <= part and not {"x3", "t2", "B", "n4", "A", "n8", ">"} & part
    assert {"n4", "A"} <= words_after(prompt, "> n4 f:sin")  # only alone it changes nothing
    assert words_after(prompt, "> n4 x1") == {"<eos>"}
    for text in ("no prompt at all", "of:a y pos r3 par n0 f:+ err m1"):  # anything goes
        assert words_after(text, "> n40") == set(WORDS)
    assert words_after(prompt, "> x1") == set(WORDS)


def test_what_the_language_has_no_words_for(problem):
    with pytest.raises(BadInput, match="only understands formulas"):
        open_format(resolve("maze:train/0")[0], FORMULA_FORMAT, PromptConfig(), 1)
    with pytest.raises(BadInput, match="1 to 5 answers"):
        open_format(problem, FORMULA_FORMAT, PromptConfig(), 6)
    prompt = DIALECT.prompt(problem, "", 1)
    assert DIALECT.write(problem, ["x1 +"], prompt) is None
    assert DIALECT.write(problem, [" + ".join(["x1"] * 60)], prompt) is None


def test_marks_advise_answers_that_are_read(problem):
    rng = random.Random(3)
    for parent in ("", "1.0*x1*sin(x2) + 1.0"):
        prompt = DIALECT.prompt(problem, parent, 1)
        for _ in range(30):
            words = advised_answer(read_prompt(prompt), rng)
            assert set(words) <= set(WORDS) and len(DIALECT.read("> " + " ".join(words), prompt)) == 1


def test_the_shipped_policy_betters_parents():
    """Some of its answers to problems that it never saw are better than the parent, and most can be read."""
    policy = load_policy("embedded:formula")
    problems = [resolve(f"formula:test/{index}")[0] for index in range(1, 7)]
    parents = [problem.seed_answer() for problem in problems]
    texts = [DIALECT.prompt(p, parent, 1) for p, parent in zip(problems, parents, strict=True)]
    prompts = [Prompt(text, stream=place) for place, text in enumerate(texts)]
    groups = asyncio.run(policy.sample(prompts, rollouts=4, answers=1, seed=0))
    read = better = 0
    for problem, parent, text, group in zip(problems, parents, texts, groups, strict=True):
        answers = [answer for rollout in group for answer in DIALECT.read(rollout.text, text)]
        read += len(answers)
        better += sum(problem.score(answer).fitness > problem.score(parent).fitness for answer in answers)
    assert read >= 16 and better >= 8
