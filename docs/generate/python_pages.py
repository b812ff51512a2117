"""The pages of the Python interface: directives for mkdocstrings, which reads signatures and docstrings.

Modules are read, not imported: some need an extra that the site does not install."""

from __future__ import annotations

import ast
from pathlib import Path

import evo

INTRODUCTION = """`import evo` gives the verbs of the command line, with its flags as keywords: `--max-answers 500` is
`max_answers=500`. Nothing is imported before its first use."""
FOLDER = "reference/python"
SECTIONS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "problems": (
        "Problems",
        "The parts of your own problem. See [Make your own set of problems](../../tutorial/own-problems.md).",
        (
            "problems.contract.Problem",
            "problems.contract.Score",
            "problems.registry.resolve",
        ),
    ),
    "policies": (
        "Policies",
        "The contract of your own policy. `evo.testing.PolicyContract` tests it.",
        ("vpo.policies.contract.Policy", "problems.types.Prompt", "problems.types.Rollout", "vpo.policies.registry"),
    ),
    "formulas": (
        "Formulas",
        "`evo.FormulaRegressor`, an estimator of scikit-learn. See [its guide](../../guides/fit.md#in-scikit-learn).",
        ("evo.plugins.formulas.estimator.FormulaRegressor", "evo.plugins.formulas.front"),
    ),
    "prompts": ("Prompt formats", "How a problem becomes a prompt.", ("evo.prompts.contract",)),
    "vpo": (
        "Vector Policy Optimization",
        "The mathematics, as pure functions of arrays.",
        ("vpo.scalarize", "vpo.advantage"),
    ),
    "trl": ("TRL", "The same methods inside TRL's trainer.", ("vpo.trl",)),
    "testing": ("Tests for third parties", "Suites for your own problem or policy.", ("evo.testing",)),
}
"""Name of a page -> (title, introduction, modules and classes)."""


def python_pages(root: Path) -> dict[str, str]:
    """Path -> page: the functions of `evo`, its results and errors, then the contracts, by module."""
    public = {name: getattr(evo, name) for name in evo.__all__ if not name.startswith("_")}
    homes = {name: f"{member.__module__}.{member.__qualname__}" for name, member in public.items() if callable(member)}
    functions = [name for name in homes if not isinstance(public[name], type)]
    pages = {
        "index": ("Python", INTRODUCTION, [homes[name] for name in functions]),
        "results": (
            "Results and errors",
            "The classes of `evo`: searches, results and errors.",
            [homes[name] for name in homes if name not in functions],
        ),
        **SECTIONS,
    }
    return {
        f"{FOLDER}/{name}.md": "\n\n".join([f"# {title}", about, *(_directive(root, home) for home in members)]) + "\n"
        for name, (title, about, members) in pages.items()
    }


def _directive(root: Path, home: str) -> str:
    """home: a module, or a class or function of one. Raises LookupError if it is gone: the page must not outlive it."""
    module, _, name = home.rpartition(".")
    if _source(root, home) is None and name not in _defined(_source(root, module)):
        raise LookupError(f"the site describes {home}, which is not there")
    return f"::: {home}"


def _source(root: Path, module: str) -> Path | None:
    """The file of a module; None if there is no such module."""
    path = root.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def _defined(source: Path | None) -> set[str]:
    """The classes and functions that a module defines."""
    body = ast.parse(source.read_text(encoding="utf-8")).body if source else ()
    return {node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)}
