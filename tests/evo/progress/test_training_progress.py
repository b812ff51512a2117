"""Training folders as `evo show` and `evo report` read them, and the sentence of what a training gained."""

import json
import os
import re

import pytest
from support.command_line import evo, refused
from support.page_faults import SKIPPED, TOO_SMALL

from evo.progress.training import TrainingProgress
from evo.training.directory import TrainingDirectory

GAIN = "held out: solve@30 0.20 -> 0.60, best@30 0.70 -> 0.90 on 20 problems of maze:hard"


@pytest.fixture
def folder(here):
    """Of a training that has ended, whose last line is still being written."""
    run = {"method": "vpo", "policy": "embedded:base", "problems": ["maze:train"], "evaluate": ["maze:hard"]}
    about = {"command": "evo train <vpo>", "start": "embedded:base@1", "steps": 2, "held_out": 20, "config": run}
    spent = {"answers": 9, "total_tokens": 99, "seconds": 60.0}
    lines = [
        {"kind": "evaluation", "step": 0, "solve@1": 0.0, "solve@30": 0.2, "best@30": 0.7},
        *({"kind": "step", "step": step, "cut": 0.5, "kl": 0.1 * step} for step in (1, 2)),
        {"kind": "evaluation", "step": 2, "solve@1": 0.1, "solve@30": 0.6, "best@30": 0.9},
    ]
    place = here / "runs" / "vpo"
    place.mkdir(parents=True)
    (place / "train.json").write_text(json.dumps(about))
    (place / "metrics.jsonl").write_text("".join(json.dumps(spent | line) + "\n" for line in lines) + '{"kind": "st')
    (place / "config.json").write_text("{}")
    return "runs/vpo"


def test_show_and_report_have_a_training(folder, capsys):
    code, out, _ = evo(capsys, "show", folder)
    assert code == 0 and GAIN in out and "done, step 2 of 2, 9 answers, 99 tokens, 1:00" in out
    assert re.search(r"^kl +0.1 +0.2 +distance from", out, re.M)
    assert json.loads(evo(capsys, "show", folder, "--json")[1])["gain"] == GAIN
    assert evo(capsys, "report", folder, "-o", "page.html")[0] == 0
    with open("page.html", encoding="utf-8") as page:
        text = page.read()
    assert GAIN.replace("->", "-&gt;") in text and "nats a token" in text and "evo train &lt;vpo&gt;" in text
    assert f"{folder} is the folder of a training: evo show {folder}" in refused(capsys, "watch", folder)


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.parametrize("width", [1440, 390])
def test_its_page_fits(folder, tab, here, capsys, width):
    assert evo(capsys, "report", folder, "-o", "page.html")[0] == 0
    tab.set_viewport_size({"width": width, "height": 844})
    tab.goto((here / "page.html").as_uri())
    tab.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert tab.locator("svg.plot").count() == 5 and tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.evaluate(TOO_SMALL) == tab.evaluate(SKIPPED) == tab.complaints == []


def test_its_state_is_that_of_its_process(folder):
    with TrainingDirectory(folder).lock():
        assert TrainingProgress.open(folder).state == "running"
        with pytest.raises(ValueError, match="another training runs there"), TrainingDirectory(folder).lock():
            pass
    os.utime(f"{folder}/config.json", (1, 1))  # of an earlier end: it was resumed and killed
    assert TrainingProgress.open(folder).state == "stopped"
