"""What scoring takes: declared by scorers of every kind, merged for a run, missed on a machine that has not got it."""

from __future__ import annotations

import pytest

from evo.config.run import RunConfig
from evo.errors import BadInput
from evo.search.defaults import resolve_settings, warn_of_resources
from problems.contract import BadAddress
from problems.custom.scorer_function import ScorerFunctionProblem
from problems.openevolve.config import read_config
from problems.registry import resolve, shared_sandbox
from problems.scoring import lacking, most_of

SCORER = "objectives = ('a',)\ndef score(answer):\n    return {'a': 1}\n"


def written(folder, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_a_scorer_file_says_what_it_takes_and_the_run_keeps_the_most(tmp_path):
    one = written(tmp_path, "one.py", f'isolated = False\nresources = {{"gpus": 0.5, "cpus": 2}}\n{SCORER}')
    two = written(tmp_path, "two.py", f'resources = {{"cpus": 4, "lab": 1}}\n{SCORER}')
    none = written(tmp_path, "none.py", SCORER)
    problems = [problem for path in (one, two, none) for problem in resolve(path)]
    assert [dict(problem.resources) for problem in problems] == [{"gpus": 0.5, "cpus": 2}, {"cpus": 4, "lab": 1}, {}]
    config = resolve_settings(RunConfig(problems=[one, two, none]), problems)
    assert config.scoring_resources == {"gpus": 0.5, "cpus": 4, "lab": 1}
    said = RunConfig(problems=[one], scoring_resources={"gpus": 2})
    assert resolve_settings(said, problems).scoring_resources == {"gpus": 2}  # the user's word
    assert resolve_settings(RunConfig(problems=[none]), problems[2:]).scoring_resources is None


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("3", "resources is 3, not amounts by name"),
        ("{'gpus': -1}", "not amounts by name"),
        ("{'gpus': 'two'}", "not amounts by name"),
        ("{'GPU': 1}", "the names are cpus and gpus"),
        ("{'gpus': 1}", "the sandbox has no GPUs, which resources names: set isolated = False"),
    ],
)
def test_what_cannot_be_taken_is_one_line(tmp_path, value, says):
    with pytest.raises(BadAddress, match=says) as caught:
        resolve(written(tmp_path, "s.py", f"resources = {value}\n{SCORER}"))
    assert "\n" not in str(caught.value)


def test_functions_commands_and_directories_say_it_too(tmp_path):
    declared = {"resources": {"gpus": 1}, "isolated": False, "objectives": ["a"]}
    problem = ScorerFunctionProblem(lambda answer: {"a": 1}, declared, shared_sandbox)
    assert problem.resources == {"gpus": 1}
    written(tmp_path, "main.txt", "1")
    told = "command: cat main.txt\nfiles: [main.txt]\nresources: {cpus: 2}\n"
    (command,) = resolve(written(tmp_path, "problem.yaml", told))
    assert command.resources == {"cpus": 2}
    config = tmp_path / "config.yaml"
    config.write_text("resources: {gpus: 1, lab: 2}\n")
    assert read_config(config).settings["resources"] == {"gpus": 1, "lab": 2}
    config.write_text("resources: {gpus: many}\n")
    with pytest.raises(BadAddress, match="resources is {'gpus': 'many'}; it must be a mapping of cpus, gpus and names"):
        read_config(config)


def test_a_machine_without_a_gpu_is_told_once_and_one_with_is_not(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert lacking({"gpus": 1}, devices=str(tmp_path)) == "1 GPU (none here)"
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert lacking({"gpus": 1, "lab": 3}, devices=str(tmp_path)) == ""
    assert lacking({"gpus": 2}, devices=str(tmp_path)) == "2 GPUs (1 here)"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert lacking({"gpus": 1, "cpus": 100_000}, devices=str(tmp_path)).startswith("100000 CPUs (")
    with pytest.warns(UserWarning, match=r"scoring takes gpus 1, and this machine lacks 1 GPU .*\?scorers=N") as told:
        warn_of_resources(RunConfig(scoring_resources={"gpus": 1}))
    assert len(told) == 1


def test_most_of_takes_the_greediest_of_each():
    assert most_of([{"cpus": 2}, {}, {"cpus": 1, "gpus": 0.5}]) == {"cpus": 2, "gpus": 0.5}


def test_a_setting_that_is_no_amount_is_refused():
    from evo.config.run import load_config

    with pytest.raises(BadInput, match="scoring_resources"):
        load_config(None, {"scoring_resources": {"gpu": 1}})
