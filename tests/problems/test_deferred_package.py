"""A deferred package's `__init__` runs when something of it is asked for, and once."""

import importlib
import sys

import pytest

from problems.shims.user_file import defer


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The name of a deferred package, which counts in sys.modules["counter"].runs how often its __init__ ran."""
    name = "deferred_sample"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text(
        "import counter\ncounter.runs += 1\nfrom deferred_sample.inner import two\nthree = two + 1\n"
    )
    (tmp_path / name / "inner.py").write_text("two = 2\n")
    (tmp_path / "counter.py").write_text("runs = 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    defer(name)
    yield name
    for loaded in [module for module in sys.modules if module.split(".")[0] in (name, "counter")]:
        del sys.modules[loaded]


def runs():
    return importlib.import_module("counter").runs


def test_a_module_inside_is_imported_alone(package):
    inner = importlib.import_module(f"{package}.inner")
    assert inner.two == 2 and runs() == 0


def test_an_attribute_loads_it_once(package):
    importlib.import_module(f"{package}.inner")
    module = sys.modules[package]
    assert module.three == 3 and module.two == 2
    assert runs() == 1
    with pytest.raises(AttributeError, match="four"):
        _ = module.four


def test_names_are_imported_from_it(package):
    space = {}
    exec(f"from {package} import three", space)
    assert space["three"] == 3 and runs() == 1


def test_one_that_fails_to_load_says_so_every_time(package, tmp_path):
    (tmp_path / package / "__init__.py").write_text("import nothing_of_that_name\n")
    module = importlib.import_module(package)
    for _ in range(2):
        with pytest.raises(ImportError, match="nothing_of_that_name"):
            _ = module.three
    assert importlib.import_module(f"{package}.inner").two == 2


def test_one_that_is_not_installed_is_missing_as_ever():
    defer("nothing_of_that_name")
    with pytest.raises(ModuleNotFoundError, match="nothing_of_that_name"):
        importlib.import_module("nothing_of_that_name")
