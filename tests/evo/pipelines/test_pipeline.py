"""Pipelines: what is wrong with a file, and how they run: in order, each stage once, whatever comes between."""

import io
import json
import re
import shutil
import signal
from pathlib import Path

import pytest
from rich.console import Console
from support.child_processes import begin, wait_until
from support.command_line import evo, refused
from support.rows import yaml_rows
from support.stored_rows import committed_groups, stored_answers
from support.training_runs import SMALL_POLICY

from evo.cli.pipeline import _Board
from evo.pipelines.file import read_pipeline, replace_references
from evo.pipelines.run import PipelineRun, Status
from vpo.languages.contract import checkpoint_path

GOOD = Path(__file__).with_name("good.yaml").read_text()


def write_file(text, name="p.yaml"):
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)
    return name


def test_stages_in_order_with_what_they_read(here):
    stages = read_pipeline(write_file(GOOD)).stages
    assert list(stages) == ["base", "vpo", "alone", "found", "arms", "page"]
    assert [stage.kind for stage in stages.values()] == ["train", "train", "evaluate", "search", "compare", "report"]
    assert [stage.reads for stage in stages.values()] == [(), ("base",), ("vpo",), ("vpo",), ("vpo",), ("arms",)]


def test_references_are_replaced_wherever_they_stand(here):
    several = 'policy: "embedded:base,${vpo}?temperature=0.7,${base}?fresh=1", iterations'
    text = GOOD.replace('policy: "${vpo}", iterations', several)
    text = text.replace("problems: [maze:hard], limit: 3", 'problems: ["${alone}?solve@10=0"]')
    stages = read_pipeline(write_file(text)).stages
    assert stages["found"].reads == ("alone", "vpo", "base")
    result = {"vpo": "DIR/policies/vpo", "base": "B", "alone": "DIR/alone.json", "arms": "p-arms"}.__getitem__
    found = replace_references(stages["found"].given, result)
    assert found["policy"] == "embedded:base,DIR/policies/vpo?temperature=0.7,B?fresh=1"
    assert found["problems"] == ["list:DIR/alone.json?solve@10=0"] and found["rollouts"] == 2
    arms = replace_references(stages["arms"].given, result)["arms"]
    assert arms == {"guess": {"policy": "scripted:random-route"}, "vpo": {"policy": "DIR/policies/vpo"}}
    assert replace_references(stages["page"].given, result) == {"run": "p-arms/vpo/s0"}


def test_a_dry_run_prints_the_plan_and_writes_nothing(here, capsys):
    code, out, err = evo(capsys, "pipeline", write_file(GOOD), "--dry-run")
    assert (code, err) == (0, "")
    assert [path.name for path in here.iterdir()] == ["p.yaml"]
    for part in ("run evo-p-arms", "evo-p/policies/vpo", "waiting"):
        assert part in out


@pytest.mark.parametrize("row", yaml_rows(__file__, "bad files"))
def test_a_bad_file_is_one_line_and_nothing_is_written(here, capsys, row):
    for more in ((), ("--dry-run",)):
        assert row["said"] in refused(capsys, "pipeline", write_file(row["text"]), *more)
        assert [path.name for path in here.iterdir()] == ["p.yaml"]


def test_bad_arguments_are_one_line(here, capsys):
    (here / "taken").mkdir()
    (here / "taken" / "thesis.tex").touch()
    for arguments, said in (
        (["-o", "taken"], "-o taken: holds other files"),
        (["-o", "p.yaml"], "-o p.yaml: is a file"),
        (["--db", "sqlite:///nowhere/x.db"], "there is no directory nowhere"),
    ):
        assert said in refused(capsys, "pipeline", write_file(GOOD), *arguments)
    assert refused(capsys, "pipeline", "none.yaml") == "evo: none.yaml: No such file or directory\n"
    assert sorted(path.name for path in here.iterdir()) == ["p.yaml", "taken"]


EXAMPLES = Path(__file__).parents[3] / "examples" / "pipelines"
READS = yaml_rows(__file__, "reads")
"""What each example's stages read, where that is its point."""
KINDS = yaml_rows(__file__, "kinds")


def test_there_are_no_others():
    assert sorted(path.stem for path in EXAMPLES.glob("*.yaml")) == sorted(READS)


@pytest.mark.parametrize("name", READS)
def test_a_dry_run_finds_every_key_address_and_reference(here, capsys, name):
    if name == "livecodebench":
        (here / "livecodebench").symlink_to(EXAMPLES.parent / "livecodebench")
    elif name == "operators":
        rows = ({"text": f"Return {i}.", "code": "", "test_list": [f"assert f() == {i}"]} for i in range(974))
        (here / "mbpp.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = set(here.iterdir())
    code, out, err = evo(capsys, "pipeline", str(EXAMPLES / f"{name}.yaml"), "--dry-run", "--json")
    assert code == 0, err
    assert set(here.iterdir()) == given, "nothing is written"
    stages = {stage["name"]: stage for stage in json.loads(out)["stages"]}
    assert {stage: stages[stage]["reads"] for stage in READS[name]} == READS[name]
    assert [stage["kind"] for stage in stages.values()] == KINDS.get(name, [stage["kind"] for stage in stages.values()])


SEARCH = "search: {problems: [maze:test], limit: 2, iterations: %d, policy: '%s', parallel: 2}"
EVALUATE = "evaluate: {problems: [maze:test], limit: 2, answers_total: 6, policy: '%s'}"


@pytest.fixture
def here(here, monkeypatch):
    """Stages have one thread each."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return here


def written(**stages):
    lines = [f"  {name.replace('_', '-')}:\n    {content}\n" for name, content in stages.items()]
    with open("p.yaml", "w", encoding="utf-8") as file:
        file.write("stages:\n" + "".join(lines))


def summary(capsys, *arguments):
    """The exit code and the stages of `evo pipeline p.yaml --json`, by name."""
    code, out, err = evo(capsys, "pipeline", "p.yaml", "--json", *arguments)
    assert out, err
    record = json.loads(out)
    assert record["outcome"] == {0: "done", 1: "failed", 130: "interrupted"}[code]
    return code, {stage["name"]: stage for stage in record["stages"]}


def begun(*arguments):
    return begin("pipeline", "p.yaml", *arguments)


def groups(db="sqlite:///evo-p/evo.db"):
    """Every stored answer of every run, in order."""
    return stored_answers(db)


def committed():
    return committed_groups("evo-p/evo.db")


def kept(name):
    return json.loads(Path("evo-p/pipeline.json").read_text())["stages"][name]


@pytest.mark.long
def test_a_policy_is_trained_measured_searched_with_and_reported_and_then_all_is_done(here, capfd):
    written(
        vpo=f"train: {{method: vpo, problems: [maze:train/0-3], policy: '{SMALL_POLICY}', steps: 2, prompts: 1, "
        "rollouts: 2}",
        alone=EVALUATE % "${vpo}",
        arms="compare: {problems: [maze:test], limit: 2, iterations: 3, seeds: 1, baselines: [], "
        "processes: 1, arms: {guess: 'scripted:random-route', mutant: 'scripted:mutate'}}",
        page="report: {run: '${arms}', against: guess}",
    )
    code, out, err = evo(capfd, "pipeline", "p.yaml")
    assert code == 0, err
    order = [out.index(f"] {name}: {kind}") for name, kind in [("vpo", "train"), ("alone", "eval"), ("arms", "comp")]]
    assert order == sorted(order) and "page: report done" in out
    assert json.loads(Path("evo-p/evaluations/alone.json").read_text())["policy"] == "evo-p/policies/vpo"
    assert Path("evo-p/policies/vpo/model.safetensors").stat().st_size > 1e5
    assert {row[0] for row in groups()} == {"evo-p-arms/guess/s0", "evo-p-arms/mutant/s0"}
    assert "evo-p-arms" in Path("evo-p/reports/page.html").read_text()
    before = groups(), Path("evo-p/policies/vpo/model.safetensors").stat().st_mtime_ns
    code, stages = summary(capfd)
    assert code == 0
    assert all(stage["skipped"] and stage["state"] == "done" for stage in stages.values())
    assert [stage["output"] for stage in stages.values()] == [
        "evo-p/policies/vpo",
        "evo-p/evaluations/alone.json",
        "run evo-p-arms",
        "evo-p/reports/page.html",
    ]
    assert all(stage["seconds"] > 0 for stage in stages.values())
    assert before == (groups(), Path("evo-p/policies/vpo/model.safetensors").stat().st_mtime_ns)


@pytest.mark.long
def test_a_failing_stage_says_why_and_the_rest_is_intact(here, capsys):
    stages = {
        "good": SEARCH % (2, "scripted:mutate"),
        "bad": EVALUATE % "scripted:broken",
        "after": EVALUATE % "scripted:random-route",
        "reader": "evaluate: {problems: [maze:test], limit: 2, answers_total: 6, against: '${bad}'}",
    }
    written(**stages)
    code, out, err = evo(capsys, "pipeline", "p.yaml")
    assert code == 1
    assert "evo: stage bad failed: " in err and "broken" in err.splitlines()[-1]
    assert "Resume with: evo pipeline p.yaml" in out
    found = summary(capsys)[1]
    assert [stage["state"] for stage in found.values()] == ["done", "failed", "waiting", "waiting"]
    assert found["good"]["skipped"] and found["bad"]["reason"]
    # it came to nothing, so that there is nothing to mix with: its settings may be mended
    written(**{**stages, "bad": EVALUATE % "scripted:echo"})
    code, found = summary(capsys)
    assert code == 0
    assert [stage["skipped"] for stage in found.values()] == [True, False, False, False]


@pytest.mark.long
def test_ctrl_c_stops_at_a_committed_group_and_the_same_command_goes_on(here, capsys):
    written(
        first=EVALUATE % "scripted:mutate",
        slow=SEARCH % (30, "scripted:mutate?latency=0.05"),
        last=EVALUATE % "scripted:random-route",
    )
    child = begun()
    wait_until(lambda: committed() > 4, child)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert "slow: search interrupted" in out
    assert re.findall("Resume with.*", out + err) == ["Resume with: evo pipeline p.yaml"], "its own alone"
    before, evaluation = groups(), Path("evo-p/evaluations/first.json").stat().st_mtime_ns
    assert kept("slow")["state"] == "interrupted"
    plan = json.loads(evo(capsys, "pipeline", "p.yaml", "--dry-run", "--json")[1])
    assert [stage["state"] for stage in plan["stages"]] == ["done", "interrupted", "waiting"]
    code, _ = summary(capsys)
    assert code == 0
    after = groups()
    assert set(before) <= set(after) and len({row[1] for row in after}) == 60
    assert Path("evo-p/evaluations/first.json").stat().st_mtime_ns == evaluation


@pytest.mark.long
def test_killed_again_and_again_it_ends_as_if_it_had_not_been(here, capsys):
    written(
        first=EVALUATE % "scripted:mutate",
        arms="compare: {problems: [maze:test], limit: 2, iterations: 25, seeds: 1, processes: 2, "
        "arms: {a: 'scripted:mutate?latency=0.05', b: 'scripted:random-route?latency=0.05'}}",
    )
    for more in (5, 20):
        child = begun()
        goal = committed() + more
        wait_until(lambda goal=goal: committed() > goal, child)
        child.kill()
        child.communicate()
        assert kept("first")["state"] == "done" and kept("arms")["state"] == "begun"
    before = groups()
    code, stages = summary(capsys)
    assert code == 0
    assert [stage["skipped"] for stage in stages.values()] == [True, False]
    after = groups()
    assert set(before) <= set(after)
    assert summary(capsys, "-o", "whole/evo-p")[0] == 0
    assert after == groups("sqlite:///whole/evo-p/evo.db")


@pytest.mark.long
def test_a_stage_that_ended_unseen_is_not_done_again(here, capsys):
    """Killed between a stage's end and the note of it."""
    written(first=EVALUATE % "scripted:mutate", found=SEARCH % (2, "scripted:mutate"))
    assert summary(capsys)[0] == 0
    path = Path("evo-p/pipeline.json")
    state = json.loads(path.read_text())
    for stage in state["stages"].values():
        stage["state"] = "begun"
    path.write_text(json.dumps(state))
    times = {file: file.stat().st_mtime_ns for file in Path("evo-p").glob("*/*.*")}
    assert len(times) > 1
    assert summary(capsys)[0] == 0
    assert times == {file: file.stat().st_mtime_ns for file in times}


def test_a_name_that_something_else_has_is_a_clear_error(here, capsys):
    written(found=SEARCH % (2, "scripted:mutate"))
    arguments = ["maze:test/0", "--iterations", "1", "--policy", "scripted:mutate", "--db", "sqlite:///shared.db"]
    assert evo(capsys, "run", *arguments, "--plain", "--name", "evo-p-found")[0] == 0
    code, _, err = evo(capsys, "pipeline", "p.yaml", "--db", "sqlite:///shared.db")
    assert code == 2 and not Path("evo-p").exists()
    assert "stage found: evo-p-found exists already" in err
    assert summary(capsys, "--db", "sqlite:///shared.db", "-o", "mine")[0] == 0
    code, _, err = evo(capsys, "pipeline", "p.yaml", "-o", "mine")
    assert code == 2 and "its runs are in sqlite:///shared.db" in err


def test_two_at_once_in_a_directory_cannot_be(here, capsys):
    written(slow=SEARCH % (500, "scripted:mutate?latency=0.05"))
    child = begun()
    try:
        wait_until(lambda: committed() > 1, child)
        code, _, err = evo(capsys, "pipeline", "p.yaml")
        assert code == 2 and "another evo pipeline works in this directory" in err
    finally:
        child.kill()
        child.communicate()


SCORER = "import helper  # reads data.json\n" + (
    "readable = ['.']\nseed_answer = '5'\ndef score(answer):\n    return -abs(float(answer) - helper.GOAL)\n"
)
MADE_OF = {
    "found": ("jobs.py (or a file that it uses)", "helper.py"),
    "weights": ("./model", "model/model.safetensors"),
    "program": ("command:python grow.py", "grow.py"),
    "begun-from": ("start.txt", "start.txt"),
}
"""Stage: its input as a refusal names it, and the file that changes."""


@pytest.mark.long
def test_no_result_stands_beside_results_of_other_inputs(here, capsys):
    """A stage is refused whose scorer, weights, command, files or settings have changed, or the results that it read.
    What was removed is done again."""

    def refusal(*arguments):
        code, _, err = evo(capsys, "pipeline", "p.yaml", *arguments)
        assert code == 2 and err.count("\n") == 1, err
        return err

    def on_runs(*arguments):
        assert evo(capsys, *arguments, "--db", "sqlite:///evo-p/evo.db")[0] == 0

    shutil.copytree(checkpoint_path("base"), "model")
    for name, text in {
        "grow.py": "print('1')\n",
        "start.txt": "RRR",
        "jobs.py": SCORER,
        "helper.py": "GOAL = 3\n",
    }.items():
        Path(name).write_text(text)
    both = "arms: {a: 'scripted:mutate', b: 'scripted:mutate'}}"
    stages = {
        "found": "search: {problems: [jobs.py], iterations: 3, policy: 'scripted:mutate'}",
        "weights": EVALUATE % "./model",
        "program": EVALUATE % "command:python grow.py",
        "begun-from": "search: {problems: [maze:test], limit: 1, iterations: 2, policy: 'scripted:mutate', "
        "start: [start.txt]}",
        "reader": (EVALUATE % "scripted:echo").replace("}", ", against: '${weights}'}"),
        "c": "compare: {problems: [maze:test], limit: 2, iterations: 3, seeds: 1, baselines: [], processes: 1, " + both,
        "page": "report: {run: '${c}'}",
    }
    written(**stages)
    assert summary(capsys)[0] == 0
    # the pipeline's own files, which are below the folder that the scorer reads, change nothing
    assert all(stage["skipped"] for stage in summary(capsys)[1].values())
    before = groups()
    for stage, (said, changed) in MADE_OF.items():
        kept_bytes = Path(changed).read_bytes()
        Path(changed).write_bytes(kept_bytes[:-1] + (b"4" if changed == "helper.py" else b" "))
        for arguments in ((), ("--dry-run",)):
            told = refusal(*arguments)
            assert told.startswith(f"evo: {said}") and f" has changed since stage {stage} was begun: remove" in told
        Path(changed).write_bytes(kept_bytes)
    written(**{**stages, "found": stages["found"].replace("3", "4")})
    assert "found has changed since it was begun (iterations was 3, is 4): remove run evo-p-found" in refusal()
    written(**stages)
    on_runs("runs", "delete", "evo-p-found", "--yes")
    on_runs("runs", "delete", "evo-p-c/a/s0", "--yes")
    page = "run evo-p-c has changed since stage page was begun: remove evo-p/reports/page.html"
    assert page in refusal()
    Path("evo-p/reports/page.html").unlink()
    Path("evo-p/evaluations/weights.json").unlink()
    reader = "evo-p/evaluations/weights.json has changed since stage reader was begun: remove evo-p/evaluations/reader"
    assert reader in refusal()
    Path("evo-p/evaluations/reader.json").unlink()
    code, found = summary(capsys)
    assert code == 0 and groups() == before
    assert [name for name, stage in found.items() if stage["skipped"]] == ["program", "begun-from"]
    # a comparison that goes on outside the pipeline is another one than the page shows
    on_runs("resume", "evo-p-c", "--iterations", "4", "--processes", "1", "--plain")
    assert page in refusal()


@pytest.mark.long
def test_a_training_whose_steps_grow_goes_on_unless_something_was_done_with_the_shorter_one(here, capfd):
    def stages(steps, **others):
        train = (
            f"train: {{method: vpo, problems: [maze:train/0-3], policy: '{SMALL_POLICY}', steps: {steps}, prompts: 1"
        )
        written(vpo=train + ", rollouts: 2}", **others)

    reader = {"alone": EVALUATE % "${vpo}"}
    stages(2, **reader)
    assert evo(capfd, "pipeline", "p.yaml")[0] == 0
    stages(3, **reader)
    code, _, err = evo(capfd, "pipeline", "p.yaml")
    assert code == 2 and "stage alone was done with the shorter training of stage vpo: remove evo-p/evaluations" in err
    Path("evo-p/evaluations/alone.json").unlink()
    code, out, err = evo(capfd, "pipeline", "p.yaml")
    assert code == 0 and "vpo: train continues at step 2 of 2" in out, err
    steps = [json.loads(line)["step"] for line in Path("evo-p/policies/vpo/metrics.jsonl").read_text().splitlines()]
    assert steps == [1, 2, 3]
    stages(2, **reader)
    code, _, err = evo(capfd, "pipeline", "p.yaml")
    assert code == 2 and "stage vpo has changed since it was begun (steps was 3, is 2): remove" in err
    stages(3, **reader)
    run = PipelineRun(read_pipeline("p.yaml"), Path("evo-p"), None)
    run.record("vpo").state = Status.BEGUN
    console = Console(width=90, file=io.StringIO(), force_terminal=True, color_system=None)
    board = _Board(run, console)
    board.show(run.pipeline.stages["vpo"])
    console.print(board._draw())
    first, address, second = console.file.getvalue().splitlines()[:3]
    assert first.startswith("▸ vpo    train     at step 3 of 3") and "fitness 0." in first
    assert address == "    evo show evo-p/policies/vpo" and second.startswith("✓ alone  evaluate  done")
