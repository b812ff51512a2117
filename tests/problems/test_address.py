"""`list:FILE` and several problems of one file."""

import json
from pathlib import Path

import pytest

from problems import resolve
from problems.address import grouped, shorten_names

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
