#!/usr/bin/env bash
# numba 0.68.1, numpy 2.4.6, 2026-11-28
# Behaviour: `np.median` in compiled code depends on where NaN stands: 3.0 for [nan, 1, 3] and [1, 3, nan], and NaN
# for [1, nan, 3, 2]. NumPy gives NaN for each.
# One would have guessed: NaN for each, as in NumPy.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check numba==0.68.1 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import warnings

import numba
import numpy as np

warnings.simplefilter("ignore")
print("numba", numba.__version__, "numpy", np.__version__)
median = numba.njit(lambda values: np.median(values))
nan = float("nan")
seen = {}
for values in ([nan, 1.0, 3.0], [1.0, 3.0, nan], [1.0, nan, 3.0, 2.0]):
    seen[str(values)] = float(median(np.array(values)))
    print(values, "compiled:", seen[str(values)], "NumPy:", np.median(values))
assert list(map(str, seen.values())) == ["3.0", "3.0", "nan"], "the behaviour has changed"
PYTHON
