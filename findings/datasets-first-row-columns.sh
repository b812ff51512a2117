#!/usr/bin/env bash
# datasets 5.2.0, 2026-11-29
# Behaviour: `Dataset.from_list` takes its columns from the first row: a key that only later rows have is lost, in
# silence. The same rows as a JSON lines file keep it. A note in the reference of `from_list` says so.
# One would have guessed: each key of any row is a column, None where a row lacks it, as keys of nested dicts are.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check datasets==5.2.0
"$folder/venv/bin/python" - <<'PYTHON'
import json
import pathlib
import tempfile

import datasets

datasets.disable_progress_bars()
print("datasets", datasets.__version__)
rows = [{"answer": "a"}, {"answer": "b", "score": 0.5}]
listed = datasets.Dataset.from_list(rows)[:]
nested = datasets.Dataset.from_list([{"row": row} for row in rows])[:]
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "rows.jsonl")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    read = datasets.load_dataset("json", data_files=str(path), split="train", cache_dir=folder)[:]
print("from_list:", listed, "nested:", nested, "JSON lines:", read)
assert listed == {"answer": ["a", "b"]} and read["score"] == [None, 0.5], "the behaviour has changed"
assert [row["score"] for row in nested["row"]] == [None, 0.5], "the behaviour has changed"
PYTHON
