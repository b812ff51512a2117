#!/usr/bin/env bash
# duckdb 2.0.1, pyarrow 26.0.1, 2026-11-28
# Behaviour: a list of CSV files is joined by position: a second file with the columns in another order gives its
# numbers to the wrong columns, in silence. Parquet files are joined by name.
# One would have guessed: both are joined by name, as each file has a header.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check duckdb==2.0.1 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import pathlib
import tempfile

import duckdb
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

print("duckdb", duckdb.__version__)
with tempfile.TemporaryDirectory() as folder:
    first, second = pathlib.Path(folder, "1.csv"), pathlib.Path(folder, "2.csv")
    first.write_text("dose,reply\n1,0.5\n2,0.25\n")
    second.write_text("reply,dose\n0.125,3\n")
    seen = {"csv": duckdb.read_csv([str(first), str(second)]).fetchall()}
    for path in (first, second):
        parquet.write_table(arrow_csv.read_csv(path), path.with_suffix(".parquet"))
    seen["parquet"] = duckdb.read_parquet([str(path.with_suffix(".parquet")) for path in (first, second)]).fetchall()
    seen["by name"] = duckdb.read_csv([str(first), str(second)], union_by_name=True).fetchall()
for name, rows in seen.items():
    print(f"{name}: (dose, reply) of the second file is {rows[-1]}")
assert [rows[-1] for rows in seen.values()] == [(0.125, 3.0), (3, 0.125), (3, 0.125)], "the behaviour has changed"
PYTHON
