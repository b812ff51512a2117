"""Tables for pandas, which is an extra."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from islands.db.store import Store
from islands.queries.candidates_table import candidates_table
from islands.types import RunRecord

if TYPE_CHECKING:
    from pandas import DataFrame


def data_frame(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] = ()) -> DataFrame:
    """rows as a DataFrame. columns: those of a table without rows. Raises ImportError naming the package to install."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError('frame() needs pandas: pip install pandas, or pip install "evo-search[pandas]"') from error
    rows = list(rows)
    return pandas.DataFrame(rows) if rows else pandas.DataFrame(columns=list(columns))


def candidate_rows(store: Store, runs: Iterable[RunRecord]) -> list[dict[str, Any]]:
    """A row for every candidate of the runs: its reward vector and features in separate columns."""
    rows = []
    for run in runs:
        of_run = {"arm": run.arm, "seed": run.seed} if run.arm else {}
        for candidate in candidates_table(store, run.id):
            values = vars(candidate)
            rewards = {f"reward.{name}": value for name, value in candidate.rewards.items()}
            features = {f"feature.{name}": value for name, value in candidate.features.items()}
            kept = {name: value for name, value in values.items() if name not in ("rewards", "features")}
            rows.append({**of_run, **kept, **rewards, **features})
    return rows
