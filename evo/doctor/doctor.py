"""All checks of one machine, in the order that they are shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from evo.doctor.database import check_database
from evo.doctor.engine import check_engine
from evo.doctor.line import DoctorLine
from evo.doctor.machine import check_disk, check_gpus, check_memory, check_sandbox
from evo.doctor.packages import check_packages


def examine(db: str, policies: Sequence[str], folder: Path) -> Iterator[DoctorLine]:
    """One line after the other, as the checks end.

    db: a database's address; policies: engines to ask, which loads them; folder: where files would be written
    """
    yield from check_packages()
    yield check_sandbox()
    yield from check_database(db)
    yield from check_gpus()
    yield check_memory()
    yield from check_disk(folder)
    for address in policies:
        yield check_engine(address)
