import warnings
from types import SimpleNamespace

import pytest
from support.python_problem import PythonProblem
from support.rows import yaml_rows

from evo.config.run import RunConfig
from evo.errors import BadInput
from evo.search.problem_run import WindowSize, window_of
from evo.search.resources import (
    planned_iterations,
    population_config,
    resolve_iterations,
    resolve_policy,
    resolve_settings,
    to_stored,
    workers,
)
from vpo.policies.contract import PolicyTraits


class Directory(PythonProblem):
    """A problem with what an OpenEvolve config.yaml decides."""

    def __init__(self, **settings):
        self.settings = settings


@pytest.mark.parametrize(("problems", "batch", "slots", "settings", "expected"), yaml_rows(__file__, "windows"))
def test_batches_and_windows(problems, batch, slots, settings, expected):
    policy = SimpleNamespace(batch=batch, traits=PolicyTraits(slots=slots))
    config = RunConfig.model_validate({"iterations": 60, **settings} if slots else settings)
    assert window_of(config, policy, [5] * problems) == WindowSize(*expected)


def test_the_user_overrides_a_directory_and_a_directory_the_defaults_stored_or_not():
    problem = Directory(islands=3, migration_interval=7, unknown=1, max_iterations=40)
    made = population_config(RunConfig.model_validate({"population": {"islands": 2}}), problem)
    assert (made.islands, made.migration_interval, made.population_size) == (2, 7, 1000)
    directory = Directory(seed=42, diff_based_evolution=True, islands=3, population_size=60)
    user = RunConfig.model_validate({"problems": ["d"], "population": {"migration_interval": 9}})
    started = resolve_settings(user, [directory])
    for config in (started, RunConfig.model_validate(to_stored(started, ["d"]))):
        made = population_config(config, directory)
        assert (made.islands, made.population_size, made.migration_interval) == (3, 60, 9)
        assert (config.seed, config.answers) == (42, 1)


def test_a_run_stores_the_iterations_that_its_directories_plan():
    def stored(settings, *directories):
        config = resolve_iterations(RunConfig.model_validate(settings), directories)
        return to_stored(config, [f"d{i}" for i in range(len(directories))])

    forty, sixty, other = Directory(max_iterations=40), Directory(max_iterations=60), Directory()
    for settings, directories, planned in [
        ({}, [forty], [40]),
        ({}, [forty, forty], [40, 40]),
        ({}, [sixty, forty, other], [60, 40, 100]),
        ({"iterations": 9}, [forty, sixty], [9, 9]),
        ({}, [other, other], [100, 100]),
    ]:
        assert planned_iterations(stored(settings, *directories)) == planned
    mixed = stored({}, forty, sixty)
    assert planned_iterations({**mixed, "iterations": 200}) == [200, 200], "a resume's number is of all problems"
    edited = resolve_iterations(RunConfig.model_validate(mixed), [sixty, other])
    assert planned_iterations(vars(edited)) == [40, 60], "a run goes on as it was planned"
    assert planned_iterations({}) == [100], "a run of an older evo"
    assert planned_iterations({"iterations": 7, "problems": ["a", "b", "c"]}, 2) == [7, 7]


@pytest.mark.parametrize(("directory", "user", "decided"), yaml_rows(__file__, "directories"))
def test_what_the_user_leaves_open_a_directory_decides(directory, user, decided):
    problem, config = Directory(**directory), RunConfig.model_validate(user)
    problem.answer_format = directory.get("answer_format", problem.answer_format)
    assert resolve_settings(config, [problem]) == RunConfig.model_validate(user | decided)


def test_a_problems_replies_are_not_cut_for_anothers_sake():
    longer = resolve_settings(RunConfig(), [Directory(max_tokens=4000), Directory(max_tokens=8192)])
    assert longer.max_new_tokens == 8192
    many = Directory(parallel_evaluations=99)
    assert (workers(RunConfig(), [many]), workers(RunConfig(scoring_workers=3), [many])) == (99, 3)


def test_the_models_of_a_directory_search_it_unless_a_policy_is_named():
    directory, other = Directory(policy="openai:a@http://h"), Directory(policy="openai:b@http://h")
    with pytest.warns(UserWarning, match="using the models of config.yaml: openai:a@http://h"):
        assert resolve_policy(RunConfig(), [directory]).policy == "openai:a@http://h"
    assert resolve_policy(RunConfig(policy="scripted:mutate"), [directory]).policy == "scripted:mutate"
    problem = Directory()
    problem.default_policy = "scripted:gp"
    with pytest.warns(UserWarning, match="using scripted:gp"):
        assert resolve_policy(RunConfig(), [problem]).policy == "scripted:gp"
    with pytest.warns(UserWarning, match="using scripted:mutate"):
        assert resolve_policy(RunConfig(), [problem, Directory()]).policy == "scripted:mutate"
    with pytest.raises(BadInput, match="different models"):
        resolve_policy(RunConfig(), [directory, other])


@pytest.mark.parametrize("target", [None, 0.0])
def test_until_solved_without_any_target_says_so(target):
    problem = PythonProblem()
    problem.target = target
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        resolve_settings(RunConfig(problems=["x"], until_solved=True), [problem])
    texts = [str(one.message) for one in told]
    assert texts == [
        "--until-solved stops nothing: no problem here has a target; a scorer declares one by `target`"
    ] * (target is None)
