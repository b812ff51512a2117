"""Addresses: what they resolve to, `list:FILE`, and several problems of one file."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import problems
from problems import BadAddress, Problem, Score, describe_sets, resolve
from problems.address import grouped, shorten_names


class Own(Problem):
    """A problem of an entry point."""

    objectives = ("length",)

    def __init__(self, which="whole"):
        self.name = f"own:{which}"

    def statement(self):
        return "Write a long text."

    def score(self, answer):
        return Score((float(len(answer)),), float(len(answer)))


def test_mazes_and_programs_by_set_and_index():
    assert [p.name for p in resolve("maze:test", limit=2)] == ["maze:test/0", "maze:test/1"]
    assert [p.name for p in resolve("maze:test/17")] == ["maze:test/17"]
    assert [p.name for p in resolve("programs:hard/3")] == ["programs:hard/3"]
    assert all(isinstance(p, Problem) for p in resolve("programs:easy"))


def pair():
    """Two of them."""
    return [Own("a"), Own("b")]


SINGLE, WRONG, ODD = Own("single"), lambda: [1], [1]


def test_an_entry_point_is_a_problem_or_a_class_or_function_that_makes_some(install):
    for name, made in (("own", "Own"), ("pair", "pair"), ("single", "SINGLE"), ("wrong", "WRONG"), ("odd", "ODD")):
        install(EntryPoint(name, f"{__name__}:{made}", "evo.problems"))
    assert [p.name for p in resolve("own")] == ["own:whole"]
    assert [p.name for p in resolve("own:part")] == ["own:part"]
    assert [p.name for p in resolve("pair", limit=1)] == ["own:a"]
    assert [p.name for p in resolve("single")] == ["own:single"]
    told = {entry["name"]: entry["description"] for entry in describe_sets()}
    assert told["pair"] == "Two of them."
    for address, says in (
        ("pair:2", "takes nothing after a colon"),
        ("wrong", "made a int"),
        ("odd", "is a list, no problem"),
    ):
        with pytest.raises(BadAddress, match=says):
            resolve(address)
    install(EntryPoint("own", "json.decoder:Own", "evo.problems"))
    with pytest.raises(BadAddress, match="json.decoder:Own cannot be loaded: .*no attribute 'Own'"):
        resolve("own")


def test_a_limit_leaves_one_problem():
    with pytest.raises(BadAddress, match="leaves no problems"):
        resolve("maze:test", limit=0)


def test_every_described_set_resolves_to_as_many_problems():
    for entry in describe_sets():
        if entry["count"] is not None and entry["count"] <= 100:
            assert len(resolve(entry["name"])) == entry["count"]
        assert entry["description"]


def test_every_export_exists():
    assert all(getattr(problems, name) is not None for name in problems.__all__)
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = problems.nothing_like_it


def test_a_part_of_a_set_is_named_by_its_ends():
    assert [p.name for p in resolve("maze:train/900-902")] == ["maze:train/900", "maze:train/901", "maze:train/902"]
    assert [p.name for p in resolve("programs:easy/2-5", limit=2)] == [p.name for p in resolve("programs:easy")[2:4]]
    for wrong in ("maze:test/5-4", "maze:test/90-100", "maze:nowhere/0-1"):
        with pytest.raises(BadAddress):
            resolve(wrong)


OPENED = []


def counted(which):
    OPENED.append(which)
    return Own(which)


def test_a_limit_opens_no_more_of_a_list_than_it_takes(tmp_path, install):
    install(EntryPoint("counted", f"{__name__}:counted", "evo.problems"))
    file = tmp_path / "list.txt"
    file.write_text("".join(f"counted:{n}\n" for n in range(5)))
    assert len(resolve(f"list:{file}", limit=2)) == 2 and OPENED == ["0", "1"]
    assert len(resolve(f"list:{file}")) == 5


# -- lists, and several problems of one file


SAMPLE = Path(__file__).parents[2] / "examples" / "livecodebench"


def written(tmp_path, *lines):
    path = tmp_path / "hard.txt"
    path.write_text("\n".join(lines))
    return f"list:{path}"


def names(address, **options):
    return [problem.name for problem in resolve(address, **options)]


def test_a_list_names_problems_of_every_kind_in_its_order(tmp_path):
    lines = ["maze:test/3", f"livecodebench:{SAMPLE}/9002", f"livecodebench:{SAMPLE}/own001_a", "programs:easy/2"]
    address = written(tmp_path, "# chosen by hand", "", *lines)
    assert names(address) == lines
    assert names(address, limit=2) == lines[:2]
    assert names(f"{address}/1-2") == lines[1:3]


def test_neighbours_of_one_file_are_read_at_once(tmp_path):
    file = tmp_path / "tasks.jsonl"
    file.write_text((json.dumps({"text": "t", "test_list": ["assert f(1) == 1"]}) + "\n") * 4)
    lines = [f"programs:{file}/{k}" for k in (3, 0, 3)]
    assert list(grouped([*lines, "maze:test/1", "maze:test/2"])) == [
        f"programs:{file}/3,0",
        "maze:test/1",
        "maze:test/2",
    ]
    assert names(f"programs:{file}/3,0") == [f"programs:{file}/3", f"programs:{file}/0"]
    assert names("programs:easy/2,0") == ["programs:easy/2", "programs:easy/0"]


def test_what_is_no_problem_of_one_file_is_left_alone(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    apart = [f"livecodebench:{tmp_path}/a", f"livecodebench:{tmp_path}/b", "programs:x.jsonl", "programs:y.jsonl"]
    apart += ["programs:easy/0-1", "programs:easy/2-3", "other:synthetic/1", "other:synthetic/2"]
    assert list(grouped(apart)) == apart
    assert list(grouped([])) == [] and list(grouped([""])) == [""]


def test_a_file_is_called_by_its_base_name_unless_two_are_called_alike():
    named = {
        "/home/ada/scorer.py": "scorer.py",
        "/home/ada/circles": "circles",
        "programs:/home/ada/tasks.jsonl/12": "programs:tasks.jsonl/12",
        "livecodebench:/data/test.jsonl?split=a/2": "livecodebench:test.jsonl?split=a/2",
        "maze:hard/3": "maze:hard/3",
        "/home/ada/one/problem": "/home/ada/one/problem",
        "/home/ada/two/problem": "/home/ada/two/problem",
    }
    assert shorten_names(list(named)) == list(named.values())


@pytest.mark.parametrize(
    ("filter_", "left"),
    [
        ("solve@3=0", ["maze:test/1", "maze:test/2"]),
        ("best@3=0.25", ["maze:test/2"]),
        ("solve@3=0&best@3=0.5", ["maze:test/1", "maze:test/2"]),
    ],
)
def test_a_filter_keeps_the_problems_of_an_evaluation_with_a_low_metric(tmp_path, filter_, left):
    rows = [("maze:test/0", 1.0, 1.0), ("maze:test/1", 0.0, 0.5), ("maze:test/2", 0.0, 0.2)]
    record = {"per_problem": [{"problem": name, "solve@3": solved, "best@3": best} for name, solved, best in rows]}
    file = tmp_path / "evaluation.json"
    file.write_text(json.dumps(record))
    assert names(f"list:{file}?{filter_}") == left
