#!/usr/bin/env bash
# numba 0.68.1, numpy 2.4.6, 2026-11-28
# Behaviour: in compiled code `a**b` of two integers is an integer: 2**-1 is 0. Python gives 0.5 and NumPy raises an
# error for arrays.
# One would have guessed: 0.5, as in Python.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check numba==0.68.1 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import numba

print("numba", numba.__version__)


def power(a, b):
    return a**b


compiled = numba.njit(power)
seen = compiled(2, -1), compiled(2.0, -1), numba.njit(lambda a, b: a / b)(1, 2)
print("2**-1:", seen[0], "2.0**-1:", seen[1], "1/2:", seen[2], "Python's 2**-1:", power(2, -1))
assert seen == (0, 0.5, 0.5), "the behaviour has changed"
PYTHON
