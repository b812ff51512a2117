"""The tables: those of the first revision with all later ones are those of a new database; others are refused."""

from __future__ import annotations

import re
import shutil
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import MetaData, text
from support.island_samples import BOTH

from evo.cli import invoke
from islands import engine
from islands.errors import DatabaseUnavailable
from islands.runs import read_totals
from islands.schema import REVISION
from islands.store import Store

BASE = Path(__file__).parents[1] / "fixtures" / "base_schema" / "tables.sql"


def tables_of(store: Store) -> dict[str, list[tuple[str, bool]]]:
    tables = MetaData()
    tables.reflect(store.reader)
    return {name: sorted((c.name, c.nullable) for c in table.columns) for name, table in tables.tables.items()}


def test_the_first_tables_and_all_later_revisions_make_those_of_a_new_database(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "old.db") as database:
        database.executescript(BASE.read_text() + GROUP)
    database.close()
    with Store.open(f"sqlite:///{tmp_path}/old.db") as old, Store.open(f"sqlite:///{tmp_path}/new.db") as new:
        assert tables_of(old) == tables_of(new) and len(tables_of(new)) == 12
        with old.read() as connection:
            assert read_totals(connection, [1])[1].answers == 3
        assert old.scalar(text("SELECT text FROM rollouts")) == "R"


GROUP = """
INSERT INTO runs VALUES (1, 'a', 'done', '', '', 0, '', '{}', '{}', NULL, NULL, 0, 0, NULL);
INSERT INTO problems (id, run_id, "index", address, name, objectives, answer_format, status, message)
    VALUES (1, 1, 0, 'a', 'a', '["x"]', 'text', 'done', '');
INSERT INTO policy_versions VALUES (1, 1, 'v1', 0);
INSERT INTO prompt_groups (id, run_id, problem_id, sequence, iteration, island, operator, inspirations,
    policy_version_id, answers, stream, seed, temperature, top_p, sampling_seconds, scoring_seconds, created, given)
    VALUES (1, 1, 1, 0, 0, 0, 0, '[]', 1, 4, 0, 0, 1, 1, 0, 0, 0, 3);
INSERT INTO rollouts VALUES (1, 1, 0, 'R', '', '', 'stop', NULL);
"""


@BOTH
def test_a_later_revision_upgrades_for_a_writer_only(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(address) as store:
        store.create_run("kept", {}, command="", seed=0, commit="")
    scripts = tmp_path / "alembic"
    shutil.copytree(engine.SCRIPTS, scripts)
    (scripts / "versions" / "9998_later.py").write_text(LATER)
    monkeypatch.setattr(engine, "SCRIPTS", scripts)
    monkeypatch.setattr(engine, "REVISION", "9998")
    with pytest.raises(DatabaseUnavailable, match=f"the older schema {REVISION}, .*`evo runs upgrade`"):
        Store.open(address, read_only=True)
    with Store.open(address) as store:
        assert ("later", True) in tables_of(store)["runs"] and [run.name for run in store.runs()] == ["kept"]
        assert store.scalar(text("SELECT version_num FROM alembic_version")) == "9998"


LATER = f"""
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "9998", "{REVISION}", None, None


def upgrade():
    op.add_column("runs", sa.Column("later", sa.Text, nullable=True))
"""


@pytest.mark.parametrize(
    ("revision", "remedy"),
    [
        ("0013", "the evo of commit 4445a27f .*`evo export`"),
        ("9999", "newer than this version of evo.*; upgrade evo"),
    ],
)
@BOTH
def test_another_schema_is_refused_in_one_line_and_nothing_is_written(
    address: str, revision: str, remedy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.open(address) as store, store.begin() as tx:
        tx.connection.execute(text("UPDATE alembic_version SET version_num = :old"), {"old": revision})
    file = tmp_path / "evo.db"
    before = file.exists() and file.read_bytes()
    for command in ("runs", "runs upgrade", "resume x", "run maze:test/0 --policy scripted:mutate --iterations 1"):
        assert invoke([*command.split(), "--db", address]) == 2
        (line,) = [line for line in capsys.readouterr().err.splitlines() if "warning" not in line]
        assert re.search(f"its schema {revision} is .*{remedy}", line)
    assert (file.exists() and file.read_bytes()) == before
