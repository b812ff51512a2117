"""`evo problems`: every set with its size, objectives, source and licence."""

from support.command_line import evo

from evo.cli import problems
from problems.registry import describe_sets


def test_every_set_has_a_line_with_its_size_objectives_source_and_licence(capsys):
    code, out, _ = evo(capsys, "problems")
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert code == 0
    for row in describe_sets():
        line = lines[row["name"]]
        assert f"{row['count']:,}" in line and row["description"] in line
        for term in (row["objectives"][0], row["source"], row["licence"]):
            assert term and term in line


def test_a_set_of_unknown_size_and_without_terms(capsys, monkeypatch):
    row = {"name": "mine", "count": None, "objectives": [], "description": "", "source": "", "licence": ""}
    monkeypatch.setattr(problems, "describe_sets", lambda: [row])
    assert evo(capsys, "problems")[1].splitlines()[1].split() == ["mine"]
