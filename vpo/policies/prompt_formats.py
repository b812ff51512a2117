"""The names of prompt formats: how a policy is to be asked. Building and reading them is evo.prompts' affair."""

from __future__ import annotations

from problems.plugins import find_entry_points

ENTRY_POINTS = "evo.prompt_formats"
MAZE_FORMATS = ("maze-compact", "maze-edit")
MUSIQUE_FORMAT = "musique-facts"
TOKEN_FORMATS = (*MAZE_FORMATS, MUSIQUE_FORMAT)
"""The token languages of the embedded policies (vpo.embedded.dialects)."""
BUILT_IN = ("chat", *TOKEN_FORMATS)
"""Messages for ordinary models, and the token languages."""


def is_known(name: str) -> bool:
    """Whether prompts of this format can be built here."""
    return name in BUILT_IN or name in find_entry_points(ENTRY_POINTS)
