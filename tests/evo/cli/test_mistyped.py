"""What people mistype: one line that says what would work, and exit code 2."""

import pytest
from support.command_line import evo, refused

from evo.cli import invoke

SCORER = "def score(answer):\n    return 1.0\n"
PRICE = "max_cost 1 would never be reached: no policy has a price, as in openai:MODEL@URL?price=0.15/0.60"
LOCAL = ("--policy", "scripted:random-route", "--limit", "1")


@pytest.fixture
def here(here, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    for file in ("set/one.py", "set/two.py", "alone/one.py", "scorer.py"):
        (here / file).parent.mkdir(exist_ok=True)
        (here / file).write_text(SCORER)
    (here / "tasks").mkdir()
    (here / "tasks" / "easy.jsonl").write_text("{}\n")
    (here / "empty").mkdir()
    (here / "broken").mkdir()
    (here / "mine").mkdir()
    (here / "mine" / "config.json").write_text("{}")
    (here / "broken" / "half.py").write_text("def score(answer\n")
    (here / "run.yaml").write_text("iteratoins: 5\n")
    (here / "inner.yaml").write_text("population: {island: 2}\n")
    (here / "lr.yaml").write_text("train: {lr: 0.1}\n")
    return here


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "maze:hard/5-2"], "goes from 5 down to 2; maze:hard/2-5 names that part"),
        (["problems", "maze:hard/5-2"], "maze:hard/2-5"),
        (["run", "maze:test", *LOCAL, "--max-cost", "1"], PRICE),
        (["run", "maze:test", "--policy", "openai:m@http://localhost:9", "--max-cost", "1"], PRICE),
        (["compare", "maze:test", "--arm", "embedded:base", "--max-cost", "1"], PRICE),
        (["run", "maze:test", "--lr", "0.1"], "train.lr is for a search that trains; name a method, as in --train vpo"),
        (["run", "maze:test", "--train-every", "2"], "train.every is for a search that trains"),
        (["run", "maze:test", "--config", "lr.yaml"], "train.lr is for a search that trains"),
        (["compare", "maze:test", "--arm", "embedded:base", "--lr", "0.1"], "lr is for arms that train, and none does"),
        (["run", "maze:test", "--policy", "openai:m@notaurl"], "'notaurl' is no URL; a server is named with http://"),
        (["evaluate", "maze:test", "--policy", "openai:m@h:80"], "as in openai:m@http://h:80"),
        (["compare", "maze:test", "--arm", "a=openai:m@h?price=1/1"], "as in openai:m@http://h"),
        (["run", "maze:test", "--config", "run.yaml"], "unknown key iteratoins; did you mean iterations?"),
        (["run", "maze:test", "--config", "inner.yaml"], "unknown key population.island; did you mean islands?"),
        (["compare", "maze:test", "--arm", "a=X,answres=3"], "did you mean answers?"),
        (["run", "maze:test", "--policy", "embedded:base?temprature=1"], "did you mean temperature?"),
        (["run", "set"], "2 scorers; name them all: set/one.py set/two.py"),
        (["problems", "set/"], "2 scorers; name them all: set/one.py set/two.py"),
        (["run", "alone"], "did you mean alone/one.py?"),
        (["run", "tasks"], "did you mean programs:tasks/easy.jsonl?"),
        (["run", "empty"], "holds no evaluator.py"),
        (["run", "scoer.py"], "did you mean scorer.py?"),
        (["run", "maze:tset"], "did you mean maze:test"),
        (["run", "programs:eazy"], "did you mean programs:easy"),
        (["run", "maze:test", "--policy", "embedded:vop"], "did you mean embedded:vpo?"),
        (["run", "maze:test", "--policy", "embeded:vpo"], "did you mean embedded:vpo?"),
        (["run", "maze:test", "--policy", "scripted:mutat"], "did you mean mutate?"),
        (["run", "maze:test", "--policy", "./mien"], "did you mean ./mine?"),
        (["evaluate", "maze:test", "--policy", "mien"], "did you mean mine?"),
        (["train", "vpoo", "maze:train", "-o", "x"], "vpo_pass_at_k and, from traces, improve; did you mean vpo?"),
        (["problems", "broken/half.py"], "broken/half.py, line 1 is not Python: '(' was never closed"),
        (["compare", "maze:test", "--arm", "é=embedded:base"], "up to 40 letters from a to z"),
        (["runn"], "no command 'runn'; did you mean run"),
        (["run"], "no problem named"),
        (["run", "maze:test/100"], "100"),
        (["run", "maze:test", "--policy", "embedded:nothing"], "embedded:nothing"),
        (["run", "maze:test", "--policy", "no such model"], "no such model"),
        (
            ["run", "programs:easy", "--policy", "embedded:base"],
            "only understands mazes and cannot search programs:easy/0",
        ),
        (["run", "maze:test", "--answers", "0"], "--answers"),
        (["run", "maze:test", *LOCAL, "--fresh", "banana"], "expected a share from 0 to 1, or auto"),
        (["run", "maze:test", *LOCAL, "--fresh", "nan"], "expected a share from 0 to 1, or auto"),
        (["run", "maze:test", "--iterations", "-4"], "-4"),
        (["run", "maze:test", "--config", "missing.yaml"], "missing.yaml"),
        (["run", "maze:test", "--frobnicate"], "--frobnicate"),
        (["run", "maze:test", *LOCAL, "--db", "mysql://x/y"], "mysql"),
        (["run", "maze:test", *LOCAL, "--db", "evo.db"], "sqlite:///FILE"),
        (["run", "maze:test", *LOCAL, "--db", "sqlite:////nowhere/at/all/evo.db"], "/nowhere/at/all"),
        (["run", "maze:test", *LOCAL, "--db", "postgresql+psycopg://u@127.0.0.1:1/x"], "127.0.0.1"),
        (["export", "nobody", "-o", "x.csv"], "x.csv"),
        (["export", "nobody", "-o", "t.parquet"], "pandas.read_json"),
        (["export", "nobody", "--openevolve", "out"], "--openevolve was removed"),
        (["pretrain", "go", "-o", "x"], "python -m vpo.languages.pretrain"),
    ],
    ids=lambda given: " ".join(given[-3:]) if isinstance(given, list) else "",
)
def test_one_line_says_what_would_work(here, capsys, monkeypatch, arguments, said):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert said in refused(capsys, *arguments)
    assert not (here / "evo.db").exists()


def test_a_directory_of_many_scorers_is_named_by_a_pattern(here, capsys):
    for name in "abc":
        (here / "set" / f"{name}.py").write_text(SCORER)
    assert "5 scorers; name them all: set/*.py" in evo(capsys, "problems", "set")[2]


def test_a_run_that_is_there_is_named_for_one_that_is_not(here, capsys):
    assert invoke(["run", "maze:test", *LOCAL, "--iterations", "1", "--name", "first", "--plain"]) == 0
    capsys.readouterr()
    for command in (["show"], ["best"], ["report"], ["resume"], ["export", "-o", "x.jsonl"]):
        assert "did you mean first?" in refused(capsys, command[0], "frist", *command[1:])
    assert "first" in refused(capsys, "run", "maze:test", *LOCAL, "--name", "first")
    code, _, error = evo(capsys, "resume", "first", "--max-cost", "1")
    assert code == 2 and PRICE in error
