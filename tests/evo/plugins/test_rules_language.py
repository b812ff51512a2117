"""The language of rules, and genetic programming of them."""

import asyncio
import re

import numpy as np
import pytest
import torch
from support import grammar_words

from evo.plugins.formulas.operator import generate  # scripted:gp
from evo.plugins.rules.dialect import DIALECT
from evo.plugins.rules.language import MOST_WORDS, QUALITY, encode_rule, read_prompt
from evo.plugins.rules.problem import RuleProblem
from evo.plugins.rules.rule import MOST_RULE_NODES, parse_rule, rank
from problems.types import Prompt
from vpo.policies.contract import PolicyUnavailable
from vpo.policies.registry import policy_at

RULE_WORDS = DIALECT.vocabulary()


class Queue(RuleProblem):
    """Jobs on one machine: the mean of completion times weighted by 1 and by w."""

    task, seed = "Choose over the features below. Which job comes next on a machine?", "p + 2*w"

    def __init__(self):
        super().__init__("queue", {"p": "time", "w": "weight"}, ("plain", "weighted"))
        self.kinds, self.simulated = ("flow", "other"), 0

    def costs(self, rule, held_out=False):
        self.simulated += 1
        jobs = np.random.default_rng(held_out).uniform(1, 9, (2, 30))
        p, w = jobs[:, np.argsort(rank(rule, jobs), kind="stable")]
        return np.array([np.cumsum(p).mean(), np.average(np.cumsum(p), weights=w)])


@pytest.fixture(scope="module")
def problem():
    return Queue()


def test_a_prompt_shows_the_features_the_kinds_and_the_parent_with_its_costs(problem):
    assert DIALECT.prompt(problem, "", 2) == "of:p,w rule x1 x2 flow other m2"
    shown = DIALECT.prompt(problem, "min(p, 2.0)/0.37", 4)
    words = r"x1 x2 flow other par n0 f:/ n1 f:min n2 x1 n3 2 n4 c\+-1 err e\d+ q\d e\d+ q\d m4"
    assert re.fullmatch(rf"of:p,w=min\(p,2\)/0.37 rule {words}", shown)
    assert set(shown.split()[1:]) <= set(RULE_WORDS)
    best, seed = (DIALECT.prompt(problem, text, 1).split()[-5:-1] for text in ("p/w", problem.seed))
    assert seed == ["e4", "q6", "e4", "q6"] and QUALITY.index(best[2]) > 4
    for unreadable in ("sin(p)", "p + ", " + ".join(["p"] * 17)):
        assert DIALECT.prompt(problem, unreadable, 2) == DIALECT.prompt(problem, "", 2)
    simulated = problem.simulated
    DIALECT.prompt(problem, "p/w", 3), problem.score("p / w")
    assert problem.simulated == simulated


def test_numbers_of_a_rule_make_a_difference(problem):
    prompt = DIALECT.prompt(problem, "0.37*p + 2*w", 1)
    shown = read_prompt(prompt)
    for child, words in (
        ("0.37*p + 3.0*w", "n5 3"),
        ("9.0*p + 2*w", "n2 c+2"),
        ("max(0.37*p, w)", "n0 f:max n1 x2"),
        ("max(0.37, w)", "n0 f:max n2 x2"),
        ("0.37*p + 2*(w + 0.37*p)", "n6 f:+ x2 n1"),
    ):
        assert encode_rule(shown.read(child), shown) == words.split()
        assert DIALECT.write(problem, [child], prompt) == f"> {words}"
        assert [problem.canonical(text) for text in DIALECT.read(f"> {words}", prompt)] == [problem.canonical(child)]
    assert DIALECT.write(problem, ["0.37*p + 15*w"], prompt) == "> n5 c+2"  # as good as 9*w there
    assert DIALECT.write(problem, ["(p + 0.6)/w"], DIALECT.prompt(problem, "p/w", 1)) is None  # 1 is worse
    for unwritten in ("0.37*p + 2*w", "sin(w)", " + ".join(["w"] * 40)):
        assert DIALECT.write(problem, [unwritten], prompt) is None


def test_the_grammar_has_the_functions_and_the_size_of_rules(problem):
    words_after = lambda prompt, chain: grammar_words.words_after(DIALECT, prompt, chain)  # noqa: E731
    fresh = DIALECT.prompt(problem, "", 2)
    assert {"f:min", "f:max", "f:+", "x2", "c+5"} <= words_after(fresh, ">")
    assert not {"f:sin", "f:**", "x3", "x10", "n0", "flow"} & words_after(fresh, ">")
    large = DIALECT.prompt(problem, " + ".join(["p"] * (MOST_RULE_NODES // 2 + 1)), 2)
    assert words_after(large, "> n0 f:+") >= {"x1", "n1"} and "n0" not in words_after(large, "> n0 f:+")
    ids = [grammar_words.ids_of(prompt, RULE_WORDS) for prompt in (fresh, large)]
    grammar, generator = DIALECT.grammar(ids, torch.arange(100) % 2), torch.Generator().manual_seed(0)
    weights = torch.tensor([20.0 if word.startswith("f:") else 1.0 for word in RULE_WORDS])
    written = [[] for _ in range(100)]
    for _ in range(2 * (MOST_WORDS + 2)):
        tokens = torch.multinomial(grammar.allowed() * weights, 1, generator=generator)[:, 0]
        grammar.advance(tokens)
        for words, token in zip(written, tokens.tolist(), strict=True):
            words.append(RULE_WORDS[token])
    for row, words in enumerate(written):
        chain = " ".join(words).partition(" <eos>")[0]
        rules = DIALECT.read(chain, (fresh, large)[row % 2])
        assert len(rules) == 2 and all(parse_rule(rule, problem.names) for rule in rules)


def test_the_policy_of_the_package_writes_as_many_rules_as_it_is_asked_for(problem):
    prompt = DIALECT.prompt(problem, "p/w", 4)
    (group,) = asyncio.run(policy_at("embedded:rules").sample([Prompt(prompt)], rollouts=2, answers=4, seed=0))
    assert all(len(DIALECT.read(rollout.text, prompt)) == 4 for rollout in group)


def test_genetic_programming_gives_different_rules_that_can_be_read(problem):
    assert problem.default_policy == "scripted:gp"
    for shown in ((), ("p/w",), ("p", "max(w, 3)"), (" + ".join(["p"] * 16), "p - w"), ("unreadable",)):
        prompt = Prompt(problem.statement(), shown=shown)
        written = [generate(prompt, "text", 5, bits) for bits in range(80)]
        assert written[0] == generate(prompt, "text", 5, 0)
        for children in written:
            assert len({problem.canonical(child) for child in (*children, *shown)}) == 5 + len(shown)
            assert all(parse_rule(child, problem.names).variables for child in children)
        together = " ".join(child for children in written for child in children)
        assert all(f"{name}" in together for name in ("min(", "max(", "w", "p"))
    with pytest.raises(PolicyUnavailable, match="formulas and rules only"):
        generate(Prompt("Write a poem."), "text", 1, 0)
