"""A value of a scorer is never mistaken for a reward: the types refuse it, and views write no reward."""

import ast
import subprocess
import sys
from collections.abc import Iterator

import pytest
from modules import ROOT, trees

PAINTERS = ("evo/tui/", "evo/report/", "evo/ui/", "evo/cli/")
REWARDS = ("fitness", "best_fitness", "rewards")
"""Attributes of stored answers and problems that are of selection."""
TURNED = {"value_of", "target_value", "describe_best_known", "Value", "max"}
"""Functions that take one: they turn it into a value, or compare it."""
NAMED = {
    "evo/report/answers.py": "the sliders of weights choose by rewards; the table calls their weighted mean so",
    "evo/report/tables.py": "the set's own value is a mean reward, and its table says so",
    "evo/cli/check.py": "the fitness of a verification is a table of values, which verification.py made",
}


def uses_of_rewards(tree: ast.AST, inside: tuple[ast.AST, ...] = ()) -> Iterator[ast.Attribute]:
    """Those that are neither given to such a function, nor compared, nor the key of an order."""
    for child in ast.iter_child_nodes(tree):
        compared = any(isinstance(one, ast.Compare | ast.Lambda) for one in inside)
        called = {one.func.id for one in inside if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)}
        if (
            isinstance(child, ast.Attribute)
            and child.attr in REWARDS
            and not compared
            and not called & (TURNED | {"max"})
        ):
            yield child
        yield from uses_of_rewards(child, (*inside, child))


def test_views_write_no_reward():
    found = {
        f"{path}:{node.lineno} {ast.unparse(node)}"
        for path, tree in trees().items()
        if path.startswith(PAINTERS) and path not in NAMED
        for node in uses_of_rewards(tree)
    }
    assert found == set()
    templates = [file for folder in ("evo/report", "evo/ui") for file in (ROOT / folder / "templates").glob("*.jinja")]
    assert len(templates) > 5
    assert [file.name for file in templates if any(f".{name}" in file.read_text("utf-8") for name in REWARDS)] == []


LINES = {
    "value_of(objectives, best)": "",
    "write_value(value_of(objectives, best))": "",
    "value_of(objectives, (best + best) / 2)": 'incompatible type "float"; expected "Reward | None"',
    "value_of(objectives, sum([best, best]) / 2)": 'expected "Reward | None"',
    "write_value(best)": 'incompatible type "Reward"; expected "Value"',
}
"""What is written, and why it is refused."""


@pytest.mark.long
def test_the_types_refuse_a_mean_of_rewards_and_a_reward_that_is_painted(tmp_path):
    file = tmp_path / "painter.py"
    file.write_text(
        "from collections.abc import Sequence\n"
        "from problems.objectives import Objective, Reward, Value, value_of\n"
        "def write_value(value: Value) -> str: ...\n"
        "objectives: Sequence[Objective]\n"
        "best: Reward\n" + "\n".join(LINES)
    )
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file=",
        "--disable-error-code=empty-body",
        "--follow-imports=silent",
        str(file),
    ]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    for number, (line, refused) in enumerate(LINES.items(), 6):
        found = [fault for fault in run.stdout.splitlines() if f"painter.py:{number}: error" in fault]
        assert len(found) == bool(refused) and refused in "".join(found), f"{line}: {run.stdout}{run.stderr}"
