"""Files that are whole under their own name: a reader sees the old content or the new, a crash leaves the old."""

from __future__ import annotations

from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Replace a file in one step; text is written as UTF-8. Raises OSError."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
