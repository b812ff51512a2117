"""The page of the Python interface: directives for mkdocstrings, which reads signatures and docstrings."""

from __future__ import annotations

from importlib import import_module

import evo

INTRODUCTION = """# Python

`import evo` gives the verbs of the command line. They take its flags as keywords: `--max-answers 500` is
`max_answers=500`. Nothing is imported before it is first used.
"""
SECTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Problems": (
        "The parts of your own problem. See [Make your own set of problems](../tutorial/own-problems.md).",
        (
            "problems.contract.Problem",
            "problems.contract.Score",
            "problems.registry.resolve",
            "problems.registry.register",
        ),
    ),
    "Policies": (
        "What an own policy has to keep. `evo.testing.PolicyContract` tests it.",
        ("vpo.policies.contract.Policy", "problems.types.Prompt", "problems.types.Rollout", "vpo.policies.registry"),
    ),
    "Formulas": (
        "`evo.FormulaRegressor`, an estimator of scikit-learn. See [its guide](../guides/regressor.md).",
        ("problems.plugins.formulas.estimator.FormulaRegressor", "problems.plugins.formulas.front"),
    ),
    "Prompt formats": ("How a problem is put to a policy.", ("evo.prompts.contract",)),
    "Vector Policy Optimization": (
        "The mathematics, as pure functions of arrays.",
        ("vpo.scalarize", "vpo.advantage", "vpo.group_rewards.GroupRewards"),
    ),
    "TRL": ("The same methods inside TRL's trainer.", ("vpo.trl",)),
    "Tests for third parties": ("Suites that an own problem, policy or store can run.", ("evo.testing",)),
}


def python_page() -> str:
    """The public names of `evo`, functions first, then the contracts of what can be plugged in."""
    parts = [INTRODUCTION.strip()]
    names = [name for name in getattr(evo, "__all__", ()) if not name.startswith("_")]
    found = {name: getattr(evo, name) for name in names}
    functions = [name for name in names if callable(found[name]) and not isinstance(found[name], type)]
    for title, chosen in (("Functions", functions), ("Results and errors", [n for n in names if n not in functions])):
        if chosen:
            parts += [f"## {title}", *(_directive(f"{found[n].__module__}.{found[n].__qualname__}") for n in chosen)]
    for title, (about, homes) in SECTIONS.items():
        parts += [f"## {title}", about, *(_directive(home) for home in homes)]
    return "\n\n".join(parts) + "\n"


def _directive(home: str) -> str:
    """Raises ImportError or AttributeError where a name is gone: the page must not outlive it."""
    try:
        import_module(home)
    except ModuleNotFoundError:
        module, _, name = home.rpartition(".")
        getattr(import_module(module), name)
    return f"::: {home}"
