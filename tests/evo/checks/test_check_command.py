"""`evo check` as it is typed, and what `evo run` warns of."""

import json

import pytest
from support.command_line import evo, refused

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


@pytest.fixture
def scorer(here):
    (here / "scorer.py").write_text(SOUND)
    return "scorer.py"


@pytest.mark.long
def test_a_sound_scorer(capsys, scorer):
    code, out, err = evo(capsys, "check", scorer, "--plain", "--mutants", "16")
    assert code == 0 and "no fault found" in out and err == "", out + err
    for check in ("seed", "values", "deterministic", "time", "collinear", "trivial", "steps", "process"):
        assert f" {check} " in out, out


@pytest.mark.long
def test_a_faulty_scorer(capsys, here, scorer):
    (here / scorer).write_text(SOUND.replace('"a": min', '"loss": min'))
    code, out, _ = evo(capsys, "check", scorer, "--json", "--mutants", "16")
    (report,) = json.loads(out)
    assert report["skipped"] == ["process"]
    faults = [finding["check"] for finding in report["findings"] if finding["level"] == "finding"]
    assert code == 1 and not report["sound"] and faults == ["direction"], faults


def test_a_policy_is_no_option_of_a_check(capsys, here):
    assert "--policy" in refused(capsys, "check", "maze:test/1", "--policy", "scripted:mutate")


def test_a_maze(capsys, here):
    code, out, _ = evo(capsys, "check", "maze:test/1", "--plain", "--mutants", "16")
    assert code == 0 and out.count("no fault found") == 1 and "never executed" in out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "seed_answer = 'abcd'\ndef score(answer):\n    return {'x': len(set(answer)), 'y': answer.count('a')}\n",
            "process",
        ),
        ("isolated = False\n" + SOUND, ""),
    ],
)
def test_what_was_not_tried_is_in_the_conclusion(capsys, here, text, told):
    (here / "scorer.py").write_text(text)
    _, out, _ = evo(capsys, "check", "scorer.py", "--plain", "--mutants", "16")
    last = out.strip().splitlines()[-1]
    assert (f"no fault found; not tried: {told} (" in last) == bool(told), out
    assert ("could cheat: process" in last) != bool(told)
