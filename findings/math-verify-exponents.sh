#!/usr/bin/env bash
# math-verify 0.9.0, latex2sympy2-extended 1.11.0, sympy 1.14.0, 2026-11-29
# Behaviour: a number as programs print it loses its exponent: the right answer 1000 is refused for "1e3", and "1e3" and
# "1e-9" are accepted for 1. Inside `\boxed` the e is Euler's number: 1.5e-7 is -2.92.
# One would have guessed: 1e3 is 1000, in plain text and in `\boxed`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check math-verify==0.9.0 latex2sympy2-extended==1.11.0 sympy==1.14.0
"$folder/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

from math_verify import parse, verify

print("math-verify", version("math-verify"))
verdicts = {}
for gold, answer in (("1000", "1e3"), ("1", "1e3"), ("1", "1e-9"), ("0.00000015", r"\boxed{1.5e-7}"), ("1000", r"$10^3$")):
    verdicts[gold, answer] = verify(parse(gold), parse(answer))
    print(f"{answer} for {gold}: {verdicts[gold, answer]}")
boxed = float(parse(r"\boxed{1.5e-7}")[0])
print("1.5e-7 in a box is", boxed)
assert list(verdicts.values()) == [False, True, True, False, True], "the behaviour has changed"
assert abs(boxed + 2.92257731) < 1e-6, "the behaviour has changed"
PYTHON
