"""A package whose `__init__` runs when something of it is asked for, and not for the sake of a module inside it.

`from openevolve.evaluation_result import EvaluationResult`, as most evaluators begin, runs `openevolve/__init__.py`
first, which imports the whole search with its clients for language models: half a second of CPU time for a dataclass.

Imports the standard library alone: sandbox workers load it beside the evaluator.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Loader


def defer(*packages: str) -> None:
    """From now on these packages are loaded so. Does nothing to one that is loaded already, or is not installed."""
    sys.meta_path.insert(0, _Finder(packages))


def load_named(package: str) -> None:
    """Load a deferred package now where a module outside it holds it by name (`import openevolve`), so that it is not
    loaded anew in every fork of this process that goes on to use it."""
    deferred = sys.modules.get(package)
    if not isinstance(deferred, _Deferred):
        return
    inside = f"{package}."
    others = [module for name, module in sys.modules.items() if name != package and not name.startswith(inside)]
    if any(value is deferred for module in others for value in list(getattr(module, "__dict__", {}).values())):
        deferred.load()


class _Deferred(ModuleType):
    """The package until it is loaded: its submodules can be imported, and any other attribute loads it."""

    def load(self) -> None:
        spec: Any = self.__spec__
        deferring: _Deferring = spec.loader
        # an ordinary module from here on, also to what its __init__ imports
        self.__class__ = ModuleType  # type: ignore[assignment]
        spec.loader = self.__loader__ = deferring.loader
        try:
            deferring.loader.exec_module(self)
        except BaseException:
            spec.loader = self.__loader__ = deferring  # type: ignore[assignment]
            self.__class__ = _Deferred
            raise

    def __getattr__(self, name: str) -> Any:
        self.load()
        return getattr(self, name)

    def __dir__(self) -> list[str]:
        self.load()
        return dir(self)


class _Deferring:
    """A loader. None of importlib.abc, which imports what reads packages' resources: tempfile, shutil, bz2, lzma."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__class__ = _Deferred


class _Finder:
    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = packages

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name in self.packages else None
        if spec is None or spec.loader is None or spec.submodule_search_locations is None:
            return None  # to the ordinary finders
        spec.loader = _Deferring(spec.loader)  # type: ignore[assignment]
        return spec
