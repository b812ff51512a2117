"""A new column of the arms is one line of ARM_COLUMNS: every view then has it."""

import json

from support.stored_searches import store_comparison

from evo.api.results import load_comparison
from evo.cli import invoke
from evo.progress import rows
from evo.progress.model import Progress
from evo.report.page import build_page, render
from islands.store import Store


def test_a_line_of_the_table_of_columns_is_a_column_of_every_view(db, capsys, monkeypatch):
    store_comparison(db, "cmp", {"a": [{"p1": (3, 7)}], "b": [{"p1": (3, 5)}]}, lower=False)
    column = rows.ArmColumn(
        "length of name",
        lambda of: rows.number_cell(41 + len(of.arm.name), "d"),
        "screen terminal page",
        "name_length",
        9,
    )
    monkeypatch.setattr(rows, "ARM_COLUMNS", (*rows.ARM_COLUMNS, column))

    def run(*words):
        assert invoke([*words, "--db", db]) == 0
        return capsys.readouterr().out

    terminal, screen = run("show", "cmp"), run("watch", "cmp", "--once")
    assert (
        "length" in terminal
        and sum(line.startswith(("a ", "b ")) and " 42" in line for line in terminal.splitlines()) == 2
    )
    assert "length of name" in screen and screen.count(" 42") == 2
    with Store.open(db, read_only=True) as store:
        html = render("page.html.jinja", page=build_page(Progress.open(store, "cmp")), state="done")
    assert "length of name" in html and html.count('data-label="length of name">42<') == 2
    assert [arm["name_length"] for arm in json.loads(run("show", "cmp", "--json"))["arms"].values()] == [42, 42]
    assert load_comparison("cmp", db=db).arms().name_length.tolist() == [42, 42]
