#!/usr/bin/env bash
# openevolve 0.4.1, 2026-11-28
# Behaviour: `Config.from_dict` refuses what `Config().to_dict()` gives, because the default language is None and must
# be a text there.
# One would have guessed: the two are inverses, so that a default configuration can be written, edited and read again.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check openevolve==0.4.1
"$folder/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

from openevolve.config import Config

print("openevolve", version("openevolve"))
written = Config().to_dict()
try:
    Config.from_dict(written)
    seen = "read"
except Exception as error:
    seen = f"{type(error).__name__}: {error}"
print("language:", written["language"], "| reading it again:", seen)
assert seen.startswith("WrongTypeError") and '"language"' in seen, "the behaviour has changed"
PYTHON
