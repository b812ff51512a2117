"""The page of a run or a comparison: its content, built from Progress, and its HTML. `write_report` writes it to a
file; `evo ui` serves it.

Every text is escaped, with all characters visible. The content policy forbids requests and all scripts but the page's
own, so that even a text that was not escaped could run and send nothing.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
import time
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from evo.comparison.summary import describe_verdict
from evo.errors import BadInput, at_file
from evo.evaluation.evaluate import check_output
from evo.progress.answer import verification_of
from evo.progress.answer_set import choose_sets
from evo.progress.arm_style import BLUE, WARN, style_of
from evo.progress.model import IN_SEARCH, Progress
from evo.progress.rows import (
    HINTS,
    PREFERENCE_TITLES,
    Table,
    arm_rows,
    change_of,
    curve_title,
    error_rows,
    make_table,
    problems_table,
)
from evo.progress.snapshot import Snapshot
from evo.progress.training import TrainingProgress
from evo.report.answers import MOST_CARDS, Plot, bounded, curve_lines, problem_details
from evo.report.tables import (
    arms_table,
    describe_faults,
    describe_state,
    differences_table,
    machines_table,
    preferences_table,
    set_table,
    settings_tables,
)
from evo.tui.line import visible
from evo.values import mark, write_number, write_signed, write_value
from evo.whole_file import write_whole
from islands.names import format_db_option
from islands.store import Store
from problems.objectives import describe_directions
from problems.redaction import redact

_MOST_DETAILS = 500
_ARMS_STYLED = 56
_SHOWN_IN_CHARTS = 6
"""Charts of a search's training at most."""


def build_page(progress: Progress, *, held_out: bool = False, base: str = "") -> SimpleNamespace:
    """The values of the template page.html.jinja, of what `progress` has read; None or empty if there is nothing to
    show.

    held_out: whether to score best answers and sets on held-out cases, which takes as long as scoring them; base: the
        address of the page, if candidates have pages below it"""
    snapshot, comparison, summary = progress.snapshot(), progress.comparison, progress.summary
    begun, runs = summary is not None, comparison.runs
    tested = held_out and len(runs) == 1
    spread, store = progress.spread, progress.store
    sets = choose_sets(store, runs, held_out=True, most=MOST_CARDS, spread=spread) if tested else progress.sets
    shown = problem_details(progress, _MOST_DETAILS, held_out=held_out) if begun else ()
    differing, shared = settings_tables(comparison)
    tables: list[Table | None] = []
    if summary is not None:
        tables = [
            arms_table(progress, snapshot),
            preferences_table(progress),
            differences_table(summary) if summary.reference else None,
        ]
    reweighed = progress.store.reweighed
    return SimpleNamespace(
        title=snapshot.name + ("" if reweighed is None else f" under {reweighed}"),
        base=base,
        snapshot=snapshot,
        summary=summary,
        state=describe_state(comparison),
        remarks=describe_faults(progress, snapshot),
        verified=[(run.name, found) for run in runs if (found := verification_of(run))],
        verdict_title="" if summary is None else describe_verdict(summary, progress.comparison.ended_by_budget),
        curves=draw_progress(progress, snapshot) if begun else [],
        training=_draw_training(progress),
        arms=_there(*tables),
        problems=problems_table(snapshot, lambda row: f"#problem-{row + 1}" * (row < len(shown))) if begun else None,
        details=shown,
        sets=_there(*map(set_table, sets[:MOST_CARDS])) if begun else [],
        cards=[detail for detail in shown if detail.best is not None][:MOST_CARDS],
        costs=_there(
            make_table("cost", "What the searches have cost so far", arm_rows(snapshot, "cost")),
            make_table("errors", "Errors by kind (of answers, the distinct ones)", error_rows(snapshot)),
        ),
        settings=_there(differing, machines_table(comparison)),
        shared=shared,
        commands=list(dict.fromkeys(redact(run.command) for run in comparison.runs)),
        next_steps=_next_steps(progress, snapshot, bool(shown)),
    )


def _there(*tables: Table | None) -> list[Table]:
    return [table for table in tables if table is not None]


def draw_progress(progress: Progress, snapshot: Snapshot) -> list[Plot]:
    """Solve rate, if there are targets, and the mean best value, from the seed answers on, over iterations or what a
    budget is made of; nothing for a single search, whose chart says all. What is judged under many weightings comes
    first, for any number of searches."""
    comparison, plots = progress.comparison, list[Plot]()
    unit = next((curve.unit for curve in progress.curves.values()), "iterations").removesuffix("s")
    names = [arm.name for arm in comparison.arms]
    over = "the seeds of one problem" if len(comparison.problems) == 1 else "problems"
    bands = f"Bands: 95% intervals over {over}. Left: the seed answers."
    for metric, curves in progress.preference_curves.items():
        title = PREFERENCE_TITLES[metric]
        note = f"{HINTS[title][0].upper()}{HINTS[title][1:]}. {bands}"
        plots.append(Plot(title, unit, curve_lines(names, curves), share=metric == "weightings", note=note))
    if len(comparison.problems) == max(arm.seeds for arm in comparison.arms) == 1:
        return plots
    solved = any(arm.judged.any() for arm in progress.results.values())
    if solved and progress.curves:
        running = "" if snapshot.ended else " While searches run, it is an estimate."
        note = f"The share of searches that are solved.{running} {bands}"
        plots.append(Plot("solve rate", unit, curve_lines(names, progress.curves), share=True, note=note))
    if progress.best_curves:
        lines = curve_lines(names, progress.best_curves)
        plots.append(Plot(curve_title(snapshot), unit, lines, note=f"It ends where the first search does. {bands}"))
    return plots


def _draw_training(progress: Progress) -> list[Plot]:
    """A chart of each metric of the policies that learn during the search."""
    names = [arm.name for arm in progress.comparison.arms]
    trained = {name: progress.training(number) for number, name in enumerate(names)}
    shown = [metric for metric in IN_SEARCH if any(metric in curves for curves in trained.values())]
    return [
        Plot(metric, "step", curve_lines(names, {name: its[metric] for name, its in trained.items() if metric in its}),
             note=HINTS.get(metric, ""))
        for metric in shown[:_SHOWN_IN_CHARTS]
    ]  # fmt: skip


def _next_steps(progress: Progress, snapshot: Snapshot, answered: bool) -> list[tuple[str, str]]:
    """(purpose, command) of what a reader may do next."""
    comparison, db = progress.comparison, format_db_option(progress.store.address)
    run = f"{shlex.quote(progress.name)}{db}"
    reweighed = progress.store.reweighed
    weights = "" if reweighed is None else f" {reweighed.option}"
    steps = [("Search longer", f"evo resume {run} --iterations {2 * comparison.iterations}")]
    if any(record.status not in ("done", "failed") for record in comparison.runs):
        steps = [("Continue", f"evo resume {run}") if snapshot.ended else ("Watch it", f"evo watch {run}")]
    if answered:
        target = "best_answers" if len(comparison.problems) > 1 else "best_answer"
        steps.append(("Save the best answers", f"evo best {run}{weights} -o {target}"))
    if len(comparison.runs) == 1 and answered and verification_of(comparison.runs[0]) is None and snapshot.ended:
        steps.append(("Ask whether the best answer is luck", f"evo verify {run}{weights}"))
    return [*steps, ("Look at one candidate by its number", f"evo show {run}{weights} ID")]


@cache
def environment() -> Environment:
    """The templates of the page: all output is escaped, with every character visible."""
    made = Environment(
        loader=PackageLoader("evo.report"),
        autoescape=True,
        finalize=lambda value: visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"python": highlight_python, "figure": write_number, "bounded": bounded}
    made.globals |= {"style": Markup(_style()), "script": Markup(_script())}
    made.globals |= {
        "write_number": write_number,
        "write_signed": write_signed,
        "write_value": write_value,
        "mark": mark,
    }
    made.globals |= {"change_of": change_of, "describe_directions": describe_directions}
    return made


def render(template: str, **values: Any) -> str:
    """The HTML of a template."""
    return environment().get_template(template).render(policy=content_policy(), **values)


@cache
def content_policy(served: str = "") -> str:
    """Of a page that asks for nothing, and runs its own script alone. served: the further script of a page that has a
    server, which that script may ask"""
    allowed = " ".join(f"'{_digest(script)}'" for script in (_script(), served) if script)
    own = f"style-src '{_digest(_style())}'; script-src {allowed}" + "; connect-src 'self'" * bool(served)
    return f"default-src 'none'; img-src data:; {own}; base-uri 'none'; form-action 'none'"


@cache
def _style() -> str:
    """The style sheet, with each arm's colour and mark before its name everywhere."""
    rules = [f":root {{ --blue: {BLUE}; --warn: {WARN}; }}\n"]
    for place in range(_ARMS_STYLED):
        its = style_of(place)
        rules.append(f'[data-arm="{place}"]::before {{ content: "{its.mark}\\00a0"; color: {its.colour}; }}\n')
    return (files("evo.report") / "templates" / "page.css").read_text(encoding="utf-8") + "".join(rules)


@cache
def _script() -> str:
    return (files("evo.report") / "templates" / "page.js").read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def highlight_python(code: str) -> Markup:
    """The code, escaped, with every character visible. Text that is not Python is highlighted as far as possible."""
    lexer, formatter = PythonLexer(stripnl=False, ensurenl=False), HtmlFormatter(nowrap=True)
    return Markup(highlight(visible(code), lexer, formatter).rstrip("\n"))


def write_training_report(folder: str, file: str) -> int:
    """Write the page of a training; returns its bytes. Raises BadInput as write_report."""
    training = TrainingProgress.open(folder)
    check_output(file)
    charts = [
        Plot(
            name, "step", curve_lines([folder], {folder: training.curve(name)}), name.startswith("solve@"), note=meaning
        )
        for name, meaning in training.metrics.items()
    ]
    return _write_page(file, render("training.html.jinja", training=training, charts=charts))


def write_report(store: Store, name: str, file: str, against: str | None = None, *, spread: bool = False) -> int:
    """Write the page; it appears under its name only when it is complete. Returns its bytes. Raises BadInput for an
    output that cannot be written, an unknown arm or a run without an iteration; UnknownRun.

    spread: as Progress takes it"""
    with store.read():
        progress = Progress.open(store, name, against, spread=spread)
        check_output(file)
        if not progress.totals.groups:
            raise BadInput(f"{progress.name} has nothing to report yet: no iteration is committed")
        page = build_page(progress, held_out=all(run.status != "running" for run in progress.comparison.runs))
    state = page.snapshot.state(time.time())[0]
    return _write_page(file, render("page.html.jinja", page=page, state=state))


def _write_page(file: str, text: str) -> int:
    with at_file(file):
        write_whole(Path(file), text)
    return len(text.encode("utf-8"))
