#!/usr/bin/env bash
# datasets 5.2.0, 2026-11-29
# Behaviour: a column that `map` writes under its old name is cast back to its old type where a cast exists: "007" over
# integers is 7, 0.5 over booleans is True, and a test over integers is 0 or 1. `remove_columns` does not change that.
# A new name, or `features=`, keeps what the function returned.
# One would have guessed: the column has the type of what the function returns, as under a new name.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check datasets==5.2.0
"$folder/venv/bin/python" - <<'PYTHON'
import datasets

datasets.disable_progress_bars()
print("datasets", datasets.__version__)
rows = datasets.Dataset.from_dict({"id": [7, 12], "solved": [True, False]})
padded = rows.map(lambda row: {"id": f"{row['id']:03d}"})["id"][:]
removed = rows.map(lambda row: {"id": f"{row['id']:03d}"}, remove_columns=["id"])["id"][:]
graded = rows.map(lambda row: {"solved": 0.5})["solved"][:]
renamed = rows.map(lambda row: {"name": f"{row['id']:03d}", "grade": 0.5})
print("padded ids:", padded, "with remove_columns:", removed, "grades over booleans:", graded)
print("under new names:", renamed["name"][:], renamed["grade"][:])
assert padded == removed == [7, 12] and graded == [True, True], "the behaviour has changed"
assert renamed["name"][:] == ["007", "012"] and renamed["grade"][:] == [0.5, 0.5], "the behaviour has changed"
PYTHON
