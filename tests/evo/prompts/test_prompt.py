"""Prompts: what each format shows, what it reads, and that it writes what it reads, or nothing."""

from importlib.metadata import EntryPoint

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.python_problem import PythonProblem

from evo.config.run import PromptConfig, RunConfig
from evo.errors import BadInput
from evo.prompts.chat import ChatFormat, cut
from evo.prompts.registry import TokenFormat, open_format
from evo.search.resources import open_policy
from islands.types import Candidate, Selection
from problems.identity import identity
from problems.python_syntax import strip_fence
from problems.registry import resolve
from problems.types import Prompt, Rollout
from vpo.policies import scripted
from vpo.policies.prompt_formats import FORMAT_ENTRY_POINTS
from vpo.policies.scripted import TokenGenerator


def candidate(id, text, fitness=0.5, rewards=(0.25, 0.75), feedback="", error=None):
    return Candidate(id, text, rewards, fitness, {}, feedback, error, 0, 0, None)


def rollout(text, finish="stop"):
    ids = np.zeros(1, np.int32)
    return Rollout(text, ids, np.zeros(1, np.float32), ids, finish)


PARENT = candidate(1, "12345678", feedback="too few even digits")
SELECTION = Selection(PARENT, (candidate(2, "24680246"),), (PARENT, candidate(3, "99999999", 0.9)))


def test_an_english_prompt_shows_task_parent_vector_feedback_and_others(digits):
    prompt = ChatFormat(digits(), PromptConfig(), 3).build(SELECTION, 7)
    assert prompt.stream == 7
    assert prompt.system
    order = ["Write eight digits.", "even 0.25, odd 0.75", "too few even digits", "12345678", "99999999", "24680246"]
    places = [prompt.user.index(part) for part in order]
    assert places == sorted(places)
    assert prompt.user.count("12345678") == 1, "the parent is not shown a second time among the best"
    assert "too few even digits\n<answer_1>\n12345678\n</answer_1>\n\n" in prompt.user, "in the layout of a reply"
    assert "<answer_3>" in prompt.user
    assert prompt.user.startswith("# Task\nWrite eight digits.")


def test_without_a_parent_the_prompt_is_the_task_and_the_request(digits):
    plain = ChatFormat(digits(), PromptConfig(), 1).build(Selection(None, (), ()), 0)
    hidden = ChatFormat(digits(), PromptConfig(show_parent=False), 1).build(SELECTION, 0)
    assert plain.user == hidden.user
    assert "12345678" not in hidden.user


def test_long_answers_and_feedback_are_cut_in_the_middle(digits):
    long = candidate(1, "1" * 5000, feedback="x" * 5000)
    config = PromptConfig(max_answer_chars=300, max_feedback_chars=90)
    prompt = ChatFormat(digits(), config, 1).build(Selection(long, (), ()), 0)
    assert prompt.user.count("1" * 100) < 4
    assert prompt.user.count("x") < 120
    assert "characters left out" in prompt.user
    assert cut("abc", 3) == "abc"
    assert cut("a" * 60 + "b" * 30, 30).startswith("a" * 20)
    assert cut("a" * 60 + "b" * 30, 30).endswith("b" * 10)


def test_programs_are_shown_in_fences_and_edits_apply_to_the_parent():
    parent = candidate(1, "def f():\n    return 1\n", rewards=(0.0,))
    selection = Selection(parent, (), (parent,))
    style = open_format(PythonProblem(), "chat", PromptConfig(diff=True), 1)
    assert "```python\ndef f():\n    return 1\n```" in style.build(selection, 0).user
    edit = "<<<<<<< SEARCH\n    return 1\n=======\n    return 2\n>>>>>>> REPLACE"
    assert style.parse(rollout(edit), selection).answers == ("def f():\n    return 2\n",)
    unmatched = style.parse(rollout(edit.replace("return 1", "return 7")), selection)
    assert unmatched.answers == ()
    assert unmatched.error


@pytest.mark.parametrize(
    ("problem", "prompt_format", "config", "answers", "named"),
    [
        ("digits", "maze-compact", {}, 3, "only understands mazes"),
        ("python", "chat", {"diff": True}, 3, "--answers 1"),
        ("maze", "chat", {"diff": True}, 1, "routes"),
        ("python", "chat", {"style": "openevolve"}, 1, "OpenEvolve"),
        ("maze", "maze-compact", {}, 30, "30"),
    ],
)
def test_what_does_not_go_together_is_said_before_anything_runs(digits, problem, prompt_format, config, answers, named):
    made = {"digits": digits, "python": PythonProblem, "maze": lambda: resolve("maze:test/0")[0]}[problem]()
    with pytest.raises(BadInput, match=named):
        open_format(made, prompt_format, PromptConfig(**config), answers)


def test_edits_of_a_prompt_that_showed_no_parent_are_of_the_seed():
    edit = "<<<<<<< SEARCH\ndef f(): pass\n=======\ndef f(): return 1\n>>>>>>> REPLACE"
    style = ChatFormat(PythonProblem(), PromptConfig(show_parent=False), 1, diff=True)
    parent = candidate(1, "def other(): pass", rewards=(0.0,))
    assert style.parse(rollout(edit), Selection(parent, (), ())).answers == ("def f(): return 1",)


def test_the_maze_language_shows_a_parent_that_worked_and_no_other():
    (maze,) = resolve("maze:test/0")
    style = TokenFormat(maze, PromptConfig(), 3, "maze-compact")
    alone = style.build(Selection(None, (), ()), 0).user
    failed = candidate(1, "UUU", rewards=(0, 0, 0, 0), error="no route")
    worked = candidate(2, "UUDD", rewards=(1.0, 0.5, 0.0, 1.0))
    assert style.build(Selection(failed, (), ()), 0).user == alone
    shown = style.build(Selection(worked, (), ()), 0).user
    assert shown != alone
    assert len(shown.split()) > len(alone.split())


def test_an_openevolve_directory_is_asked_in_its_own_templates(tmp_path):
    from evo.prompts.openevolve import OpenEvolveFormat

    class Directory(PythonProblem):
        settings = {"system_message": "You are a careful expert.", "num_top_programs": 1, "diff_based_evolution": True}

    parent = candidate(1, "def f():\n    return 1", rewards=(0.3,), feedback="case 2 failed")
    others = tuple(candidate(i, f"def f():\n    return {i}", rewards=(0.1,)) for i in (2, 3, 4))
    style = open_format(Directory(), "chat", PromptConfig(), 1)
    assert isinstance(style, OpenEvolveFormat)
    prompt = style.build(Selection(parent, others[2:], others), 3)
    assert prompt.system == "You are a careful expert."
    for part in ("return 1", "return 2", "return 4", "case 2 failed", "SEARCH"):
        assert part in prompt.user
    assert prompt == style.build(Selection(parent, others[2:], others), 3), "nothing is drawn outside the seed"
    chain = open_format(Directory(), "chat", PromptConfig(), 3).build(Selection(parent, (), ()), 0)
    assert "SEARCH" not in chain.user, "a chain of whole programs is asked for, not edits"


class Shout(ChatFormat):
    """A prompt format of a third party."""

    default_limit = 11

    def build(self, selection, stream, rng=None):
        return Prompt(self.problem.statement().upper(), stream=stream)


LOUD = TokenGenerator("shout", lambda prompt, answers, bits: "LOUD")


def test_an_installed_package_adds_a_prompt_format(digits, install):
    install(EntryPoint("shout", f"{__name__}:Shout", FORMAT_ENTRY_POINTS))
    install(EntryPoint("loud", f"{__name__}:LOUD", scripted.GENERATOR_ENTRY_POINTS))
    made = open_format(digits(), "shout", PromptConfig(), 1)
    assert made.build(SELECTION, 3).user == digits().statement().upper() and made.default_limit == 11
    assert open_policy(RunConfig(policy="scripted:loud"), [digits()]).max_tokens == 11
    with pytest.raises(BadInput, match="'murmur', which no installed package has"):
        open_format(digits(), "murmur", PromptConfig(), 1)


lines = st.lists(st.sampled_from(["a = 1", "b = 2", "c(a)", "", "d = c(b)"]), min_size=1, max_size=30)


def shown(text):
    return Selection(candidate(1, text, rewards=(0.5,)), (), ())


def read(style, text, selection):
    return style.parse(rollout(text), selection).answers


@settings(max_examples=60, deadline=None)
@given(lines, lines)
def test_edits_make_the_parent_into_the_child_or_are_not_written(old, new):
    (problem,) = resolve("programs:easy/0")
    style = open_format(problem, "chat", PromptConfig(diff=True), 1)
    selection, child = shown("\n".join(old)), "\n".join(new)
    text = style.write([child], selection)
    assert text is None or [identity(one, "python") for one in read(style, text, selection)] == [
        identity(child, "python")
    ]


def test_what_is_written_is_as_a_search_stores_it_and_each_answer_once():
    (program,) = resolve("programs:easy/0")
    stored = strip_fence("```python\ndef f(x):\n    return x + 1\n```")
    one, two = (open_format(program, "chat", PromptConfig(), answers) for answers in (1, 2))
    assert stored.endswith("\n") and one.write([stored], Selection(None, (), ())) == f"```python\n{stored}```"
    assert two.write(["x = 1", "x = 1  # the same"], Selection(None, (), ())) is None
    edits = open_format(program, "chat", PromptConfig(diff=True), 1)
    parent = "\n".join(f"x{n} = {n}" for n in range(20))
    text = edits.write([parent.replace("x7 = 7", "x7 = 70")], shown(parent))
    assert text is not None and text.count("SEARCH") == 1


def test_a_chain_of_programs_and_of_routes_is_written():
    (program,), (maze,) = resolve("programs:easy/0"), resolve("maze:train/0")
    answers = ["def f(x):\n    return x + 1", "def f(x):\n    return x * 2"]
    for problem, name, found in ((program, "chat", answers), (maze, "chat", ["RRDD", "DDRR"])):
        style = open_format(problem, name, PromptConfig(), 2)
        text = style.write(found, Selection(None, (), ()))
        assert text is not None and list(read(style, text, Selection(None, (), ()))) == found
