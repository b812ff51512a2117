"""What other installed packages add, by entry points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from problems.contract import BadAddress

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def find_entry_points(group: str) -> dict[str, EntryPoint]:
    """Those installed, by name."""
    from importlib.metadata import entry_points  # 15 ms, of which most commands have no use

    return {point.name: point for point in entry_points(group=group)}


def load_entry_point(point: EntryPoint, what: str) -> Any:
    """What it names. Raises BadAddress, which begins with `what`, whatever its import raises."""
    try:
        return point.load()
    except Exception as error:
        raise BadAddress(f"{what}: {point.value} cannot be loaded: {error}") from error
