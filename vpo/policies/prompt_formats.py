"""The names of prompt formats: how a policy is to be asked. Building and reading them is evo.prompts' affair."""

from __future__ import annotations

from problems.plugins import find_entry_points

ENTRY_POINTS = "evo.prompt_formats"
MAZE_FORMATS = ("maze-compact", "maze-edit")
BUILT_IN = ("chat", *MAZE_FORMATS)
"""Messages for ordinary models, and the maze token languages of the embedded ones."""


def is_known(name: str) -> bool:
    """Whether prompts of this format can be built here."""
    return name in BUILT_IN or name in find_entry_points(ENTRY_POINTS)
