"""The pages that are made from the code and from other files, as a hook of mkdocs.

README.md, CONTRIBUTING.md, CHANGELOG.md    index.md, contributing.md, changelog.md
bench/results/*.md                          results/*.md
click's commands                            reference/commands/*.md
pydantic's models                           reference/settings.md
the package's public names                  reference/python/*.md
SQLAlchemy's tables                         reference/database.md
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pages import generated_pages, title_of

ROOT = Path(__file__).resolve().parents[2]


def on_config(config: MkDocsConfig, **_: Any) -> MkDocsConfig:
    """Fills the sections of the navigation that are named after folders, by the titles of the folder's pages."""
    made = generated_pages(ROOT)
    _fill(config.nav or [], made)
    return config


def _fill(nav: list[Any], made: dict[str, str]) -> None:
    for entry in nav:
        for title, content in entry.items() if isinstance(entry, dict) else ():
            if isinstance(content, list):
                _fill(content, made)
            elif content.endswith("/"):
                pages = [path for path in made if path.startswith(content)]
                entry[title] = [{title_of(made[path]): path} for path in pages]


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Adds what is generated."""
    for path, content in generated_pages(ROOT).items():
        files.append(File.generated(config, path, content=content))
    return files
