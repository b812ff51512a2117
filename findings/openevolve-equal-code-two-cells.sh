#!/usr/bin/env bash
# openevolve 0.4.1, 2026-11-28
# Behaviour: the only program of a database lies in the middle bin of `complexity`, and a second program of the same code
# lies in another cell than the first, because diversity to itself alone counts 0 and to another 5 of 10.
# One would have guessed: the first program lies in bin 0 of each feature, and equal code in one cell.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check openevolve==0.4.1
"$folder/venv/bin/python" - <<'PYTHON'
import logging
from importlib.metadata import version

from openevolve.config import DatabaseConfig
from openevolve.database import Program, ProgramDatabase

logging.disable(logging.CRITICAL)
print("openevolve", version("openevolve"))
settings = {"num_islands": 1, "feature_dimensions": ["complexity", "diversity"], "feature_bins": 10, "random_seed": 1}
database = ProgramDatabase(DatabaseConfig(**settings))
for name in ("first", "second"):
    database.add(Program(id=name, code="x = 1\n", language="python", metrics={"combined_score": 0.5}))
(cells,) = database.island_feature_maps
print("cells of two programs with the same code:", cells)
assert cells == {"5-0": "first", "5-5": "second"}, "the behaviour has changed"
PYTHON
