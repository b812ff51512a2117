#!/usr/bin/env bash
# polars 2.1.0, 2026-11-29
# Behaviour: a frame of dicts takes columns and types from the first 100 rows, also where `strict` is true: in row 101 the
# score 1.5 is 1 and a new key is lost, in silence. A frame of columns raises an error, and `infer_schema_length=None`
# reads all rows.
# One would have guessed: an error, as `strict` promises, or a column of floats.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check polars==2.1.0
"$folder/venv/bin/python" - <<'PYTHON'
import polars as pl

print("polars", pl.__version__)
rows = [{"score": 1}] * 100 + [{"score": 1.5, "error": "late"}]
seen = {}
for name, settings in {"default": {}, "strict": {"strict": True}, "all rows": {"infer_schema_length": None}}.items():
    frame = pl.DataFrame(rows, **settings)
    seen[name] = frame.columns, frame["score"][-1]
    print(f"{name}: columns {frame.columns}, the last score {frame['score'][-1]}")
try:
    pl.DataFrame({"score": [row["score"] for row in rows]})
    refused = False
except TypeError:
    refused = True
print("a frame of columns is refused:", refused)
assert seen["default"] == seen["strict"] == (["score"], 1) and refused, "the behaviour has changed"
assert seen["all rows"] == (["score", "error"], 1.5), "the behaviour has changed"
PYTHON
