"""Addresses: what they resolve to, and what a wrong one says."""

from importlib.metadata import EntryPoint

import pytest

import problems
from problems import BadAddress, Problem, Score, describe_sets, resolve


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
