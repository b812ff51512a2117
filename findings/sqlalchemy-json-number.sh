#!/usr/bin/env bash
# SQLAlchemy 2.1.9, 2026-11-28
# Behaviour: an element of a JSON column compares as JSON text on SQLite: `order_by(column['score'])` puts 10 before
# 9, and `column['score'] > 8` is true for a row without a score. `as_float()` orders by number.
# One would have guessed: the element is compared as a number, because SQLite's json_extract gives one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check SQLAlchemy==2.1.9
"$folder/venv/bin/python" - <<'PYTHON'
import sqlalchemy as sql

print("SQLAlchemy", sql.__version__)
engine = sql.create_engine("sqlite://")
runs = sql.Table("runs", sql.MetaData(), sql.Column("id", sql.Integer, primary_key=True), sql.Column("data", sql.JSON))
runs.metadata.create_all(engine)
score = runs.c.data["score"]
with engine.begin() as connection:
    rows = [{"id": 1, "data": {"score": 10}}, {"id": 2, "data": {"score": 9}}, {"id": 3, "data": {"other": 1}}]
    connection.execute(runs.insert(), rows)

    def ids(query):
        return list(connection.scalars(query))

    seen = {
        "order_by(score)": ids(sql.select(runs.c.id).order_by(score)),
        "order_by(score.as_float())": ids(sql.select(runs.c.id).order_by(score.as_float())),
        "score > 8": ids(sql.select(runs.c.id).where(score > 8).order_by(runs.c.id)),
        "score.as_float() > 8": ids(sql.select(runs.c.id).where(score.as_float() > 8).order_by(runs.c.id)),
    }
print(seen)
assert list(seen.values()) == [[1, 2, 3], [3, 2, 1], [1, 2, 3], [1, 2]], "the behaviour has changed"
PYTHON
