"""The JSON of commands: every object has the version of its keys, and the page of the docs names every key."""

import json
import re
from pathlib import Path

from support.command_line import evo

from evo.cli.options import SCHEMA

ROOT = Path(__file__).parents[3]
METRICS = r"(best|solve)@\d+|mean\[.*\]|diversity.*|pareto_fraction|E_w\[best\]|distinct_vectors|written|valid"
RANDOM = ("--policy", "scripted:random-route")
COMMANDS = {
    "evo run, evo resume": ("run", "maze:test/0", *RANDOM, "--iterations", "2", "--name", "r", "--plain"),
    "evo compare, evo show COMPARISON": (
        *("compare", "maze:test/0", "--arm", "a=scripted:random-route", "--arm", "b=scripted:mutate"),
        *("--iterations", "2", "--seeds", "1", "--processes", "1", "--name", "c", "--plain"),
    ),
    "evo watch": ("watch", "r"),
    "evo runs": ("runs",),
    "evo show RUN": ("show", "r"),
    "evo show RUN CANDIDATE": ("show", "r", "1"),
    "evo best": ("best", "r"),
    "evo evaluate": ("evaluate", "maze:test/0", *RANDOM, "--answers-total", "3"),
    "evo problems": ("problems",),
    "evo problems ADDRESS": ("problems", "maze:test/0"),
}


def test_the_page_names_every_key_of_every_command(here, monkeypatch, capsys):
    monkeypatch.delenv("EVO_DB", raising=False)
    page = (ROOT / "docs/guides/runs.md").read_text(encoding="utf-8")
    sections = {part.partition("\n")[0]: part for part in re.split("\n##+ ", page)[1:]}
    for section, arguments in COMMANDS.items():
        code, out, error = evo(capsys, *arguments, "--json")
        assert code == 0 and out.count("\n") == 1, (section, error)
        value = json.loads(out)
        rows = value if isinstance(value, list) else [value]
        assert rows and all(row.pop("schema") == SCHEMA for row in rows), section
        keys = {key for key in rows[0] if not re.fullmatch(METRICS, key)}
        heads = [line.split("|")[1] for line in sections[section].splitlines() if line.startswith("| `")]
        assert keys == {key for head in heads for key in re.findall("`(.*?)`", head)}, section


def test_all_json_of_commands_has_a_version():
    for file in [*(ROOT / "evo/cli").glob("*.py"), *(ROOT / "evo/plugins").rglob("command.py")]:
        text = file.read_text(encoding="utf-8")
        if file.name != "options.py":
            assert not re.search(r"(echo|stdout\.write|print)\(\s*json\.dumps", text), f"{file.name}: use print_json"
