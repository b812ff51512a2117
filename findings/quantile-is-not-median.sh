#!/usr/bin/env bash
# polars 2.1.0, pandas 3.1.1, duckdb 2.0.1, 2026-11-29
# Behaviour: the quantile 0.5 of 1, 2, 3 and 4 is 3 in polars, 2 in duckdb and 2.5 in pandas; their medians are 2.5. By
# default polars takes the nearest value, and duckdb's `quantile` is `quantile_disc`.
# One would have guessed: 2.5 in each, as quantiles of NumPy and pandas are interpolated.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check polars==2.1.0 pandas==3.1.1 duckdb==2.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import duckdb
import pandas as pd
import polars as pl

print("polars", pl.__version__, "pandas", pd.__version__, "duckdb", duckdb.__version__)
values = [1.0, 2.0, 3.0, 4.0]
rows = ", ".join(f"({value}::double)" for value in values)
seen = {
    "polars": (pl.Series(values).quantile(0.5), pl.Series(values).median()),
    "duckdb": duckdb.sql(f"select quantile(x, 0.5), median(x) from (values {rows}) as t(x)").fetchall()[0],
    "pandas": (float(pd.Series(values).quantile(0.5)), float(pd.Series(values).median())),
}
for name, (quantile, median) in seen.items():
    print(f"{name}: quantile 0.5 is {quantile}, median {median}")
assert list(seen.values()) == [(3.0, 2.5), (2.0, 2.5), (2.5, 2.5)], "the behaviour has changed"
PYTHON
