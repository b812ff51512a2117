"""A fit of a table: rows held out, a search, and one JSON file that holds all of it.

The file is whole at every time. It is written when the fit begins and after each tick of the search, so a killed fit
loses at most the last tick; `evo fit --resume` starts from the formulas in it, with their constants.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evo.plugins.formulas.evaluation import Reals, evaluate_formula, quiet
from evo.plugins.formulas.front import Front, FrontRow, recommend
from evo.plugins.formulas.grammar import Formula, FormulaError, parse_formula
from evo.plugins.formulas.ledger import EXACT
from evo.plugins.formulas.residuals import describe_residuals
from evo.plugins.formulas.rules import DEFAULT_FUNCTIONS, FormulaRules, read_functions
from evo.plugins.formulas.search import search_formulas, weigh_errors
from evo.plugins.formulas.table import BadTable, DataTable, read_table
from evo.plugins.formulas.units import base_units, parse_unit, write_dimension
from evo.plugins.formulas.writing import replace_names
from evo.whole_file import write_whole
from problems.address import did_you_mean, name_few

_FORMAT = 1
FITS_FOLDER = Path("fits")
SAVE_SECONDS = 1.0
"""Between two writes of the file, at least."""


@dataclass(frozen=True)
class FitSettings:
    """What decides a fit, in addition to its file.

    units: `header`, or units by column as text
    loss: of `search_formulas`
    target: None asks for a message that lists the columns; seconds: None without a limit; test_share: of the rows, held
    out; the rest as in `search` and `read_table`
    """

    target: str | None
    columns: tuple[str, ...] = ()
    weights: str | None = None
    drop_missing: bool = False
    header: bool = True
    units: str | None = None
    loss: str = "squared"
    seconds: float | None = 60.0
    evaluations: int | None = None
    max_size: int = 50
    functions: tuple[str, ...] = ()
    seed: int = 0
    guesses: tuple[str, ...] = ()
    test_share: float = 0.2

    def read(self, path: Path) -> SplitTable:
        """The rows of a file. Raises BadTable, also for settings of the search that do not suit them."""
        table = read_table(
            path,
            self.target,
            columns=self.columns,
            weights=self.weights,
            drop_missing=self.drop_missing,
            header=self.header,
            seed=self.seed,
        )
        parts = split(table, self.test_share, self.seed)
        try:
            weigh_errors(table.y, None, self.loss)
        except ValueError as error:
            raise BadTable(f"--loss relative, target {table.target!r}: {error}") from None
        _check_search(self, table)
        return parts


@dataclass(frozen=True)
class FitSession:
    """One search of a fit. evaluations, seconds: that it took; stopped: as Front.stopped, "" while it runs"""

    seed: int
    evaluations: int
    seconds: float
    stopped: str


@dataclass(frozen=True)
class SavedFit:
    """A fit as its file holds it.

    data: path, sha256 and rows of the file, the names and units of its columns, notes on what was changed
    best: the index of the recommended row; made_by: the version and command
    advice: a line about the errors of the recommended row, "" if there is nothing to say
    """

    name: str
    data: Mapping[str, Any]
    settings: FitSettings
    made_by: Mapping[str, str]
    created: float
    sessions: tuple[FitSession, ...] = ()
    rows: tuple[FrontRow, ...] = ()
    best: int | None = None
    advice: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the variables."""
        return tuple(self.data["names"])

    @property
    def target(self) -> str:
        return str(self.data["target"])

    @property
    def recommended(self) -> FrontRow | None:
        return None if self.best is None else self.rows[self.best]

    def record(self) -> dict[str, Any]:
        """The fit as JSON."""
        return {
            "format": _FORMAT,
            "name": self.name,
            "created": self.created,
            "made_by": dict(self.made_by),
            "data": dict(self.data),
            "settings": asdict(self.settings),
            "sessions": [asdict(session) for session in self.sessions],
            "recommended": self.best,
            "advice": self.advice,
            "rows": [{"row": k, **_record_row(row)} for k, row in enumerate(self.rows, 1)],
        }


_ROW = ("complexity", "loss", "score", "r2", "test_r2", "undefined", "equation")
"""What the file holds of a row."""


def _record_row(row: FrontRow) -> dict[str, Any]:
    """A row as JSON, which has no infinite numbers: the score of a loss of 0 is null."""
    return {key: vars(row)[key] for key in _ROW} | {"score": row.score if math.isfinite(row.score) else None}


@dataclass(frozen=True)
class SplitTable:
    """The rows of a table that are fitted and those that are held out, (n, d) and (n,), with the table's weights."""

    table: DataTable
    x: Reals
    y: Reals
    weights: Reals | None
    test_x: Reals
    test_y: Reals
    test_weights: Reals | None


def split(table: DataTable, share: float, seed: int) -> SplitTable:
    """Hold out a random share of the rows, at least one unless the share is 0. Raises BadTable if too few are left."""
    n = len(table.y)
    held = 0 if share == 0 else min(n - 1, max(1, round(share * n)))
    if n - held < 8:
        raise BadTable(f"{n - held} of {n} rows are left to fit; at least 8 are needed: lower --test-share")
    order = np.random.default_rng([seed, 1]).permutation(n)
    test, train = np.sort(order[:held]), np.sort(order[held:])
    if float(np.ptp(table.y[train])) == 0:
        raise BadTable(f"the target {table.target!r} has the same value in all rows that are fitted")
    weights, test_weights = (None if table.weights is None else table.weights[rows] for rows in (train, test))
    return SplitTable(table, table.x[train], table.y[train], weights, table.x[test], table.y[test], test_weights)


def measure(formula: Formula, x: Reals, y: Reals, weights: Reals | None = None) -> tuple[float | None, int]:
    """R2 of a formula on rows (n, d), and on how many it has no finite value. R2 is None if there are such rows, if
    there is no row, or if y is constant. weights: (n,) of the squared errors"""
    if len(y) < 2 or float(np.ptp(y)) == 0:
        return None, 0
    w = np.ones_like(y) if weights is None else weights
    with quiet():
        values = evaluate_formula(formula, np.ascontiguousarray(x.T))
        undefined = int((~np.isfinite(values)).sum())
        largest = float(np.abs(y).max())  # squares of numbers near 1e154 overflow
        away = (y - float(w @ (y / w.sum()))) / largest
        r2 = 1 - float(w @ ((values - y) / largest) ** 2) / float(w @ away**2)
    return (None, undefined) if undefined or not math.isfinite(r2) else (r2, 0)


# -- the file ----------------------------------------------------------------------------------------------------------


def load_fit(name: str) -> tuple[SavedFit, Path]:
    """A fit by its name or by the path of its file. Raises BadTable."""
    path = Path(name)
    if not (path.suffix == ".json" and path.exists()):
        path = FITS_FOLDER / f"{name}.json"
    if not path.is_file():
        known = list_fits()
        alike = [fit for fit in known if re.sub(r"\W|_", "-", fit) == re.sub(r"\W|_", "-", name)]
        if len(alike) == 1:  # the column's own name, as in `pump-Leistung P`
            return load_fit(alike[0])
        hint = did_you_mean(name, known) or (f"; there is {', '.join(known[:12])}" if known else "")
        raise BadTable(f"there is no fit {name!r} in {FITS_FOLDER}/{hint}")
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return _fit_of(record), path
    except OSError as error:
        raise BadTable(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadTable(f"{path} is no file of evo fit: {type(error).__name__}: {error}") from None


def list_fits() -> list[str]:
    """The names of the saved fits, the newest last."""
    files = sorted(FITS_FOLDER.glob("*.json"), key=lambda file: file.stat().st_mtime)
    return [file.stem for file in files]


def _fit_of(record: Mapping[str, Any]) -> SavedFit:
    if record["format"] != _FORMAT:
        raise ValueError(f"its format is {record['format']}, and this version reads {_FORMAT}")
    settings: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in record["settings"].items()
    }
    names = tuple(record["data"]["names"])

    def read_row(row: Mapping[str, Any]) -> FrontRow:
        given = {key: row[key] for key in _ROW}
        if given["score"] is None:
            given["score"] = math.inf
        return FrontRow(parse_formula(row["equation"], names), names, **given)

    return SavedFit(
        str(record["name"]),
        record["data"],
        FitSettings(**settings),
        record["made_by"],
        float(record["created"]),
        tuple(FitSession(**session) for session in record["sessions"]),
        tuple(map(read_row, record["rows"])),
        record["recommended"],
        record["advice"],
    )


# -- fitting -----------------------------------------------------------------------------------------------------------


Watch = Callable[[SavedFit], bool]
"""Sees the fit after each tick; true stops the search."""


def hash_file(path: Path) -> str:
    """SHA-256 of the bytes. Raises BadTable if the file cannot be read."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise BadTable(f"cannot read {path}: {error.strerror or error}") from None


def begin_fit(
    path: Path, settings: FitSettings, name: str | None, made_by: Mapping[str, str]
) -> tuple[SavedFit, SplitTable]:
    """A new fit with its rows; nothing is written yet. Raises BadTable."""
    digest, parts = hash_file(path), settings.read(path)
    table, notes = parts.table, list(parts.table.notes)
    if settings.units is None and any(table.units):
        notes.append("The header has units; --units header leaves out formulas that break them.")
    if settings.units and re.search(r"(°|\bdeg) ?[CF]\b|[℃℉]", f"{settings.units} {table.units}"):
        notes.append("°C and °F count as units of their own, because their zeros are not that of K.")
    if settings.units:
        notes += _describe_units(_read_rules(settings, table), table)
    data = {
        "path": str(path.resolve()),
        "sha256": digest,
        "rows": table.rows,
        "fitted": len(parts.y),
        "held_out": len(parts.test_y),
        "names": list(table.names),
        "target": table.target,
        "units": list(table.units),
        "notes": notes,
    }
    return SavedFit(name or _free_name(f"{path.stem}-{table.target}"), data, settings, made_by, time.time()), parts


def reopen_fit(fit: SavedFit) -> SplitTable:
    """The rows of a saved fit. Raises BadTable if its file has changed, and for settings that do not suit it."""
    path = Path(fit.data["path"])
    if hash_file(path) != fit.data["sha256"]:
        raise BadTable(f"{path} has changed since the fit {fit.name} read it; start a new fit")
    return fit.settings.read(path)


def run_fit(fit: SavedFit, parts: SplitTable, path: Path, watch: Watch) -> SavedFit:
    """Search from the fit's rows and guesses, and save after each tick and at the end.

    A further session of a fit has another seed, so that it does not repeat the first. Raises OSError if the file cannot
    be written.
    """
    settings = fit.settings
    seed = settings.seed + len(fit.sessions)
    guesses = [*(row.formula for row in fit.rows), *(_parse_guess(text, parts.table) for text in settings.guesses)]
    loss = settings.loss
    test_weights = weigh_errors(parts.test_y, parts.test_weights, loss)
    held_out: dict[Formula, tuple[float | None, int]] = {}
    saved = [0.0]

    def current(front: Front) -> SavedFit:
        session = FitSession(seed, front.evaluations, round(front.seconds, 3), front.stopped)
        rows = []
        for row in front:
            if row.formula not in held_out:
                held_out[row.formula] = measure(row.formula, parts.test_x, parts.test_y, test_weights)
            r2, undefined = held_out[row.formula]
            rows.append(replace(row, test_r2=r2, undefined=undefined))
        best = recommend(rows, len(parts.y), EXACT)
        return replace(
            fit, sessions=(*fit.sessions, session), rows=tuple(rows), best=None if best is None else rows.index(best)
        )

    def tick(front: Front) -> bool:
        now = current(front)
        if time.monotonic() - saved[0] >= SAVE_SECONDS:
            save_fit(now, path)
            saved[0] = time.monotonic()
        return watch(now)

    save_fit(replace(fit, sessions=(*fit.sessions, FitSession(seed, 0, 0.0, ""))), path)
    front = search_formulas(
        parts.x,
        parts.y,
        _read_rules(settings, parts.table),
        names=fit.names,
        seconds=math.inf if settings.seconds is None else settings.seconds,
        evaluations=settings.evaluations,
        seed=seed,
        guesses=guesses,
        sample_weight=parts.weights,
        loss=loss,
        callback=tick,
    )
    ended = advise(current(front), parts)
    save_fit(ended, path)
    return ended


def advise(fit: SavedFit, parts: SplitTable) -> SavedFit:
    """The fit with what its errors show."""
    if fit.recommended is None or fit.settings.loss != "squared":
        return replace(fit, advice="")
    weights = None if parts.weights is None or parts.test_weights is None else [parts.weights, parts.test_weights]
    line = describe_residuals(
        fit.recommended,
        np.vstack([parts.x, parts.test_x]),
        np.concatenate([parts.y, parts.test_y]),
        None if weights is None else np.concatenate(weights),
        fit.target,
        relative="fit with --loss relative",
        weigh="give large values small weights with --weights COLUMN",
        span=True,
    )
    return replace(fit, advice=line)


def save_fit(fit: SavedFit, path: Path) -> None:
    """Replace the file in one step. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(fit.record(), indent=1, ensure_ascii=False) + "\n")


def _read_rules(settings: FitSettings, table: DataTable) -> FormulaRules:
    """What may be on the front. Raises BadTable for functions and units that cannot be read."""
    try:
        codes = read_functions(("+", "-", "*", *(settings.functions or DEFAULT_FUNCTIONS)))
    except ValueError as error:
        raise BadTable(f"--functions: {error}") from None
    units = dict(zip((*table.names, table.target), table.units, strict=True))
    if settings.units is None:
        return FormulaRules(codes, settings.max_size)
    if settings.units != "header":
        units = {}
        for part in filter(None, settings.units.split(",")):
            name, equals, unit = (text.strip() for text in part.partition("="))
            name = table.spellings.get(name, name)
            if not equals or name not in (*table.names, table.target):
                known = ", ".join((*table.names, table.target))
                raise BadTable(f"--units {part.strip()!r}: write header, or NAME=UNIT,... with names of {known}")
            units[name] = unit
    elif not any(units.values()):
        raise BadTable("--units header: no name in the header has a unit, as in `mass [kg]`")
    try:
        dimensions = {name: parse_unit(unit) for name, unit in units.items()}
    except ValueError as error:
        raise BadTable(f"--units: {error}") from None
    return FormulaRules(codes, settings.max_size, tuple(map(dimensions.get, (*table.names, table.target))))


def _describe_units(rules: FormulaRules, table: DataTable) -> list[str]:
    """How the units were understood, and which were not."""
    of = {
        name: unit
        for name, unit in zip((*table.names, table.target), rules.units or (), strict=True)
        if unit is not None
    }
    notes = [f"Units: {', '.join(f'{name} {write_dimension(unit)}' for name, unit in of.items())}."]
    if unknown := list(dict.fromkeys(name for unit in of.values() for name in base_units(unit))):
        what = "is no unit that is known, and counts" if len(unknown) == 1 else "are no units that are known, and count"
        notes.append(f"{name_few(unknown, 8)} {what} as a base unit; a law across it has a constant with a unit.")
    return notes


def _check_search(settings: FitSettings, table: DataTable) -> None:
    """Raises BadTable for settings of the search that it would refuse."""
    rules = _read_rules(settings, table)
    for guess in settings.guesses:
        formula = rules.express(_parse_guess(guess, table))
        if formula is None:
            raise BadTable(f"--guess {guess!r} is too large, or has functions that --functions leaves out")
        if not rules.keeps_units(formula):
            raise BadTable(f"--guess {guess!r} breaks the units")


def _parse_guess(text: str, table: DataTable) -> Formula:
    try:
        return parse_formula(replace_names(text, table.spellings), table.names)
    except FormulaError as fault:
        raise BadTable(f"--guess {text!r}: {fault}") from None


def _free_name(wanted: str) -> str:
    plain = re.sub(r"[^\w.-]+", "-", wanted).strip("-.") or "fit"
    taken = set(list_fits())
    return next(name for k in range(1, 10**6) if (name := plain if k == 1 else f"{plain}-{k}") not in taken)
