"""Every number of every view, over directions, seeds, sizes of values, a failed scorer and both databases, against
figures that were worked out by hand.

Each case is the same two arms and two problems, whose best answers are, for x to be lowered:

    arm a   seeds 0, 1, 2: problem p1 at 1, 2, 6, problem p2 at 3, 4, 8: means 3 and 5, together 4 (seed 0 alone: 2)
    arm b   seeds 0, 1, 2: problem p1 at 4, 5, 21, problem p2 at 6, 7, 23: means 10 and 12, together 11 (seed 0: 5)

so b - a is 7 (seed 0: 3), and the best of any run are 1 and 3: 2. A case is scale * x + shift, mirrored where higher is
better. A third problem, which every run solves and on which the scorer of arm b fails in one, counts nowhere; with it
p1 has a target of x <= 2.5, which arm a reaches under seeds 0 and 1.
"""

import json
import re
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from support.command_line import evo, output
from support.stored_searches import store_comparison

from evo.api.results import load_comparison, load_run
from evo.progress import rows
from evo.progress.model import Progress
from evo.report.page import build_page, render
from evo.ui.pages import RunPages
from islands.store import Store

FINALS = {"a": (1, 2, 6), "b": (4, 5, 21)}
MEANS = {3: {"a": 4, "b": 11}, 1: {"a": 2, "b": 5}}
OF_P1 = {3: {"a": 3, "b": 10}, 1: {"a": 1, "b": 4}}
DIFFERENCE = {3: 7, 1: 3}
BEST_OF_ALL = 2
SOLVED = {3: {"a": 2, "b": 0}, 1: {"a": 1, "b": 0}}


class Case(NamedTuple):
    """scale, shift: of x, which is to be lowered; a negative scale turns it into a value to be raised"""

    name: str
    scale: float
    shift: float

    def value(self, x):
        return self.scale * x + self.shift

    @property
    def lower(self):
        return self.scale > 0


CASES = [
    # with the number of seeds, whether a scorer failed, and the database: every pair of these is there
    (Case("lowered", 1, 0), 3, True, "postgresql"),
    (Case("lowered and negative", 1, -1000), 3, False, "sqlite"),
    (Case("lowered to 0", 1, -1), 1, True, "sqlite"),
    (Case("raised, huge", -1e9, 1e11), 3, True, "sqlite"),
    (Case("raised to 0", -1, 1), 1, False, "postgresql"),
]
LONG_CASES = [
    (Case("lowered, huge", 1e9, 0), 3, False, "sqlite"),
    (Case("lowered, tiny", 1e-6, 0), 1, True, "postgresql"),
    (Case("raised", -1, 100), 3, True, "postgresql"),
    (Case("raised and negative", -1, 0), 3, False, "sqlite"),
]


def store_case(address, case, seeds, failed):
    """The comparison `cmp`, whose answers come in a course of four: one that is worse than the best never counts."""

    def searched(arm, seed):
        best = {"p1": FINALS[arm][seed], "p2": FINALS[arm][seed] + 2}
        courses = {name: (50, x + 8, x + 3, x + 9, x) for name, x in best.items()}
        if failed:
            courses["bad"] = (50, 40, 0, 0, 0)
        return {name: [case.value(x) for x in course] for name, course in courses.items()}

    searches = {arm: [searched(arm, seed) for seed in range(seeds)] for arm in FINALS}
    targets = {"p1": case.value(2.5), "bad": case.value(0)}
    failure = {"targets": targets, "failed": ("b", 0, "bad")} if failed else {}
    store_comparison(address, "cmp", searches, lower=case.lower, **failure)


@pytest.fixture
def run(capsys):
    """run(words) -> what the command printed."""
    return partial(output, capsys)


NUMBER = r"[+-]?\d[\d.]*(?:e[+-]\d+)?"


def numbers_of(text):
    """All numbers in a line of text, without their directions."""
    return [float(found) for found in re.findall(rf"(?<![\w.]){NUMBER}", text.replace(",", " "))]


def line_of(text, begins):
    """The first line that begins with these words, behind the mark of an arm."""
    return next(line for line in text.splitlines() if line.lstrip("●▲ ").startswith(begins))


def cells_of(table, row):
    return dict(zip((column.title for column in table.columns), table.rows[row], strict=True))


def check(case, seeds, failed, address, run):
    """Walk the views."""

    def near(x):
        return pytest.approx(case.value(x), rel=1e-9, abs=1e-12)

    def written(x):  # with four digits at least
        return pytest.approx(case.value(x), rel=6e-4, abs=1e-12)

    means = MEANS[seeds]
    title = "best delay ↓" if case.lower else "mean best"
    arrow, direction = (" ↓", "min") if case.lower else ("", "max")
    gap = case.scale * DIFFERENCE[seeds]
    judged = 1 * seeds if failed else 0

    # JSON of the comparison
    shown = json.loads(run("show", "cmp", "--db", address, "--json"))
    assert shown["problems"] == ["p1", "p2"] and shown["failed"] == (["bad"] if failed else [])
    assert {arm: one["best"]["mean"] for arm, one in shown["arms"].items()} == {a: near(x) for a, x in means.items()}
    assert shown["against"]["b"]["best"]["mean"] == pytest.approx(gap)
    (told,) = [one for one in shown["differences"] if one["metric"] == "best"]
    assert (told["arm"], told["against"], told["mean"]) == ("b", "a", pytest.approx(gap))
    assert told["direction"] == shown["direction"] == direction and told["better"] is None
    if failed:
        rates = {arm: one["solved"]["mean"] for arm, one in shown["arms"].items()}
        assert rates == {arm: pytest.approx(SOLVED[seeds][arm] / judged) for arm in means}

    # the terminal
    text = run("show", "cmp", "--db", address, "--details")
    for arm, x in means.items():
        assert written(x) in numbers_of(line_of(text, f"{arm} ")), text
    (pair,) = [
        line for line in text.splitlines() if line.startswith("b - a") and f"mean best {told_name(case)}" in line
    ]
    assert pytest.approx(gap, rel=2e-3, abs=6e-3) in numbers_of(pair)
    assert ("↓" in pair) == case.lower and ("Left out, its scorer failed: bad (b)" in text) == failed

    # the screen, as text
    screen = run("watch", "cmp", "--db", address, "--once")
    assert title in screen and ("1 left out" in screen) == failed
    for arm, x in means.items():
        assert written(x) in numbers_of(line_of(screen, f"{arm} ")), screen
        if failed:
            assert f"{SOLVED[seeds][arm]}/{judged}" in line_of(screen, f"{arm} ")
    row = line_of(screen, "p2" if failed else "p1")
    outcomes = {arm: x + 2 * failed for arm, x in OF_P1[seeds].items()}
    for x in outcomes.values():
        assert written(x) in numbers_of(row), screen
    assert f"lost {signed(gap)}" in row and row.count("↓") == 2 * case.lower

    # lines and JSON of a watcher
    watched = json.loads(run("watch", "cmp", "--db", address, "--json", "--once"))
    assert {arm["name"]: arm["mean_best"] for arm in watched["arms"]} == {a: near(x) for a, x in means.items()}
    assert (watched["measure"], watched["direction"]) == (told_name(case).removesuffix(" ↓"), direction)
    assert watched["verdicts"] == shown["verdicts"] and watched["failed"] == shown["failed"]
    line = run("watch", "cmp", "--db", address, "--plain")
    if failed:
        assert all(f"{arm} {SOLVED[seeds][arm]}/{judged}" in line for arm in means)
    else:
        told = re.search(rf"{title} a ({NUMBER}), b ({NUMBER})", line)
        assert told and [float(one) for one in told.groups()] == [written(x) for x in means.values()]

    # the page, and its HTML
    with Store.open(address, read_only=True) as store:
        progress = Progress.open(store, "cmp")
        page = build_page(progress)
        html = render("page.html.jinja", page=page, state="done")
    for row, (arm, x) in enumerate(means.items()):
        cell = cells_of(page.arms[0], row)[title]
        assert cell.value == near(x) and float(cell.text) == written(x) and f">{cell.text}" in html
        chart = next(one for one in page.curves if one.title == (title if case.lower else "mean best fitness"))
        assert chart.lines[row]["y"][-1] == near(x) and chart.lines[row]["y"][0] == near(50)
        outcome = cells_of(page.problems, 1)[arm]
        assert outcome.value == near(OF_P1[seeds][arm] + 2) and outcome.text.endswith(arrow)
    against = cells_of(page.problems, 1)["b against a"]
    assert (against.text, against.value) == (f"lost {signed(gap)}", pytest.approx(gap))
    difference = next(row for row in page.arms[1].rows if row[1].text.startswith("mean best"))
    assert difference[2].text in text and difference[2].value == pytest.approx(gap)
    (best, *_) = page.details[0].answers
    assert best.stored.value.number == near(1) and page.details[0].chart.lines[0]["y"][-1] == near(1)

    # lists of runs
    listed = run("runs", "--db", address)
    total = f"{sum(SOLVED[seeds].values())}/{2 * judged}"
    assert written(BEST_OF_ALL) in numbers_of(line_of(listed, "cmp ")) and (total in listed) == failed
    runs = {one["name"]: one for one in json.loads(run("runs", "--db", address, "--json"))}
    for arm in means:
        of_seed = runs[f"cmp/{arm}/s0"]
        assert of_seed["mean_best"] == near(FINALS[arm][0] + 1) and of_seed["direction"] == direction
        assert of_seed["solved"] == (SOLVED[1][arm] if failed else 0)

    # one run, its answers, and Python
    text = run("show", "cmp/a/s0", "--db", address)
    assert numbers_of(line_of(text, "p1 "))[1] == written(1)
    assert ("2 of 2 solved" in text) == failed and ("solved, " in text) == failed, "it knows of no other run"
    found = json.loads(run("show", "cmp/a/s0", "--db", address, "--json"))["problems"]
    assert [one["fitness"] for one in found[:2]] == [near(1), near(3)]
    assert [one["values"]["delay"] for one in found[:2]] == [near(1), near(3)]
    answers = json.loads(run("best", "cmp", "--db", address, "--json"))
    assert [one["fitness"] for one in answers[:2]] == [near(1), near(3)]
    result = load_run("cmp/b/s0", db=address)
    assert [one.fitness for one in result.best[:2]] == [near(4), near(6)]
    candidates = result.frame()
    p1 = candidates[candidates.problem == "p1"].fitness
    assert (p1.min() if case.lower else p1.max()) == near(4)
    comparison = load_comparison("cmp", db=address)
    frame, curves = comparison.frame(), comparison.curves()
    for arm, x in means.items():
        assert frame[frame.arm == arm].best.mean() == near(x)
        last = curves[curves.arm == arm].groupby(["seed", "problem"]).best.last()
        assert last.mean() == near(x)
        assert not failed or int(frame[frame.arm == arm].solved.fillna(False).sum()) == SOLVED[seeds][arm]
    assert set(frame.problem) == {"p1", "p2"} and comparison.verdicts == shown["verdicts"]


def told_name(case):
    return "delay ↓" if case.lower else "fitness"


def signed(gap):
    return f"{gap:+.3g}"


@pytest.mark.parametrize(
    ("case", "seeds", "failed", "database"),
    [*CASES, *(pytest.param(*row, marks=pytest.mark.long) for row in LONG_CASES)],
    ids=lambda value: getattr(value, "name", str(value)).replace(" ", "_"),
)
def test_every_view_has_the_figures_that_were_worked_out_by_hand(case, seeds, failed, database, tmp_path, run, request):
    address = f"sqlite:///{tmp_path / 'runs.db'}"
    if database == "postgresql":
        address = request.getfixturevalue("postgres_address")
    store_case(address, case, seeds, failed)
    check(case, seeds, failed, address, run)


def test_every_view_has_every_pair_of_three_arms(db, run):
    """Ten problems, on which base ends at 9 to 18, grpo about 4 lower and vpo 8: vpo - grpo is -4."""
    less = {"base": 0, "grpo": 4, "vpo": 8}
    searches = {arm: [{f"p{n}": (50, 9 + n - (by and by + 0.01 * n)) for n in range(10)}] for arm, by in less.items()}
    store_comparison(db, "cmp", searches, lower=True)
    for reference, pairs in (
        ("base", ["grpo - base", "vpo - base", "vpo - grpo"]),
        ("grpo", ["base - grpo", "vpo - grpo", "vpo - base"]),
    ):
        chosen = ("cmp", "--db", db, "--against", reference)
        shown = json.loads(run("show", *chosen, "--json"))
        assert [re.search(r"(\w+ - \w+) = ", line)[1] for line in shown["verdicts"]] == pairs
        assert [f"{one['arm']} - {one['against']}" for one in shown["differences"] if one["metric"] == "best"] == pairs
        assert {one["comparisons"] for one in shown["differences"]} == {3}
        assert list(shown["against"]) == [pair.split(" - ")[0] for pair in pairs[:2]]
    texts = [run("show", *chosen), run("watch", *chosen, "--once"), run("watch", *chosen, "--plain")]
    texts.append("\n".join(load_comparison("cmp", db=db, against=reference).verdicts))
    for text in texts:
        assert all(re.search(rf"{pair} = [+-]\d", text) for pair in pairs), text
        assert re.search(r"vpo - grpo = -4.00 \[-[\d.]+, -[\d.]+\] ↓ better", text)


def test_a_single_run_counts_the_same(tmp_path, db, search_with, digits, digits_policy, run):
    bad = digits("bad", target=0.9, fault_on=lambda answer: answer != "00000000")
    search_with([bad, digits("good", target=0.3)], digits_policy(), db, iterations=4)
    assert "1 of 1 solved, 1 left out" in run("show", "run", "--db", db)
    assert " 1/1 " in run("runs", "--db", db) and "1/1" in run("watch", "run", "--db", db, "--once")
    run("report", "run", "--db", db, "-o", str(tmp_path / "r.html"))
    assert "target 0.3, reached" in (tmp_path / "r.html").read_text()


def test_without_a_problem_that_counts_there_is_a_line_and_no_error(db, search_with, digits, digits_policy, run):
    bad = digits("bad", target=0.9, fault_on=lambda answer: answer != "00000000")
    search_with([bad], digits_policy(), db, iterations=4)
    with Store.open(db, read_only=True) as store:
        progress = Progress.open(store, "run")
        assert progress.results == {} and progress.summary is None
        assert "Left out, its scorer failed: bad" in build_page(progress).remarks[-1]
    assert "1 left out" in run("watch", "run", "--db", db, "--once")


def test_a_line_of_the_table_of_columns_is_a_column_of_every_view(db, run, monkeypatch):
    store_comparison(db, "cmp", {"a": [{"p1": (3, 7)}], "b": [{"p1": (3, 5)}]}, lower=False)
    column = rows.ArmColumn(
        "length of name",
        lambda of: rows.number_cell(41 + len(of.arm.name), "d"),
        "screen terminal page",
        "name_length",
        9,
    )
    monkeypatch.setattr(rows, "ARM_COLUMNS", (*rows.ARM_COLUMNS, column))

    terminal, screen = run("show", "cmp", "--db", db), run("watch", "cmp", "--db", db, "--once")
    lines = [line for line in terminal.splitlines() if line.startswith(("a ", "b ")) and " 42" in line]
    assert "length" in terminal and len(lines) == 2
    assert "length of name" in screen and screen.count(" 42") == 2
    with Store.open(db, read_only=True) as store:
        html = render("page.html.jinja", page=build_page(Progress.open(store, "cmp")), state="done")
    assert "length of name" in html and html.count('data-label="length of name">42<') == 2
    arms = json.loads(run("show", "cmp", "--db", db, "--json"))["arms"]
    assert [arm["name_length"] for arm in arms.values()] == [42, 42]
    assert load_comparison("cmp", db=db).arms().name_length.tolist() == [42, 42]


def directory(name, iterations):
    Path(name).mkdir()
    block = "# EVOLVE-BLOCK-START\nX = 1.0\n# EVOLVE-BLOCK-END\n"
    Path(name, "initial_program.py").write_text(block)
    Path(name, "evaluator.py").write_text(
        "def evaluate(path):\n"
        "    names = {}\n"
        "    exec(open(path).read(), names)\n"
        "    return {'combined_score': 1 / (1 + abs(names['X'] - 3))}\n"
    )
    Path(name, "config.yaml").write_text(f"max_iterations: {iterations}\n")


def counted(capsys, name):
    """(iterations, planned) of `evo watch --once`, after a look at the other views: all of them say the same."""
    shown = json.loads(output(capsys, "watch", name, "--once", "--json"))
    done, planned = shown["iterations"], shown["planned"]
    (arm,) = shown["arms"]
    assert (arm["iterations"], arm["planned"]) == (done, planned)
    assert f"{done}/{planned} iterations" in evo(capsys, "watch", name, "--once")[1]
    (row,) = [line for line in evo(capsys, "runs")[1].splitlines() if line.startswith(f"{name} ")]
    assert f" {done} " in row
    assert f"of {planned}" in RunPages("sqlite:///evo.db").page().body.decode()
    return done, planned


def test_every_view_counts_to_what_directories_plan_and_a_run_goes_on_as_it_was_planned(here, capsys):
    directory("d", 12)
    directory("few", 9)
    run = ("run", "d", "few", "--policy", "scripted:mutate", "--name", "q", "--max-answers", "5", "--plain")
    assert evo(capsys, *run)[0] == 0
    assert counted(capsys, "q") == (5, 21)
    Path("d/config.yaml").write_text("max_iterations: 50\n")
    for more, done in (("--max-answers", "100"), 21), (("--iterations", "14"), 28):
        assert evo(capsys, "resume", "q", *more, "--plain")[0] == 0
        assert counted(capsys, "q") == (done, done)
    assert evo(capsys, "report", "q", "-o", "q.html")[0] == 0
    page = Path("q.html").read_text()
    assert "that every search has reached" not in page and "evo resume q --iterations 28" in page
    arms = ["--arm", "a=scripted:mutate", "--arm", "b=scripted:mutate", "--baseline", "none", "--seeds", "1"]
    assert evo(capsys, "compare", "few", *arms, "--name", "c", "--processes", "1", "--plain")[0] == 0
    shown = json.loads(evo(capsys, "watch", "c", "--once", "--json")[1])
    assert [(arm["iterations"], arm["planned"]) for arm in shown["arms"]] == [(9, 9), (9, 9)]
    assert json.loads(evo(capsys, "show", "c", "--json")[1])["iterations"] == 9
    patient = ("few", "d", *arms, "--name", "p", "--processes", "1", "--patience", "2", "--plain")
    assert evo(capsys, "compare", *patient)[0] == 0
    assert json.loads(evo(capsys, "show", "p", "--json")[1])["best_horizon"] >= 9


GUESSED = """statement = "Write a number."
seed_answer = "100"
directions = {"err": "min"}
target = 0.5
def score(answer):
    return {"err": abs(float(answer) - 42.5)}
"""


def test_searches_that_patience_ended_count_as_they_ended(here, capsys):
    """Of six searches some end early, unsolved: no seed is left out, and none of them is solved later."""
    (here / "guess.py").write_text(GUESSED)
    (here / "other.py").write_text(GUESSED.replace("42.5", "37.5"))
    arms = ("--arm", "a=scripted:mutate,answers=1", "--arm", "b=scripted:mutate,answers=2", "--baseline", "none")
    plan = ("--answers-per-iteration", "4", "--iterations", "40", "--seeds", "3", "--patience", "6", "--name", "p")
    assert evo(capsys, "compare", "guess.py", "other.py", *arms, *plan, "--plain")[0] == 0
    shown, table = json.loads(output(capsys, "show", "p", "--json")), load_comparison("p").frame()
    solved = {arm: rows.astype(float).mean() for arm, rows in table.groupby("arm")["solved"]}
    assert 0 < min(solved.values()) < 1 and table.iterations.min() < 0.9 * table.iterations.max()
    assert shown["horizon"] == 40
    assert {arm: one["solved"]["mean"] for arm, one in shown["arms"].items()} == pytest.approx(solved)
    best = {arm: rows.mean() for arm, rows in table.groupby("arm")["best"]}
    assert {arm: one["best"]["mean"] for arm, one in shown["arms"].items()} == pytest.approx(best)
