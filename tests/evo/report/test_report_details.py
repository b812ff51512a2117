"""Each problem: its statement, prompts and best answers; and that every word is explained."""

from __future__ import annotations

import html
import json
import re

import pytest
from sqlalchemy import update

from evo.comparison.load import gather
from evo.glossary import PAGE
from evo.monitor.arm_style import style_of
from evo.report.cells import Column
from evo.report.details import FEWEST_CHARS, PAGE_CHARS, bounded, problem_details
from evo.report.load import read_run
from evo.report.page import highlight_python
from evo.report.plot import look
from evo.report.tables import UNRECORDED, machines_table
from islands.schema import Run
from islands.store import Store
from problems.registry import resolve


@pytest.fixture(scope="module")
def maze_details(tmp_path_factory, request):
    """Details of two mazes, searched for 4 iterations."""
    import asyncio

    from evo.config.run import RunConfig
    from evo.runs.start import launch

    address = f"sqlite:///{tmp_path_factory.mktemp('mazes') / 'runs.db'}"

    async def search():
        config = RunConfig(problems=["maze:hard/0-1"], policy="scripted:random-route", iterations=4)
        launched = await launch(config, db=address, name="mazes", command="")
        try:
            await launched.search.run()
        finally:
            await launched.close()

    asyncio.run(search())
    with Store.open(address, read_only=True) as store:
        comparison = gather(store, "mazes")
        readings = {arm.name: [read_run(store, run) for run in arm.runs] for arm in comparison.arms}
        return problem_details(store, comparison, readings), store.run("mazes")


def test_a_problem_has_its_statement_prompt_and_route(maze_details):
    (first, second), _ = maze_details
    problem = resolve("maze:hard/0")[0]
    assert first.statement == problem.statement() != second.statement
    (answer,) = first.answers
    assert answer.prompt and answer.iteration >= 0 and set(answer.text) <= set("UDLR")
    assert answer.chain != answer.text and 1 <= answer.position <= 3
    assert "[S]" in answer.drawn and len(answer.drawn.splitlines()) == problem.maze.size
    assert len(answer.rewards) == len(problem.objectives)


def test_an_answer_has_its_parents_and_what_it_changed(made):
    with Store.open(made, read_only=True) as store:
        comparison = gather(store, "made-up")
        readings = {arm.name: [read_run(store, run) for run in arm.runs] for arm in comparison.arms}
        found = [answer for detail in problem_details(store, comparison, readings) for answer in detail.answers]
    changed = [answer for answer in found if answer.difference]
    assert changed and all(answer.lineage for answer in changed)
    for answer in changed:
        kept = "".join(piece.text for piece in answer.difference if piece.kind in ("same", "new"))
        assert kept.replace(" ", "") == answer.text.replace(" ", "")
        assert all(iteration >= 0 and fitness == fitness for iteration, fitness in answer.lineage)


def test_a_program_is_marked_and_escaped():
    code = 'def f(x):\n    return "<b>" + str(2)  # \u202e\n'
    marked = highlight_python(code)
    assert '<span class="k">def</span>' in marked and '<span class="f">f</span>' in marked
    assert "&lt;b&gt;" in marked and "<b>" not in marked and "\u202e" not in marked
    plain = html.unescape(re.sub("<[^>]+>", "", marked))
    assert plain == code.replace("\u202e", "<U+202E>")


def test_best_answers_are_the_fittest_of_all_seeds(made):
    with Store.open(made, read_only=True) as store:
        comparison = gather(store, "made-up")
        readings = {arm.name: [read_run(store, run) for run in arm.runs] for arm in comparison.arms}
        details = problem_details(store, comparison, readings)
    assert [detail.name for detail in details] == [problem.name for problem in comparison.problems]
    for row, detail in enumerate(details):
        assert [answer.arm for answer in detail.answers] == list(readings)
        for answer in detail.answers:
            found = [run.searches[row].problem.best_fitness for run in readings[answer.arm]]
            assert answer.fitness == pytest.approx(max(found))
            assert answer.prompt.startswith("Find a route") and answer.text[0] in "UDLR"
        assert detail.statement == ""  # made-up problems stand nowhere


def test_texts_are_bounded_and_say_what_is_left_out():
    assert bounded("abc", 3) == "abc"
    assert bounded("a" * 1500, 400).endswith("… and 1,100 more characters")
    assert FEWEST_CHARS * 2000 < PAGE_CHARS


def test_machines_are_the_runs_own(maze_details, made):
    _, run = maze_details
    (machine,) = run.summary["machines"]
    with Store.open(made, read_only=True) as store:
        unrecorded = machines_table(gather(store, "made-up"))
    assert [cell.text for cell in unrecorded.rows[0]][2:] == [*[UNRECORDED] * 4, "0" * 12]
    assert machine["cpu"]


def test_other_machines_have_rows_of_their_own(made, tmp_path):
    import shutil

    shutil.copy(made.removeprefix("sqlite:///"), tmp_path / "copy.db")
    with Store.open(f"sqlite:///{tmp_path / 'copy.db'}") as store:
        elsewhere = {"cpu": "Z80", "cores": 1, "memory_gib": 0.5, "gpus": ["<b>H200"], "versions": {"evo": "9"},
                     "commit": "abc", "system": "CP/M"}  # fmt: skip
        with store.begin() as tx:
            tx.connection.execute(
                update(Run).where(Run.c.name == "made-up/grpo/s0").values(summary={"machines": [elsewhere]})
            )
        table = machines_table(gather(store, "made-up"))
    rows = {row[2].text: row for row in table.rows}
    assert rows["Z80, 1 cores, 0.5 GiB"][0].text == "1" and rows["not recorded"][0].text == "5"
    assert [cell.text for cell in rows["Z80, 1 cores, 0.5 GiB"]][3:] == ["<b>H200", "CP/M", "evo 9", "abc"]


def test_every_heading_is_explained(finished):
    report, _ = finished
    words = " ".join(PAGE)
    plain = {"policy", "problem", "set", "problems", "run", "runs", "status", "reason", "commit", "system", "setting",
             "value", "what", "kind", "times", "tokens", "tokens/answer", "pair", "figure", "result", "parents",
             "operator", "iterations", "answers"}  # fmt: skip
    arms = {arm.name for arm in report.comparison.arms}
    arms_section, settings = report.arms, report.settings
    tables = [arms_section.table, arms_section.differences, arms_section.operators, arms_section.refinement,
              report.problems.table, report.cost.table, settings.differing, settings.shared, settings.runs,
              settings.machines]  # fmt: skip
    columns: list[Column] = [column for table in tables if table is not None for column in table.columns]
    assert len(columns) > 40
    for column in columns:
        known = column.hint or column.title in plain | arms or column.title in words
        assert known, column.title
    for word in ("area", "median time", "answer diversity", "busy", "queue", "cells", "repeats", "format", "won"):
        assert word in words


def test_arms_look_alike_in_pictures_and_page(finished):
    report, page = finished
    for place, _ in enumerate(report.comparison.arms):
        assert look(place).colour == style_of(place).colour
        rule = (
            f'[data-arm="{place}"]::before {{ content: "{style_of(place).mark}\\00a0"; color: {style_of(place).colour}'
        )
        assert rule in page
    values = json.loads(re.search(r'id="chart-values">(.*?)</script>', page, re.DOTALL)[1])
    assert [(arm["colour"], arm["mark"]) for arm in values["arms"]] == [(s[0], s[2]) for s in map(style_of, range(3))]
