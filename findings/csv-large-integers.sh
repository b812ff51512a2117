#!/usr/bin/env bash
# pandas 3.1.1, polars 2.1.0, duckdb 2.0.1, pyarrow 26.0.1, 2026-11-28
# Behaviour: one CSV column with 2**63 is UInt64 (pandas), Int128 (polars), HUGEINT (duckdb) and a rounded double (pyarrow).
# 2**64 is still exact in pandas, as Python integers in a column of objects.
# One would have guessed: polars and duckdb fall back to 64-bit floats as pyarrow does, and pandas reads 2**64 as text.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check pandas==3.1.1 polars==2.1.0 duckdb==2.0.1 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import io
import pathlib
import tempfile

import duckdb
import pandas as pd
import polars as pl
import pyarrow.csv as arrow_csv

text = f"a,b\n{2**63},1\n5,2\n"
folder = tempfile.TemporaryDirectory()
path = pathlib.Path(folder.name, "large.csv")
path.write_text(text)
types = {
    f"pandas {pd.__version__}": str(pd.read_csv(path).a.dtype),
    f"polars {pl.__version__}": str(pl.read_csv(path).schema["a"]),
    f"duckdb {duckdb.__version__}": str(duckdb.read_csv(str(path)).types[0]),
    "pyarrow": str(arrow_csv.read_csv(path).schema.field("a").type),
}
larger = pd.read_csv(io.StringIO(text.replace(str(2**63), str(2**64)))).a
print(types, "and 2**64 in pandas:", larger.dtype, list(larger))
assert list(types.values()) == ["uint64", "Int128", "HUGEINT", "double"], "the behaviour has changed"
assert list(larger) == [2**64, 5] and type(larger[0]) is int, "the behaviour has changed"
PYTHON
