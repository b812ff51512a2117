"""The names of prompt formats: how to sample a policy. evo.prompts builds and reads them."""

from __future__ import annotations

from functools import cache

from problems.entry_points import find_entry_points

DIALECT_KEY = "evo_dialect"
"""Where a checkpoint's config.json names its prompt format."""
ENTRY_POINTS = "evo.prompt_formats"
DIALECT_ENTRY_POINTS = "evo.dialects"
CHAT = "chat"
"""Messages for ordinary models."""
WORK_FOLDER = "work-folder"
"""Files in a folder, for commands (vpo.policies.command)."""
MAZE_FORMATS = ("maze-compact", "maze-edit")


def is_token_format(name: str) -> bool:
    """Whether it is a token language of embedded policies (vpo.embedded.dialects): a maze's, or an entry point's."""
    return name in MAZE_FORMATS or (name not in (CHAT, WORK_FOLDER) and name in _of_entry_points())


@cache
def _of_entry_points() -> frozenset[str]:
    return frozenset(find_entry_points(DIALECT_ENTRY_POINTS))  # rollouts are parsed by the thousand


def is_known(name: str) -> bool:
    """Whether prompts of this format can be built here."""
    return name in (CHAT, WORK_FOLDER) or is_token_format(name) or name in find_entry_points(ENTRY_POINTS)
