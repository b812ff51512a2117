"""The page: what it holds, that it needs nothing else, and that nothing a model wrote is more than text in it."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from sqlalchemy import insert
from support.command_line import refused
from support.hostile_text import AnyTextProblem, Elements

from evo.cli import invoke
from evo.cli.show import print_comparison
from evo.progress.model import IN_SEARCH, Progress
from evo.progress.rows import ARM_COLUMNS, HINTS
from evo.report.answers import Plot, bounded, plot_line
from evo.report.tables import comparison_dict, flattened
from evo.stats.intervals import mean_interval
from islands.schema import Runs
from islands.store import Store


@pytest.fixture(scope="module")
def finished(made, page_for):
    """The Page of the made-up comparison, and its HTML."""
    return page_for(made, "made-up")


def test_the_page_says_what_was_found(finished):
    page, html = finished
    found = Elements(html)
    assert len(page.snapshot.verdict) == 3 and all(verdict.text in found.text for verdict in page.snapshot.verdict)
    assert "3 arms, 5 problems, 2 seeds, 12 iterations of 3 answers" in found.text and "Unfinished" not in found.text
    tables = {one["id"] for one in found.of("div") if one.get("class") == "table"}
    expected = {"arms", "differences", "problems", "cost", "settings", "machines", "errors"}
    assert tables == expected | {"shared-settings"}
    metrics = {row[1].text for row in page.arms[1].rows}
    assert "solve rate" in metrics
    for text in ("made:base", "made:grpo", "made-up/0", "made-up/4", "evo compare made-up --iterations 12"):
        assert text in found.text
    assert [plot.title for plot in page.curves] == ["solve rate", "mean best fitness"]
    assert len(found.of("figure")) == 2 + 5, "curves, and one for each problem"
    assert len(page.details) == 5 and all(len(one.answers) == 3 for one in page.details)
    assert len(page.cards) == 5 and "best_answers" in dict(page.next_steps)["Save the best answers"]


def test_the_page_asks_for_nothing(finished):
    found = Elements(finished[1])
    for _, attributes in found.elements:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
        assert not any(name.startswith("on") or name == "style" for name in attributes)
    style = finished[1][finished[1].index("<style>") : finished[1].index("</style>")]
    assert "url(" not in style and "@import" not in style
    (policy,) = [one["content"] for one in found.of("meta") if "http-equiv" in one]
    assert policy.startswith("default-src 'none'; img-src data:;") and "unsafe" not in policy
    assert "connect-src" not in policy and "form-action 'none'" in policy


def test_tables_hold_what_they_are_sorted_by(finished):
    page, _ = finished
    row = next(row for row in page.problems.rows if row[0].text == "made-up/3")
    assert (row[0].sort, row[1].value, row[0].link) == ("made-up/3", pytest.approx(0.81), "#problem-4")
    outcomes = [cell for row in page.problems.rows for cell in row[2:5]]
    solved = [cell for cell in outcomes if cell.mark == "solved"]
    assert solved and all("@" in cell.text and cell.sort < 1e6 for cell in solved)


def test_every_number_of_the_page_is_explained():
    titles = {column.title for column in ARM_COLUMNS if isinstance(column.title, str)}
    plain = {"arm", "runs", "policy", "solved", "tokens/s", "errors"}  # words, and columns of the screen
    assert (titles | set(IN_SEARCH)) - plain - {title for title, hint in HINTS.items() if hint} == set()


def test_best_answers_have_their_origin(made, finished):
    page, html = finished
    with Store.open(made, read_only=True) as store:
        progress = Progress.open(store, "made-up")
        details = [progress.best(row, arm) for row in range(5) for arm in range(len(progress.comparison.arms))]
    answers = [answer for one in page.details for answer in one.answers]
    for answer, detail in zip(answers, details, strict=True):
        assert answer.stored.candidate == detail.answer.candidate
        assert answer.stored.lineage[:12] == detail.answer.lineage
        assert answer.search.best.iteration == (
            detail.stored.iteration + 1 if detail.stored.iteration is not None else 0
        )
        assert answer.seed.number == 0.0 and detail.answer.candidate.text in answer.stored.chain
        assert bool(answer.stored.difference) == (detail.answer.parent is not None)
    assert "Write eight digits." in html


def test_another_reference(made, page_for):
    page, _ = page_for(made, "made-up", "base")
    against = [re.search(r"\S+ - (\S+) = ", verdict.text)[1] for verdict in page.snapshot.verdict]
    assert against == ["base", "base", "best-of-n"], "every pair, those with the reference first"
    assert page.problems.columns[-1].title == "grpo against base"
    pairs = {row[0].text for row in page.arms[1].rows}
    assert pairs == {"best-of-n - base", "grpo - base", "grpo - best-of-n"}


def test_a_run_by_itself(made, page_for):
    page, html = page_for(made, "made-up/grpo/s1")
    assert page.snapshot.verdict == () and page.settings[0].name == "machines"
    text = Elements(html).text
    assert "made:grpo, 5 problems, 1 seed, 12 iterations" in text and "has won a problem" not in text
    assert not any("against" in column.title for column in page.problems.columns)


@pytest.mark.parametrize("crossed", [False, True])
def test_every_interval_of_a_page_allows_for_crossed_seeds(made, page_for, crossed, monkeypatch):
    """Of archives too: an arm that trains has seeds that act on all problems at once."""
    from evo.comparison.arms import Comparison

    monkeypatch.setattr(Comparison, "crossed_seeds", crossed)
    called = []

    def recorded(values, **options):
        called.append(options.get("crossed_seeds", False))
        return mean_interval(values, **options)

    for module in ("evo.progress.model", "evo.comparison.summary"):
        monkeypatch.setattr(f"{module}.mean_interval", recorded)
    page_for(made, "made-up")
    assert len(called) >= 3 * 3 and set(called) == {crossed}


@pytest.fixture
def unfinished(search_with, digits, digits_policy, as_comparison, tmp_path):
    address = f"sqlite:///{tmp_path / 'runs.db'}"
    problems = [digits("one", target=2.0), digits("two", target=2.0)]
    search_with(problems, digits_policy(batch=1), address, name="r0", iterations=6)
    search_with(problems, digits_policy(batch=1), address, name="r1", iterations=6, stop_after=7)
    as_comparison(address, {"r0": ("grpo", 0), "r1": ("late", 0)})
    with Store.open(address) as store, store.begin() as tx:
        store.finish_run(store.run("r1").id, "interrupted", tx=tx)
        config = dict(store.run("r0").config)
        for arm in ("grpo", "late"):
            values = dict(name=f"w/{arm}", status="waiting", reason="", command="", seed=1, commit="", config=config,
                          summary={}, comparison="both", arm=arm, created=0.0, updated=0.0)  # fmt: skip
            tx.connection.execute(insert(Runs).values(**values))
    return address


def test_an_unfinished_comparison_says_how_far_it_is(unfinished, page_for):
    page, html = page_for(unfinished, "both")
    at = page.summary.horizon
    assert 2 <= at < 6 and page.summary.seeds == 1
    assert page.remarks[0] == (
        "Unfinished: of 4 runs, 1 interrupted, 2 waiting. Metrics of whole searches are taken at the "
        f"horizon, iteration {at} of 6, of 1 of 2 seeds."
    )
    assert page.remarks[0] in Elements(html).text and f"after {at} of 6 iterations" in Elements(html).text
    assert "late - grpo" in page.snapshot.verdict[0].text and dict(page.next_steps)["Continue"].startswith(
        "evo resume both"
    )


def test_a_run_that_is_being_searched_is_watched_and_not_continued(small, page_for):
    with Store.open(small) as store:
        run = store.run("run").id
        with store.begin() as tx:
            store.finish_run(run, "running", tx=tx)
        with store.lease(run):
            steps = dict(page_for(small, "run")[0].next_steps)
    assert steps["Watch it"].startswith("evo watch run") and "Continue" not in steps and "Search longer" not in steps


def test_training_is_drawn_and_versions_are_listed(small, page_for):
    with Store.open(small) as store, store.begin() as tx:
        run = store.run("run")
        for step in range(4):
            store.add_training_step(run.id, step, {"loss": 1 / (step + 1), "kl": 0.1 * step, "note": "x"}, tx)
    page, html = page_for(small, "run")
    assert [plot.title for plot in page.training] == ["loss", "kl"] and "Training" in Elements(html).text


@pytest.mark.parametrize("seeds", [1, 3])
def test_one_problem_has_intervals_over_seeds_or_none_and_never_of_no_width(
    search_with, digits, digits_policy, as_comparison, tmp_path, page_for, capsys, seeds
):
    address, runs = f"sqlite:///{tmp_path / 'runs.db'}", {}
    for arm, batch in (("grpo", 1), ("vpo", 2)):
        for seed in range(seeds):
            runs[f"{arm}{seed}"] = (arm, seed)
            search_with([digits("one", target=0.8)], digits_policy(batch=batch), address, name=f"{arm}{seed}",
                        seed=seed, iterations=6)  # fmt: skip
    as_comparison(address, runs)
    found = Elements(page_for(address, "both")[1]).text
    assert ("one problem under one seed has no interval" in found) == (seeds == 1)
    assert "over the seeds of one problem" in found and not re.search(r"\bnan\b", found.lower())
    for low, high in re.findall(r"\[([-+.0-9]+), ([-+.0-9]+)\]", found):
        assert float(low) < float(high), (low, high)
    with Store.open(address, read_only=True) as store:
        progress = Progress.open(store, "both")
        shown = comparison_dict(progress)
        json.dumps(shown, allow_nan=False)
        solved = shown["arms"]["grpo"]["solved"]
        assert (solved["low"] is None) == (seeds == 1) == (shown["against"]["vpo"]["solved"]["low"] is None)
        print_comparison(Console(width=100), progress)
    printed = capsys.readouterr().out
    assert "nan" not in printed.lower() and "area: under the solve curve" in printed


@pytest.mark.parametrize(("target", "timed"), [(99.0, False), (0.0, True)])
def test_a_table_explains_the_columns_that_it_has(
    search_with, digits, digits_policy, as_comparison, tmp_path, capsys, target, timed
):
    address = f"sqlite:///{tmp_path / 'runs.db'}"
    for arm in ("a", "b"):
        search_with([digits("one", target=target)], digits_policy(), address, name=arm, iterations=3)
    as_comparison(address, {"a": ("a", 0), "b": ("b", 0)})
    with Store.open(address, read_only=True) as store:
        print_comparison(Console(width=100), Progress.open(store, "both"))
    table, _, legend = capsys.readouterr().out.partition("\narea: ")
    assert ("median" in table) == ("; median time: " in legend) == timed


def test_problems_without_targets_are_judged_by_their_fitness(
    search_with, digits_policy, as_comparison, tmp_path, page_for
):
    address = f"sqlite:///{tmp_path / 'runs.db'}"
    for name in ("two", "one"):
        search_with([AnyTextProblem("open", target=None)], digits_policy(), address, name=name, iterations=4)
    as_comparison(address, {"two": ("two", 0), "one": ("one", 0)})
    page, _ = page_for(address, "both")
    assert not page.curves and len(page.details[0].chart.lines) == 2
    assert page.summary.horizon == 0 and page.summary.best_horizon == 4
    assert (
        page.verdict_title.startswith("Mean best fitness after 4 of 4 iterations") and len(page.snapshot.verdict) == 1
    )
    assert [column.title for column in page.problems.columns] == ["problem", "two", "one", "one against two"]


def test_charts_hold_raw_numbers_and_gaps_where_nothing_is_known():
    y = np.array([-1234567.4, np.nan, -1234531.2])
    plot = Plot("<b>", "iteration", [plot_line(1, "a", np.arange(3.0), y, y - 1, y + 1, steps=True)], rule=2.5)
    (line,) = json.loads(json.dumps(plot.as_dict(), allow_nan=False))["lines"]
    assert (line["y"], line["low"][1], line["shape"]) == ([-1234567.4, None, -1234531.2], None, "triangle-up")


def test_long_texts_are_cut_and_settings_are_flat():
    assert bounded("x" * 50, 10) == "x" * 10 + "\n… and 40 more characters" and bounded("x", 10) == "x"
    assert flattened({"a": {"b": 1, "c": {"d": 2}}, "e": 3}) == {"a.b": 1, "a.c.d": 2, "e": 3}


def test_the_command_writes_one_file(made, tmp_path, capsys):
    page = tmp_path / "out.html"
    assert invoke(["report", "made-up/base/s0", "--db", made, "-o", str(page), "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert written["page"] == str(page) and written["bytes"] == page.stat().st_size
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>") and list(tmp_path.iterdir()) == [page]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nothing"], "has no run named nothing"),
        (["made-up", "--against", "nobody"], "has no arm nobody; it has base, best-of-n, grpo"),
        (["made-up", "-o", "{tmp}/no/such/report.html"], "there is no directory"),
        (["made-up", "-o", "{tmp}"], "is a directory"),
    ],
)
def test_bad_input_is_one_line(made, tmp_path, capsys, arguments, line):
    arguments = [argument.format(tmp=tmp_path) for argument in arguments]
    assert line in refused(capsys, "report", *arguments, "--db", made) and not list(tmp_path.iterdir())


def test_a_run_with_nothing_in_it_yet(tmp_path, capsys):
    address, page = f"sqlite:///{tmp_path / 'runs.db'}", tmp_path / "r.html"
    with Store.open(address) as store:
        config = {"policy": "p", "rollouts": 1, "answers": 3, "iterations": 5}
        run = store.create_run("new", config, command="", seed=0, commit="")
        for _ in range(2):
            assert invoke(["report", "new", "--db", address, "-o", str(page)]) == 2
            assert "new has nothing to report yet: no iteration is committed" in capsys.readouterr().err
            if not store.problems(run.id):
                store.add_problem(run.id, 0, "a", "a", ["x"], 1.0, "text")
    assert not page.exists()


def test_a_page_that_cannot_be_finished_leaves_the_old_one(made, tmp_path, capsys, monkeypatch):
    page = tmp_path / "r.html"
    page.write_text("the old one")

    def full(self, target):
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr(Path, "replace", full)
    assert invoke(["report", "made-up/base/s0", "--db", made, "-o", str(page)]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert page.read_text() == "the old one" and list(tmp_path.iterdir()) == [page]
