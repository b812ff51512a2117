#!/usr/bin/env bash
# duckdb 2.0.1, 2026-11-28
# Behaviour: 01/02/2024 in a CSV file is the first of February if every row can be read day first, and the second of
# January if one other row cannot: one cell is two dates, by the rows beside it.
# One would have guessed: it is a date with the month first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check duckdb==2.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import pathlib
import tempfile

import duckdb

print("duckdb", duckdb.__version__)
seen = {}
with tempfile.TemporaryDirectory() as folder:
    for other in ("03/04/2024", "03/14/2024", "14/03/2024"):
        path = pathlib.Path(folder, "dates.csv")
        path.write_text(f"day,dose\n01/02/2024,1\n{other},2\n")
        seen[other] = duckdb.read_csv(str(path)).fetchall()[0][0].isoformat()
        print(f"01/02/2024 beside {other}: {seen[other]}")
assert list(seen.values()) == ["2024-02-01", "2024-01-02", "2024-02-01"], "the behaviour has changed"
PYTHON
