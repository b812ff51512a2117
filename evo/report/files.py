"""Write the files of a report. Files appear under their final name only when complete, the page last. The output is
checked before anything is drawn."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from evo.errors import BadInput
from evo.evaluation.record import check_writable
from evo.whole_file import write_whole
from islands.store import Store


@dataclass(frozen=True)
class Written:
    """The written files. bytes: of the page."""

    page: Path
    bytes: int
    plots: tuple[Path, ...]


def plots_folder(page: Path) -> Path:
    """report.html -> report_plots next to it."""
    return page.with_name(f"{page.stem}_plots")


def check_plots_folder(folder: Path) -> None:
    """Raises BadInput if the folder does not exist and cannot be made."""
    place = folder if folder.exists() else folder.parent
    if not place.is_dir():
        raise BadInput(f"--png {folder}: {'is a file' if folder.exists() else f'there is no directory {place}'}")
    if not os.access(place, os.W_OK):
        raise BadInput(f"--png {folder}: the directory {place} cannot be written to")


def write_report(store: Store, name: str, page: str, *, png: str | None = None, against: str | None = None) -> Written:
    """Read, draw and write a report. Raises BadInput for an output that cannot be written, an unknown arm, a run
    without an iteration, or missing libraries; UnknownRun."""
    check_writable(page)
    target = Path(page)
    folder = plots_folder(target) if png is None else Path(png)
    check_plots_folder(folder)
    try:
        from evo.report.page import page_of
        from evo.report.report import report_of
    except ImportError as error:
        library = (error.name or "").split(".")[0]
        if library not in ("matplotlib", "jinja2", "markupsafe"):
            raise
        raise BadInput(f"a report needs {library}: pip install {library}") from error
    report = report_of(store, name, against)
    text = page_of(report).encode("utf-8")
    plots = []
    ours = not folder.exists()
    try:
        folder.mkdir(exist_ok=True)
        for plot in report.plots:
            plots.append(folder / f"{plot.name}.png")
            write_whole(plots[-1], plot.png)
        write_whole(target, text)
    except OSError as error:
        if ours:  # no plots without their page
            shutil.rmtree(folder, ignore_errors=True)
        raise BadInput(f"{error.filename or page}: {error.strerror or error}") from error
    return Written(target, len(text), tuple(plots))
