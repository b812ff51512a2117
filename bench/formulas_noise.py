"""The size of the formula that `evo fit` recommends, against that of the law behind noisy rows.

    python -m bench.formulas_noise measure --laws 0-99 -o noise.jsonl
    python -m bench.formulas_noise report noise.jsonl

Law k is drawn by seed k: a product of powers, a sum of two terms, a saturation, a decay, a wave, a root or a logarithm
of one to three columns, beside one column that it does not have. Each term has at least a fifth of the deviation of the
sum. Columns are uniform in 1..5 or .5..3, or log-uniform in 1..100. Even laws have noise of 5% of the target's
deviation, odd ones of 5% of each value. A fifth of the rows is held out, as `evo fit` does. Close: the recommended row
has the law's size, simplified as the front is, within 3 nodes. Laws that a loss refuses are left out. A measurement
that was stopped continues.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.formulas import r_squared, read_rows
from evo.plugins.formulas.evaluation import Array, evaluate, quiet
from evo.plugins.formulas.fit import FitSettings, begin_fit, run_fit
from evo.plugins.formulas.grammar import Formula, parse
from evo.plugins.formulas.simplify import simplify
from evo.plugins.formulas.table import BadTable

NOISE = 0.05
CLOSE = 3
POWERS = ("{0}", "{0}", "{0}", "{0}**2", "{0}**3", "sqrt({0})", "{0}**1.75", "1/{0}", "1/{0}**2", "1/sqrt({0})")
FORMS = ("product", "sum", "offset", "saturation", "decay", "wave", "root", "logarithm")
RANGES = ((1.0, 5.0, False), (0.5, 3.0, False), (1.0, 100.0, True))
"""Low, high, and whether the logarithm is uniform."""


@dataclass(frozen=True)
class NoisyLaw:
    """A law with rows. x: (n, d); y: (n,) with noise; true: without"""

    text: str
    formula: Formula
    x: Array
    y: Array
    true: Array

    @classmethod
    def draw(cls, seed: int, rows: int) -> NoisyLaw:
        """Draws until the law has values, and none of its terms is small."""
        for attempt in range(1000):
            rng = np.random.default_rng([seed, attempt])
            columns = int(rng.integers(1, 4))
            terms, wrap = _draw_terms(rng, columns)
            ranges = [RANGES[int(rng.integers(len(RANGES)))] for _ in range(columns + 1)]
            x = np.column_stack(
                [
                    np.exp(rng.uniform(np.log(low), np.log(high), rows)) if even else rng.uniform(low, high, rows)
                    for low, high, even in ranges
                ]
            )
            names = tuple(f"x{i + 1}" for i in range(columns + 1))
            with quiet():
                parts = [evaluate(parse(term, names), x.T) for term in terms]
                text = wrap.format(" + ".join(terms))
                true = np.array(evaluate(parse(text, names), x.T))
                whole = np.sum(parts, axis=0)
                if not np.isfinite(true).all() or float(np.abs(true).max()) > 1e6 or float(np.std(true)) < 1e-3:
                    continue
                if min(float(np.std(part)) for part in parts) < 0.2 * float(np.std(whole)):
                    continue
                formula = simplify(parse(text, names), np.ascontiguousarray(x.T))
            size = np.abs(true) if seed % 2 else np.full(rows, float(np.std(true)))
            return cls(text, formula, x, true + NOISE * size * rng.normal(size=rows), true)
        raise ValueError(f"no law for seed {seed}")


def _draw_terms(rng: np.random.Generator, columns: int) -> tuple[list[str], str]:
    """The terms of a sum, and the text around it."""

    def number() -> str:
        return f"{float(np.exp(rng.normal(0, 1))):.2f}"

    def product(indices: list[int]) -> str:
        powers = [str(rng.choice(POWERS)).format(f"x{i + 1}") for i in indices]
        return "*".join([number(), *(f"({p})" for p in powers)])

    order = [int(i) for i in rng.permutation(columns)]
    first, rest = order[0], order[1:]
    name, form = f"x{first + 1}", str(rng.choice(FORMS))
    if form == "product":
        return [product(order)], "{0}"
    if form == "sum" and rest:
        return [product(order[:-1]), product(order[-1:])], "{0}"
    if form == "saturation":
        return [f"{product(rest)}*{name}/({number()} + {name})"], "{0}"
    if form == "decay":
        return [f"{product(rest)}*exp(-{float(rng.uniform(0.3, 1)):.2f}*{name})"], "{0}"
    if form == "wave":
        wave = f"{number()}*sin({float(rng.uniform(0.8, 2)):.2f}*{name})"
        return [wave, *([product(rest[:1])] if rest else [])], "{0}"
    if form == "root":
        return [f"{number()}*{name}**2", product(rest[:1]) if rest else f"{number()}*{name}"], "sqrt({0})"
    if form == "logarithm":
        return [f"{number()}*log({name})", *([product(rest[:1])] if rest else [])], "{0}"
    return [product(order)], "{0} + " + number()


def measure_one(seed: int, rows: int, evaluations: int, loss: str | None) -> dict[str, Any]:
    """One fit, by the functions of `evo fit`, with its whole front."""
    law = NoisyLaw.draw(seed, rows)
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        head = ",".join(f"x{i + 1}" for i in range(law.x.shape[1])) + ",y"
        np.savetxt(path, np.column_stack([law.x, law.y]), delimiter=",", header=head, comments="")
        given: dict[str, Any] = {} if loss is None else {"loss": loss}
        settings = FitSettings("y", seconds=None, evaluations=evaluations, max_size=40, seed=seed, **given)
        try:
            saved, parts = begin_fit(path, settings, "noise", {})
        except BadTable as fault:  # a decay to almost 0, under a relative loss
            return {"law": seed, "refused": str(fault)}
        ended = run_fit(saved, parts, Path(folder) / "fit.json", lambda _fit: False)
    best = ended.recommended
    assert best is not None
    row = {"law": seed, "noise": "share" if seed % 2 else "additive", "rows": rows, "evaluations": evaluations}
    row |= {"text": law.text, "size": law.formula.size, "found": best.complexity, "equation": best.equation}
    row |= {"true_r2": r_squared(best(law.x), law.true), "notes": list(ended.data["notes"])}
    front = [{**vars(each), "formula": None, "names": None} for each in ended.rows]
    return row | {"front": front, "cpu": time.process_time() - begun}


def report(path: Path) -> Iterator[str]:
    """A Markdown table: close, larger and smaller rows by the kind of noise."""
    rows = [row for row in read_rows(path) if "refused" not in row]
    yield "| noise | laws | close | larger | smaller | close rows in the front | R2 without noise | CPU s a fit |"
    yield "|---|---|---|---|---|---|---|---|"
    for kind in ("additive", "share", "all"):
        these = [row for row in rows if kind in (row["noise"], "all")]
        if not these:
            continue
        off = np.array([row["found"] - row["size"] for row in these])
        near = [any(abs(each["complexity"] - row["size"]) <= CLOSE for each in row["front"]) for row in these]
        cells = [kind, len(these), int((np.abs(off) <= CLOSE).sum()), int((off > CLOSE).sum())]
        cells += [int((off < -CLOSE).sum()), sum(near), f"{np.median([row['true_r2'] for row in these]):.4f}"]
        yield "| " + " | ".join(map(str, [*cells, f"{np.mean([row['cpu'] for row in these]):.1f}"])) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("measure")
    one.add_argument("--laws", default="0-99", help="the seeds of the laws, first-last")
    one.add_argument("--rows", type=int, default=120)
    one.add_argument("--evaluations", type=int, default=6000)
    one.add_argument("--loss", help="as in evo fit --loss")
    one.add_argument("-o", "--output", type=Path, required=True)
    commands.add_parser("report").add_argument("file", type=Path)
    given = parser.parse_args()
    if given.command == "report":
        print("\n".join(report(given.file)))
        return
    first, last = map(int, given.laws.split("-"))
    done = {row["law"] for row in read_rows(given.output)}
    for seed in range(first, last + 1):
        if seed not in done:
            row = measure_one(seed, given.rows, given.evaluations, given.loss)
            with given.output.open("a") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
