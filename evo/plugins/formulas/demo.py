"""The acts of `evo demo` on formulas: a search of formulas by a small model, and a table that `evo fit` explains."""

from __future__ import annotations

import contextlib
import io
import json
import math
import random
import re
import shlex

import click

from evo.cli import evo as commands
from evo.cli.demo import ActResult, ComparisonAct, DemoContext
from evo.cli.options import print_table

SEARCH = ComparisonAct(
    "formulas",
    "Formulas behind tables of numbers",
    "whether a small model helps a search of formulas, against rules without a model",
    "formula:small",
    "rules without a model",
    {"rules": "scripted:marks", "model": "embedded:formula"},
    {"rules": "adds a term that lowers the error, no model", "model": "a small model that was trained to do the same"},
    most=12,
    iterations=30,
)
SECONDS = 3
HEAD = "length [m],mass [kg],angle [deg],period [s]"
ROWS = 120


class TableAct:
    """A table of a measured pendulum, and its formula."""

    key = "fit"
    title = "A table in, a formula out"
    shows = "a table in, a formula out: evo fit, which needs no model"

    def play(self, context: DemoContext) -> ActResult:
        """Write the table, fit it, and print the front."""
        console = context.console
        context.folder.mkdir(parents=True, exist_ok=True)
        table = context.folder / "pendulum.csv"
        rng, lines = random.Random(context.seed), [HEAD]
        for _ in range(ROWS):
            length, mass, angle = rng.uniform(0.2, 3), rng.uniform(0.1, 2), rng.uniform(1, 10)
            period = 2 * math.pi * math.sqrt(length / 9.81) * rng.gauss(1, 0.005)
            lines.append(f"{length:.3f},{mass:.3f},{angle:.2f},{period:.4f}")
        table.write_text("\n".join(lines) + "\n", encoding="utf-8")
        arguments = [str(table), "--target", "period", "--seconds", str(SECONDS), "--seed", str(context.seed), "--json"]
        for line in (*lines[:3], f"... {ROWS} swings of a pendulum, measured to 0.5%"):
            console.print(f"  {line}", soft_wrap=True, markup=False)
        console.print(f"evo fit {shlex.join(arguments[:-1])}", style="dim", soft_wrap=True, markup=False)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = commands.main(
                args=["fit", *arguments, *["--plain"] * context.output.plain], prog_name="evo", standalone_mode=False
            )
        if code:
            raise click.exceptions.Exit(int(code))
        saved = json.loads(printed.getvalue())
        best = saved["rows"][saved["recommended"]]
        rows = [
            ("*" if row is best else "", str(row["complexity"]), f"{row['test_r2']:.4f}", _shorten(row["equation"]))
            for row in saved["rows"][: saved["recommended"] + 3]
        ]
        titles = ("", "size", "held-out R2", "period =")
        print_table(console, titles, rows, right=titles[1:3])
        formula = f"period = {_shorten(best['equation'])}"
        return ActResult(
            {"name": saved["name"], "formula": formula, "held_out_r2": best["test_r2"]},
            f"evo fit found {formula} in {SECONDS} seconds without a model",
            [(f"evo fit show {saved['name']} --as python", "the formula as a function")],
        )


TABLE = TableAct()


def _shorten(equation: str) -> str:
    """The formula with four digits a constant."""
    return re.sub(r"\d+\.\d+", lambda digits: f"{float(digits[0]):.4g}", equation)
