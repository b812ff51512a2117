"""`evo check` as it is typed, and what `evo run` says of it afterwards."""

import json
import warnings

import pytest
from support.command_line import evo, refused

from evo.checks import record
from problems import resolve

SOUND = """\
statement = "Letters."
seed_answer = "abcd"
target = 1.0

def score(answer):
    word = answer.strip()
    if not word.isalpha():
        return {"error": "letters only"}
    return {"letters": len(set(word)) / 26, "a": min(1.0, word.count("a") / 9)}
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def scorer(here):
    (here / "scorer.py").write_text(SOUND)
    return "scorer.py"


def warned(capsys, scorer, iterations):
    """What a run of the scorer warns of a check and of its budget."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        code = evo(capsys, "run", scorer, "--policy", "scripted:mutate", "--iterations", iterations, "--plain")[0]
    assert code == 0
    return [text for one in caught if "evo check" in (text := str(one.message)) or "too few" in text]


@pytest.mark.long
def test_a_sound_scorer(capsys, scorer):
    code, out, err = evo(capsys, "check", scorer, "--plain", "--mutants", "16")
    assert code == 0 and "no fault found" in out and err == "", out + err
    for check in ("seed", "values", "deterministic", "time", "collinear", "trivial", "steps", "process"):
        assert f" {check} " in out, out
    assert not warned(capsys, scorer, "8")


@pytest.mark.long
def test_a_faulty_scorer_and_what_a_run_of_it_says(capsys, here, scorer):
    (here / scorer).write_text(SOUND.replace('"a": min', '"loss": min'))
    code, out, _ = evo(capsys, "check", scorer, "--json", "--mutants", "16")
    (report,) = json.loads(out)
    faults = [finding["check"] for finding in report["findings"] if finding["level"] == "finding"]
    assert code == 1 and not report["sound"] and faults == ["direction"], faults
    found, budget = warned(capsys, scorer, "2")
    assert "evo check found 1 fault in" in found and "direction" in found
    assert "2 iterations per problem are too few" in budget
    (here / scorer).write_text(SOUND)  # mended, and not checked since
    assert not warned(capsys, scorer, "8")


@pytest.mark.parametrize(
    "arguments", [("check", "nowhere.py"), ("check",), ("check", "maze:test/1", "--policy", "scripted:mutate")]
)
def test_bad_input(capsys, here, arguments):
    assert refused(capsys, *arguments)


def test_a_maze(capsys, here):
    code, out, _ = evo(capsys, "check", "maze:test/1", "--plain", "--mutants", "16")
    assert code == 0 and out.count("no fault found") == 1 and "never executed" in out


def test_a_cache_that_cannot_be_written_is_a_warning(capsys, tmp_path, scorer, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="not stored"):
        record.write_record(_problem(scorer), ["seed"])
    assert record.read_record(_problem(scorer)) is None


def _problem(scorer):
    return resolve(scorer)[0]
