"""The iterations left and the parent's level in the prompt: the line of text, and the words of a maze policy that is
trained with them."""

import json

import pytest
import torch
from training_runs import SMALL_POLICY, read_metrics, trained

from evo.cli import invoke
from evo.config.parse import parse
from evo.config.run import PromptConfig
from evo.config.train import TrainRun
from evo.errors import BadInput
from evo.prompts.chat import ChatFormat
from evo.prompts.registry import open_format
from evo.training.improvement import open_improvements
from evo.training.setup import begin, resume
from islands.db.store import Store
from islands.queries.children import children
from islands.types import Candidate, Selection
from problems.registry import resolve
from vpo.embedded.checkpoint import add_horizon, build_model, build_tokenizer
from vpo.embedded.words import EDIT_DIALECT, vocabulary
from vpo.policies.prompt_formats import HORIZON_FORMAT

SHOWN = PromptConfig(horizon=True)


def selection(text="12345678", fitness=0.45, left=37, rewards=(0.5, 0.4)):
    return Selection(Candidate(1, text, rewards, fitness, {}, "", None, 0, 0, None), (), (), left)


def test_a_text_prompt_shows_it_in_one_line_and_only_when_it_is_asked_for(digits):
    problem = digits()
    problem.target = 0.9
    with_it, without = (ChatFormat(problem, config, 1).build(selection(), 0).user for config in (SHOWN, PromptConfig()))
    line = "# Budget\nIterations left, this one included: 37. The answer to improve reaches 50% of the target.\n\n"
    assert line in with_it and with_it.replace(line, "") == without
    for shown, text in ((selection(left=None), ""), (Selection(None, (), (), 2), "left, this one included: 2.\n")):
        assert text in ChatFormat(problem, SHOWN, 1).build(shown, 0).user
    assert "Budget" not in ChatFormat(problem, SHOWN, 1).build(selection(left=None), 0).user


@pytest.mark.parametrize("name", ["chat", "work-folder"])
def test_a_search_counts_down(search_with, digits, digits_policy, tmp_path, monkeypatch, name):
    built, build = [], ChatFormat.build

    def recorded(style, selection, stream, rng=None):
        built.append(build(style, selection, stream, rng).user)
        return build(style, selection, stream, rng)

    monkeypatch.setattr(ChatFormat, "build", recorded)
    settings = {"iterations": 3, "parallel": 1, "prompt": {"horizon": True, "fresh": 0.0}}
    search_with([digits("a")], digits_policy(), f"sqlite:///{tmp_path}/a.db", **settings)
    assert [text.split("included: ")[1][0] for text in built] == ["3", "2", "1"]
    assert "included: 37." in open_format(digits(), name, SHOWN, 1).build(selection(), 0).user


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A folder with a tiny policy of maze-edit."""
    folder = tmp_path_factory.mktemp("small")
    model = build_model(32, 1, 2, 0, EDIT_DIALECT)
    model.save_pretrained(folder)
    build_tokenizer(EDIT_DIALECT).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    address = f"sqlite:///{tmp_path_factory.mktemp('horizon') / 'evo.db'}"
    command = ["run", "maze:train/0-2", "--policy", "scripted:classic", "--iterations", "30", "--name", "a", "--plain"]
    assert invoke([*command, "--db", address]) == 0
    return address


def test_the_maze_language_has_words_for_it_and_is_otherwise_the_same():
    (problem,) = resolve("maze:train/0")
    old, new = (open_format(problem, name, PromptConfig(), 1) for name in (EDIT_DIALECT, HORIZON_FORMAT))
    # along two walls, or into them: readable in any case
    shown = selection("DDDDDDDDRRRRRRRR", 0.8 * problem.target, 37, (1.0, 0.0, 0.0, 1.0))
    prompts = [style.build(shown, 0).user.split() for style in (old, new)]
    assert prompts[1] == [*prompts[0][:-1], "h6", "v8", prompts[0][-1]]
    assert set(prompts[1]) <= set(vocabulary(HORIZON_FORMAT))
    assert vocabulary(HORIZON_FORMAT)[: len(vocabulary(EDIT_DIALECT))] == vocabulary(EDIT_DIALECT)
    written = [style.write(["DDDDDDDRDRRRRRRR"], shown) for style in (old, new)]
    assert written[0] == written[1]
    assert new.build(Selection(None, (), ()), 0).user == old.build(Selection(None, (), ()), 0).user
    assert new.build(Selection(None, (), (), 5000), 0).user.split()[-2:] == ["h10", "m1"]
    with pytest.raises(BadInput, match="no words for the iterations left"):
        open_format(problem, EDIT_DIALECT, SHOWN, 1)


def test_a_policy_is_given_the_words_and_answers_old_prompts_as_before():
    model = build_model(32, 1, 2, 0, EDIT_DIALECT)
    ids = torch.arange(5, 25)[None]
    with torch.no_grad():
        before = model(ids).logits
        tokenizer = add_horizon(model)
        after = model(ids).logits
    known = len(vocabulary(EDIT_DIALECT))
    assert torch.equal(after[..., :known], before) and model.config.evo_dialect == HORIZON_FORMAT
    assert tokenizer("m1 h6 v8").input_ids == [vocabulary(HORIZON_FORMAT).index(word) for word in ("m1", "h6", "v8")]
    assert add_horizon(model) is None


def test_stored_searches_know_what_was_left(db):
    run = parse(TrainRun, {"method": "kto", "from_traces": ["a"], "db": db, "policy": "x?horizon=true"}, "a test")
    found = open_improvements(run)
    with Store.open(db, read_only=True) as store:
        rows = [row for record in store.problems(store.run("a").id) for row in children(store, record.id)]
    at = {row.id: row.iteration for row in rows}
    for lesson in found.lessons[:40]:
        for child in (*lesson.children, *lesson.worse):
            assert found.read(lesson, [child])[0].left == 30 - at[child] > 0
    found.close()


def test_a_policy_is_trained_with_it_resumed_and_searches_with_it(db, small, tmp_path, monkeypatch):
    torch.set_num_threads(1)
    given = {"method": "improve", "from_traces": ["a"], "db": db, "policy": f"{small}?horizon=true", "steps": 2}
    given |= {"precision": "fp32", "prompts": 4, "save_every": 1}
    out = str(tmp_path / "out")
    training = begin(parse(TrainRun, given, "a test"), out, "")
    prompt = training.policy.tokenizer.decode(training.loop._read()[0].prompt_ids)
    assert [word[0] for word in prompt.split()[-3:]] == ["h", "v", "m"]
    assert trained(training) == ""
    assert json.loads((tmp_path / "out" / "config.json").read_text())["evo_dialect"] == HORIZON_FORMAT
    assert "had left" in (tmp_path / "out" / "README.md").read_text()
    assert trained(resume(out, {"steps": 3})) == ""
    assert [line["step"] for line in read_metrics(tmp_path / "out") if line["kind"] == "step"] == [1, 2, 3]
    search = [
        "run",
        "maze:train/0",
        "--policy",
        out,
        "--answers",
        "1",
        "--rollouts",
        "2",
        "--iterations",
        "3",
        "--plain",
    ]
    assert invoke([*search, "--db", f"sqlite:///{tmp_path}/s.db"]) == 0


@pytest.mark.parametrize(
    ("method", "policy", "message"),
    [
        ("vpo", "embedded:edit-improve?horizon=true", "cannot show what a search has left"),
        ("improve", f"{SMALL_POLICY}?horizon=true", "only policies of maze-edit"),
    ],
)
def test_other_methods_and_languages_are_refused(db, tmp_path, capsys, method, policy, message):
    where = ["--from-traces", "a", "--db", db] if method == "improve" else ["maze:train/0"]
    assert invoke(["train", method, *where, "--policy", policy, "-o", str(tmp_path / "x"), "--plain"]) == 2
    assert message in capsys.readouterr().err
