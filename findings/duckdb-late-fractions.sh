#!/usr/bin/env bash
# duckdb 2.0.1, pyarrow 26.0.1, 2026-11-28
# Behaviour: a column of whole numbers whose first fraction comes after the 20,480 rows of the sample is BIGINT, and
# 1.5 and 2.5 are read as 2 and 3, in silence. A Parquet file of doubles behind one of whole numbers is rounded too,
# and there 2.5 is 2.
# One would have guessed: an error in both cases, as for a late text.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check duckdb==2.0.1 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import pathlib
import tempfile

import duckdb
import pyarrow
import pyarrow.parquet as parquet

print("duckdb", duckdb.__version__)
with tempfile.TemporaryDirectory() as folder:
    table = pathlib.Path(folder, "long.csv")
    table.write_text("dose\n" + "1\n" * 30_000 + "1.5\n2.5\n")
    late = [row[0] for row in duckdb.read_csv(str(table)).fetchall()[-2:]]
    whole = [row[0] for row in duckdb.read_csv(str(table), sample_size=-1).fetchall()[-2:]]
    names = [str(pathlib.Path(folder, name)) for name in ("1.parquet", "2.parquet")]
    for name, values in zip(names, ([1, 2], [1.5, 2.5])):
        parquet.write_table(pyarrow.table({"dose": values}), name)
    files = [row[0] for row in duckdb.read_parquet(names).fetchall()]
print("last cells of the CSV file:", late, "with sample_size=-1:", whole, "two Parquet files:", files)
assert late == [2, 3] and whole == [1.5, 2.5] and files == [1, 2, 2, 2], "the behaviour has changed"
PYTHON
