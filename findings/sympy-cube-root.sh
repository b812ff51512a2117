#!/usr/bin/env bash
# sympy 1.14.0, numpy 2.4.6, 2026-11-28
# Behaviour: `lambdify(x, cbrt(x))` at -8 is the complex number 1+1.73j for a float of Python and NaN for a float of
# NumPy. Neither is -2, which `real_root` gives.
# One would have guessed: NaN for both.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check sympy==1.14.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import warnings

import numpy as np
import sympy

warnings.simplefilter("ignore")
print("sympy", sympy.__version__, "numpy", np.__version__)
x = sympy.Symbol("x")
root = sympy.lambdify(x, sympy.cbrt(x))
seen = root(-8.0), root(np.float64(-8.0)), complex(sympy.lambdify(x, sympy.real_root(x, 3))(-8.0))
print("Python's float:", seen[0], "NumPy's float:", seen[1], "real_root:", seen[2])
assert abs(seen[0] - (1 + 3**0.5 * 1j)) < 1e-9 and np.isnan(seen[1]) and abs(seen[2] + 2) < 1e-9, "the behaviour has changed"
PYTHON
