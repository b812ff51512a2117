#!/usr/bin/env bash
# openevolve 0.4.1, 2026-11-29
# Behaviour: if the first program's combined_score is NaN, it stays the best program for ever: 1.0 and 2.0 do not replace
# it, neither as the best of the database nor of its island. NaN that comes later is never the best.
# One would have guessed: the first program with a number replaces it.
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
nan = float("nan")
best = {}
for scores in ((nan, 1.0, 2.0), (1.0, nan, 2.0)):
    database = ProgramDatabase(DatabaseConfig(in_memory=True, num_islands=1, random_seed=1))
    for number, score in enumerate(scores):
        code = f"answer = {number}\n" * (number + 1)
        database.add(Program(id=str(number), code=code, metrics={"combined_score": score}), iteration=number)
    programs = database.get_best_program(), database.get(database.island_best_programs[0])
    best[scores] = [program.metrics["combined_score"] for program in programs]
    print(f"scores {scores}: best of the database {best[scores][0]}, of its island {best[scores][1]}")
assert list(map(str, best.values())) == ["[nan, nan]", "[2.0, 2.0]"], "the behaviour has changed"
PYTHON
