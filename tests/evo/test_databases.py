"""Every command and every reader, on both databases: one search and one comparison on each, then all that reads
them. What is printed is the same, but for clocks and names of places."""

import contextlib
import io
import json
import re

import pytest
from sqlalchemy import select
from support.training_runs import SMALL_POLICY

from evo import load_comparison, load_run
from evo.cli import invoke
from evo.ui.pages import RunPages
from islands.errors import DatabaseUnavailable
from islands.schema import Candidates, Problems, Runs
from islands.store import Store

BOTH = ("sqlite", "postgresql")
SCORER = """
isolated = False
statement = "Write two numbers from 0 to 1 that are far apart."
seed_answer = "0.5 0.5"

def score(answer):
    low, high = map(float, answer.split())
    return {"low": 1 - low, "high": high, "fitness": high - low}

def held_out(answer):
    return score(answer)
"""
SEARCH = ["maze:train", "--limit", "2", "--policy", SMALL_POLICY, "--rollouts", "2", "--iterations", "4", "--seed", "1"]
TRAINING = ["--steps", "1", "--prompts", "4", "--precision", "fp32", "--plain"]


def call(*arguments):
    """(exit code, stdout, stderr) of `evo ARGUMENTS`."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = invoke(list(map(str, arguments)))
    return code, out.getvalue(), err.getvalue()


def done(*arguments):
    """Its stdout; it must succeed, without a line of a traceback."""
    code, out, err = call(*arguments)
    assert code == 0 and "Traceback" not in err, (arguments, code, out[-2000:], err[-2000:])
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The current one, with a scorer."""
    folder = tmp_path_factory.mktemp("both")
    (folder / "apart.py").write_text(SCORER)
    with contextlib.chdir(folder):
        yield folder


@pytest.fixture(scope="module")
def databases(folder, request):
    """Kind -> the address of a database with the same runs."""
    with contextlib.ExitStack() as held:
        addresses = {
            "sqlite": f"sqlite:///{folder}/evo.db",
            "postgresql": held.enter_context(request.getfixturevalue("postgres").database()),
        }
        for db in addresses.values():
            done("run", *SEARCH, "--set", "2", "--name", "maze", "--db", db, "--plain")
            done(
                *("compare", "apart.py", "--arm", "a=scripted:mutate", "--arm", "b=scripted:mutate,answers=1"),
                *("--baseline", "none", "--seeds", "2", "--iterations", "4", "--set", "2", "--processes", "1"),
                *("--name", "both", "--db", db, "--plain"),
            )
        yield addresses


@pytest.fixture
def db(databases):
    """The one that the other tests of commands and readers do not have."""
    return databases["postgresql"]


CLOCKS = re.compile(r"second|created|updated|time|busy|active|^at$|commit|command")


def plain(value, answers=None):
    """A printed object without what a clock, a processor or a place decides. answers: by ids, which depend on times"""
    if isinstance(value, dict):
        value = {**value, "candidate": answers[value["candidate"]]} if answers and "candidate" in value else value
        return {key: plain(each, answers) for key, each in value.items() if not CLOCKS.search(key)}
    return [plain(each, answers) for each in value] if isinstance(value, list) else value


def answers_of(db):
    """Candidate id -> its run, its group there and its text."""
    query = select(Candidates.c.id, Runs.c.name, Candidates.c.sequence, Candidates.c.text).select_from(
        Candidates.join(Problems, Problems.c.id == Candidates.c.problem_id).join(Runs, Runs.c.id == Problems.c.run_id)
    )
    with Store.open(db, read_only=True) as store:
        return {id: " ".join(map(str, rest)) for id, *rest in store.rows(query)}


READERS = [
    ["runs"],
    *(["show", name] for name in ("maze", "both", "both/a/s0")),
    *(["show", name, "--weights", "spread"] for name in ("maze", "both")),
    ["show", "maze", "1"],
    *(["best", name] for name in ("maze", "both")),
    *(["watch", name, "--once"] for name in ("maze", "both")),
]


@pytest.mark.parametrize("reader", READERS, ids=" ".join)
def test_both_say_the_same(databases, reader):
    printed = {kind: done(*reader, "--json", "--db", db) for kind, db in databases.items()}
    named = {kind: answers_of(db) for kind, db in databases.items()}
    one, other = (leaves([plain(each, named[kind]) for each in _objects(printed[kind])]) for kind in BOTH)
    assert {place: (value, other.get(place)) for place, value in one.items() if value != other.get(place)} == {}
    assert one.keys() == other.keys() != set()
    for db in databases.values():
        assert done(*reader, "--db", db)


def _objects(text):
    """A printed object, or one a line."""
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines()]


def leaves(value, place=()):
    """Place in a nest of objects -> what is there."""
    if not isinstance(value, dict | list):
        return {place: value}
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    return {at: leaf for key, each in inner for at, leaf in leaves(each, (*place, key)).items()}


def test_sets_frames_pages_and_verifications_are_read(db, tmp_path):
    """A run with --set reads every candidate of its problem."""
    assert "a set of" in done("show", "maze", "--db", db) and "a set of" in done("best", "maze", "--db", db)
    assert "set" in done("show", "both", "--db", db) and load_run("maze", db=db).sets(2)
    assert len(load_run("maze", db=db).frame()) > 8 and set(load_comparison("both", db=db).frame().arm) == {"a", "b"}
    assert len(load_comparison("both", db=db).frame(candidates=True)) > 8
    for name in ("maze", "both"):
        done("report", name, "-o", tmp_path / "page.html", "--db", db)
        assert name in (tmp_path / "page.html").read_text()
    pages = RunPages(db)
    assert b"both" in pages.page().body and b"maze" in pages.page("maze").body and pages.page("both").version
    assert json.loads(done("verify", "both/a/s0", "--no-tune", "--max-answers", "6", "--plain", "--json", "--db", db))


def test_groups_are_exported(databases):
    exported = []
    for kind, db in databases.items():
        done("export", "maze", "-o", f"{kind}.jsonl", "--db", db)
        with open(f"{kind}.jsonl") as file:
            exported.append([plain(json.loads(line)) for line in file])
    assert exported[0] == exported[1] and len(exported[0]) == 8


def test_a_run_continues_and_is_renamed_and_deleted(db):
    mazes = ("maze:train", "--limit", "2", "--policy", "scripted:mutate", "--iterations", "2", "--set", "2", "--plain")
    done("run", *mazes, "--name", "short", "--db", db)
    done("resume", "short", "--iterations", "3", "--db", db, "--plain")
    assert "6 iterations" in done("show", "short", "--db", db)
    done("runs", "rename", "short", "shorter", "--db", db)
    assert json.loads(done("best", "shorter", "--json", "--db", db))
    done("runs", "delete", "shorter", "--yes", "--db", db)
    code, _, err = call("show", "shorter", "--db", db)
    assert code == 2 and "no run named shorter" in err


def test_stored_searches_teach(db, tmp_path):
    """By example, by reward from traces, and by reward with parents from an archive."""
    given = [*TRAINING, "--policy", SMALL_POLICY, "--db", db]
    done("train", "improve", "--from-traces", "maze", *given, "-o", tmp_path / "improve")
    done("train", "vpo", "--from-traces", "maze", *given, "-o", tmp_path / "traces")
    parents = ["--parents", "1", "--parents-from", "archive:maze", "--rollouts", "2"]
    done("train", "vpo", "maze:train/0-1", *parents, *given, "-o", tmp_path / "parents")
    done("run", "maze:train", "--limit", "1", "--policy", "scripted:mutate", "--start", "maze", "--iterations", "1",
         "--name", "started", "--db", db, "--plain")  # fmt: skip


@pytest.fixture(scope="module")
def ascii_database(postgres):
    """As initdb makes them under LC_ALL=C."""
    return postgres.url(postgres.create("ENCODING 'SQL_ASCII' TEMPLATE template0"))


@pytest.mark.parametrize(
    "command",
    [
        "run apart.py --policy scripted:mutate",
        "compare apart.py --arm a=scripted:mutate",
        *("resume x", "runs", "runs delete x", "show x", "best x", "watch x --once"),
        *("report x", "export x -o x.jsonl", "verify x"),
        f"train improve --from-traces x --policy {SMALL_POLICY} -o x",
    ],
)
def test_a_database_that_cannot_hold_every_text_is_refused(folder, ascii_database, command):
    code, out, err = call(*command.split(), "--db", ascii_database)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "its encoding is SQL_ASCII" in err and "encoding 'UTF8' template template0" in err
    with pytest.raises(DatabaseUnavailable, match="its encoding is SQL_ASCII"):
        RunPages(ascii_database).page()
