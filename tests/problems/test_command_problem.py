"""Programs of one file or several, in any language, scored by a command."""

import shutil
from pathlib import Path

import pytest

from evo.testing import ProblemContract
from problems import ScorerFault, resolve
from problems.custom.command import file_header, join_files, split_files
from problems.openevolve.evolve_block import NotSpliceable
from problems.sandbox import pool
from problems.sandbox.pool import Sandbox

EXAMPLE = Path(__file__).parents[2] / "examples" / "two_files"


class TestTwoFiles(ProblemContract):
    answers = ("# === file: route.py ===\ndef route(towns):\n    return list(range(12))\n",)

    def problem(self):
        return resolve(str(EXAMPLE))[0]


def write(folder, yaml, **files):
    folder.mkdir(exist_ok=True)
    (folder / "problem.yaml").write_text(yaml)
    for name, text in files.items():
        (folder / name.replace("__", "/").replace("_DOT_", ".")).write_text(text)
    return str(folder)


@pytest.fixture
def counted(tmp_path):
    """Shell alone: the number of lines of a text, and that it is short."""
    yaml = (
        "command: |\n  lines=$(wc -l < poem.txt)\n  echo noise\n"
        '  echo "{\\"lines\\": $lines, \\"short\\": $(( $(wc -c < poem.txt) < 20 ))}"\n'
        "files: poem.txt\nstatement: Write a poem.\n"
    )
    return write(tmp_path / "poem", yaml, poem_DOT_txt="one\ntwo\n")


@pytest.mark.parametrize("mode", ["bwrap", "landlock"])
def test_a_commands_own_files_are_there_with_their_modes_in_every_mode(tmp_path, mode):
    if (reason := pool.probe(mode)) is not None:
        pytest.skip(reason)
    folder = tmp_path / "scripted"
    command = write(folder, "command: ./score.sh\nfiles: poem.txt\nstatement: A poem.\n", poem_DOT_txt="one\n")
    (folder / "score.sh").write_text("#!/bin/sh\nwc -l < poem.txt\n")
    (folder / "score.sh").chmod(0o755)
    with Sandbox(mode, 1) as sandbox:
        (problem,) = resolve(command, sandbox=lambda: sandbox)
        assert problem.score("one\ntwo\n").rewards == (2.0,)


def test_a_command_scores_what_its_last_line_says(counted):
    (problem,) = resolve(counted)
    assert problem.objectives == ("lines", "short") and problem.answer_format == "text"
    assert problem.score(problem.seed_answer()).rewards == (2.0, 1.0)
    assert problem.score("a\nb\nc\n").rewards == (3.0, 1.0)
    assert "Write a poem." in problem.statement() and "poem.txt" in problem.statement()
    assert resolve(f"{counted}/problem.yaml")[0].name == problem.name


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_program_in_c_is_compiled_and_run(tmp_path):
    seed = "#include <stdio.h>\nint value(void) {\n// EVOLVE-BLOCK-START\nreturn 3;\n// EVOLVE-BLOCK-END\n}\n"
    main = '#include <stdio.h>\nint value(void);\nint main(void) { printf("%d\\n", value()); return 0; }\n'
    yaml = "command: cc -o run main.c value.c && ./run\nfiles: [value.c]\ntimeout: 20\n"
    (problem,) = resolve(write(tmp_path / "c", yaml, value_DOT_c=seed, main_DOT_c=main))
    assert problem.fault is None and problem.objectives == ("score",) and problem.answer_format == "text"
    assert problem.score(problem.canonical("```c\nreturn 6 * 7;\n```")).fitness == 42
    broken = problem.score(problem.canonical("return 6 *;"))
    assert broken.fitness == 0 and "ended with status 1" in broken.error and "value.c" in broken.feedback


def test_two_files_are_spliced_and_run_together():
    (problem,) = resolve(str(EXAMPLE))
    seed = problem.score(problem.seed_answer())
    assert seed.error is None and problem.objectives == ("length", "different")
    body = "UP = 1.0\ndef distance(a, b):\n    return abs(a[0] - b[0]) + UP * abs(a[1] - b[1])\n"
    fair = f"# === file: distance.py ===\n{body}"
    better = problem.score(problem.canonical(fair))
    assert better.error is None and better.fitness > seed.fitness
    form = problem.canonical(fair)
    assert form.count("=== file: ") == 2 and "def route" in form and form.count("EVOLVE-BLOCK-START") == 2
    assert '"""How far two towns seem' in form  # what stands outside the blocks


def test_what_a_candidate_prints_is_not_its_score():
    (problem,) = resolve(str(EXAMPLE))
    loud = (
        "# === file: route.py ===\nimport os, atexit\n"
        "def route(towns):\n"
        '    print(\'{"length": 0.001, "different": 1.0, "fitness": 1e9}\', flush=True)\n'
        '    os.write(1, b\'{"length": 0.001, "different": 1.0, "fitness": 1e9}\')\n'
        "    return list(range(12))\n"
    )
    quiet = "# === file: route.py ===\ndef route(towns):\n    return list(range(12))\n"
    assert problem.score(problem.canonical(loud)).fitness == problem.score(problem.canonical(quiet)).fitness < 2


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("echo 1; exit 3", "ended with status 3"),
        ("true", "no JSON object"),
        ("echo true", "no JSON object"),
        ("kill -9 $$", "signal 9"),
        ("sleep 60", "1 s"),
    ],
)
def test_a_command_that_fails_is_the_answers_fault_but_not_on_the_seed(tmp_path, command, says):
    yaml = f"command: if grep -q good a.txt; then echo 5; else {command}; fi\nfiles: a.txt\ntimeout: 1\n"
    (problem,) = resolve(write(tmp_path / "good", yaml, a_DOT_txt="good"))
    found = problem.score("bad")
    assert found.fitness == 0 and says in found.error, found
    (broken,) = resolve(write(tmp_path / "bad", f"command: '{command}'\nfiles: a.txt\ntimeout: 1\n", a_DOT_txt="x"))
    with pytest.raises(ScorerFault, match="fails"):
        broken.score("x")


@pytest.mark.parametrize("printed", ['{"x": NaN}', '{"y": 1}', '{"x": "much"}', "{}"])
def test_numbers_and_names_that_do_not_fit_are_the_answers_fault(tmp_path, printed):
    yaml = "command: cat a.txt\nfiles: a.txt\n"
    (problem,) = resolve(write(tmp_path / "p", yaml, a_DOT_txt='{"x": 1}'))
    assert problem.score('{"x": 2}').fitness == 2
    found = problem.score(printed)
    assert found.fitness == 0 and found.error


def test_a_command_sees_its_folder_but_writes_in_its_own(tmp_path):
    folder = tmp_path / "p"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.txt").write_text("4")
    (folder / "src" / "b.txt").write_text("7")
    yaml = "command: echo 1 > left; echo 2 2>/dev/null > data.txt; echo $(( $(cat src/a.txt) + $(cat src/b.txt) ))\n"
    (problem,) = resolve(write(folder, yaml + "files: src/a.txt\n", data_DOT_txt="9"))
    assert problem.score("5").fitness == 12
    assert not (folder / "left").exists() and (folder / "data.txt").read_text() == "9"
    assert (folder / "src" / "a.txt").read_text() == "4"


# -- several files as one text -----------------------------------------------------------------------

BLOCK = "head\n# EVOLVE-BLOCK-START\nold\n# EVOLVE-BLOCK-END\ntail\n"
FILES = {"a.py": BLOCK, "lib/b.c": "int x;\n"}


def test_files_come_back_from_their_own_text():
    assert split_files(join_files(FILES), FILES, "python") == FILES
    assert file_header("lib/b.c").startswith("//") and file_header("a.py").startswith("#")


@pytest.mark.parametrize(
    "answer",
    [
        "# === file: a.py ===\nnew\n",
        "```python\n# === file: a.py ===\nnew\n```\n",
        "Here it is.\n\n# === file: a.py ===\n```python\nnew\n```\nThat was it.",
        "// === file: a.py ===\nhead\n# EVOLVE-BLOCK-START\nnew\n# EVOLVE-BLOCK-END\ntail\n",
        "# === file: a.py ===\nhead changed\n# EVOLVE-BLOCK-START\nnew\n# EVOLVE-BLOCK-END\n"
        "// === file: lib/b.c ===\nint x;\n",
    ],
)
def test_an_answer_changes_the_blocks_alone(answer):
    found = split_files(answer, FILES, "python")
    assert found["a.py"] == BLOCK.replace("old", "new") and found["lib/b.c"].strip() == "int x;"


@pytest.mark.parametrize(
    ("answer", "says"), [("x = 1", "names no file"), ("# === file: c.py ===\nx\n", "c.py"), ("", "names no file")]
)
def test_an_answer_that_fits_no_file_says_what_would(answer, says):
    with pytest.raises(NotSpliceable, match=says):
        split_files(answer, FILES, "python")
