"""What a prompt format writes as a rollout is what it reads, or it writes nothing."""

from hypothesis import given, settings
from hypothesis import strategies as st

from evo.config.run import PromptConfig
from evo.prompts.registry import open_format
from islands.types import Candidate, Selection
from problems.identity import identity
from problems.python_syntax import strip_fence
from problems.registry import resolve
from problems.types import Rollout

lines = st.lists(st.sampled_from(["a = 1", "b = 2", "c(a)", "", "d = c(b)"]), min_size=1, max_size=30)


def shown(text):
    return Selection(Candidate(1, text, (0.5,), 0.5, {}, "", None, 0, 0, None), (), ())


def read(style, text, selection):
    return style.parse(Rollout(text, [], [], []), selection).answers


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


def test_an_ordinary_edit_is_written():
    (problem,) = resolve("programs:easy/0")
    style = open_format(problem, "chat", PromptConfig(diff=True), 1)
    parent = "\n".join(f"x{n} = {n}" for n in range(20))
    text = style.write([parent.replace("x7 = 7", "x7 = 70")], shown(parent))
    assert text is not None and text.count("SEARCH") == 1


def test_a_chain_of_programs_and_of_routes_is_written():
    (program,), (maze,) = resolve("programs:easy/0"), resolve("maze:train/0")
    answers = ["def f(x):\n    return x + 1", "def f(x):\n    return x * 2"]
    for problem, name, found in ((program, "chat", answers), (maze, "chat", ["RRDD", "DDRR"])):
        style = open_format(problem, name, PromptConfig(), 2)
        text = style.write(found, Selection(None, (), ()))
        assert text is not None and list(read(style, text, Selection(None, (), ()))) == found


def test_a_program_is_written_as_a_search_stores_it_with_a_newline_at_its_end():
    (program,) = resolve("programs:easy/0")
    stored = strip_fence("```python\ndef f(x):\n    return x + 1\n```")
    style = open_format(program, "chat", PromptConfig(), 1)
    assert stored.endswith("\n") and style.write([stored], Selection(None, (), ())) == f"```python\n{stored}```"


def test_answers_that_are_one_are_not_written_as_two():
    (program,) = resolve("programs:easy/0")
    style = open_format(program, "chat", PromptConfig(), 2)
    assert style.write(["x = 1", "x = 1  # the same"], Selection(None, (), ())) is None
