"""The act of `evo demo` on a table that `evo fit` explains."""

from __future__ import annotations

import math
import random
import shlex

from evo.cli.demo import ActResult, DemoContext
from evo.plugins.formulas import fit as fits
from evo.plugins.formulas.command import print_fit
from evo.provenance import source_commit

_SECONDS = 3
_HEAD = "length [m],mass [kg],angle [deg],period [s]"
_ROWS = 120


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
        rng, lines = random.Random(context.seed), [_HEAD]
        for _ in range(_ROWS):
            length, mass, angle = rng.uniform(0.2, 3), rng.uniform(0.1, 2), rng.uniform(1, 10)
            period = 2 * math.pi * math.sqrt(length / 9.81) * rng.gauss(1, 0.005)
            lines.append(f"{length:.3f},{mass:.3f},{angle:.2f},{period:.4f}")
        table.write_text("\n".join(lines) + "\n", encoding="utf-8")
        settings = fits.FitSettings("period", seconds=_SECONDS, seed=context.seed)
        command = f"evo fit {shlex.quote(str(table))} --target period --seconds {_SECONDS} --seed {context.seed}"
        for line in (*lines[:3], f"... {_ROWS} swings of a pendulum, measured to 0.5%"):
            console.print(f"  {line}", soft_wrap=True, markup=False)
        console.print(command, style="dim", soft_wrap=True, markup=False)
        saved, parts = fits.begin_fit(table, settings, None, {"commit": source_commit(), "command": command})
        ended = fits.run_fit(saved, parts, fits.FITS_FOLDER / f"{saved.name}.json", lambda fit: False)
        best = ended.recommended
        print_fit(console, ended, best)
        formula = f"period = {best.text() if best else 'unknown'}"
        return ActResult(
            {"name": ended.name, "formula": formula, "held_out_r2": best.test_r2 if best else None},
            f"evo fit found {formula} in {_SECONDS} seconds without a model",
            [(f"evo fit show {ended.name} --as python", "the formula as a function")],
        )


TABLE = TableAct()
