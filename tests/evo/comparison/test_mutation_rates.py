"""What operators make of the parents that they are shown: shares, intervals, differences, and how they are printed."""

import io
import json

import numpy as np
import pytest
from rich.console import Console
from support.command_line import evo

from evo.comparison.operators import (
    BELOW,
    BINS,
    SHOWN_RATES,
    OperatorCounts,
    intervals,
    operator_dict,
    refinement_differences,
)
from evo.comparison.summary import pairs_of
from evo.progress.model import Progress
from evo.report.terminal import print_operators
from islands.store import Store
from islands.types import AT_TARGET, NO_PARENT

FIELDS = ("answers", "better", "copies", "repeats", "compared", "kept")


def made(policy="a", problems=8, **fields):
    """Counts by field: {bin: number for each problem}, one seed."""
    of = {name: np.zeros((problems, 1, len(BINS) + 1)) for name in FIELDS}
    for name, bins in fields.items():
        for bin, values in bins.items():
            of[name][:, 0, bin - NO_PARENT] = values
    return OperatorCounts(policy, policy, of)


ONE = made(
    answers={NO_PARENT: 10, 1: 20, 3: 40, AT_TARGET: 30},
    better={1: 10, 3: 4},
    copies={1: 2, AT_TARGET: 7},
    repeats={NO_PARENT: 5, 3: 20},
    compared={1: 20, 3: 40},
    kept={1: 5.0, 3: 25.0},
)


def test_shares_are_of_the_answers_that_they_can_be_of():
    shares = ONE.shares
    assert shares["refined .25-.5"] == 0.5 and shares["refined .75-1"] == 0.1 and shares["refined solved"] == 0.0
    assert "refined 0-.25" not in shares, "no parent was that unfit"
    assert shares[f"refined {BELOW}"] == pytest.approx(14 / 60)
    assert shares["kept"] == 0.5 and shares["copies"] == 0.1
    assert shares["repeats"] == 0.25 and shares["alone"] == 0.1
    assert ONE.answers == 800


def test_an_operator_that_is_never_shown_a_parent_has_no_refinement_rate():
    alone = made(answers={NO_PARENT: 10}, repeats={NO_PARENT: 1}).shares
    assert alone == {"repeats": 0.1, "alone": 1.0}


def test_every_share_has_an_interval_and_says_what_it_is_of():
    found = intervals(ONE, crossed_seeds=False)
    shares = ONE.shares
    assert {name: one.mean for name, one in found.items()} == pytest.approx(dict(shares))
    assert all(one.low <= one.mean <= one.high for one in found.values())
    shown = operator_dict(ONE, crossed_seeds=False)
    assert shown["refined"]["0-.25"] is None and shown["refined"][".75-1"]["of"] == 320
    assert shown["kept"]["mean"] == 0.5 and shown["answers"] == 800
    json.dumps(shown)


def test_refinement_rates_are_compared_bin_by_bin():
    answers = np.array([10.0, 40, 20, 30, 25, 60, 15, 35])
    base = made(answers={1: answers, 3: answers}, better={1: 0.2 * answers, 3: 0.1 * answers})
    more = made(answers={1: answers, 2: answers}, better={1: 0.5 * answers, 2: answers})
    operators = {"base": [base], "more": [more], "two": [base, more]}
    gaps = refinement_differences(operators, pairs_of(list(operators), "base"), crossed_seeds=False)
    assert set(gaps) == {("more", "base")}, "an arm of two operators has no one rate"
    assert set(gaps["more", "base"]) == {f"refined {BELOW}", "refined .25-.5"}, "bins that both have parents in"
    gap = gaps["more", "base"]["refined .25-.5"]
    assert gap.interval.mean == pytest.approx(0.3) and gap.shown and gap.comparisons == 1
    assert refinement_differences({"base": [base]}, [], crossed_seeds=False) == {}


def test_no_figure_is_cut_where_a_name_is_long():
    console = Console(width=80, record=True, file=io.StringIO())
    of_parents = {bin: 75.0 for bin in range(4)}
    quarter = made(
        "edit-classic: embedded:edit-solve-and-again",
        answers={NO_PARENT: 100, **of_parents},
        better={bin: 18.75 for bin in of_parents},
        copies={bin: 18.75 for bin in of_parents},
        repeats={NO_PARENT: 100},
        compared=of_parents,
        kept={bin: 18.75 for bin in of_parents},
    )
    print_operators(console, {"a": [quarter]}, crossed_seeds=False)
    lines = console.export_text().splitlines()
    assert sum(line.count("0.250") for line in lines) == len(SHOWN_RATES) and "…" not in "".join(lines)
    assert max(map(len, lines)) <= 80


ARGUMENTS = ["maze:test", "--limit", "3", "--iterations", "8", "--islands", "5", "--name", "c", "--plain"]
ARMS = ["--arm", "classic=scripted:classic", "--arm", "echo=scripted:echo", "--baseline", "best-of-n"]


def test_details_of_a_comparison_are_its_operators(here, capsys):
    code, _, err = evo(capsys, "compare", *ARGUMENTS, *ARMS, "--seeds", "2")
    assert code == 0, err
    out = evo(capsys, "show", "c", "--details")[1]
    table = out[out.index("Answers against the parent") :].splitlines()
    assert table[2].split()[-5:] == ["<100%", "kept", "copied", "repeated", "parent"]
    rows = {line.split()[0]: line.split()[1:] for line in table[3:5]}
    assert rows["best-of-n"][:-2] == ["-"] * (len(rows["classic"]) - 2) and rows["best-of-n"][-1] == "1.000"
    assert all(len(line) <= 80 for line in table[:5])
    with Store.open("sqlite:///evo.db", read_only=True) as store:
        found = Progress.open(store, "c").operators
        (classic,) = found["classic"]
        assert found["echo"] == [], "an echo of nothing is no answer"
        assert classic.of["answers"].shape == (3, 2, len(BINS) + 1) and classic.of["answers"].sum() == 3 * 2 * 8 * 3
        assert 0.3 < classic.shares["kept"] < 0.9


def test_several_operators_of_one_search_are_counted_apart(here, capsys):
    policy = "scripted:classic,scripted:mutate"
    code, _, err = evo(capsys, "run", *ARGUMENTS, "--policy", policy, "--answers", "1")
    assert code == 0, err
    operators = json.loads(evo(capsys, "show", "c", "--json")[1])["operators"]
    assert [one["policy"] for one in operators] == ["scripted:classic", "scripted:mutate"]
    assert sum(one["answers"] for one in operators) == 3 * 8 and min(one["answers"] for one in operators) > 0
