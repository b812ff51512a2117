#!/usr/bin/env bash
# pandas 3.1.1, pyarrow 26.0.1, 2026-11-28
# Behaviour: rows chosen by a mask keep a RangeIndex if they are evenly spaced, and Parquet then has no index column;
# any other choice writes `__index_level_0__`. Which columns a file has depends on the rows that were kept.
# One would have guessed: a frame that lost rows always writes its index.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check pandas==3.1.1 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import pathlib
import tempfile

import pandas as pd
import pyarrow.parquet as parquet

print("pandas", pd.__version__)
frame = pd.DataFrame({"dose": range(10)})
seen = {}
for name, kept in {"every third row": [1, 4, 7], "three other rows": [1, 4, 8]}.items():
    part = frame[frame.dose.isin(kept)]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "part.parquet")
        part.to_parquet(path)
        seen[name] = parquet.read_schema(path).names
    print(f"{name}: {type(part.index).__name__}, columns {seen[name]}")
expected = {"every third row": ["dose"], "three other rows": ["dose", "__index_level_0__"]}
assert seen == expected, "the behaviour has changed"
PYTHON
