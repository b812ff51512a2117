"""Entry points: what installed packages add to the problems, policies, prompt formats and token languages."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from problems.contract import BadAddress

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def find_entry_points(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name. An entry point whose package lacks its module is left out: its folder was
    deleted from a checkout that still lists it."""
    from importlib.metadata import entry_points  # 15 ms, which most commands do not need

    found = {}
    for point in entry_points(group=group):
        with suppress(ImportError, ValueError):  # the import of a broken package gives the better message
            if _find_module(point.value.partition(":")[0]) is None:
                continue
        found[point.name] = point
    return found


def load_entry_point(point: EntryPoint | str, what: str) -> Any:
    """The object that an entry point, or MODULE:NAME of this package, names. Raises BadAddress, begun with `what`,
    whatever the import raises."""
    place = point if isinstance(point, str) else point.value
    try:
        return resolve_name(place)
    except Exception as error:
        raise BadAddress(f"{what}: {place} cannot be loaded: {error}") from error


def read_summary(point: EntryPoint) -> str:
    """The first line of the docstring of an entry point's module, which is not imported; empty if it has none."""
    import ast

    from problems.python_syntax import parse_source

    spec = _find_module(point.value.partition(":")[0])
    if spec is None or spec.origin is None or not spec.has_location:
        return ""
    try:
        text = ast.get_docstring(parse_source(Path(spec.origin).read_text(encoding="utf-8"))) or ""
    except (OSError, SyntaxError, ValueError):
        return ""
    return text.partition("\n")[0]


def _find_module(module: str) -> ModuleSpec | None:
    """Where a module is, or the part of its path that has no other parts; None if its package lacks it."""
    top, *names = module.split(".")
    place, spec = top, importlib.util.find_spec(top)
    if spec is None:
        raise ImportError(f"there is no package {top}")
    for name in names:
        if spec.submodule_search_locations is None:
            return spec
        place = f"{place}.{name}"
        found = PathFinder.find_spec(place, spec.submodule_search_locations)
        if found is None:
            return None
        spec = found
    return spec


def lazy_exports(package: str, **homes: str) -> tuple[Callable[[str], Any], list[str]]:
    """(`__getattr__`, `__all__`) of the package. homes: a module of it, __ for a dot -> its names, by spaces"""
    modules = {name: f"{package}.{home.replace('__', '.')}" for home, names in homes.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return load, sorted(modules)
