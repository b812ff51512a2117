"""The pages that are made from the code and from other files, as a hook of mkdocs.

README.md, CONTRIBUTING.md, CHANGELOG.md    index.md, contributing.md, changelog.md
bench/results/*.md                          results/*.md
click's commands                            reference/commands.md
pydantic's models                           reference/settings.md
the package's public names                  reference/python.md
SQLAlchemy's tables                         reference/database.md
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pages import generated_pages, results

ROOT = Path(__file__).resolve().parents[2]


def on_config(config: MkDocsConfig, **_: Any) -> MkDocsConfig:
    """Puts the pages of results into the navigation, the overview first."""
    for section in config.nav or []:
        if "Results" in section:
            section["Results"] = [{_title(path): path} for path in results(ROOT)]
    return config


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Adds what is generated."""
    for path, content in generated_pages(ROOT).items():
        files.append(File.generated(config, path, content=content))
    return files


def _title(path: str) -> str:
    """A page of results in the navigation; its own heading tells the settings too, and is long."""
    name = Path(path).stem
    return "All figures" if name == "index" else name.replace("_", " ").capitalize()
