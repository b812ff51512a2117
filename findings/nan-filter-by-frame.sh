#!/usr/bin/env bash
# polars 2.1.0, pandas 3.1.1, duckdb 2.0.1, pyarrow 26.0.1, 2026-11-28
# Behaviour: in polars `x > 5` keeps NaN and `top_k` puts it first, while `max()` leaves it out. The same query of
# duckdb keeps NaN of a polars frame and loses it of a pandas frame, where NaN is NULL.
# One would have guessed: polars drops the row, as pandas does.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check polars==2.1.0 pandas==3.1.1 duckdb==2.0.1 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import duckdb
import pandas as pd
import polars as pl

print("polars", pl.__version__, "pandas", pd.__version__, "duckdb", duckdb.__version__)
values = [1.0, float("nan"), 9.0]
polars_frame, pandas_frame = pl.DataFrame({"x": values}), pd.DataFrame({"x": values})
rows = {
    "polars": polars_frame.filter(pl.col("x") > 5).height,
    "pandas": len(pandas_frame[pandas_frame.x > 5]),
    "duckdb on polars": len(duckdb.sql("select x from polars_frame where x > 5").fetchall()),
    "duckdb on pandas": len(duckdb.sql("select x from pandas_frame where x > 5").fetchall()),
}
top, greatest = polars_frame.top_k(1, by="x")["x"].item(), polars_frame["x"].max()
print("rows of x > 5:", rows, "polars' top_k:", top, "and max:", greatest)
assert list(rows.values()) == [2, 1, 2, 1] and top != top and greatest == 9.0, "the behaviour has changed"
PYTHON
