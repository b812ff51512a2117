"""What installed packages and the plug-ins of this one add, by entry points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from problems.contract import BadAddress

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PLUGINS = "problems.plugins."
"""Packages in this repository that register as any other would, and whose folders can be deleted."""


def find_entry_points(group: str) -> dict[str, EntryPoint]:
    """Those installed, by name."""
    from importlib.metadata import entry_points  # 15 ms, of which most commands have no use

    return {point.name: point for point in entry_points(group=group)}


def load_entry_point(point: EntryPoint, what: str) -> Any:
    """What it names; None if its module is not there, since the folder of a plug-in may be deleted. Raises BadAddress,
    which begins with `what`, for anything else that its import raises."""
    try:
        return point.load()
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and point.module.startswith(PLUGINS) and _is_part(error.name, point):
            return None
        raise BadAddress(f"{what}: {point.value} cannot be loaded: {error}") from error


def _is_part(missing: str | None, point: EntryPoint) -> bool:
    """Whether a module that is missing is that of an entry point, or a package around it."""
    return missing is not None and f"{point.module}.".startswith(f"{missing}.")
