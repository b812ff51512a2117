"""The keywords of public functions: names and types are those of the models, in both directions; warnings name the
caller's line."""

import inspect
import types
import typing
import warnings

import pytest
from pydantic import BaseModel

import evo
from evo.api import keywords
from evo.api.arguments import FLAGS
from evo.config.compare import OF_EACH_ARM, OWN, CompareOptions
from evo.config.evaluate import EvaluateConfig
from evo.config.run import RunConfig
from evo.config.scorer import ScorerSettings
from evo.config.train import TrainRun
from vpo.policies.registry import PolicySettings

WRITTEN_BY_EVO = {"scorer", "policy_changes", "batched"}


def types_of(model):
    return typing.get_type_hints(model)


def flag_types():
    """Of the flags that set a key of a section."""
    found = {}
    for flag, path in FLAGS.items():
        section, key = path.split(".")
        of_section = types_of(RunConfig)[section]
        model = next(part for part in (of_section, *typing.get_args(of_section)) if isinstance(part, type))
        found[flag] = types_of(model)[key]
    return found


def plain_type(hint):
    """A model's type as a caller may give it: any sequence for a list, any mapping for a section."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return frozenset(map(plain_type, args))
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return "mapping", str, typing.Any
    kinds = {list: "sequence", tuple: "sequence", dict: "mapping"}
    kind = next((name for of, name in kinds.items() if origin is of), None) or {
        "Sequence": "sequence", "Mapping": "mapping"
    }.get(getattr(origin, "__name__", ""))  # fmt: skip
    if kind is None:
        return hint
    return kind, *map(plain_type, dict.fromkeys(args) if kind == "sequence" else args)


RUN, SCORER = types_of(RunConfig), types_of(ScorerSettings)
HOMES = {
    "run": (keywords.RunKeywords, {**SCORER, **RUN, **flag_types()}),
    "compare": (
        keywords.CompareKeywords,
        {
            **SCORER,
            **{name: kind for name, kind in RUN.items() if name not in OF_EACH_ARM},
            **flag_types(),
            **{name: kind for name, kind in types_of(CompareOptions).items() if name in OWN},
        },
    ),
    "evaluate": (keywords.EvaluateKeywords, types_of(EvaluateConfig)),
    "train": (keywords.TrainKeywords, {k: v for k, v in types_of(TrainRun).items() if k in TrainRun.model_fields}),
    "load_policy": (keywords.LoadPolicyKeywords, types_of(PolicySettings)),
}


@pytest.mark.parametrize("function", HOMES)
def test_keywords_are_those_of_the_settings(function):
    """Red if a setting is added, renamed or given another type in evo.config only."""
    of_function, settings = HOMES[function]
    given = types_of(of_function)
    explicit = {"problems", "model_config", *inspect.signature(getattr(evo, function)).parameters}
    settings = {name: kind for name, kind in settings.items() if name not in explicit | WRITTEN_BY_EVO}
    assert given.keys() == settings.keys()
    for name, kind in settings.items():
        if name != "train":  # a method is enough
            assert plain_type(given[name]) == plain_type(kind), name


def test_other_keywords_are_among_those_of_a_run():
    run = types_of(keywords.RunKeywords) | {"policy": str, "iterations": int | None, "processes": int | None}
    for of_function in (keywords.SearchKeywords, keywords.ResumeKeywords):
        assert types_of(of_function).items() <= run.items()


def test_a_warning_names_the_caller_s_line(vowels):
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        before = warnings.showwarning
        evo.run(score=vowels, statement="Vowels.", seed_answer="a", iterations=1, progress=False)
        line = inspect.currentframe().f_lineno - 1
        assert warnings.showwarning is before
    assert len(shown) == 2 and {(warning.filename, warning.lineno) for warning in shown} == {(__file__, line)}
