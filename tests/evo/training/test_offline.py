"""Training on stored searches, on both databases: `evo train --from-traces` learns from real searches of small mazes,
and `evo train improve` teaches a policy the better children that another operator found."""

import asyncio
import contextlib
import json
import shutil
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from sqlalchemy import text
from support.command_line import refused
from support.rows import yaml_rows
from support.stored_rows import stored_groups
from support.training_runs import SMALL_POLICY, read_metrics, trained, weights

from evo.cli import invoke
from evo.config.parse import parse
from evo.config.train import TrainRun
from evo.errors import BadInput
from evo.training import improve
from evo.training.improve import Improvements, tenth_of
from evo.training.on_policy import StoredArchives
from evo.training.setup import begin_training as begin
from evo.training.setup import resume_training as resume
from evo.training.stored import FOREIGN, SILENT, TOO_LONG, StoredGroups, open_stored, unusable
from islands.groups import children
from islands.store import Store
from problems.registry import resolve
from vpo.training.trainer import PolicyTrainer

SEARCH = ["--policy", SMALL_POLICY, "--rollouts", "4", "--iterations", "4", "--name", "a", "--plain"]
SMALL = {"prompts": 4, "lr": 1e-3, "kl": 0.01, "precision": "fp32", "save_every": 2, "policy": SMALL_POLICY}

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A database file with the run `a`: 12 groups of 4 chains of 3, on 3 mazes."""
    file = tmp_path_factory.mktemp("traces") / "evo.db"
    torch.set_num_threads(1)
    assert invoke(["run", "maze:train/0-2", *SEARCH, "--db", f"sqlite:///{file}"]) == 0
    return file


@pytest.fixture
def db(searched, tmp_path):
    """A copy of it that a test may change."""
    for file in searched.parent.glob("evo.db*"):
        shutil.copy(file, tmp_path / file.name)
    return f"sqlite:///{tmp_path / 'evo.db'}"


def settings(db, method="vpo", **changes):
    return parse(TrainRun, {**SMALL, "method": method, "from_traces": ["a"], "db": db, **changes}, "a test")


def opened(run, kind=StoredGroups):
    with contextlib.ExitStack() as closing:
        stored = open_stored(run, None, kind, closing)
        closing.pop_all()  # a read-only file, which the end of the test closes
    return stored


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def execute(db, statement):
    with Store.open(db) as store, store.begin() as tx:
        tx.connection.execute(text(statement))


def test_every_group_is_learned_from_once_and_the_card_says_which(db, tmp_path):
    out = tmp_path / "out"
    training = begin(settings(db, evaluate=["maze:train/20"], evaluate_answers=3), str(out), "evo train ...")
    places = [row.sequence for step in range(3) for _, row in training.source.of_step(step)]
    assert sorted(places) == list(range(12)) and places != list(range(12))
    assert trained(training) == ""
    steps = read_metrics(out)
    assert [(line["step"], line["groups"]) for line in steps] == [(1, 4), (2, 4), (3, 4)]
    assert steps[-1]["answers"] == 12 * 4 * 3
    assert steps[0]["importance"] == pytest.approx(1, abs=1e-4) and steps[0]["log_ratio"] < 1e-4
    assert steps[-1]["log_ratio"] > 0.01 and steps[-1]["kl"] > 0
    assert [line["step"] for line in read_metrics(out, "evaluation")] == [0, 3]
    card = (out / "README.md").read_text()
    assert f"Trained for 3 steps on 12 iterations of a ({db})" in card
    assert f"- a ({db}): 12 groups stored, 12 chosen" in card
    assert f"Written by {SMALL_POLICY}@" in card and "Learned from 12 groups; left out: none" in card
    assert "| kl |" in card and "nats a token" in card
    assert json.loads((out / "evo.json").read_text())["answers"] == 3
    kept = json.loads((out / "train.json").read_text())
    assert (kept["config"]["answers"], kept["config"]["truncate"]) == (3, 2.0)


def test_several_databases_are_one_source(searched, db, tmp_path):
    both = settings(db, from_traces=["a", f"a@sqlite:///{searched}"], steps=1)
    training = begin(both, str(tmp_path / "both"), "")
    groups = training.source._groups(training.source.places)
    assert len(groups) == 24
    assert [g.rollouts[0].rollout.text for g in groups[:12]] == [g.rollouts[0].rollout.text for g in groups[12:]]
    asyncio.run(training.close())


def test_single_answer_methods_learn_from_single_answers(tmp_path):
    db = f"sqlite:///{tmp_path / 'single.db'}"
    assert invoke(["run", "maze:train/0-1", *SEARCH, "--answers", "1", "--db", db]) == 0
    trained(begin(settings(db, "grpo", steps=1), str(tmp_path / "grpo"), ""))
    (step,) = read_metrics(tmp_path / "grpo")
    assert step["grad_norm"] > 0 and step["answers"] == 4 * 4
    with pytest.warns(UserWarning, match="vpo judges a rollout's answers as a set"):
        training = begin(settings(db, "vpo", steps=1), str(tmp_path / "vpo"), "")
    trained(training)


@pytest.mark.long
@pytest.mark.parametrize("lora", [0, 4])
def test_a_stopped_run_resumes_as_if_it_had_not_been(db, tmp_path, lora):
    if lora:
        pytest.importorskip("peft", reason="adapters need peft")
    run = settings(db, prompts=2, schedule="cosine", lora_rank=lora)
    trained(begin(run, str(tmp_path / "whole"), ""))
    assert trained(begin(run, str(tmp_path / "cut"), ""), stop_after=4) == "interrupted"
    if not lora:  # the search may go on meanwhile: what it adds was not there when training began
        assert invoke(["resume", "a", "--iterations", "6", "--db", db, "--plain"]) == 0
    assert trained(resume(str(tmp_path / "cut"), {})) == ""
    assert len(read_metrics(tmp_path / "cut")) == 6
    assert read_metrics(tmp_path / "whole") == read_metrics(tmp_path / "cut")
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "cut"))
    assert "Learned from 12 groups; left out" in (tmp_path / "cut" / "README.md").read_text()


OTHERS = "not those that training began with"


def test_a_resume_needs_the_same_traces(db, tmp_path, monkeypatch, capsys):
    out = str(tmp_path / "out")
    trained(begin(settings(db), out, ""), stop_after=2)
    moved = tmp_path / "moved.db"
    for file in tmp_path.glob("evo.db*"):
        file.rename(tmp_path / file.name.replace("evo", "moved"))
    assert invoke(["train", "--resume", out]) == 2
    assert "the file does not exist" in capsys.readouterr().err
    elsewhere = f"sqlite:///{moved}"
    for change, back, said in (
        ("prompt_groups SET created = created + 1", "created = created - 1", OTHERS),
        ("prompt_groups SET sequence = 99 WHERE sequence = 5", "sequence = 5 WHERE sequence > 90", OTHERS),
        ("runs SET name = 'b'", "name = 'a'", "has no run named a; it has b"),
    ):
        execute(elsewhere, f"UPDATE {change}")
        assert said in refused(capsys, "train", "--resume", out, "--db", elsewhere)
        execute(elsewhere, f"UPDATE {change.split()[0]} SET {back}")
    assert invoke(["train", "--resume", out, "--db", elsewhere, "--plain"]) == 0


def test_a_comparison_stands_for_its_runs_of_the_methods_chain_length(db, tmp_path):
    for name, answers in (("b", 3), ("c", 1)):
        more = ["run", "maze:train/0", *SEARCH, "--name", name, "--answers", str(answers), "--db", db]
        assert invoke(more) == 0
    execute(db, "UPDATE runs SET comparison = 'cmp'")
    for method, runs in (("vpo", ["a", "b"]), ("grpo", ["c"])):
        traces = opened(settings(db, method, from_traces=["cmp"]))
        assert [source.run.name for source in traces.runs] == runs
    with pytest.raises(BadInput, match="no run of the comparison cmp has chains of 2"):
        opened(settings(db, from_traces=["cmp"], answers=2))
    with pytest.raises(BadInput, match=r"differ in length \(4 of 1 and 12 of 3 answers\); choose one with --answers"):
        opened(settings(db, from_traces=["a", "c"]))
    traces = opened(settings(db, from_traces=["a,c"], answers=3))
    assert (len(traces), traces.left_out) == (12, {"not of 3 answers": 4})


@pytest.mark.parametrize(("arguments", "message"), yaml_rows(__file__, "bad_input_is_one_line_and_leaves_nothing"))
def test_bad_input_is_one_line_and_leaves_nothing(searched, tmp_path, here, monkeypatch, capsys, arguments, message):
    monkeypatch.setenv("EVO_DB", f"sqlite:///{searched}")
    assert message in refused(capsys, "train", *arguments, "-o", "x")
    assert not (tmp_path / "x").exists()


def test_what_cannot_teach_is_told_with_its_reason(tmp_path, capsys, here):

    def told(name, *search):
        code = invoke(["run", "maze:train/0", "--iterations", "3", "--name", name, "--plain", *search])
        assert code in (0, 1)  # 1: nothing was earned
        capsys.readouterr()
        error = refused(capsys, "train", "vpo", "--from-traces", name, "-o", "x")
        assert not (tmp_path / "x").exists()
        return error

    assert "3 with one rollout or none; search with --rollouts 4 or more" in told("alone", "--rollouts", "1")
    assert "sampled at temperature 0" in told("cold", "--rollouts", "2", "--temperature", "0")
    error = told("nucleus", "--rollouts", "2", "--top-p", "0.9")
    assert "3 sampled at top-p below 1; their log-probabilities leave out the other tokens" in error
    error = told("bytes", "--policy", "scripted:random-route", "--rollouts", "4")
    assert "3 of another tokenizer (scripted:random-route wrote them" in error
    execute("sqlite:///evo.db", "UPDATE candidates SET rewards = '[0.5, 0.5, 0.5, 0.5]', fitness = 0.5, error = NULL")
    execute("sqlite:///evo.db", "DELETE FROM answers WHERE position > 0")
    error = told("flat", "--rollouts", "2", "--max-new-tokens", "1")
    assert "without spread; choose other traces" in error


def test_rollouts_without_log_probabilities_are_left_out_with_their_group(db, tmp_path):
    execute(db, "UPDATE rollouts SET logprobs = x'' WHERE position = 1 AND group_id IN (SELECT id FROM prompt_groups "
                "WHERE sequence IN (3, 7))")  # fmt: skip
    trained(begin(settings(db), str(tmp_path / "out"), ""))
    steps = read_metrics(tmp_path / "out")
    assert sum(line["groups"] for line in steps) == 10 and sum(line["left_out"] for line in steps) == 2
    assert "Learned from 10 groups; left out: 2 without log-prob" in (tmp_path / "out" / "README.md").read_text()
    execute(db, "UPDATE rollouts SET logprobs = x''")
    with pytest.raises(
        BadInput, match=r"12 without log-probabilities \(.* wrote them\); without them the importance ratio"
    ):
        begin(settings(db), str(tmp_path / "none"), "")


def test_a_group_that_the_policy_cannot_have_written_is_unusable(db, tmp_path):
    training = begin(settings(db), str(tmp_path / "out"), "")
    policy, group = training.policy, stored_groups(db, "a")[0]

    def with_first(**changes):
        first = replace(group.rollouts[0], rollout=replace(group.rollouts[0].rollout, **changes))
        return replace(group, rollouts=(first, *group.rollouts[1:]))

    rollout = group.rollouts[0].rollout
    assert unusable(group, policy) == ""
    broken = rollout.logprobs.copy()
    broken[2] = np.nan
    assert unusable(with_first(logprobs=broken), policy) == SILENT
    assert unusable(with_first(logprobs=rollout.logprobs[:-1]), policy) == SILENT
    assert unusable(with_first(token_ids=rollout.token_ids + 10_000), policy) == FOREIGN
    many = policy.context
    long = {"token_ids": np.ones(many, np.int32), "logprobs": np.zeros(many, np.float32)}
    assert unusable(with_first(**long), policy) == TOO_LONG
    asyncio.run(training.close())


def test_budgets_count_what_is_learned_from(db, tmp_path):
    reason = trained(begin(settings(db, max_answers=100), str(tmp_path / "out"), ""))
    assert reason == "budget of 100 answers" and len(read_metrics(tmp_path / "out")) == 2
    assert trained(resume(str(tmp_path / "out"), {"max_answers": 1000})) == ""
    assert len(read_metrics(tmp_path / "out")) == 3


def test_groups_that_go_while_they_are_learned_from_are_told(db, tmp_path):
    training = begin(settings(db, prompts=12), str(tmp_path / "out"), "")
    execute(db, "UPDATE prompt_groups SET sequence = 99 WHERE sequence = 5")
    with pytest.raises(BadInput, match="have changed while they are learned from: there is no group 5"):
        trained(training)


def test_passwords_are_not_kept_and_several_processes_are_refused(searched, monkeypatch, tmp_path):
    address = "postgresql+psycopg://me:secret@host/db"
    run = parse(TrainRun, {"method": "vpo", "from_traces": [f"a@{address}", "b"], "db": address}, "a test")
    kept = run.stored()
    assert "secret" not in json.dumps(kept)
    assert kept["db"] == "postgresql+psycopg://me@host/db" and kept["from_traces"][1] == "b"
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(BadInput, match="one process"):
        begin(settings(f"sqlite:///{searched}"), str(tmp_path / "x"), "")


def test_json_and_plain_output(db, tmp_path, capsys):
    command = ["train", "vpo", "--from-traces", "a", "--db", db, "--prompts", "4", "--precision", "fp32", "--plain"]
    assert invoke([*command, "-o", str(tmp_path / "out"), "--json"]) == 0
    captured = capsys.readouterr()
    summary = json.loads(captured.out)
    assert (summary["steps"], summary["groups"], summary["left_out"]) == (3, 12, {"without spread": 0})
    assert f"vpo from embedded:base@a8bbcafe on 12 iterations of a ({db})" in captured.err
    assert "learned from 12 groups; left out: none" in captured.err
    assert "reading" in captured.err and "sampling" not in captured.err


def test_a_step_is_read_during_the_one_before(db, tmp_path, monkeypatch):
    training, read = begin(settings(db), str(tmp_path / "out"), "evo train ..."), []
    step, plain = training.trainer.step, training.source.read

    def reading(number):
        read.append(number)
        if number == 2:
            raise BadInput("the lessons of step 2")
        return plain(number)

    def learning(groups):
        deadline = time.monotonic() + 20
        while len(read) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert read == [0, 1]
        monkeypatch.setattr(training.trainer, "step", step)
        return step(groups)

    monkeypatch.setattr(training.source, "read", reading)
    monkeypatch.setattr(training.trainer, "step", learning)
    with pytest.raises(BadInput, match="the lessons of step 2"):
        asyncio.run(training.train())
    assert training.status.step == 2 and read == [0, 1, 2]  # after what was read before the fault
    asyncio.run(training.close())


@pytest.fixture(scope="module")
def rerouted(tmp_path_factory):
    """A database with the run `a` of the re-router, which is no policy that could be trained."""
    torch.set_num_threads(1)
    address = f"sqlite:///{tmp_path_factory.mktemp('improve') / 'evo.db'}"
    command = ["run", "maze:train/0-3", "--policy", "scripted:classic", "--iterations", "30", "--name", "a", "--plain"]
    assert invoke([*command, "--db", address]) == 0
    return address


def improving(db, **changes):
    return parse(TrainRun, {"method": "improve", "from_traces": ["a"], "db": db, **changes}, "a test")


def test_a_child_improves_on_its_parent_or_nothing_was_as_good_in_everything(rerouted):
    found = opened(improving(rerouted), Improvements)
    with Store.open(rerouted, read_only=True) as store:
        rows = {
            record.id: {row.id: row for row in children(store, record.id)}
            for record in store.problems(store.run("a").id)
        }
    fitter = front = elsewhere = 0
    for lesson in found.lessons:
        of = rows[lesson.problem]
        for child in (of[id] for id in lesson.children):
            assert not child.failed and of[lesson.parent].sequence <= child.sequence
            fitter += child.fitness > of[lesson.parent].fitness
            elsewhere += child.parent != lesson.parent
            if child.fitness <= of[lesson.parent].fitness or child.parent != lesson.parent:
                front += 1
                before = [r.rewards for r in of.values() if r.sequence < child.sequence and not r.failed]
                assert not any(np.all(np.array(other) >= child.rewards) for other in before)
    assert fitter > 10 and elsewhere > 5 and front > elsewhere and fitter + front >= found.runs[0].chosen


def test_levels_are_drawn_alike_but_those_of_few_parents_less(rerouted, monkeypatch):
    monkeypatch.setattr(improve, "_FEW", 10)
    found = opened(improving(rerouted), Improvements)
    rng = np.random.default_rng(0)
    levels = [found.draw(rng).level for _ in range(3000)]
    weights = np.array([min(len(level), 10) for level in found.by_level])
    shares = [levels.count(level) / len(levels) for level in sorted(set(levels))]
    assert len(set(weights)) > 1 and np.abs(np.array(shares) - weights / weights.sum()).max() < 0.04
    assert [tenth_of(fitness, 1.0) for fitness in (-1, 0, 0.3, 0.85, 1.5)] == [0, 0, 3, 8, 9]
    assert tenth_of(0.5, 0.0) == 0


@pytest.mark.long
def test_a_policy_learns_them_and_a_stopped_run_goes_on_to_the_same_weights(rerouted, tmp_path):
    common = [
        "--from-traces",
        "a",
        "--db",
        rerouted,
        "--policy",
        SMALL_POLICY,
        "--prompts",
        "8",
        "--lr",
        "3e-3",
        "--kl",
        "0",
    ]
    common += ["--precision", "fp32", "--save-every", "5", "--plain"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert invoke(["train", "improve", *common, "--steps", "20", "-o", str(whole)]) == 0
    policy_nll = [line["policy_nll"] for line in read_metrics(whole) if line["kind"] == "step"]
    assert np.mean(policy_nll[-5:]) < np.mean(policy_nll[:5]) - 0.05
    assert invoke(["train", "improve", *common, "--steps", "10", "-o", str(parts)]) == 0
    assert invoke(["train", "--resume", str(parts), "--steps", "20", "--plain"]) == 0
    one, other = weights(whole), weights(parts)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert "different answers" in (whole / "README.md").read_text()


FROM_ARCHIVES = ["--parents", "1", "--parents-from", "archive:a", "--steps", "2", "--precision", "fp32"]


def test_archives_of_a_run_are_where_parents_come_from(rerouted, tmp_path):
    out = tmp_path / "late"
    given = ["train", "vpo", "maze:train/0-3", "--policy", SMALL_POLICY, "--prompts", "4", "--rollouts", "2"]
    given += FROM_ARCHIVES
    assert invoke([*given, "--db", rerouted, "--plain", "-o", str(out)]) == 0
    first = next(line for line in read_metrics(out) if line["kind"] == "step")
    assert "kept" in first  # the first step shows parents already
    assert json.loads((out / "train.json").read_text())["config"]["parents_from"] == "archive:a"
    given[2] = "maze:train/0-9"
    assert invoke([*given, "--db", rerouted, "--plain", "-o", str(tmp_path / "other")]) == 2


@pytest.mark.parametrize("method", ["pass_at_k", "vpo_pass_at_k", "vpo"])
def test_solving_is_rewarded_from_a_stored_search(rerouted, tmp_path, method):
    """Goals are what the search ended with, so that answers to what it held at some earlier moment reach them."""
    out = tmp_path / method
    given = ["train", method, "maze:train/0-3", "--policy", SMALL_POLICY, "--prompts", "8", "--rollouts", "6"]
    given += [*FROM_ARCHIVES, "--reward", "solve"]
    assert invoke([*given, "--answers", "1", "--db", rerouted, "--plain", "-o", str(out)]) == 0
    steps = [line for line in read_metrics(out) if line["kind"] == "step"]
    assert len(steps) == 2 and all(line["groups"] == 8 for line in steps)


def test_the_goals_of_a_stored_search_are_what_it_ended_with(rerouted):
    with Store.open(rerouted, read_only=True) as store:
        problems = resolve("maze:train/0-3")
        archives = StoredArchives(store, "a", problems)
        for number in range(len(problems)):
            ended = archives.ended(number)
            assert len({rewards for rewards, _ in ended}) == len(ended) > 1
            held = {c.rewards for draw in range(20) for c in archives(number, np.random.default_rng(draw))}
            assert held <= {rewards for rewards, _ in ended}


def test_a_prompt_may_teach_several_children_each_as_a_rollout(rerouted, tmp_path, monkeypatch):
    seen = []
    step = PolicyTrainer.step_on_examples
    monkeypatch.setattr(PolicyTrainer, "step_on_examples", lambda self, batch: seen.extend(batch) or step(self, batch))
    command = ["train", "improve", "--from-traces", "a", "--db", rerouted, "--policy", SMALL_POLICY, "--prompts", "8"]
    assert invoke([*command, "--children", "4", "--steps", "2", "--plain", "-o", str(tmp_path / "several")]) == 0
    sizes = [len(group.examples) for group in seen]
    assert len(sizes) == 16 and max(sizes) in (2, 3, 4)
    for group in seen:  # of distinct children
        assert len({tuple(example.token_ids) for example in group.examples}) == len(group.examples)


def test_a_language_whose_end_is_its_unknown_token_is_still_ended(rerouted, tmp_path):
    start, taught, rewarded = (tmp_path / name for name in ("start", "taught", "rewarded"))
    shutil.copytree(SMALL_POLICY, start)
    settings = json.loads((start / "tokenizer_config.json").read_text())
    (start / "tokenizer_config.json").write_text(
        json.dumps(settings | dict.fromkeys(("unk_token", "pad_token"), "<eos>"))
    )
    common = ["--steps", "1", "--prompts", "4", "--plain"]
    given = ["improve", "--from-traces", "a", "--db", rerouted, "--policy", str(start), "-o", str(taught)]
    assert invoke(["train", *given, *common]) == 0
    given = ["grpo", "maze:train/0-3", "--rollouts", "4", "--policy", str(taught), "-o", str(rewarded)]
    assert invoke(["train", *given, *common]) == 0
    assert [line["cut"] for line in read_metrics(rewarded) if line["kind"] == "step"] == [0.0]
