#!/usr/bin/env bash
# math-verify 0.9.0, latex2sympy2-extended 1.11.0, sympy 1.14.0, 2026-11-29
# Behaviour: "2 1/2" is 3/2 between dollars and in `\boxed`, and 1 in plain text; `2\frac{1}{2}` is 5/2.
# One would have guessed: 5/2 each time.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check math-verify==0.9.0 latex2sympy2-extended==1.11.0 sympy==1.14.0
"$folder/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

from math_verify import parse

print("math-verify", version("math-verify"))
seen = {text: float(parse(text)[0]) for text in ("$2 1/2$", r"\boxed{2 1/2}", "2 1/2", r"$2\frac{1}{2}$")}
for text, value in seen.items():
    print(f"{text} is {value}")
assert list(seen.values()) == [1.5, 1.5, 1.0, 2.5], "the behaviour has changed"
PYTHON
