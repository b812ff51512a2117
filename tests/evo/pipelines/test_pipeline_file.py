"""A pipeline's file: what is wrong with it is one line that names the stage and the key, before anything is
written."""

import json

import pytest
from support.command_line import evo, refused

from evo.pipelines.file import read_pipeline, replace_references

GOOD = """
stages:
  base:
    train: {method: grpo, problems: [maze:train/10-12], policy: embedded:base, steps: 5}
  vpo:
    train:
      method: vpo
      problems: [maze:train/0-9]
      policy: ${base}
      steps: 7
      prompts: 2
      rollouts: 4
      evaluate: [maze:test]
      evaluate_limit: 3
      evaluate_every: 5
      evaluate_answers: 6
  alone:
    evaluate: {problems: [maze:test], limit: 4, policy: "${vpo}", answers_total: 10, seeds: 2}
  found:
    search: {problems: [maze:hard], limit: 3, policy: "${vpo}", iterations: 5, rollouts: 2, answers: 2}
  arms:
    compare:
      problems: [maze:hard]
      limit: 2
      iterations: 4
      seeds: 2
      arms:
        guess: scripted:random-route
        vpo: ${vpo}
  page:
    report: {run: "${arms}/vpo/s0"}
"""


def written(text, name="p.yaml"):
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)
    return name


def test_stages_in_order_with_what_they_read(here):
    stages = read_pipeline(written(GOOD)).stages
    assert list(stages) == ["base", "vpo", "alone", "found", "arms", "page"]
    assert [stage.kind for stage in stages.values()] == ["train", "train", "evaluate", "search", "compare", "report"]
    assert [stage.reads for stage in stages.values()] == [(), ("base",), ("vpo",), ("vpo",), ("vpo",), ("arms",)]


def test_a_reference_is_replaced_wherever_it_stands(here):
    arms = read_pipeline(written(GOOD)).stages["arms"].given
    assert replace_references(arms, {"vpo": "DIR/policies/vpo"}.get)["arms"] == {
        "guess": {"policy": "scripted:random-route"},
        "vpo": {"policy": "DIR/policies/vpo"},
    }
    assert replace_references({"run": "${arms}/vpo/s0", "n": 1}, {"arms": "here-arms"}.get) == {
        "run": "here-arms/vpo/s0",
        "n": 1,
    }


def test_several_policies_of_a_search_are_references_each_with_their_options(here):
    asked = "embedded:base, ${vpo}?temperature=0.7,${base}?prefill=1"
    found = read_pipeline(written(GOOD.replace('policy: "${vpo}", iterations', f'policy: "{asked}", iterations')))
    found = found.stages["found"]
    assert found.reads == ("vpo", "base")
    given = replace_references(found.given, {"vpo": "V", "base": "B"}.get)
    assert given["policy"] == "embedded:base,V?temperature=0.7,B?prefill=1"


def test_a_filter_of_an_evaluation_stands_for_problems(here):
    text = GOOD.replace("problems: [maze:hard], limit: 3", 'problems: ["${alone}?solve@10=0"]')
    pipeline = read_pipeline(written(text))
    found = pipeline.stages["found"]
    assert found.reads == ("alone", "vpo")
    given = replace_references(found.given, {"vpo": "V", "alone": "DIR/alone.json"}.get)
    assert given["problems"] == ["list:DIR/alone.json?solve@10=0"] and given["policy"] == "V"


def test_a_dry_run_prints_the_plan_and_writes_nothing(here, capsys):
    code, out, err = evo(capsys, "pipeline", written(GOOD), "--dry-run")
    assert (code, err) == (0, "")
    assert [path.name for path in here.iterdir()] == ["p.yaml"]
    for part in ("run evo-p-arms", "evo-p/policies/vpo", "waiting"):
        assert part in out
    code, out, _ = evo(capsys, "pipeline", "p.yaml", "--dry-run", "--json", "--from", "arms", "--db", "sqlite:///x.db")
    assert code == 2 and not out  # what it reads was never done
    code, out, _ = evo(capsys, "pipeline", "p.yaml", "--dry-run", "--json", "--only", "base", "--only", "vpo")
    assert [stage["chosen"] for stage in json.loads(out)["stages"]] == [True] * 2 + [False] * 4
    assert [path.name for path in here.iterdir()] == ["p.yaml"]


VPO = "train: {method: vpo, problems: [maze:train/0-9], policy: "
SEARCHED = "stages:\n  b: {search: {problems: [maze:hard]}}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stages: [", "p.yaml: not YAML"),
        ("stages:\n  a:\n    report: {run: ${b}}", 'a reference is quoted: "${STAGE}"'),
        ("[3]", "expected keys and values, found list"),
        ("stages: {}", "has no stages"),
        ("stage: {}", "unknown key stage; did you mean stages?"),
        ("stages:\n  a: 3", "stage a: expected a kind"),
        ("stages:\n  a: {}", "stage a: expected one kind"),
        ("stages:\n  a: {train: {}, search: {}}", "stage a: expected one kind"),
        ("stages:\n  a: {serach: {}}", "stage a: no kind 'serach'; did you mean search?"),
        ("stages:\n  a b: {search: {}}", "stage a b: no name for a stage"),
        ("stages:\n  a: {search: {}}\n  a: {search: {}}", "a is there twice"),
        ("stages:\n  a: {search: 3}", "stage a: search: expected keys and values"),
        (
            "stages:\n  a: {search: {problem: [maze:hard]}}",
            "stage a: search: unknown key problem; did you mean problems?",
        ),
        ("stages:\n  a: {search: {iterations: -1}}", "stage a: search: iterations = -1: "),
        (
            "stages:\n  a: {search: {population: {islnds: 2}}}",
            "stage a: search: unknown key population.islnds; did you mean islands?",
        ),
        ("stages:\n  a: {search: {}}", "stage a: search: problems: name problems"),
        ("stages:\n  a: {train: {method: vpo}}", "stage a: train: problems: name problems"),
        ("stages:\n  a: {train: {problems: [maze:test]}}", "stage a: train: method is missing"),
        (f"stages:\n  a: {{{VPO}'scripted:mutate'}}}}", "stage a: train: policy scripted:mutate has no weights"),
        ("stages:\n  a: {pretrain: {width: 20, heads: 8}}", "stage a: pretrain was removed; train from"),
        ("stages:\n  a: {pick: {metric: x}}", "stage a: pick was removed; write the filter where"),
        ("stages:\n  a: {evaluate: {}}", "stage a: evaluate: problems: name problems"),
        ("stages:\n  a: {compare: {problems: [maze:hard]}}", "stage a: compare: a comparison needs arms"),
        ("stages:\n  a: {compare: {arms: {b: {policy: x, m: 3}}}}", "unknown key arms.b.m; known: answers"),
        ("stages:\n  a: {report: {}}", "stage a: report: run is missing"),
        ("stages:\n  a: {report: {run: '${b}'}}", "stage a: report: run: there is no stage b; there are a"),
        ("stages:\n  a: {report: {run: '${a}'}}", "stage a: report: run: reads a, which does not come before it"),
        (
            "stages:\n  a: {report: {run: '${b}'}}\n  b: {search: {problems: [maze:hard]}}",
            "stage a: report: run: reads b, which does not come before it",
        ),
        (
            f"stages:\n  b: {{{VPO}embedded:base}}}}\n  a: {{report: {{run: '${{b}}'}}}}",
            "stage a: report: run: this key needs a run; b is a train stage and gives a policy",
        ),
        ("stages:\n  a: {search: {device: '${b}'}}", "device = '${b}': a reference is not allowed here"),
        ("stages:\n  a: {search: {problems: ['${b}']}}", "problems.0: there is no stage b"),
        ("stages:\n  a: {search: {policy: 'x${b}'}}", "policy = 'x${b}': a reference must be the whole value"),
        ("stages:\n  a: {search: {policy: '${b}/c'}}", "only ?OPTION=VALUE can follow a reference to a policy"),
        ("stages:\n  a: {report: {run: '${b}?prefill=1'}}", "only /ARM/sSEED can follow a reference to a run"),
        (
            f"stages:\n  b: {{{VPO}embedded:base}}}}\n"
            "  a: {evaluate: {problems: [maze:test], policy: '${b}?t=1'}}",
            "unknown option t; there are temperature",
        ),
        (
            "stages:\n  b: {search: {problems: [maze:hard]}}\n  a: {report: {run: '${b}/vpo/s0'}}",
            "b is one run; only a comparison's runs have /ARM/sSEED",
        ),
        (
            f"{SEARCHED}  a: {{train: {{method: vpo, parents_from: '${{b}}'}}}}",
            "parents_from = '${b}': String should match",
        ),
        (f"{SEARCHED}  a: {{train: {{method: improve, from_traces: 'archive:${{b}}'}}}}", "expected ${STAGE}"),
        ("db: mysql://x\nstages:\n  a: {search: {problems: [maze:hard]}}", "mysql"),
    ],
)
def test_a_bad_file_is_one_line_and_nothing_is_written(here, capsys, text, said):
    for more in ((), ("--dry-run",)):
        assert said in refused(capsys, "pipeline", written(text), *more)
        assert [path.name for path in here.iterdir()] == ["p.yaml"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "x"], "--only x: there is no such stage; there are base, vpo"),
        (["--from", "x"], "--from x: there is no such stage"),
        (["--redo", "x"], "--redo was removed; delete what the stage made"),
        (["--only", "vpo", "--from", "vpo"], "cannot go together"),
        (["--only", "vpo"], "stage vpo reads base, which is not done and not chosen"),
        (["-o", "taken"], "-o taken: holds other files"),
        (["-o", "p.yaml"], "-o p.yaml: is a file"),
        (["--db", "sqlite:///nowhere/x.db"], "there is no directory nowhere"),
    ],
)
def test_bad_arguments_are_one_line(here, capsys, arguments, said):
    (here / "taken").mkdir()
    (here / "taken" / "thesis.tex").touch()
    assert said in refused(capsys, "pipeline", written(GOOD), *arguments)
    assert sorted(path.name for path in here.iterdir()) == ["p.yaml", "taken"]


def test_no_file(here, capsys):
    code, _, err = evo(capsys, "pipeline", "none.yaml")
    assert code == 2 and err == "evo: none.yaml: No such file or directory\n"
