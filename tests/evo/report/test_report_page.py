"""The page: what it holds, that it needs nothing else, and that nothing a model wrote is more than text in it."""

import json
import re
import shutil
from dataclasses import replace

import pytest
from hostile_text import Elements, HostilePolicy
from rich.console import Console
from sqlalchemy import insert, update

from evo.comparison.load import gather, load_results
from evo.comparison.table import as_dict, costs_of, print_summary
from evo.comparison.verdict import summarise, verdicts_of
from evo.report.page import page_of
from evo.report.problem_table import problems_table
from evo.report.tables import differences, differences_table
from evo.testing import PolicyContract
from islands.schema import PromptGroup, Run, TrainingStep
from islands.store import Store


def test_the_page_says_what_was_found(finished):
    report, page = finished
    found = Elements(page)
    assert all(verdict.text in found.text for verdict in report.head.verdict) and len(report.head.verdict) == 2
    level = sum(not verdict.shown for verdict in report.head.verdict)
    assert sum(one.get("class") == "line level" for one in found.of("p")) == level
    assert "3 arms, 5 problems, 2 seeds, 12 iterations of 3 answers" in found.text
    assert "Unfinished" not in found.text
    tables = {one["id"] for one in found.of("div") if one.get("class") == "table"}
    of_operators = {"operators", "refinement"}
    expected = {"arms", "differences", "problems", "cost", "settings", "runs", "machines", "shared-settings"}
    assert tables == expected | of_operators
    for arm in ("base", "best-of-n", "grpo"):
        assert f"made:{arm}" in found.text
    for n in range(5):
        assert f"made-up/{n}" in found.text
    assert "evo compare made-up --iterations 12" in found.text
    pictures = found.of("img")
    assert len(pictures) == len(report.plots) and all(one["alt"] and one["src"][:22] for one in pictures)
    assert {"solve-rate", "best-at-k", "heat-map", "fitness", "diversity", "rewards-1", "lineage-1", "archive-1"} <= {
        plot.name for plot in report.plots
    }


def test_the_page_asks_for_nothing(finished):
    _, page = finished
    found = Elements(page)
    for _, attributes in found.elements:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
        assert not any(name.startswith("on") or name == "style" for name in attributes)
    style = page[page.index("<style>") : page.index("</style>")]
    assert "url(" not in style and "@import" not in style
    (policy,) = [one["content"] for one in found.of("meta") if "http-equiv" in one]
    assert policy.startswith("default-src 'none'; img-src data:;") and "unsafe" not in policy


@pytest.mark.long
def test_the_same_database_gives_the_same_bytes(made, finished, page_for):
    report, page = finished
    again, same = page_for(made, "made-up")
    assert same == page
    assert [plot.png for plot in again.plots] == [plot.png for plot in report.plots]


def test_tables_hold_what_they_are_sorted_by(finished):
    report, page = finished
    row = next(row for row in report.problems.table.rows if row[0].text == "made-up/3")
    assert [cell.sort for cell in row[:2]] == ["made-up/3", 0.74]
    outcomes = [cell for row in report.problems.table.rows for cell in row[2:5]]
    solved = [cell for cell in outcomes if cell.mark == "solved"]
    assert solved and all(cell.text.startswith("✓ ") for cell in solved)
    values = json.loads(re.search(r'id="chart-values">(.*?)</script>', page, re.DOTALL)[1])
    assert [arm["name"] for arm in values["arms"]] == ["base", "best-of-n", "grpo"]
    problems = values["problems"]
    assert len(problems["lines"]) == 3 and len(problems["lines"][0]) == 5 == len(problems["targets"])
    steps = problems["lines"][0][3][1]
    assert steps[-1][0] == 12 and [f for _, f in steps] == sorted(f for _, f in steps)
    assert {"solve-rate", "best", "best-at-k", "diversity", "vectors", "rewards-1"} <= set(values["charts"])
    curve = values["charts"]["best"]["lines"][2]
    assert curve["x"] == list(range(1, 13)) and curve["arm"] == 2
    assert all(low <= y <= high for low, y, high in zip(curve["low"], curve["y"], curve["high"], strict=True))


def test_another_reference(made):
    with Store.open(made, read_only=True) as store:
        comparison = gather(store, "made-up", "base")
        found = load_results(store, comparison)
    stand = summarise(found, comparison.reference)
    assert all(" - base = " in verdict.text for verdict in verdicts_of(stand))
    assert problems_table(comparison, found).columns[-1].title == "grpo against base"
    assert {row[0].text for row in differences_table("base", differences(stand, {})).rows} == {
        "best-of-n − base",
        "grpo − base",
    }


@pytest.mark.long
def test_a_run_by_itself(made, coarse, page_for):
    report, page = page_for(made, "made-up/grpo/s1")
    assert report.head.verdict == () and report.arms.differences is None and report.settings.differing is None
    text = Elements(page).text
    assert "made:grpo, 5 problems, 1 seed, 12 iterations" in text
    assert (
        "against" not in {column.title for column in report.problems.table.columns} and "has won a problem" not in text
    )


@pytest.mark.long
def test_an_unfinished_comparison_says_how_far_it_has_come(
    search_with, digits, digits_policy, as_comparison, coarse, tmp_path, page_for
):
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
            tx.connection.execute(insert(Run).values(**values))
    report, page = page_for(address, "both")
    at = report.summary.horizon
    assert 2 <= at < 6 and report.summary.seeds == 1
    assert report.head.remarks == (
        "Unfinished: of 4 runs, 1 interrupted, 2 waiting. Metrics of whole searches are taken at the "
        f"horizon, iteration {at} of 6, of 1 of 2 seeds.",
    )
    assert report.head.remarks[0] in Elements(page).text and f"After {at} of 6 iterations" in Elements(page).text
    assert "late - grpo" in report.head.verdict[0].text


@pytest.mark.long
def test_training_and_policy_versions(made, coarse, tmp_path, page_for):
    address = f"sqlite:///{tmp_path / 'copy.db'}"
    shutil.copy(made.removeprefix("sqlite:///"), tmp_path / "copy.db")
    with Store.open(address) as store, store.begin() as tx:
        run = store.run("made-up/grpo/s0")
        new = store.policy_version(run.id, "made:grpo@1", tx)
        tx.connection.execute(
            update(PromptGroup).where(PromptGroup.c.run_id == run.id, PromptGroup.c.iteration >= 6).values(
                policy_version_id=new
            )
        )  # fmt: skip
        for step in range(4):
            store.add_training_step(run.id, step, {"loss": 1 / (step + 1), "kl": 0.1 * step, "note": "x"}, tx)
        tx.connection.execute(
            insert(TrainingStep).values(run_id=run.id, step=9, stats={"loss": None}, checkpoint=None, created=0.0)
        )
    report, page = page_for(address, "made-up/grpo/s0")
    assert "made:grpo@1" in Elements(page).text
    assert [row[3].sort for row in report.training.versions.rows] == [90, 90]
    assert "training" in {plot.name for plot in report.plots}


class TestHostilePolicy(PolicyContract):
    varied = False

    def open_policy(self):
        return HostilePolicy("word")


@pytest.fixture
def hostile_page(hostile_runs, hostile, coarse, page_for):
    return page_for(hostile_runs(hostile, iterations=6), "both")


@pytest.mark.long
def test_nothing_that_was_written_is_more_than_text(hostile_page):
    report, page = hostile_page
    found = Elements(page)
    assert [sorted(one) for one in found.of("script")] == [["id", "type"], []]
    assert not found.of("svg")[1:] and len(found.of("style")) == 1 and len(found.of("title")) == 1
    assert {one["src"][:15] for one in found.of("img")} == {"data:image/png;"} and len(found.of("img")) == len(
        report.plots
    )
    assert not found.of("b") or all(one == {} for one in found.of("b"))
    for sign in ("{{ 7 * 7 }}", "<U+202E>", "␛[31m␈", "<script>fetch(", "</script><b>", "</title>␀", "alert(3)"):
        assert sign in found.text
    page.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202e]", page)
    (raw,) = re.findall(r'<script type="application/json" id="chart-values">(.*?)</script>', page, re.DOTALL)
    assert "<" not in raw and ">" not in raw and "&" not in raw
    assert json.loads(raw)["arms"][0]["name"] == "</script><b>"


def test_reports_are_of_what_is_there(finished):
    report, _ = finished
    bare = replace(
        report,
        lineages=(),
        archives=(),
        rewards=(),
        curves=replace(report.curves, best_at_k=None),
        arms=replace(report.arms, differences=None),
        problems=replace(report.problems, fitness=None),
    )
    found = Elements(page_of(bare))
    assert "a single objective, or no valid answer" in found.text and "No curve of best@k" in found.text


def test_arms_of_different_cost_and_problems_without_targets(
    search_with, any_text, digits_policy, as_comparison, coarse, tmp_path, page_for
):
    address = f"sqlite:///{tmp_path / 'runs.db'}"
    problem = any_text("open", target=None)
    problem.objectives, score = ("length",), problem.score
    problem.score = lambda answer: type(score(answer))(score(answer).rewards[:1], score(answer).fitness, {})
    search_with([problem], digits_policy(), address, name="two", answers=2, iterations=4)
    search_with([problem], digits_policy(), address, name="one", answers=1, iterations=4)
    as_comparison(address, {"two": ("two", 0), "one": ("one", 0)})
    report, page = page_for(address, "both")
    found = Elements(page)
    assert "4 iterations of 1 or 2 answers" in found.text and "Nothing to draw: a single objective" in found.text
    assert report.summary.answers == 2 and report.summary.horizon == 0 and report.summary.best_horizon == 2
    assert "Mean best fitness after 2 iterations" in found.text and len(report.head.verdict) == 1
    assert [column.title for column in report.problems.table.columns] == ["problem", "two", "one", "one against two"]


@pytest.mark.long
def test_searches_that_stop_when_solved(search_with, digits, digits_policy, coarse, tmp_path, page_for):
    address = f"sqlite:///{tmp_path / 'runs.db'}"
    problems = [digits("easy", target=0.1), digits("hard", target=0.55), digits("never", target=2.0)]
    search_with(problems, digits_policy(), address, iterations=8, until_solved=True)
    report, page = page_for(address, "run")
    assert report.curves.best_at_k is None and "searches stopped at their solution" in Elements(page).text
    easy, hard, never = (row[2] for row in report.problems.table.rows)
    assert easy.text == "✓ 1" and hard.mark == "solved" and never.mark == ""
    assert easy.sort <= hard.sort < never.sort
    assert [cell.text for cell in report.problems.table.totals] == ["all", "", "2 of 3 solved"]
    assert report.summary.horizon == 8


@pytest.mark.long
@pytest.mark.parametrize("seeds", [1, 3])
def test_one_problem_has_intervals_over_seeds_or_none_and_never_of_no_width(
    search_with, digits, digits_policy, as_comparison, coarse, tmp_path, page_for, capsys, seeds
):
    address = f"sqlite:///{tmp_path / 'runs.db'}"
    runs = {}
    for arm, batch in (("grpo", 1), ("vpo", 2)):
        for seed in range(seeds):
            name = f"{arm}{seed}"
            search_with([digits("one", target=0.8)], digits_policy(batch=batch), address, name=name, seed=seed,
                        iterations=6)  # fmt: skip
            runs[name] = (arm, seed)
    as_comparison(address, runs)
    report, page = page_for(address, "both")
    found = Elements(page).text
    assert ("one problem under one seed has no interval" in found) == (seeds == 1)
    assert "over the seeds of one problem" in found and not re.search(r"\bnan\b", found.lower())
    for low, high in re.findall(r"\[([-+.0-9]+), ([-+.0-9]+)\]", found):
        assert float(low) < float(high), (low, high)
    with Store.open(address, read_only=True) as store:
        comparison = gather(store, "both")
        stand = summarise(load_results(store, comparison), comparison.reference)
        costs = {arm.name: costs_of(store, arm) for arm in comparison.arms}
    said = as_dict(comparison, stand, costs)
    json.dumps(said, allow_nan=False)
    solved = said["arms"]["grpo"]["solved"]
    assert (solved["low"] is None) == (seeds == 1) == (said["against"]["vpo"]["solved"]["low"] is None)
    print_summary(Console(width=100), comparison, stand, costs)
    said = capsys.readouterr().out
    assert "nan" not in said.lower() and said.splitlines()[1].split()[-1] == "wall"
    for word in ("area: ", "half: ", "best: ", "L1: ", "wall: "):
        assert word in said
