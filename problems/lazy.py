"""Public names of a package that load when they are first used."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy_exports(package: str, **homes: str) -> tuple[Callable[[str], Any], list[str]]:
    """(`__getattr__`, `__all__`) of the package. homes: a module of it, __ for a dot -> its names, by spaces"""
    modules = {name: f"{package}.{home.replace('__', '.')}" for home, names in homes.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return load, sorted(modules)
